package parse

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// Bounds of the texts of links, in bytes.
const (
	// maxAnchor bounds an anchor text.
	maxAnchor = 256
	// maxRel bounds the rel of a link.
	maxRel = 64
	// anchorSource bounds the part of the source after a start tag that is read for its anchor text.
	anchorSource = 4 << 10
	// maxTexts bounds all texts of a page. Links after that have none.
	maxTexts = 1 << 20
)

// A text is what a page says of a link: its anchor text and then its rel, in work.said.
type text struct {
	at          uint32
	anchor, rel uint16
}

// Each calls fn for each link of the page in document order, also for those that the page says not to follow, which
// Links lacks. These have NoFollow set. anchor and rel are in UTF-8 and valid until the next Parse. They are empty
// unless Options.Texts is set, for links that are not elements a, area or link, and beyond 1 MiB of texts.
func (p *Page) Each(fn func(l *Link, anchor, rel []byte)) {
	w := &p.work
	links := p.Links
	if len(w.withheld) > 0 {
		links = w.withheld
	}
	for i := range links {
		if i >= len(w.texts) {
			fn(&links[i], nil, nil)
			continue
		}
		t := w.texts[i]
		said := w.said[t.at:]
		fn(&links[i], said[:t.anchor], said[t.anchor:t.anchor+t.rel])
	}
}

// Anchor returns the anchor text of Links[i], as Each has it. It is nil if the page says not to follow its links.
func (p *Page) Anchor(i int) []byte {
	w := &p.work
	if len(w.withheld) > 0 || i >= len(w.texts) {
		return nil
	}
	t := w.texts[i]
	return w.said[t.at : t.at+uint32(t.anchor)]
}

// describe keeps the texts of the link that was noted last. Of several mentions of a link, the first anchor text that
// is not empty counts. The rel is that of the first mention; if that is nofollow, the rel of the first mention that is
// not.
func (p *Page) describe(s *scanner, t tag) {
	w := &p.work
	i := w.noted
	if i < 0 || len(w.said) > maxTexts {
		return
	}
	for len(w.texts) <= i {
		w.texts = append(w.texts, text{})
	}
	old := w.texts[i]
	newRel := w.firstMention || w.nowFollowed
	if !newRel && old.anchor > 0 {
		return
	}
	at := len(w.said)
	w.said = append(w.said, w.said[old.at:old.at+uint32(old.anchor)]...)
	if old.anchor == 0 {
		w.said = p.anchor(w.said, s, t)
	}
	n := len(w.said) - at
	switch {
	case newRel:
		v, _ := s.attr(aRel)
		w.said = appendTokens(w.said, p.value(v))
	case n == 0: // nothing new
		return
	default:
		w.said = append(w.said, w.said[old.at:old.at+uint32(old.rel)]...) // there was no anchor text before
	}
	w.texts[i] = text{uint32(at), uint16(n), uint16(len(w.said) - at - n)}
}

// appendTokens appends the words of v in lower case, separated by spaces. It keeps whole words of printable ASCII, at
// most maxRel bytes.
func appendTokens(dst, v []byte) []byte {
	from := len(dst)
	for word, rest := nextToken(v); word != nil; word, rest = nextToken(rest) {
		if len(dst)-from+len(word) >= maxRel {
			break
		}
		if bytes.ContainsFunc(word, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			continue
		}
		if len(dst) > from {
			dst = append(dst, ' ')
		}
		for _, c := range word {
			dst = append(dst, lower(c))
		}
	}
	return dst
}

// anchor appends the text of the element whose start tag was read last: for a the text up to its end tag or the next a
// with the alternative texts of its images, for area its alternative text.
func (p *Page) anchor(dst []byte, s *scanner, t tag) []byte {
	w := &p.work
	w.anchor = w.anchor[:0]
	switch t {
	case tA:
		if !s.xml || !s.selfClosing {
			p.content(s)
		}
	case tArea:
		v, _ := s.attr(aAlt)
		p.say(v)
	}
	return appendWords(dst, w.anchor)
}

// content collects the text of an element a.
func (p *Page) content(s *scanner) {
	in := scanner{b: s.b[:min(len(s.b), s.i+anchorSource)], i: s.i, xml: s.xml}
	for in.i < len(in.b) && len(p.work.anchor) < 4*maxAnchor {
		j := bytes.IndexByte(in.b[in.i:], '<')
		if j < 0 {
			p.say(in.b[in.i:])
			return
		}
		p.say(in.b[in.i : in.i+j])
		in.i += j
		if in.i+1 < len(in.b) && (in.b[in.i+1] == '!' || in.b[in.i+1] == '?') {
			in.markup(in.i + 1)
			continue
		}
		at := in.i
		if !in.next() {
			return
		}
		if in.at > at {
			p.say(in.b[at:in.at]) // a "<" that begins no tag
		}
		t := in.tagName()
		switch {
		case t == tA:
			return
		case !inline(in.name()):
			p.work.anchor = append(p.work.anchor, ' ')
		}
		if in.end {
			continue
		}
		if t == tImg {
			if alt, ok := in.attr(aAlt); ok {
				p.work.anchor = append(p.work.anchor, ' ')
				p.say(alt)
				p.work.anchor = append(p.work.anchor, ' ')
			}
		}
		if !in.xml {
			in.raw(t)
		}
	}
}

// inline reports whether an element does not interrupt a word.
func inline(name []byte) bool {
	switch string(name) {
	case "a", "abbr", "b", "bdi", "bdo", "big", "cite", "code", "em", "font", "i", "kbd", "mark", "s", "samp", "small",
		"span", "strong", "sub", "sup", "tt", "u", "var", "wbr":
		return true
	}
	return false
}

// say adds a piece of the document to the anchor text, in UTF-8.
func (p *Page) say(raw []byte) {
	w := &p.work
	// As a character reference, a byte of text takes six bytes of source, seldom more.
	w.anchor, _ = p.text(w.anchor, raw[:min(len(raw), 8*maxAnchor)], true)
}

// appendWords appends text with each run of white space, control characters and invalid characters collapsed to one
// space, at most maxAnchor bytes.
func appendWords(dst, text []byte) []byte {
	from := len(dst)
	gap := false
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r) {
			gap = len(dst) > from
			text = text[n:]
			continue
		}
		need := n
		if gap {
			need++
		}
		if len(dst)-from+need > maxAnchor {
			return dst
		}
		if gap {
			dst = append(dst, ' ')
			gap = false
		}
		dst, text = append(dst, text[:n]...), text[n:]
	}
	return dst
}
