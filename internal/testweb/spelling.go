package testweb

import "strings"

// Delimiters are the bytes that part a URL, and mean something else escaped.
const Delimiters = "/?#%&=+;"

// AppendPlain appends a part of a URL with only those bytes escaped that would
// mean another URL without: controls, blanks, and those of keeps that stand
// escaped in s. So one plain spelling stands for all that servers take for one.
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
