package parse

import (
	"bytes"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// work is the part of a Page that Parse reuses from one response to the next.
type work struct {
	opt  Options
	cs   charset
	self weburl.URL // the response's URL
	// urls are the links' URLs, in the order of Page.Links.
	urls link.Batch
	// based is the base that urls resolves against now: 0 is the document's base, ofSelf the response's URL; another
	// value is an index of bases plus one.
	based int
	// bases are the xml:base URLs that apply at this place of a feed or other XML, the outermost first.
	bases []weburl.URL
	room  int  // maximum bytes of URLs
	full  bool // room was exceeded
	// embeds counts the Links that the page embeds.
	embeds int
	table  table
	// text is the current reference, cleaned. scratch is memory for cleaning. Decoded values are in
	// scratch, so noteDecoded swaps it for spare.
	text, scratch, spare []byte
	foreign              foreign
	spell                *spelling // tells where XML spells its references; nil: nobody asks
	nested               int       // number of documents around this one, which is in a srcdoc attribute
	inner                *Page     // for the documents in srcdoc attributes
	haveURL              bool      // the scan has seen the document's base element
	relative             bool      // a reference was resolved against Page.Base
	canon                int       // index plus one of the first rel=canonical
	title                []byte
	titled               bool

	// For Options.Texts:
	noted        int    // index of the link that was noted last; -1: none
	firstMention bool   // that link is new
	nowFollowed  bool   // its earlier mentions were nofollow, and this one is not
	texts        []text // of the first links in Page.Links; the others have none
	said         []byte // the bytes of texts
	anchor       []byte // memory for an anchor text
	withheld     []Link // all links of a page that says nofollow

	main []byte // the main text
}

// A ref describes where a reference comes from.
type ref struct {
	tag       string
	base      int // ofSelf is the response's URL; 0 the innermost of bases, or the document's base
	hop       byte
	nofollow  bool
	canonical bool
}

// ofSelf in ref.base means the response's URL.
const ofSelf = -1

// noBase in work.based means that no base is set yet.
const noBase = -2

// maxLinkBytes limits the memory of a page's URLs in bytes, in addition to the size of its body. A
// base of 8 KiB would turn each reference of a few bytes into as much.
const maxLinkBytes = 4 << 20

// maxKept is the maximum size in bytes of each buffer that a Page keeps. An ordinary page needs a
// tenth of it. A crawl has a Page for each fetch in progress.
const maxKept = 128 << 10

func (p *Page) reset(in Input, opt Options) {
	w := &p.work
	links := p.Links
	if cap(links) > maxKept/64 {
		links, w.table = nil, table{}
	}
	clear(links) // do not keep the URLs of the last page in memory
	for _, b := range []*[]byte{&w.text, &w.scratch, &w.spare, &w.said, &w.anchor} {
		if cap(*b) > maxKept {
			*b = nil
		}
		*b = (*b)[:0]
	}
	if cap(w.texts) > maxKept/8 {
		w.texts = nil
	}
	w.texts, w.withheld = w.texts[:0], nil
	clear(w.bases)
	w.opt, w.cs, w.self = opt.withDefaults(), charset{}, in.URL
	w.urls.Reset()
	w.based, w.bases = noBase, w.bases[:0]
	w.room, w.full = maxLinkBytes+len(in.Body), false
	w.table.reset()
	w.foreign.reset()
	w.inner = nil
	w.haveURL, w.relative, w.canon, w.embeds = false, false, 0, 0
	w.title, w.titled = w.title[:0], false
	p.Links, p.Kind, p.Base, p.Canonical, p.Directives = links[:0], Other, in.URL, weburl.URL{}, Directives{}
	p.Charset, p.Language, p.Title, p.BadLinks, p.Dropped, p.Withheld = "", "", "", 0, 0, 0
	p.Older, p.Cut = 0, false
}

// Release releases the links of the last page, and the memory that an unusually large page took. Call
// it before keeping a Page for later use.
func (p *Page) Release() { p.reset(Input{}, Options{}) }

// A mark is a state of a Page before its document is scanned. rewind returns to it.
type mark struct {
	links, embeds, bad, dropped, canon int
	directives                         Directives
}

func (p *Page) mark() mark {
	return mark{len(p.Links), p.work.embeds, p.BadLinks, p.Dropped, p.work.canon, p.Directives}
}

// rewind removes what was found since m.
func (p *Page) rewind(m mark) {
	w := &p.work
	p.Links, w.embeds, p.BadLinks, p.Dropped, w.canon = p.Links[:m.links], m.embeds, m.bad, m.dropped, m.canon
	p.Directives = m.directives
	p.Canonical = weburl.URL{}
	w.urls.Cut(m.links)
	w.table.fill(p.Links)
	w.foreign.reset()
	w.full, w.title, w.titled = false, w.title[:0], false
	w.texts, w.said = w.texts[:0], w.said[:0] // no link before the document has texts
}

// add adds the reference v, a raw attribute value in the document's encoding.
func (p *Page) add(v []byte, hop byte, tag string, nofollow bool) {
	p.note(v, ref{tag: tag, hop: hop, nofollow: nofollow}, true)
}

// note resolves the reference v and adds it as a link. If the link is there already, note merges
// the two.
func (p *Page) note(v []byte, r ref, escapes bool) {
	w := &p.work
	w.noted = -1
	v = trim(v)
	if w.spell != nil && escapes {
		w.spell.tell(p, v, v, r, false)
	}
	if w.full || len(p.Links) >= w.opt.MaxLinks || r.hop == 'E' && w.embeds >= maxEmbeds {
		// Only a new link should count as dropped. To check that for every reference would cost
		// what this limit saves.
		if !otherScheme(v) {
			p.Dropped++
		}
		return
	}
	if r.base == 0 {
		r.base = len(w.bases)
	}
	if r.base != w.based {
		p.setBase(r.base)
	}
	if r.base == 0 {
		w.relative = true
	}
	var key link.Key
	ok := false
	if len(v) <= w.opt.MaxURL && bytes.IndexByte(v, '&') < 0 {
		key, ok = w.urls.ResolvePlain(v)
	}
	if !ok {
		if otherScheme(v) {
			return
		}
		if w.giant(v) {
			p.BadLinks++
			return
		}
		text := p.clean(v, escapes)
		if len(text) > w.opt.MaxURL {
			p.BadLinks++
			return
		}
		var err error
		if key, err = w.urls.Resolve(text); err != nil {
			if !errors.Is(err, weburl.ErrScheme) && len(text) > 0 {
				p.BadLinks++
			}
			return
		}
	}
	n := len(p.Links)
	i, found := w.table.find(key, r.hop, n, p)
	switch {
	case found == isNew && w.urls.Size() > w.room:
		w.full = true
		fallthrough
	case found == isCrowd:
		if r.canonical && w.canon == 0 && p.Canonical.IsZero() {
			w.urls.Seal()
			p.Canonical = w.urls.URL(n).Clone()
		}
		w.urls.Cut(n)
		p.Dropped++
		return
	case found == isKnown:
		w.urls.Cut(n)
		w.nowFollowed = p.Links[i].NoFollow && !r.nofollow
		p.Links[i].NoFollow = p.Links[i].NoFollow && r.nofollow
	default:
		p.Links = append(p.Links, Link{Key: key, Hop: r.hop, Tag: r.tag, NoFollow: r.nofollow})
		if r.hop == 'E' {
			w.embeds++
		}
	}
	w.noted, w.firstMention = i, found == isNew
	if r.canonical && w.canon == 0 {
		w.canon = i + 1
	}
}

// setBase sets the base b, as in work.based, for the next references.
func (p *Page) setBase(b int) {
	w := &p.work
	w.based = b
	switch {
	case b > 0:
		w.urls.SetBase(w.bases[b-1])
	case b == ofSelf:
		w.urls.SetBase(w.self)
	default:
		w.urls.SetBase(p.Base)
	}
}

// giant reports whether v is far too long for a reference. It is checked before v is copied.
// Cleaning shortens a reference (escapes, blanks, a fragment), but not by that much.
func (w *work) giant(v []byte) bool { return len(v) > 64*w.opt.MaxURL }

// baseOf resolves the raw attribute value v, a base, against outer. If v is empty or no URL, it
// returns outer.
func (p *Page) baseOf(v []byte, outer weburl.URL) weburl.URL {
	if v = trim(v); p.work.giant(v) {
		return outer
	}
	text := p.clean(v, true)
	if len(text) == 0 || len(text) > p.work.opt.MaxURL {
		return outer
	}
	if u, err := outer.ResolveBytes(text); err == nil {
		return u
	}
	return outer
}

// clean returns v as the URL parser must see it: in UTF-8, with character references replaced,
// without tabs, line ends and the fragment, trimmed, and with a query in the document's encoding
// (URL, 4.1; HTML, 2.4.3). The result is valid until the next call.
func (p *Page) clean(v []byte, escapes bool) []byte {
	w := &p.work
	n := plainLen(v)
	if n == len(v) || v[n] == '#' {
		return v[:n]
	}
	out := append(w.text[:0], v[:n]...)
	// Queries are full of &amp; and have hardly anything else that is not plain.
	for v = v[n:]; escapes && bytes.HasPrefix(v, []byte("&amp;")); v = v[n:] {
		v = v[len("&amp;"):]
		n = plainLen(v)
		out = append(append(out, '&'), v[:n]...)
		if n == len(v) || v[n] == '#' {
			w.text = out
			return out
		}
	}
	ascii := true
	w.scratch, ascii = p.text(w.scratch[:0], v, escapes)
	cut := false
	for _, c := range w.scratch {
		if c == '#' {
			cut = true
			break
		}
		if c != '\t' && c != '\n' && c != '\r' {
			out = append(out, c)
		}
	}
	if n := len(out); cut && n > 0 && out[n-1] <= ' ' {
		// A space before the fragment is part of the URL. The number sign keeps the resolver from
		// trimming it.
		out = append(out, '#')
	}
	w.text = out
	for len(out) > 0 && out[len(out)-1] <= ' ' {
		out = out[:len(out)-1]
	}
	for len(out) > 0 && out[0] <= ' ' {
		out = out[1:]
	}
	if !ascii && w.cs.legacy {
		if q := bytes.IndexByte(out, '?'); q >= 0 {
			w.scratch = append(w.scratch[:0], out[q:]...)
			out = w.cs.appendQuery(out[:q], w.scratch)
			w.text = out
		}
	}
	return out
}

func isASCII(v []byte) bool {
	for _, c := range v {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// plainLen returns the number of bytes at the front of v that stand for themselves.
func plainLen(v []byte) int {
	n := 0
	for n < len(v) && class[v[n]]&cPlain != 0 {
		n++
	}
	return n
}

// text appends v in UTF-8. If escapes is set, it replaces character references.
func (p *Page) text(dst, v []byte, escapes bool) (out []byte, ascii bool) {
	if ascii = isASCII(v); !ascii && !p.work.cs.utf8 {
		v = p.work.cs.decode(v)
	}
	for i := 0; i < len(v); {
		j := i
		for j < len(v) && v[j] != '&' && v[j] != 0 && v[j] < utf8.RuneSelf {
			j++
		}
		dst = append(dst, v[i:j]...)
		if i = j; i == len(v) {
			break
		}
		switch {
		case v[i] == 0:
			dst = append(dst, "\uFFFD"...)
			ascii = false
			i++
		case v[i] == '&' && escapes:
			var n int
			dst, n = appendCharRef(dst, v[i:])
			ascii = ascii && (n == 1 || dst[len(dst)-1] < utf8.RuneSelf)
			i += n
		case v[i] == '&':
			dst = append(dst, '&')
			i++
		default:
			r, n := decodeRune(v[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
		}
	}
	return dst, ascii
}

// decodeRune is utf8.DecodeRune, except that all bytes of a truncated sequence are one error, as
// Encoding, 4.1 says.
func decodeRune(b []byte) (rune, int) {
	r, n := utf8.DecodeRune(b)
	if r != utf8.RuneError || n != 1 {
		return r, n
	}
	// Find the longest prefix that could continue as a rune: DecodeRune of the prefix fails, but
	// FullRune waits for more.
	for n = 1; n < 4 && n < len(b) && !utf8.FullRune(b[:n]) && b[n]&0xC0 == 0x80; n++ {
		if utf8.FullRune(b[:n+1]) {
			break
		}
	}
	return utf8.RuneError, n
}

// finish sets the URLs of the links and removes the links that the page says not to follow.
func (p *Page) finish() {
	w := &p.work
	if len(w.title) > 0 {
		p.Title = string(w.title)
	}
	if len(p.Links) == 0 {
		return
	}
	w.urls.Seal()
	for i := range p.Links {
		p.Links[i].URL = w.urls.URL(i)
	}
	if w.canon > 0 && p.Canonical.IsZero() {
		p.Canonical = p.Links[w.canon-1].URL
	}
	if p.NoFollow {
		all := len(p.Links)
		if w.opt.Texts {
			w.withheld = slices.Clone(p.Links)
			for i := range w.withheld {
				w.withheld[i].NoFollow = w.withheld[i].NoFollow || w.withheld[i].Hop == 'L' || w.withheld[i].Hop == 'M'
			}
		}
		p.Links = slices.DeleteFunc(p.Links, func(l Link) bool { return l.Hop == 'L' || l.Hop == 'M' })
		p.Withheld = all - len(p.Links)
	}
}

// otherScheme reports whether v begins with a scheme other than http and https.
func otherScheme(v []byte) bool {
	if len(v) == 0 || !letter(v[0]) {
		return false
	}
	for i, c := range v {
		switch {
		case c == ':':
			return !fold(v[:i], "http") && !fold(v[:i], "https")
		case !letter(c) && (c < '0' || c > '9') && c != '+' && c != '-' && c != '.':
			return false
		}
	}
	return false
}

// trim cuts C0 controls except NUL, and spaces, from both ends.
func trim(v []byte) []byte {
	for len(v) > 0 && v[0] <= ' ' && v[0] != 0 {
		v = v[1:]
	}
	for len(v) > 0 && v[len(v)-1] <= ' ' && v[len(v)-1] != 0 {
		v = v[:len(v)-1]
	}
	return v
}
