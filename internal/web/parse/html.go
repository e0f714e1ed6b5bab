package parse

import (
	"bytes"
	"html"
	"strings"
	"unicode/utf8"
)

// html scans an HTML document. If xml is set, it scans an XHTML or SVG document, or another
// XML document. In that, namespaces tell which elements are of HTML or SVG.
//
// It reads elements as the tags name them and builds no tree. So it also finds links where the tree
// builder of HTML, 13.2.6, drops the element: in a frameset document outside of noframes, a frame
// outside of a frameset, or a cell outside of a table. A reader of the source would call all of
// those links, and they do no harm. Within SVG and MathML only, it may take HTML for foreign
// content or the reverse, if end tags are implied or mis-nested.
//
// It reads the content of noscript, like a browser without scripts. It does not read the content of
// a template, unless the template is a declarative shadow root.
func (p *Page) html(body []byte, xml bool) {
	m := p.mark()
	for {
		var text []byte
		text, p.work.cs = p.work.cs.scannable(body)
		if xml {
			p.styleSheets(text)
		}
		if p.scan(text, xml) {
			return
		}
		p.rewind(m)
	}
}

// scan is html for a scannable body. It stops and returns false at an element that changes the
// meaning of what stands before it: the first base element, or the first meta element that declares
// another encoding than the tentative one. The next scan starts with that knowledge, so a page is
// scanned at most four times.
func (p *Page) scan(body []byte, xml bool) bool {
	w := &p.work
	w.relative = false
	s := scanner{b: body, xml: xml}
	f := &w.foreign
	var n *nesting
	if p.Kind == XML {
		n = &nesting{}
		s.spaces, w.bases, w.based = n, w.bases[:0], noBase
		w.cs.legacy = false // as in feeds
	}
	templates := 0 // number of open inert templates
	raw := false   // the next tag ends a raw text
	for {
		var t tag
		if !xml && templates == 0 && f.idle() {
			var ok bool
			if t, ok = s.skim(w.opt.Requisites); !ok {
				break
			}
			raw = false // skim has skipped the end tag of the raw text
		} else {
			if !s.next() {
				break
			}
			if raw {
				raw = false
				continue
			}
			t = s.tagName()
		}
		if n != nil && s.end {
			n.leave(w)
			continue
		}
		if s.end {
			if t == tTemplate && templates > 0 && !f.foreign() {
				templates--
			}
			f.finish(&s, t)
			s.cdata = f.cdata()
			continue
		}
		var space uint8
		if n != nil {
			n.enter(p, &s)
			space = n.namespace(s.name())
		} else {
			space = f.start(&s, t)
			s.cdata = f.cdata()
		}
		if t == tMeta && w.cs.tentative && space == nsHTML && p.lateCharset(&s) {
			return false
		}
		if templates == 0 {
			if t != tOther || space >= nsXSLT {
				had := w.haveURL
				p.element(&s, t, space)
				if w.haveURL != had && w.relative && w.based == noBase {
					return false
				}
			}
			if w.opt.Requisites && s.has&(1<<aStyle) != 0 && space < nsXSLT {
				v, _ := s.attr(aStyle)
				p.styleAttr(v)
			}
		}
		if space != nsHTML || xml {
			p.xmlText(&s, t, space, templates)
			if n != nil && s.selfClosing {
				n.leave(w)
			}
			continue
		}
		var text []byte
		text, raw = s.raw(t)
		switch {
		case t == tTemplate && (!shadowRoot(&s) || templates > 0):
			templates++
		case t == tStyle && w.opt.Requisites && templates == 0:
			p.css(text, "style")
		case t == tTitle && templates == 0:
			p.setTitle(text)
		}
	}
	return true
}

// tagName returns the number of the last tag's name. A name in XML may have a prefix.
func (s *scanner) tagName() tag {
	t := tagOf(s.name())
	if s.xml && t == tOther {
		if i := bytes.IndexByte(s.name(), ':'); i > 0 {
			t = tagOf(s.name()[i+1:])
		}
	}
	return t
}

