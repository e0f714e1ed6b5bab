package lines

import (
	"fmt"
	"unicode/utf8"
)

// AppendString appends s as a JSON string. Package json takes three times as long for the usual text, and escapes the
// ampersand of queries, which costs bytes.
func AppendString[S string | []byte](dst []byte, s S) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		n := 1
		if c >= utf8.RuneSelf {
			var r rune
			r, n = utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r >= 0xa0 && (r != utf8.RuneError || n > 1) {
				i += n
				continue
			}
		}
		dst = append(dst, s[from:i]...)
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x80 || n > 1 && c == 0xc2: // control characters, C1 among them
			if c == 0xc2 {
				c = s[i+1]
			}
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, `\ufffd`...)
		}
		i += n
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}
