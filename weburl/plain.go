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

var plainClass = func() (t [256]uint8) {
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
	return t
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
// that nearly all links are: what is in them stands for itself, and dot
// segments are at the front alone. Then one look at each octet is enough. All
// others are left to the whole parser (not ok, dst untouched); what both would
// take is the same URL.
func (u URL) plain(dst []byte, ref string) (out []byte, p parts, ok bool) {
	if len(ref) > maxPlain || len(u.s) > maxPlain {
		return dst, p, false
	}
	p = parts{u.hostEnd, u.pathStart, u.pathEnd}
	if ref == "" || ref[0] == '#' {
		return append(dst, u.s...), p, u.s != ""
	}
	from := len(dst)
	i := 0          // the next octet of ref
	local := true   // ref may still begin with a scheme
	inPath := false // ref's slash before i was taken
	switch c := ref[0]; {
	case c == '/':
		if len(ref) > 1 && ref[1] == '/' {
			if u.s == "" {
				return dst, p, false
			}
			return u.plainHost(dst, u.s[:u.hostStart()], ref, 2)
		}
		if u.s == "" {
			return dst, p, false
		}
		dst = append(dst, u.s[:u.pathStart]...)
		local = false
	case c == '?':
		if u.s == "" {
			return dst, p, false
		}
		dst = append(dst, u.s[:u.pathEnd]...)
		return plainQuery(dst, from, p, ref, 0)
	case c == 'h' && strings.HasPrefix(ref, "http"):
		switch {
		case u.s != "" && strings.HasPrefix(ref, u.s[:u.pathStart]) && len(ref) > int(u.pathStart) && ref[u.pathStart] == '/':
			dst = append(dst, u.s[:u.pathStart]...)
			i, local = int(u.pathStart), false
		case strings.HasPrefix(ref[4:], "://"):
			return u.plainHost(dst, ref[:7], ref, 7)
		case strings.HasPrefix(ref[4:], "s://"):
			return u.plainHost(dst, ref[:8], ref, 8)
		}
	}
	if local { // relative to the base's directory
		if u.s == "" {
			return dst, p, false
		}
		dir := strings.LastIndexByte(u.s[:u.pathEnd], '/')
		for ref[i] == '.' {
			rest := ref[i+1:]
			if len(rest) > 1 && rest[0] == '.' && rest[1] == '/' {
				if up := strings.LastIndexByte(u.s[u.pathStart:dir], '/'); up >= 0 {
					dir = int(u.pathStart) + up
				}
				i += 3
			} else if len(rest) > 0 && rest[0] == '/' {
				i += 2
			} else {
				return dst, p, false
			}
			local = false
			if i == len(ref) {
				break
			}
		}
		dst = append(dst, u.s[:dir+1]...)
		inPath = true
	}
	return plainPath(dst, from, p, ref, i, local, inPath)
}

// plainHost is plain from the host on, which begins at ref[i].
func (u URL) plainHost(dst []byte, scheme, ref string, i int) ([]byte, parts, bool) {
	from := len(dst)
	first, label := i, i
	for ; i < len(ref) && plainHost[ref[i]]; i++ {
		if ref[i] == '.' {
			if i == label || i-label > maxLabel {
				return dst, parts{}, false
			}
			label = i + 1
		}
	}
	// A name whose last label begins with a digit may be an address, and an
	// empty one is an error or the root.
	if i == label || i-label > maxLabel || i-first > maxHost || '0' <= ref[label] && ref[label] <= '9' {
		return dst, parts{}, false
	}
	end := uint16(len(scheme) + i - first)
	p := parts{hostEnd: end, pathStart: end, pathEnd: end + 1}
	out := append(append(dst, scheme...), ref[first:i]...)
	if i == len(ref) || ref[i] == '#' {
		return append(out, '/'), p, true
	}
	switch ref[i] {
	case '/':
		return plainPath(out, from, p, ref, i, false, false)
	case '?':
		return plainQuery(append(out, '/'), from, p, ref, i)
	}
	return dst, p, false
}

// plainPath is plain from somewhere in the path on. With local a colon in the
// first segment would make it a scheme; inPath says that the slash before
// ref[i] was written.
func plainPath(dst []byte, from int, p parts, ref string, i int, local, inPath bool) ([]byte, parts, bool) {
	start := i
	if inPath && i < len(ref) && ref[i] == '.' {
		return dst[:from], p, false
	}
	for ; i < len(ref); i++ {
		switch plainClass[ref[i]] {
		case pSame, pInPath:
		case pSlash:
			local = false
			if i+1 < len(ref) && ref[i+1] == '.' {
				return dst[:from], p, false
			}
		case pColon:
			if local {
				return dst[:from], p, false
			}
		case pEscape:
			if !plainEscape(ref, i) {
				return dst[:from], p, false
			}
			i += 2
		case pQuery:
			dst = append(dst, ref[start:i]...)
			p.pathEnd = uint16(len(dst) - from)
			return plainQuery(dst, from, p, ref, i)
		case pHash:
			ref = ref[:i]
		default:
			return dst[:from], p, false
		}
	}
	dst = append(dst, ref[start:]...)
	p.pathEnd = uint16(len(dst) - from)
	return dst, p, true
}

// plainQuery is plain from the question mark at ref[i] on.
func plainQuery(dst []byte, from int, p parts, ref string, i int) ([]byte, parts, bool) {
	start := i
	for ; i < len(ref); i++ {
		switch plainClass[ref[i]] {
		case pSame, pInQuery, pSlash, pColon, pQuery:
		case pEscape:
			if !plainEscape(ref, i) {
				return dst[:from], p, false
			}
			i += 2
		case pHash:
			ref = ref[:i]
		default:
			return dst[:from], p, false
		}
	}
	return append(dst, ref[start:]...), p, true
}

// plainEscape says whether the escape at s[i] is in canonical form.
func plainEscape(s string, i int) bool {
	v, ok := escapeAt(s, i)
	return ok && s[i+1] < 'a' && s[i+2] < 'a' && !is(v, unreserved)
}