// raw moves to the end of the text of the HTML element whose start tag was read last, if that text
// is raw. It returns the text, except the text of a script. The next tag is then the end tag. The
// result raw is false if the text is not raw.
func (s *scanner) raw(t tag) (text []byte, raw bool) {
	switch t {
	case tScript:
		s.script()
	case tStyle:
		text = s.rawText("style")
	case tTitle:
		text = s.rawText("title")
	case tIframe, tNoembed, tNoframes, tTextarea, tXmp:
		s.rawText(rawName(t))
	case tPlaintext:
		s.i = len(s.b)
	default:
		return nil, false
	}
	return text, true
}

func rawName(t tag) string {
	switch t {
	case tIframe:
		return "iframe"
	case tNoembed:
		return "noembed"
	case tNoframes:
		return "noframes"
	case tTextarea:
		return "textarea"
	}
	return "xmp"
}

func shadowRoot(s *scanner) bool {
	v, ok := s.attr(aShadowRootMode)
	return ok && (fold(v, "open") || fold(v, "closed"))
}

// xmlText reads the text after a tag where no text is raw: the title and styles of XHTML and SVG.
func (p *Page) xmlText(s *scanner, t tag, space uint8, templates int) {
	if s.selfClosing || templates > 0 {
		return
	}
	switch {
	case t == tStyle && space <= nsSVG && p.work.opt.Requisites:
		text := bytes.Clone(p.XMLText(s.upToTag(), s.xml))
		cs := p.work.cs
		p.work.cs = utf8Charset
		p.css(text, "style")
		p.work.cs = cs
	case t == tTitle && space == nsHTML:
		if !p.work.titled {
			p.work.titled = true
			p.keepTitle(p.XMLText(s.upToTag(), s.xml))
		}
	}
}

// styleSheets adds the style sheets that the instructions before the root element of an XML
// document name. They are relative to the response's URL (Associating Style Sheets with XML
// documents, 4).
func (p *Page) styleSheets(body []byte) {
	if !p.work.opt.Requisites {
		return
	}
	s := scanner{b: body, xml: true}
	for {
		j := bytes.IndexByte(body[s.i:], '<')
		if j < 0 {
			return
		}
		at := s.i + j + 1
		if at >= len(body) || body[at] != '!' && body[at] != '?' {
			return
		}
		s.markup(at)
		data, ok := bytes.CutPrefix(body[at:s.i], []byte("?xml-stylesheet"))
		if !ok || len(data) == 0 || !space(data[0]) {
			continue
		}
		in := scanner{b: bytes.TrimSuffix(data, []byte("?>"))}
		in.attributes(0, true)
		if v, _ := in.attr(aHref); len(trim(v)) > 0 && trim(v)[0] != '#' {
			p.note(v, refOf('E', "xml-stylesheet@href"), true)
		}
	}
}

// maxNested is how deep documents in srcdoc attributes are read.
const maxNested = 3

// srcdoc adds what the document in the srcdoc attribute v links to. That document has a base, a
// title and robots directives of its own. Without a base element it has the page's base (HTML,
// 4.8.5).
func (p *Page) srcdoc(v []byte) {
	w := &p.work
	if w.nested == maxNested {
		return
	}
	w.relative = true
	if w.inner == nil {
		w.inner = &Page{}
		w.inner.work.nested = w.nested + 1
	}
	in, opt := w.inner, w.opt
	opt.Texts = false
	in.reset(Input{URL: p.Base}, opt)
	in.work.cs = utf8Charset
	in.html(p.value(v), false)
	in.finish()
	for i := range in.Links {
		l := &in.Links[i]
		p.noteDecoded([]byte(l.URL.String()), ref{tag: l.Tag, hop: l.Hop, nofollow: l.NoFollow})
	}
	p.BadLinks += in.BadLinks
	p.Dropped += in.Dropped
}

