package weburl

import "strings"

// What an octet of a reference means to plain.
const (
	pSame    = iota // stands for itself, in paths and queries
	pSlash          // begins a segment
	pColon          // may end a scheme
	pQuery          // begins the query
	pHash           // begins the fragment
	pEscape         // may begin an escape
	pInPath         // stands for itself in paths, is escaped in queries
	pInQuery        // stands for itself in queries, not in paths
	pOther          // for the whole parser
)

// plainClass is for references as they are, rawClass for those of HTML, where
// an ampersand may begin a character reference.
var plainClass, rawClass = func() (t, raw [256]uint8) {
	for c := range t {
		path, query := !is(byte(c), encPath), !is(byte(c), encQuery)
		switch {
		case c == '/':
			t[c] = pSlash
		case c == ':':
			t[c] = pColon
		case c == '?':
			t[c] = pQuery
		case c == '#':
			t[c] = pHash
		case c == '%':
			t[c] = pEscape
		case c == '\\':
			t[c] = pInQuery
		case path && query:
			t[c] = pSame
		case path:
			t[c] = pInPath
		case query:
			t[c] = pInQuery
		default:
			t[c] = pOther
		}
	}
	raw = t
	raw['&'] = pOther
	return t, raw
}()

// plainHost are the octets of host names that need no work.
var plainHost = func() (t [256]bool) {
	for c := range t {
		t[c] = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
	}
	return t
}()

// maxPlain bounds the references and bases that plain reads, so that what it
// makes of them stays far below MaxParse.
const maxPlain = 8 << 10

// parts are the offsets of a URL; see there.
type parts struct{ hostEnd, pathStart, pathEnd uint16 }

// plain appends to dst what ref means at u, if it is one of the references
// that nearly all links are: what is in them stands for itself by class, and
// dot segments are at the front alone. Then one look at each octet is enough.
// All others are left to the whole parser (not ok, dst untouched); what both
// would take is the same URL.
func (u URL) plain(dst []byte, ref string, class *[256]uint8) (out []byte, p parts, ok bool) {
	if len(ref) > maxPlain || len(u.s) > maxPlain {
		return dst, p, false
	}
	if ref == "" {
		return append(dst, u.s...), parts{u.hostEnd, u.pathStart, u.pathEnd}, u.s != ""
	}
	if u.s == "" { // only an absolute reference has a meaning
		return u.plainHost(dst, ref, class)
	}
	head := 0      // how much of u is put before ref
	i := 0         // the octet of ref that is put behind it
	local := false // ref may still begin with a scheme
	switch c := ref[0]; {
	case c == '#':
		return append(dst, u.s...), parts{u.hostEnd, u.pathStart, u.pathEnd}, true
	case c == '/':
		if len(ref) > 1 && ref[1] == '/' {
			return u.plainHost(dst, ref, class)
		}
		head = int(u.pathStart)
	case c == '?':
		end, ok := readQuery(ref, 0, class)
		if !ok {
			return dst, p, false
		}
		return append(append(dst, u.s[:u.pathEnd]...), ref[:end]...), parts{u.hostEnd, u.pathStart, u.pathEnd}, true
	case c == 'h' && strings.HasPrefix(ref, "http") && (strings.HasPrefix(ref[4:], "://") || strings.HasPrefix(ref[4:], "s://")):
		n := int(u.pathStart)
		if len(ref) <= n || ref[n] != '/' || ref[:n] != u.s[:n] {
			return u.plainHost(dst, ref, class)
		}
		head, i = n, n
	default: // relative to the base's directory
		local = c != '.'
		dir := strings.LastIndexByte(u.s[:u.pathEnd], '/')
		for i < len(ref) && ref[i] == '.' {
			switch rest := ref[i+1:]; {
			case strings.HasPrefix(rest, "./"):
				if up := strings.LastIndexByte(u.s[u.pathStart:dir], '/'); up >= 0 {
					dir = int(u.pathStart) + up
				}
				i += 3
			case strings.HasPrefix(rest, "/"):
				i += 2
			default:
				return dst, p, false
			}
		}
		head = dir + 1
	}
	q, end, ok := readPath(ref, i, local, class)
	if !ok {
		return dst, p, false
	}
	p = parts{u.hostEnd, u.pathStart, uint16(head + q - i)}
	return append(append(dst, u.s[:head]...), ref[i:end]...), p, true
}

