package parse

import (
	"bytes"
	"unicode/utf8"
)

// styleAttr scans a style attribute.
func (p *Page) styleAttr(v []byte) {
	if bytes.IndexByte(v, '(') < 0 && bytes.IndexByte(v, '&') < 0 {
		return
	}
	p.css(append([]byte(nil), p.value(v)...), "style-attr")
}

// css adds what style rules load: the tokens url(...), url("..."), src("..."), the string of an
// @import, and the strings of an image-set() (CSS Syntax, 4; CSS Images 4, 6.2). It skips the names
// of @namespace and the conditions of @supports and @document, because nothing there is loaded.
// from names the place of the rules: "css", "style" or "style-attr".
// References in CSS have no document encoding, so their queries are UTF-8.
func (p *Page) css(b []byte, from string) {
	urlTag, importTag := "css:url", "css:import"
	switch from {
	case "style":
		urlTag, importTag = "style:url", "style:import"
	case "style-attr":
		urlTag, importTag = "@style:url", "@style:url"
	}
	w := &p.work
	cs := w.cs
	if from == "css" {
		b, w.cs = w.cs.scannable(b)
	}
	if bytes.IndexByte(b, '(') < 0 && bytes.IndexByte(b, '@') < 0 {
		w.cs = cs // no url(, src(, image-set( or @import, escaped or not
		return
	}
	if !w.cs.utf8 && from != "style-attr" {
		b = w.cs.decode(b)
	}
	w.cs.legacy, w.cs.utf8 = false, true
	c := cssScanner{b: b}
	for c.next() {
		ref := c.value
		if len(trim(ref)) == 0 || trim(ref)[0] == '#' {
			continue
		}
		tag := urlTag
		if c.imported {
			tag = importTag
		}
		p.addDecoded(ref, 'E', tag)
	}
	w.cs = cs
}

// cssScanner finds references in CSS.
type cssScanner struct {
	b []byte
	i int
	// prelude is set from an at-keyword to the end of its prelude. No URL there is loaded, except
	// for one right after @import: atImport is set before it.
	prelude, atImport bool
	// open has a bit for each open parenthesis, the innermost in the lowest bit. It is set for an
	// image-set(, whose strings are URLs.
	open uint64

	value    []byte
	imported bool
	// b[from:to] spells value: a string with its quotation marks, or the text of url() without blanks.
	from, to int
	buf      []byte
}

// next moves past the next reference. It returns false at the end.
func (c *cssScanner) next() bool {
	b := c.b
	for c.i < len(b) {
		switch ch := b[c.i]; {
		case space(ch):
			c.i++
		case ch == '/' && c.i+1 < len(b) && b[c.i+1] == '*':
			if j := bytes.Index(b[c.i+2:], []byte("*/")); j >= 0 {
				c.i += 2 + j + 2
			} else {
				c.i = len(b)
			}
		case ch == '"' || ch == '\'':
			v, ok := c.str()
			imported := c.atImport
			c.atImport = false
			if ok && (imported || c.open&1 != 0 && !c.prelude) {
				c.value, c.imported = v, imported
				return true
			}
		case nameStart(ch) || ch == '\\' || ch == '@' || ch == '-' || ch == '#':
			at := ch == '@'
			hash := ch == '#'
			if at || hash {
				c.i++
			}
			name := c.name()
			if at {
				c.atImport = fold(name, "import")
				c.prelude = c.prelude || len(name) > 0
				continue
			}
			imported := c.atImport
			c.atImport = false
			if hash || c.i >= len(b) || b[c.i] != '(' {
				if len(name) == 0 && !hash {
					c.i++
				}
				continue
			}
			c.i++
			if fold(name, "url") || fold(name, "src") {
				if v, ok := c.url(fold(name, "url")); ok && (imported || !c.prelude) {
					c.value, c.imported = v, imported
					return true
				}
				continue
			}
			c.open <<= 1
			if fold(name, "image-set") || fold(name, "-webkit-image-set") {
				c.open |= 1
			}
		case ch == ';' || ch == '{' || ch == '}':
			c.atImport, c.prelude, c.open = false, false, 0
			c.i++
		case ch == '(':
			c.atImport, c.open = false, c.open<<1
			c.i++
		case ch == ')':
			c.atImport, c.open = false, c.open>>1
			c.i++
		default:
			c.atImport = false
			c.i++
		}
	}
	return false
}

func nameStart(c byte) bool { return letter(c) || c == '_' || c >= 0x80 }

