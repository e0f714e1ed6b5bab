package weburl

import "strings"

// The meaning of an octet of a reference for the function plain.
const (
	pSame    = iota // stands for itself, in paths and queries
	pSlash          // begins a segment
	pColon          // may end a scheme
	pQuery          // begins the query
	pHash           // begins the fragment
	pEscape         // may begin an escape
	pInPath         // stands for itself in paths; escaped in queries
	pInQuery        // stands for itself in queries, but not in paths
	pOther          // needs the whole parser
)

// plainClass is for resolved references. rawClass is for references as they stand in HTML, where an
// ampersand may begin a character reference.
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

// plainHost marks the octets of host names that need no conversion.
var plainHost = func() (t [256]bool) {
	for c := range t {
		t[c] = 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
	}
	return t
}()

// maxPlain is the maximum length in octets of the references and bases that plain reads. It keeps
// every result far below MaxParse.
const maxPlain = 8 << 10

// Parts say where the parts of a canonical URL are in its text.
type Parts struct{ hostEnd, pathStart, pathEnd uint16 }

// plain appends to dst the URL that ref means at u, if ref has the form that nearly all links have:
// every octet stands for itself by class, and dot segments are only at the front. One look at each
// octet is then enough. For any other reference ok is false and dst is unchanged; the caller then
// uses the whole parser. If plain accepts a reference, the whole parser gives the same URL.
func (u URL) plain(dst []byte, ref string, class *[256]uint8) (out []byte, p Parts, ok bool) {
	if len(ref) > maxPlain || len(u.s) > maxPlain {
		return dst, p, false
	}
	if ref == "" {
		return append(dst, u.s...), Parts{u.hostEnd, u.pathStart, u.pathEnd}, u.s != ""
	}
	if u.s == "" { // only an absolute reference has a meaning without a base
		return u.plainHost(dst, ref, class)
	}
	head := 0      // the length of the prefix of u that precedes ref
	i := 0         // the first octet of ref that follows this prefix
	local := false // ref may still begin with a scheme
	switch c := ref[0]; {
	case c == '#':
		return append(dst, u.s...), Parts{u.hostEnd, u.pathStart, u.pathEnd}, true
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
		return append(append(dst, u.s[:u.pathEnd]...), ref[:end]...), Parts{u.hostEnd, u.pathStart, u.pathEnd}, true
	case c == 'h' && (strings.HasPrefix(ref, "http://") || strings.HasPrefix(ref, "https://")):
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
	p = Parts{u.hostEnd, u.pathStart, uint16(head + q - i)}
	return append(append(dst, u.s[:head]...), ref[i:end]...), p, true
}

// plainHost is plain for a reference that names a host.
func (u URL) plainHost(dst []byte, ref string, class *[256]uint8) ([]byte, Parts, bool) {
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
		return dst, Parts{}, false
	}
	from := i
	i, ok := readHost(ref, i)
	if !ok {
		return dst, Parts{}, false
	}
	host := len(scheme) + i - from
	p := Parts{hostEnd: uint16(host), pathStart: uint16(host), pathEnd: uint16(host + 1)}
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

// readHost returns the end of the host name that begins at s[i]. ok is false if a port follows, if
// the name ends in a dot, if it may be an address, or if it needs conversion.
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

// readPath reads s from s[i], which is inside the path. It returns the end of the path (q) and the
// end of the query. ok is false if an octet does not stand for itself. If local is set, a colon in
// the first segment would end a scheme, and ok is false.
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
			if i+1 < len(s) && s[i+1] == '.' { // a dot segment, or a name that begins with a dot
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

// skipSame skips octets that stand for themselves, four at a time.
func skipSame(s string, i int, class *[256]uint8) int {
	for i+4 <= len(s) && class[s[i]]|class[s[i+1]]|class[s[i+2]]|class[s[i+3]] == pSame {
		i += 4
	}
	return i
}

// readQuery is readPath for the query, which begins with the question mark at s[i].
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

// plainEscape reports whether s[i] begins an escape in canonical form.
func plainEscape(s string, i int) bool {
	v, ok := escapeAt(s, i)
	return ok && s[i+1] < 'a' && s[i+2] < 'a' && !is(v, unreserved)
}

// plainParts returns the offsets of the canonical URL s. ok is false if s is not a URL that plain
// could have made.
func plainParts(s string) (p Parts, ok bool) {
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
	return Parts{uint16(host), uint16(host), uint16(q)}, ok && end == len(s)
}
