package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A CleanWriter passes text on to a terminal, or to any other reader of a command's output. It replaces characters that
// could do harm there by an escape: \u001b, or \x9b for a byte that is not UTF-8. These are
//
//	control characters (C0 and C1) except newline and tab, because terminals obey them
//	bidirectional controls, because they make one name look like another
//	characters of no width, and all spaces except U+0020, because they hide
//	bytes that are not UTF-8, and code points without a meaning
//
// A character beyond U+FFFF becomes a surrogate pair. Therefore JSON stays JSON with the same meaning: only its strings
// can hold such characters, and \u001b is an escape in JSON too.
//
// A CleanWriter is safe for concurrent use.
type CleanWriter struct {
	w io.Writer

	mu   sync.Mutex // guards the fields below; held while w is written to
	held []byte     // an incomplete character at the end of the last Write
	buf  []byte
}

// NewCleanWriter returns a CleanWriter that writes to w.
func NewCleanWriter(w io.Writer) *CleanWriter { return &CleanWriter{w: w} }

// Write implements io.Writer. It holds back the bytes of an incomplete character until the next Write or Flush.
func (c *CleanWriter) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := p
	if len(c.held) > 0 {
		text = append(c.held, p...)
	}
	out, rest := appendEscaped(c.buf[:0], text, false)
	c.held, c.buf = append(c.held[:0:0], rest...), out[:0]
	if cap(c.buf) > 1<<20 {
		c.buf = nil
	}
	if len(out) > 0 {
		if _, err := c.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush writes the bytes that are held back. The caller calls it at the end of the text.
func (c *CleanWriter) Flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	out, _ := appendEscaped(nil, c.held, true)
	c.held = nil
	if len(out) == 0 {
		return nil
	}
	_, err := c.w.Write(out)
	return err
}

// OneLine returns s as one line that is safe to show. It escapes what a CleanWriter escapes, and newlines and tabs too,
// so that s cannot imitate a line of this program.
func OneLine(s string) string {
	n := 0
	for n < len(s) && s[n] >= ' ' && s[n] < 0x7f {
		n++
	}
	if n == len(s) {
		return s
	}
	out, _ := appendEscaped(nil, []byte(s), true)
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(string(out))
}

// appendEscaped appends text as a CleanWriter writes it. rest is an incomplete character at the end of text; if end is
// set, it is escaped and rest is empty.
func appendEscaped(dst, text []byte, end bool) (out, rest []byte) {
	for len(text) > 0 {
		n := 0
		for n < len(text) && (text[n] >= ' ' && text[n] < 0x7f || text[n] == '\n' || text[n] == '\t') {
			n++
		}
		dst, text = append(dst, text[:n]...), text[n:]
		if len(text) == 0 {
			break
		}
		if !end && !utf8.FullRune(text) {
			return dst, text
		}
		r, n := utf8.DecodeRune(text)
		switch {
		case printable(r, n):
			dst = append(dst, text[:n]...)
		case r == utf8.RuneError && n == 1:
			dst = fmt.Appendf(dst, `\x%02x`, text[0])
		case r > 0xffff:
			r -= 0x10000
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
		text = text[n:]
	}
	return dst, nil
}

// printable reports whether r, encoded in n bytes, may reach a terminal unchanged.
func printable(r rune, n int) bool {
	return (r != utf8.RuneError || n > 1) && unicode.IsPrint(r) &&
		!unicode.In(r, unicode.Bidi_Control, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
