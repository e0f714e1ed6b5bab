package parse

import "bytes"

// AppendProse appends to dst the text that a reader of the page sees, in UTF-8: the body that the last Parse read,
// without tags, comments, scripts and styles, and with the title. Elements that interrupt a word leave a space. A body
// of plain text is its own text. Other kinds than HTML, XHTML and plain text have no prose. The length is at most about
// that of the body in UTF-8. MainText then has the part without menus.
func (p *Page) AppendProse(dst, body []byte) []byte {
	text, converted := p.Text(body)
	cs := p.work.cs
	defer func() { p.work.cs = cs }()
	p.work.cs.utf8 = p.work.cs.utf8 || converted
	p.work.main = p.work.main[:0]
	switch {
	case p.MIME == "text/plain":
		dst, _ = p.text(dst, text, false)
		return dst
	case p.Kind != HTML && p.Kind != XHTML:
		return dst
	}
	s := scanner{b: text, xml: p.Kind == XHTML}
	b := blocks{main: p.work.main, from: len(dst), link: -1}
	for s.i < len(text) {
		j := bytes.IndexByte(text[s.i:], '<')
		if j < 0 {
			dst, _ = p.text(dst, text[s.i:], true)
			break
		}
		dst, _ = p.text(dst, text[s.i:s.i+j], true)
		s.i += j
		switch c := text[min(s.i+1, len(text)-1)]; {
		case c == '!' || c == '?':
			s.markup(s.i + 1)
			continue
		case c == '/' && !(s.i+2 < len(text) && letter(text[s.i+2])): // a comment, in effect
			s.skipPast(min(s.i+2, len(text)), ">")
			continue
		case !letter(c) && c != '/' && !(s.xml && (c == '_' || c == ':' || c >= 0x80)): // it begins no tag
			dst = append(dst, '<')
			s.i++
			continue
		}
		if !s.next() {
			break
		}
		t := s.tagName()
		breaks := !inline(s.name())
		if !b.full() {
			if breaks {
				b.end(dst)
			}
			b.tag(&s, t, dst)
		}
		if breaks {
			dst = append(dst, ' ')
		}
		if s.end || s.selfClosing && s.xml || s.xml && t != tScript && t != tStyle {
			continue
		}
		if hidden, raw := s.raw(t); raw && t == tTitle {
			dst, _ = p.text(dst, hidden, true)
		}
	}
	p.work.main = b.text(dst)
	return dst
}
