package robots

import "strings"

// A rule is an Allow or Disallow line that is compiled for matching.
type rule struct {
	pattern string   // escaped; * matches any text, a final $ the end of the path
	fail    []uint16 // failure links of the pieces after the first *; nil without a *
	at      int32    // index of its line in group.lines
	allow   bool
}

// newRule compiles a pattern that is already escaped or normalized.
func newRule(pattern string) rule {
	r := rule{pattern: pattern}
	star := strings.IndexByte(pattern, '*')
	if star < 0 {
		return r
	}
	// A link fits in 16 bits: a line holds at most 16,663 bytes, and an escape at most triples
	// them. Links do not cross a star.
	r.fail = make([]uint16, len(pattern)-star)
	for rest, at := pattern[star:], 0; rest != ""; {
		piece := rest
		if i := strings.IndexByte(rest, '*'); i >= 0 {
			piece = rest[:i]
		}
		links := r.fail[at : at+len(piece)]
		for i, k := 1, 0; i < len(piece); i++ {
			for k > 0 && piece[i] != piece[k] {
				k = int(links[k-1])
			}
			if piece[i] == piece[k] {
				k++
			}
			links[i] = uint16(k)
		}
		skip := min(len(piece)+1, len(rest))
		rest, at = rest[skip:], at+skip
	}
	return r
}

// match reports whether the rule's pattern matches a prefix of path, and how many steps this took.
// A step compares one byte. There are at most 2(len(pattern)+len(path)) steps: match searches the
// literal pieces between the stars one after the other, leftmost first, each by the algorithm of
// Knuth, Morris and Pratt. No byte of the path is searched for two pieces.
func (r *rule) match(path string) (ok bool, steps int) {
	p := r.pattern
	end := strings.HasSuffix(p, "$")
	if end {
		p = p[:len(p)-1]
	}
	if r.fail == nil {
		if end {
			return path == p, len(p)
		}
		return strings.HasPrefix(path, p), len(p)
	}
	star := strings.IndexByte(p, '*')
	if !strings.HasPrefix(path, p[:star]) {
		return false, star
	}
	steps = star
	path = path[star:]
	fail := r.fail[1:]
	for p = p[star+1:]; ; {
		next := strings.IndexByte(p, '*')
		if next < 0 {
			break
		}
		if next > 0 {
			at, n := search(path, p[:next], fail)
			steps += n
			if at < 0 {
				return false, steps
			}
			path = path[at+next:]
		}
		p, fail = p[next+1:], fail[next+1:]
	}
	if end {
		return strings.HasSuffix(path, p), steps + len(p)
	}
	if p == "" {
		return true, steps
	}
	at, n := search(path, p, fail)
	return at >= 0, steps + n
}

// search returns the position of the first piece in s, or -1. fail holds the failure links of
// piece.
func search(s, piece string, fail []uint16) (at, steps int) {
	for i, k := 0, 0; i < len(s); {
		steps++
		switch {
		case s[i] == piece[k]:
			i++
			k++
			if k == len(piece) {
				return i - k, steps
			}
		case k > 0:
			k = int(fail[k-1])
		default:
			j := strings.IndexByte(s[i:], piece[0])
			if j < 0 {
				return -1, steps + len(s) - i
			}
			i += j
			steps += j
		}
	}
	return -1, steps
}

const upperHex = "0123456789ABCDEF"

// escape returns a rule's value in the form for literal comparison. Octets outside of ASCII are
// percent-encoded, and hex digits are in upper case. Everything else stays, so %6C is not l.
func escape(s string) string {
	clean := true
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 || s[i] == '%' && lowerEscape(s[i:]) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	b := make([]byte, 0, len(s)+32)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%' && isEscape(s[i:]):
			b = append(b, '%', upper(s[i+1]), upper(s[i+2]))
			i += 2
		case c >= 0x80:
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(b)
}

// plain marks the bytes of a path that normalize does not change.
var plain = func() (t [256]bool) {
	for c := 0x21; c < 0x7F; c++ {
		t[c] = strings.IndexByte("%\"'<>\\^`{|}", byte(c)) < 0
	}
	return t
}()

// normal reports whether normalize would leave s unchanged.
func normal(s string) bool {
	for i := 0; i < len(s); i++ {
		if plain[s[i]] {
			continue
		}
		if s[i] != '%' || !isEscape(s[i:]) || lowerEscape(s[i:]) || unreserved(unhex(s[i+1])<<4|unhex(s[i+2])) {
			return false
		}
	}
	return true
}

// normalize returns a path or a rule in the form in which the RFC compares them. Unreserved
// characters stand for themselves, characters that a URL must not have are encoded, and hex digits
// are in upper case (RFC 9309, 2.2.2; RFC 3986, 6.2.2). Reserved characters stay as they are, since
// /a%2Fb is not /a/b. The exception is the apostrophe, which is encoded, because canonical URLs
// encode it in a query.
func normalize(s string) string {
	if normal(s) {
		return s
	}
	b := make([]byte, 0, len(s)+32)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '%' && isEscape(s[i:]):
			if d := unhex(s[i+1])<<4 | unhex(s[i+2]); unreserved(d) {
				b = append(b, d)
			} else {
				b = append(b, '%', upper(s[i+1]), upper(s[i+2]))
			}
			i += 2
		case plain[c]:
			b = append(b, c)
		default: // also a % without two hex digits
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

func unreserved(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// isEscape reports whether s begins with % and two hex digits.
func isEscape(s string) bool { return len(s) >= 3 && isHex(s[1]) && isHex(s[2]) }

// lowerEscape reports whether s begins with an escape that has a lower-case hex digit.
func lowerEscape(s string) bool { return isEscape(s) && (s[1] >= 'a' || s[2] >= 'a') }

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

func upper(c byte) byte {
	if c >= 'a' {
		return c - 0x20
	}
	return c
}

func unhex(c byte) byte {
	if c >= 'A' {
		return c | 0x20 - 'a' + 10
	}
	return c - '0'
}
