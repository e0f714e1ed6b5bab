package parse

import (
	"bytes"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The functions in this file serve programs that replace the references of a document. They read a
// reference as Parse does, so that a rewritten page leads to the URLs that the crawl has fetched.

// Text returns the body that the last Parse read, in the form in which its tags and attributes can
// be found byte by byte: without a byte order mark. A body whose encoding does not permit that, such
// as UTF-16, is converted to UTF-8, and converted is true.
func (p *Page) Text(body []byte) (text []byte, converted bool) {
	for _, bom := range []string{"\xEF\xBB\xBF", "\xFE\xFF", "\xFF\xFE"} {
		if rest, ok := bytes.CutPrefix(body, []byte(bom)); ok {
			body = rest
			break
		}
	}
	cs := p.work.cs
	text, after := cs.scannable(body)
	return text, after.utf8 && cs.name != utf8Charset.name
}

// Value returns the attribute value v in UTF-8 and without character references. v is spelled as in
// the text. The result is valid until the next call of a method.
func (p *Page) Value(v []byte) []byte { return p.value(v) }

// Resolve resolves the reference v, an attribute value as the text spells it, against the page's
// base. fragment is the reference's fragment with its number sign, or empty.
func (p *Page) Resolve(v []byte) (u weburl.URL, fragment string, err error) {
	return p.resolve(v, p.Base, true)
}

// ResolveDecoded is Resolve for a reference in UTF-8 without character references, such as one of
// CSS.
func (p *Page) ResolveDecoded(v []byte) (u weburl.URL, fragment string, err error) {
	cs := p.work.cs
	p.work.cs.utf8, p.work.cs.legacy = true, false
	defer func() { p.work.cs = cs }()
	return p.resolve(v, p.Base, false)
}

func (p *Page) resolve(v []byte, base weburl.URL, escapes bool) (u weburl.URL, fragment string, err error) {
	w := &p.work
	if v = trim(v); w.giant(v) {
		return u, "", weburl.ErrTooLong
	}
	decoded, _ := p.text(nil, v, escapes)
	if i := bytes.IndexByte(decoded, '#'); i >= 0 {
		fragment = string(decoded[i:])
	}
	text := p.clean(v, escapes)
	if len(text) > w.opt.MaxURL {
		return u, "", weburl.ErrTooLong
	}
	u, err = base.ResolveBytes(text)
	return u, fragment, err
}

// A Spelling is the place of a reference in a feed, or in XML of another kind.
type Spelling struct {
	// body[From:To] spells the reference: the value of an attribute, or the text of an element.
	From, To int
	Text     bool // the text of an element
	Based    bool // the document names a base for it
	URL      weburl.URL
	Fragment string // with its number sign; empty if there is none
	Hop      byte   // as in Link
}

// A Speller gets the references of Spellings.
type Speller interface{ Spelled(s Spelling) }

// Spellings tells to of the references that Parse has found in the attributes and in the texts of
// body, tag by tag. body is that of the last Parse into p, which must have the kind Feed or XML.
// Spellings does not find references in style rules, lists of images and refreshes, nor the guids of
// feeds, which also identify their items.
func Spellings(p *Page, body []byte, to Speller) {
	w := &p.work
	w.spell = &spelling{to, cap(body)}
	w.opt.Requisites, w.opt.Texts = true, false
	w.bases, w.based = w.bases[:0], noBase
	text, _ := p.Text(body)
	if p.Kind == Feed {
		p.feed(text)
	} else if p.Kind == XML {
		p.styleSheets(text)
		p.scan(text, true)
	}
	w.spell = nil
}

// A spelling tells to where a document spells its references. size is the capacity of the document.
type spelling struct {
	to   Speller
	size int
}

// tell tells of a reference. raw is the part of the document that spells it; v is its value.
func (t *spelling) tell(p *Page, raw, v []byte, r ref, decoded bool) {
	w := &p.work
	from := t.size - cap(raw)
	s := Spelling{From: from, To: from + len(raw), Text: decoded, Based: p.Base != w.self, Hop: r.hop}
	base := p.Base
	if r.base == ofSelf {
		base, s.Based = w.self, false
	} else if n := len(w.bases); n > 0 {
		base, s.Based = w.bases[n-1], true
	}
	cs := w.cs
	if decoded {
		w.cs = utf8Charset
	}
	var err error
	s.URL, s.Fragment, err = p.resolve(v, base, !decoded)
	w.cs = cs
	if err == nil && len(v) > 0 {
		t.to.Spelled(s)
	}
}

// RefreshURL returns where the URL of a refresh begins and ends in v. ok is false if v names none.
func RefreshURL(v []byte) (from, to int, ok bool) {
	ref := refreshURL(v)
	if ref == nil {
		return 0, 0, false
	}
	from = cap(v) - cap(ref) // ref is a part of v
	return from, from + len(ref), true
}

// Candidates calls fn for the URL of each image candidate of a srcset. The URL is v[from:to].
func Candidates(v []byte, fn func(from, to int)) {
	for ref, rest := nextCandidate(v); ref != nil; ref, rest = nextCandidate(rest) {
		from := cap(v) - cap(ref) // ref is a part of v
		fn(from, from+len(ref))
	}
}

// CSSReferences calls fn for each reference of the style rules b. b[from:to] spells the reference: a
// string with its quotation marks, or the text of url() without blanks. ref is its value, valid
// until fn returns.
func CSSReferences(b []byte, fn func(from, to int, ref []byte)) {
	for c := (cssScanner{b: b}); c.next(); {
		fn(c.from, c.to, trim(c.value))
	}
}

// RelKeywords reports what the rel attribute of a link element, in UTF-8, asks a browser for: to
// load a resource, or to connect to another host before a reference is used.
func RelKeywords(rel []byte) (load, connect bool) {
	for w, rest := nextToken(rel); w != nil; w, rest = nextToken(rest) {
		switch relOf(w) {
		case relLoad:
			load = true
		case relHint:
			connect = true
		}
		if fold(w, "prerender") {
			connect = true
		}
	}
	return load, connect
}
