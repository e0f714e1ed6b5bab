package testweb

import "strings"

// Delimiters are the bytes that separate parts of a URL. Escaped, they have another meaning.
const Delimiters = "/?#%&=+;"

// AppendPlain appends a part of a URL in its plain spelling, which is the same for all spellings that servers treat
// alike. In it only those bytes are escaped that would otherwise change the URL: control characters, blanks, and the
// bytes of keeps that are escaped in s.
func AppendPlain(dst []byte, s, keeps string) []byte {
	const hex = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c := s[i]
		escaped := false
		if c == '%' && i+2 < len(s) {
			if hi, lo := unhex(s[i+1]), unhex(s[i+2]); hi < 16 && lo < 16 {
				c, escaped = hi<<4|lo, true
				i += 2
			}
		}
		switch {
		case !escaped && (c == '\t' || c == '\n' || c == '\r'):
		case c <= ' ' || c == 0x7f || escaped && strings.IndexByte(keeps, c) >= 0:
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

func unhex(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}