// element adds the references of a start tag.
func (p *Page) element(s *scanner, t tag, space uint8) {
	if space != nsHTML {
		if space == nsSVG {
			p.svgElement(s, t)
		} else {
			s.xmlElement(p, space)
		}
		return
	}
	req := p.work.opt.Requisites
	switch t {
	case tA, tArea:
		if v, ok := s.attr(aHref); ok {
			tag := "a@href"
			if t == tArea {
				tag = "area@href"
			}
			p.add(v, 'L', tag, p.hasNoFollow(s))
			if p.work.opt.Texts {
				p.describe(s, t)
			}
		}
	case tBase:
		if v, ok := s.attr(aHref); ok && !p.work.haveURL {
			p.work.haveURL = true
			if u := p.baseOf(v, p.Base); u != p.Base {
				p.Base = u
				p.work.based = noBase
			}
		}
	case tLink:
		p.link(s)
	case tMeta:
		p.meta(s)
	case tFrame:
		p.filled(s, aSrc, 'L', "frame@src")
	case tIframe:
		if v, ok := s.attr(aSrcdoc); ok { // then src is not used
			p.srcdoc(v)
		} else {
			p.filled(s, aSrc, 'L', "iframe@src")
		}
	}
	if !req {
		return
	}
	switch t {
	case tImg, tImage:
		p.filled(s, aSrc, 'E', "img@src")
		p.srcset(s, aSrcset, "img@srcset")
	case tSource:
		p.filled(s, aSrc, 'E', "source@src")
		p.srcset(s, aSrcset, "source@srcset")
	case tScript:
		p.filled(s, aSrc, 'E', "script@src")
	case tVideo:
		p.filled(s, aSrc, 'E', "video@src")
		p.filled(s, aPoster, 'E', "video@poster")
	case tAudio:
		p.filled(s, aSrc, 'E', "audio@src")
	case tTrack:
		p.filled(s, aSrc, 'E', "track@src")
	case tEmbed:
		p.filled(s, aSrc, 'E', "embed@src")
	case tObject:
		p.filled(s, aData, 'E', "object@data")
	case tInput:
		if v, ok := s.attr(aType); ok && fold(p.value(v), "image") {
			p.filled(s, aSrc, 'E', "input@src")
		}
	case tBody:
		p.filled(s, aBackground, 'E', "body@background")
	case tTable:
		p.filled(s, aBackground, 'E', "table@background")
	case tSection:
		p.filled(s, aBackground, 'E', "tbody@background")
	case tTr:
		p.filled(s, aBackground, 'E', "tr@background")
	case tTd, tTh:
		p.filled(s, aBackground, 'E', "td@background")
	}
}

// svgElement adds the references of an SVG element. href takes precedence over xlink:href (SVG 2,
// 16.1.5).
func (p *Page) svgElement(s *scanner, t tag) {
	a := aHref
	if _, ok := s.attr(aHref); !ok {
		a = aXlinkHref
	}
	switch t {
	case tA:
		if v, ok := s.attr(a); ok {
			p.add(v, 'L', "svg:a@href", p.hasNoFollow(s))
			if p.work.opt.Texts {
				p.describe(s, t)
			}
		}
		return
	case tImage, tFeImage, tUse, tScript:
	default:
		return
	}
	if !p.work.opt.Requisites {
		return
	}
	switch t {
	case tImage:
		p.inside(s, a, "svg:image@href")
	case tFeImage:
		p.inside(s, a, "svg:feimage@href")
	case tUse:
		p.inside(s, a, "svg:use@href")
	case tScript:
		p.inside(s, a, "svg:script@href")
	}
}

// inside is filled, except that it ignores a mere fragment, which is a part of the document itself
// and loads nothing.
func (p *Page) inside(s *scanner, a int, tag string) {
	if v, ok := s.attr(a); ok && !bytes.HasPrefix(trim(v), []byte("#")) {
		p.filled(s, a, 'E', tag)
	}
}

