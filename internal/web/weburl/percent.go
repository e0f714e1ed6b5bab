package weburl

// Classes of octets, one bit each.
const (
	encPath     = 1 << iota // the URL standard's path percent-encode set
	encQuery                // the URL standard's special-query percent-encode set
	encFragment             // the URL standard's fragment percent-encode set
	encUserinfo             // the URL standard's userinfo percent-encode set
	unreserved              // RFC 3986, 2.3
	isHex
	badDomain // the URL standard's forbidden domain code points, and non-ASCII octets
	segEnd    // ends a path segment
)

var class = func() (t [256]uint16) {
	for c := range 256 {
		var b uint16
		in := func(s string) bool {
			for i := range len(s) {
				if s[i] == byte(c) {
					return true
				}
			}
			return false
		}
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		digit := '0' <= c && c <= '9'
		control := c < 0x20 || c > 0x7e
		if control || in(" \"#<>?^`{}") {
			b |= encPath
		}
		if control || in(" \"#<>'") {
			b |= encQuery
		}
		if control || in(" \"<>`") {
			b |= encFragment
		}
		if control || in(" \"#<>?^`{}/:;=@[\\]|") {
			b |= encUserinfo
		}
		if letter || digit || in("-._~") {
			b |= unreserved
		}
		if digit || letter && c|0x20 <= 'f' {
			b |= isHex
		}
		if control || in(" #/:<>?@[\\]^|%") {
			b |= badDomain
		}
		if in("/\\?#") {
			b |= segEnd
		}
		t[c] = b
	}
	return t
}()

const upperHex = "0123456789ABCDEF"

func is(c byte, set uint16) bool { return class[c]&set != 0 }

// unhex returns the value of a hex digit.
func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// escapeAt reads the escape at s[i]. ok is false if there is none.
func escapeAt(s string, i int) (v byte, ok bool) {
	if i+2 >= len(s) || s[i] != '%' || !is(s[i+1], isHex) || !is(s[i+2], isHex) {
		return 0, false
	}
	return unhex(s[i+1])<<4 | unhex(s[i+2]), true
}

func appendEscape(dst []byte, c byte) []byte {
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

// appendEncoded appends s to dst and escapes the octets in set. In the canonical form it also
// decodes unreserved octets and writes hex digits in upper case.
func appendEncoded(dst []byte, s string, set uint16, canonical bool) []byte {
	stray := -3 // the position in dst of the last % that begins no escape
	run := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '%' {
			if is(c, set) {
				dst = appendEscape(append(dst, s[run:i]...), c)
				run = i + 1
			}
			continue
		}
		if !canonical {
			continue
		}
		dst = append(dst, s[run:i]...)
		run = i
		v, ok := escapeAt(s, i)
		switch {
		case !ok:
			stray = len(dst)
			continue
		case is(v, unreserved) && !(is(v, isHex) && completes(dst, stray)):
			dst = append(dst, v)
		default:
			dst = appendEscape(dst, v)
		}
		i += 2
		run = i + 1
	}
	return append(dst, s[run:]...)
}

// completes reports whether a hex digit appended to dst would become part of an escape that the
// stray % begins. Decoding such a digit would change the meaning of the text.
func completes(dst []byte, stray int) bool {
	n := len(dst) - stray
	return n == 1 || n == 2 && is(dst[stray+1], isHex)
}

// percentDecode decodes every escape of s.
func percentDecode(s string) string {
	dst := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if v, ok := escapeAt(s, i); ok {
			dst = append(dst, v)
			i += 2
			continue
		}
		dst = append(dst, s[i])
	}
	return string(dst)
}