// plainHost is plain for a reference that names its host.
func (u URL) plainHost(dst []byte, ref string, class *[256]uint8) ([]byte, parts, bool) {
	scheme := u.s[:u.hostStart()]
	i := 0
	switch {
	case strings.HasPrefix(ref, "//") && u.s != "":
		i = 2
	case strings.HasPrefix(ref, "http://"):
		scheme, i = "http://", 7
	case strings.HasPrefix(ref, "https://"):
		scheme, i = "https://", 8
	default:
		return dst, parts{}, false
	}
	from := i
	i, ok := readHost(ref, i)
	if !ok {
		return dst, parts{}, false
	}
	host := len(scheme) + i - from
	p := parts{hostEnd: uint16(host), pathStart: uint16(host), pathEnd: uint16(host + 1)}
	slash := ""
	q, end := i, i
	switch {
	case i == len(ref) || ref[i] == '#':
		slash = "/"
	case ref[i] == '?':
		slash = "/"
		end, ok = readQuery(ref, i, class)
	case ref[i] == '/':
		q, end, ok = readPath(ref, i, false, class)
		p.pathEnd = uint16(host + q - i)
	default:
		ok = false
	}
	if !ok {
		return dst, p, false
	}
	dst = append(append(dst, scheme...), ref[from:i]...)
	return append(append(dst, slash...), ref[i:end]...), p, true
}

// readHost returns where the name that begins at s[i] ends, if it is one that
// stands for itself: no port follows, no dot is last, and it is no address.
func readHost(s string, i int) (end int, ok bool) {
	first, label := i, i
	for ; i < len(s) && plainHost[s[i]]; i++ {
		if s[i] == '.' {
			if i == label || i-label > maxLabel {
				return i, false
			}
			label = i + 1
		}
	}
	// A name whose last label begins with a digit may be an address.
	return i, i > label && i-label <= maxLabel && i-first <= maxHost && (s[label] < '0' || s[label] > '9')
}

// readPath reads s from s[i] in its path on and returns where the path ends and
// where its query, if each octet of them stands for itself. With local a colon
// in the first segment would make that a scheme.
func readPath(s string, i int, local bool, class *[256]uint8) (q, end int, ok bool) {
	for ; i < len(s); i++ {
		i = skipSame(s, i, class)
		if i == len(s) {
			break
		}
		switch class[s[i]] {
		case pSame, pInPath:
		case pSlash:
			local = false
			if i+1 < len(s) && s[i+1] == '.' { // a dot segment, or nearly
				return 0, 0, false
			}
		case pColon:
			if local {
				return 0, 0, false
			}
		case pEscape:
			if !plainEscape(s, i) {
				return 0, 0, false
			}
			i += 2
		case pQuery:
			end, ok = readQuery(s, i, class)
			return i, end, ok
		case pHash:
			return i, i, true
		default:
			return 0, 0, false
		}
	}
	return i, i, true
}

// skipSame passes over octets that stand for themselves, four at a time.
func skipSame(s string, i int, class *[256]uint8) int {
	for i+4 <= len(s) && class[s[i]]|class[s[i+1]]|class[s[i+2]]|class[s[i+3]] == pSame {
		i += 4
	}
	return i
}

// readQuery is readPath from the question mark at s[i] on.
func readQuery(s string, i int, class *[256]uint8) (end int, ok bool) {
	for ; i < len(s); i++ {
		i = skipSame(s, i, class)
		if i == len(s) {
			break
		}
		switch class[s[i]] {
		case pSame, pInQuery, pSlash, pColon, pQuery:
		case pEscape:
			if !plainEscape(s, i) {
				return 0, false
			}
			i += 2
		case pHash:
			return i, true
		default:
			return 0, false
		}
	}
	return i, true
}

// plainEscape says whether the escape at s[i] is in canonical form.
func plainEscape(s string, i int) bool {
	v, ok := escapeAt(s, i)
	return ok && s[i+1] < 'a' && s[i+2] < 'a' && !is(v, unreserved)
}

// plainParts are the offsets of the canonical URL s, if it is one of those that
// plain makes: what they have in them stands for itself.
func plainParts(s string) (p parts, ok bool) {
	if len(s) > maxPlain {
		return p, false
	}
	i := 0
	switch {
	case strings.HasPrefix(s, "http://"):
		i = 7
	case strings.HasPrefix(s, "https://"):
		i = 8
	default:
		return p, false
	}
	host, ok := readHost(s, i)
	if !ok || host == len(s) || s[host] != '/' {
		return p, false
	}
	q, end, ok := readPath(s, host, false, &plainClass)
	return parts{uint16(host), uint16(host), uint16(q)}, ok && end == len(s)
}
