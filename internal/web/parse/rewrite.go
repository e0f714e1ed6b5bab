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
	return p.resolve(v, true)
}

// ResolveDecoded is Resolve for a reference in UTF-8 without character references, such as one of
// CSS.
func (p *Page) ResolveDecoded(v []byte) (u weburl.URL, fragment string, err error) {
	cs := p.work.cs
	p.work.cs.utf8, p.work.cs.legacy = true, false
	defer func() { p.work.cs = cs }()
	return p.resolve(v, false)
}

func (p *Page) resolve(v []byte, escapes bool) (u weburl.URL, fragment string, err error) {
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
	u, err = p.Base.ResolveBytes(text)
	return u, fragment, err
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