// name reads an identifier with its escapes. It returns an empty one if there is none.
func (c *cssScanner) name() []byte {
	from := c.i
	for c.i < len(c.b) {
		ch := c.b[c.i]
		if nameStart(ch) || ch == '-' || '0' <= ch && ch <= '9' {
			c.i++
			continue
		}
		if ch == '\\' && c.i+1 < len(c.b) && c.b[c.i+1] != '\n' {
			// Escapes are rare in names: on the first one, start again and replace them.
			c.buf = append(c.buf[:0], c.b[from:c.i]...)
			for c.i < len(c.b) {
				ch := c.b[c.i]
				switch {
				case nameStart(ch) || ch == '-' || '0' <= ch && ch <= '9':
					c.buf = append(c.buf, ch)
					c.i++
				case ch == '\\' && c.i+1 < len(c.b) && c.b[c.i+1] != '\n':
					c.escape()
				default:
					return c.buf
				}
			}
			return c.buf
		}
		break
	}
	return c.b[from:c.i]
}

// escape reads the escape at the scanner's position into buf (CSS Syntax, 4.3.7).
func (c *cssScanner) escape() {
	c.i++ // the backslash
	if c.i >= len(c.b) {
		return
	}
	n, x := 0, rune(0)
	for n < 6 && c.i+n < len(c.b) {
		d := bytes.IndexByte([]byte("0123456789abcdef"), lower(c.b[c.i+n]))
		if d < 0 {
			break
		}
		x = x<<4 | rune(d)
		n++
	}
	if n == 0 {
		c.buf = append(c.buf, c.b[c.i])
		c.i++
		return
	}
	c.i += n
	if bytes.HasPrefix(c.b[c.i:], []byte("\r\n")) {
		c.i += 2
	} else if c.i < len(c.b) && space(c.b[c.i]) {
		c.i++
	}
	if x == 0 {
		x = utf8.RuneError
	}
	c.buf = utf8.AppendRune(c.buf, x)
}

// str reads a string. ok is false if a line end breaks it (CSS Syntax, 4.3.5).
func (c *cssScanner) str() (v []byte, ok bool) {
	quote := c.b[c.i]
	c.from = c.i
	defer func() { c.to = c.i }()
	c.i++
	from, plain := c.i, true
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; {
		case ch == quote:
			c.i++
			if plain {
				return c.b[from : c.i-1], true
			}
			return c.buf, true
		case ch == '\n' || ch == '\r' || ch == '\f':
			return nil, false
		case ch == '\\':
			if plain {
				c.buf, plain = append(c.buf[:0], c.b[from:c.i]...), false
			}
			switch rest := c.b[c.i+1:]; {
			case len(rest) == 0:
				c.i++
			case bytes.HasPrefix(rest, []byte("\r\n")):
				c.i += 3
			case rest[0] == '\n' || rest[0] == '\r' || rest[0] == '\f':
				c.i += 2
			default:
				c.escape()
			}
		default:
			if !plain {
				c.buf = append(c.buf, ch)
			}
			c.i++
		}
	}
	if plain {
		return c.b[from:], true
	}
	return c.buf, true
}

// url reads the URL after an open parenthesis. bare permits it to have no quotation marks. The
// closing parenthesis then belongs to it (CSS Syntax, 4.3.6).
func (c *cssScanner) url(bare bool) (v []byte, ok bool) {
	for c.i < len(c.b) && space(c.b[c.i]) {
		c.i++
	}
	if c.i >= len(c.b) {
		return nil, false
	}
	if q := c.b[c.i]; q == '"' || q == '\'' {
		c.open <<= 1
		return c.str()
	}
	if !bare {
		c.open <<= 1
		return nil, false
	}
	c.buf = c.buf[:0]
	c.from, c.to = c.i, len(c.b)
	bad := false
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; {
		case ch == ')':
			c.to = min(c.to, c.i)
			c.i++
			return c.buf, !bad
		case space(ch):
			c.to = min(c.to, c.i)
			for c.i < len(c.b) && space(c.b[c.i]) {
				c.i++
			}
			if c.i < len(c.b) && c.b[c.i] != ')' {
				bad = true
			}
		case ch == '"' || ch == '\'' || ch == '(' || ch < ' ' && ch != 0 || ch == 0x7f:
			bad = true
			c.i++
		case ch == '\\':
			if c.i+1 < len(c.b) && c.b[c.i+1] != '\n' {
				c.escape()
			} else {
				bad = true
				c.i++
			}
		default:
			c.buf = append(c.buf, ch)
			c.i++
		}
	}
	return c.buf, !bad
}
