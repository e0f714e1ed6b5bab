package parse

import (
	"bytes"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// work is what Parse keeps in a Page from one response to the next.
type work struct {
	opt  Options
	cs   charset
	self weburl.URL // the response's
	// urls are the links' URLs, in the order of Page.Links.
	urls weburl.Batch
	// based says by its ref.base what urls resolves against now.
	based int
	// bases are the xml:base URLs that hold at this place of a feed, from the
	// outermost in.
	bases []weburl.URL
	room  int  // how many bytes of URLs there may be
	full  bool // there was no more room
	table table
	// text is the reference at hand, cleaned; scratch is what cleaning needs.
	// Decoded values lie in scratch, so noting one of those swaps it for spare.
	text, scratch, spare []byte
	foreign              foreign
	haveURL              bool // the document's base element was seen
	relative             bool // a reference was resolved against Page.Base
	canon                int  // index plus one of the first rel=canonical
	title                []byte
	titled               bool
}

// A ref is how a reference came about.
type ref struct {
	tag       string
	base      int // 0 is the document's, ofSelf the response's, others index bases plus one
	hop       byte
	nofollow  bool
	canonical bool
}

// ofSelf in ref.base stands for the response's URL.
const ofSelf = -1

// noBase in work.based stands for none that has been set.
const noBase = -2

// maxLinkBytes bounds the URLs of a page, all together, besides the size of its
// body: a base of 8 KiB makes so much of each reference of a few bytes.
const maxLinkBytes = 4 << 20

// maxKept bounds the buffers that a Page keeps, in bytes each. An ordinary page
// needs a tenth of it; a crawl has a Page for each fetch under way.
const maxKept = 128 << 10

func (p *Page) reset(in Input, opt Options) {
	w := &p.work
	links := p.Links
	if cap(links) > maxKept/64 {
		links, w.table = nil, table{}
	}
	clear(links) // the URLs of the last page are not to be kept alive
	for _, b := range []*[]byte{&w.text, &w.scratch, &w.spare} {
		if cap(*b) > maxKept {
			*b = nil
		}
		*b = (*b)[:0]
	}
	clear(w.bases)
	w.opt, w.cs, w.self = opt.withDefaults(), charset{}, in.URL
	w.urls.Reset()
	w.based, w.bases = noBase, w.bases[:0]
	w.room, w.full = maxLinkBytes+len(in.Body), false
	w.table.reset()
	w.foreign.reset()
	w.haveURL, w.relative, w.canon = false, false, 0
	w.title, w.titled = w.title[:0], false
	p.Links, p.Kind, p.Base, p.Canonical, p.Directives = links[:0], Other, in.URL, weburl.URL{}, Directives{}
	p.Charset, p.Title, p.BadLinks, p.Dropped, p.Withheld = "", "", 0, 0, 0
}

// Rest lets go of the last page: of its links, and of the memory that an
// unusual one took. Who keeps a Page for the next one calls it in between.
func (p *Page) Rest() { p.reset(Input{}, Options{}) }

// A mark is a state that a Page can go back to while it has seen no document.
type mark struct {
	links, bad, dropped, canon int
	directives                 Directives
}

func (p *Page) mark() mark {
	return mark{len(p.Links), p.BadLinks, p.Dropped, p.work.canon, p.Directives}
}

// rewind forgets what was found since m.
func (p *Page) rewind(m mark) {
	w := &p.work
	p.Links, p.BadLinks, p.Dropped, w.canon, p.Directives = p.Links[:m.links], m.bad, m.dropped, m.canon, m.directives
	p.Canonical = weburl.URL{}
	w.urls.Cut(m.links)
	w.table.fill(p.Links)
	w.foreign.reset()
	w.full, w.title, w.titled = false, w.title[:0], false
}

// add notes the reference v, a raw attribute value in the document's encoding.
func (p *Page) add(v []byte, hop byte, tag string, nofollow bool) {
	p.note(v, ref{tag: tag, hop: hop, nofollow: nofollow}, true)
}

// note resolves the reference v. A link noted before takes the new one in.
func (p *Page) note(v []byte, r ref, escapes bool) {
	w := &p.work
	v = trim(v)
	if w.full || len(p.Links) >= w.opt.MaxLinks {
		// Only a link that is new would be one too many, but to know that of
		// all references would cost what the bound saves.
		if !otherScheme(v) {
			p.Dropped++
		}
		return
	}
	if r.base != w.based {
		p.setBase(r.base)
	}
	if r.base == 0 {
		w.relative = true
	}
	var key weburl.Key
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
		p.Links[i].NoFollow = p.Links[i].NoFollow && r.nofollow
	default:
		p.Links = append(p.Links, Link{Key: key, Hop: r.hop, Tag: r.tag, NoFollow: r.nofollow})
	}
	if r.canonical && w.canon == 0 {
		w.canon = i + 1
	}
}

// setBase makes b what references are resolved against.
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

// giant says whether v is far too long for a reference, before anything is
// copied of it: cleaning shortens, by escapes, blanks and a fragment, but not
// by that much.
func (w *work) giant(v []byte) bool { return len(v) > 64*w.opt.MaxURL }

// baseOf resolves the raw attribute value v, a base, against outer; what is
// empty or no URL leaves outer as it is.
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

// clean is v as the URL parser is to see it: in UTF-8, character references
// replaced, without tabs and line ends, without the fragment, trimmed, and with
// a query in the document's encoding (URL, 4.1; HTML, 2.4.3). Valid until the
// next call.
func (p *Page) clean(v []byte, escapes bool) []byte {
	w := &p.work
	n := plainLen(v)
	if n == len(v) || v[n] == '#' {
		return v[:n]
	}
	out := append(w.text[:0], v[:n]...)
	// Queries are full of &amp; and of nothing else that is not plain.
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
		// A space before the fragment is part of the URL: the number sign
		// keeps the resolver from trimming it.
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

// plainLen is how many bytes at the front of v stand for themselves.
func plainLen(v []byte) int {
	n := 0
	for n < len(v) && class[v[n]]&cPlain != 0 {
		n++
	}
	return n
}

// text appends v in UTF-8 with its character references replaced.
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

// decodeRune is utf8.DecodeRune, but takes all the bytes of a truncated
// sequence for one error, as Encoding, 4.1 does.
func decodeRune(b []byte) (rune, int) {
	r, n := utf8.DecodeRune(b)
	if r != utf8.RuneError || n != 1 {
		return r, n
	}
	// The longest prefix that could go on to be a rune: DecodeRune of the
	// prefix alone fails, but FullRune waits for more.
	for n = 1; n < 4 && n < len(b) && !utf8.FullRune(b[:n]) && b[n]&0xC0 == 0x80; n++ {
		if utf8.FullRune(b[:n+1]) {
			break
		}
	}
	return utf8.RuneError, n
}

// finish gives the links their URLs and withholds those that the page says not
// to follow.
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
		p.Links = slices.DeleteFunc(p.Links, func(l Link) bool { return l.Hop == 'L' || l.Hop == 'M' })
		p.Withheld = all - len(p.Links)
	}
}

// otherScheme says whether v begins with a scheme that is not http or https.
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

// trim cuts C0 controls and spaces from both ends.
func trim(v []byte) []byte {
	for len(v) > 0 && v[0] <= ' ' && v[0] != 0 {
		v = v[1:]
	}
	for len(v) > 0 && v[len(v)-1] <= ' ' && v[len(v)-1] != 0 {
		v = v[:len(v)-1]
	}
	return v
}