// filled adds an attribute's reference unless it is empty: an empty src loads nothing (HTML, 2.4.1:
// valid non-empty URL).
func (p *Page) filled(s *scanner, a int, hop byte, tag string) {
	if v, ok := s.attr(a); ok && len(trim(v)) > 0 {
		p.add(v, hop, tag, false)
	}
}

// value returns an attribute's value in UTF-8. It is valid until the next call.
func (p *Page) value(v []byte) []byte {
	for _, c := range v {
		if c == '&' || c == 0 || c >= 0x80 {
			p.work.scratch, _ = p.text(p.work.scratch[:0], v, true)
			return p.work.scratch
		}
	}
	return v
}

func (p *Page) hasNoFollow(s *scanner) bool {
	v, ok := s.attr(aRel)
	return ok && hasToken(p.value(v), "nofollow")
}

// hasToken reports whether word is in a list separated by white space. It ignores letter case.
func hasToken(v []byte, word string) bool {
	for w, rest := nextToken(v); w != nil; w, rest = nextToken(rest) {
		if fold(w, word) {
			return true
		}
	}
	return false
}

func nextToken(v []byte) (word, rest []byte) {
	for len(v) > 0 && space(v[0]) {
		v = v[1:]
	}
	n := 0
	for n < len(v) && !space(v[n]) {
		n++
	}
	if n == 0 {
		return nil, nil
	}
	return v[:n], v[n:]
}

// meta reads robots directives and refreshes.
func (p *Page) meta(s *scanner) {
	content, ok := s.attr(aContent)
	if !ok {
		return
	}
	if v, ok := s.attr(aName); ok {
		name := trim(p.value(v))
		if fold(name, "robots") || p.work.opt.Agent != "" && fold(name, p.work.opt.Agent) {
			p.Directives.add(string(p.value(content)))
		}
	}
	if v, ok := s.attr(aHTTPEquiv); ok && fold(p.value(v), "refresh") {
		if ref := refreshURL(p.value(content)); ref != nil {
			// The text is already decoded and must not be decoded again.
			p.addDecoded(ref, 'R', "meta@refresh")
		}
	}
}

// addDecoded adds a reference that is in UTF-8 and has no character references left. It may be in
// the scratch buffer.
func (p *Page) addDecoded(v []byte, hop byte, tag string) {
	p.noteDecoded(v, ref{tag: tag, hop: hop})
}

func (p *Page) noteDecoded(v []byte, r ref) {
	w := &p.work
	utf8 := w.cs.utf8
	w.cs.utf8 = true
	w.scratch, w.spare = w.spare, w.scratch
	p.note(v, r, false)
	w.scratch, w.spare = w.spare, w.scratch
	w.cs.utf8 = utf8
}

// setTitle keeps the first title.
func (p *Page) setTitle(raw []byte) {
	w := &p.work
	if w.titled {
		return
	}
	w.titled = true
	// As a character reference, a byte of text takes six bytes of source, seldom more.
	raw = raw[:min(len(raw), 8*maxTitle)]
	if bytes.IndexByte(raw, '&') >= 0 || !(w.cs.utf8 && utf8.Valid(raw) || isASCII(raw)) {
		if !w.cs.utf8 {
			raw = w.cs.decode(raw)
		}
		raw = []byte(html.UnescapeString(strings.ToValidUTF8(string(raw), "\uFFFD")))
	}
	p.keepTitle(raw)
}

// keepTitle keeps a title in UTF-8 without character references.
func (p *Page) keepTitle(text []byte) {
	w := &p.work
	for word := range bytes.FieldsSeq(text) {
		if len(w.title) > 0 {
			w.title = append(w.title, ' ')
		}
		w.title = append(w.title, word...)
		if len(w.title) > maxTitle {
			w.title = w.title[:maxTitle]
			for {
				if r, n := utf8.DecodeLastRune(w.title); r != utf8.RuneError || n != 1 {
					return
				}
				w.title = w.title[:len(w.title)-1]
			}
		}
	}
}
