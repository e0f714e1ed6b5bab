package parse

import "bytes"

// feed scans RSS, RDF (RSS 0.9 and 1.0) and Atom. It identifies elements by their local names,
// because feeds often leave namespaces undeclared. Elements of others have some of these names, such
// as slash:comments, a number: those count without a prefix, or with that of the root.
func (p *Page) feed(body []byte) {
	w := &p.work
	body, w.cs = w.cs.scannable(body)
	w.cs.legacy = false // references in XML are IRIs, so UTF-8 (RFC 3987, 3.1)
	p.styleSheets(body)
	s := scanner{b: body, xml: true}
	var (
		n       nesting
		capture int // where the text of the element began
		in      feedText
		root    []byte // the prefix of the root with its colon
	)
	for s.next() {
		name := local(s.name())
		prefix := bytes.TrimSuffix(s.name(), name)
		if s.end {
			if in != noText {
				p.feedText(in, s.b[capture:s.at])
				in = noText
			}
			n.leave(w)
			continue
		}
		if n.enter(p, &s); n.depth == 1 {
			root = bytes.Clone(prefix)
		}
		in = p.feedElement(&s, name, len(prefix) == 0 || bytes.Equal(prefix, root))
		if s.selfClosing {
			in = noText
			n.leave(w)
		}
		capture = s.i
	}
}

// feedText is the meaning of the text of an element.
type feedText uint8

const (
	noText feedText = iota
	linkText
	guidText
	commentsText
	titleText
	imageText
)

// feedElement adds the references in a start tag's attributes and returns the meaning of the
// element's text. own means that the element has no prefix of another namespace.
func (p *Page) feedElement(s *scanner, name []byte, own bool) feedText {
	switch string(name) {
	case "link":
		href, ok := s.attr(aHref)
		if !ok {
			return linkText
		}
		hop, tag := byte('L'), "link@href"
		if rel, ok := s.attr(aRel); ok {
			rel = p.value(rel)
			switch {
			case fold(rel, "alternate"), fold(rel, "related"), fold(rel, "via"), fold(rel, "self"),
				fold(rel, "next"), fold(rel, "prev"), fold(rel, "previous"), fold(rel, "first"),
				fold(rel, "last"), fold(rel, "current"), fold(rel, "replies"), fold(rel, "next-archive"),
				fold(rel, "prev-archive"), len(rel) == 0:
			case fold(rel, "enclosure"), fold(rel, "icon"):
				hop, tag = 'E', "enclosure@href"
			default:
				return noText // hub, edit, search and similar
			}
		}
		p.feedAdd(href, hop, tag)
	case "enclosure":
		if v, ok := s.attr(aURL); ok {
			p.feedAdd(v, 'E', "enclosure@url")
		}
	case "content":
		if v, ok := s.attr(aSrc); ok {
			p.feedAdd(v, 'L', "content@src")
		} else if v, ok := s.attr(aURL); ok {
			p.feedAdd(v, 'E', "media:content@url")
		}
	case "thumbnail":
		if v, ok := s.attr(aURL); ok {
			p.feedAdd(v, 'E', "media:thumbnail@url")
		}
	case "guid":
		if v, ok := s.attr(aIsPermaLink); ok && fold(trim(v), "false") {
			return noText
		}
		return guidText
	case "comments":
		if own {
			return commentsText
		}
	case "title":
		return titleText
	case "url", "icon", "logo":
		if own {
			return imageText
		}
	}
	return noText
}

func (p *Page) feedAdd(v []byte, hop byte, tag string) {
	if hop == 'E' && !p.work.opt.Requisites || len(trim(v)) == 0 {
		return
	}
	p.note(v, ref{tag: tag, hop: hop}, true)
}

// feedText processes an element's text.
func (p *Page) feedText(in feedText, raw []byte) {
	text := p.XMLText(raw, true)
	if in == titleText {
		if !p.work.titled {
			cs := p.work.cs
			p.work.cs = utf8Charset
			p.setTitle(append([]byte(nil), text...))
			p.work.cs = cs
		}
		return
	}
	text = trim(text)
	if len(text) == 0 {
		return
	}
	r := ref{tag: "link", hop: 'L'}
	switch in {
	case guidText, commentsText:
		// A guid is a link only if it is a URL. The attribute that says so defaults to true and is
		// often missing. Comments may be a number.
		if !foldPrefix(text, "http://") && !foldPrefix(text, "https://") {
			return
		}
		if r.tag = "guid"; in == commentsText {
			r.tag = "comments"
		}
	case imageText:
		if !p.work.opt.Requisites {
			return
		}
		r.tag, r.hop = "image", 'E'
	}
	if p.work.spell != nil && in != guidText { // a guid also identifies its item
		p.work.spell.tell(p, raw, bytes.Clone(text), r, true)
		return
	}
	p.noteDecoded(text, r)
}

// XMLText returns the text of raw, a part of an XML document or of foreign content in HTML: in
// UTF-8, with character references replaced, CDATA sections unwrapped, and tags, comments and
// instructions removed. It is valid until the next call of a method.
func (p *Page) XMLText(raw []byte, xml bool) []byte {
	w := &p.work
	w.scratch = w.scratch[:0]
	s := scanner{b: raw, xml: xml, cdata: true}
	for s.i < len(raw) {
		at := s.i
		if j := bytes.IndexByte(raw[at:], '<'); j != 0 {
			if s.i = at + j; j < 0 {
				s.i = len(raw)
			}
			w.scratch, _ = p.text(w.scratch, raw[at:s.i], true)
			continue
		}
		switch next := raw[min(at+1, len(raw)-1)]; {
		case next == '!' || next == '?':
			s.markup(at + 1)
			if text, ok := bytes.CutPrefix(raw[at:s.i], []byte("<![CDATA[")); ok {
				w.scratch, _ = p.text(w.scratch, bytes.TrimSuffix(text, []byte("]]>")), false)
			}
		case xml || letter(next) || next == '/':
			s.skipPast(at, ">")
		default:
			w.scratch = append(w.scratch, '<')
			s.i++
		}
	}
	return w.scratch
}

// local returns a name without its prefix.
func local(name []byte) []byte {
	return name[bytes.IndexByte(name, ':')+1:]
}
