package parse

import (
	"bytes"
	"errors"
	"hash/maphash"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/weburl"
)

// work is what Parse keeps in a Page from one response to the next.
type work struct {
	opt Options
	cs  charset
	// arena holds the text of the references, cleaned; refs cut it up.
	arena   []byte
	refs    []ref
	table   table
	scratch []byte
	foreign foreign
	// bases are the xml:base references of a feed, each with what it is
	// relative to; references name one by its index plus one.
	bases   []base
	haveURL bool // the document's base element was seen
	baseRef ref
	canon   ref
	title   []byte
	titled  bool
}

// A ref is a reference before it is resolved.
type ref struct {
	from, to  int
	tag       string
	base      int
	hop       byte
	nofollow  bool
	canonical bool
}

// ofSelf in ref.base stands for the response's URL.
const ofSelf = -1

type base struct {
	ref   ref
	outer int // index plus one of the base around it
}

// maxLinkBytes bounds the URLs of a page, all together, besides the size of its
// body: a base of 8 KiB makes so much of each reference of a few bytes.
const maxLinkBytes = 16 << 20

// maxKept bounds the buffers that a Page keeps, in bytes each.
const maxKept = 1 << 20

func (p *Page) reset(in Input, opt Options) {
	w := p.work
	if cap(w.arena) > maxKept {
		w.arena = nil
	}
	if cap(w.scratch) > maxKept {
		w.scratch = nil
	}
	if cap(w.refs) > maxKept/64 {
		w.refs, w.table = nil, table{}
	}
	links := p.Links
	if cap(links) > maxKept/64 {
		links = nil
	}
	clear(links)
	w.foreign.reset()
	*p = Page{
		Links: links[:0],
		work: work{
			opt: opt.withDefaults(), arena: w.arena[:0], refs: w.refs[:0], table: w.table,
			scratch: w.scratch[:0], foreign: w.foreign, bases: w.bases[:0], title: w.title[:0],
		},
	}
	p.work.table.reset()
}

// add notes the reference v, a raw attribute value in the document's encoding.
// An identical one noted before takes the new one in.
func (p *Page) add(v []byte, hop byte, tag string, nofollow bool) {
	p.note(v, ref{tag: tag, hop: hop, nofollow: nofollow}, true)
}

func (p *Page) note(v []byte, r ref, escapes bool) {
	w := &p.work
	v = trim(v)
	if otherScheme(v) {
		return
	}
	if len(w.refs) >= w.opt.MaxLinks {
		// Only a reference that is new would be one too many, but to know
		// that of all would cost what the bound saves.
		p.Dropped++
		return
	}
	if w.giant(v) {
		p.BadLinks++
		return
	}
	mark := len(w.arena)
	from, to := p.clean(v, escapes)
	if to-from > w.opt.MaxURL {
		w.arena = w.arena[:mark]
		p.BadLinks++
		return
	}
	r.from, r.to = from, to
	// The reference is compared as written: resolving is the costly step.
	text := w.arena[from:to]
	i, found := w.table.find(maphash.Bytes(seed, text)+uint64(r.hop)+uint64(r.base)<<8, func(i int) bool {
		o := &w.refs[i]
		return o.hop == r.hop && o.base == r.base && string(w.arena[o.from:o.to]) == string(text)
	}, len(w.refs))
	if found {
		w.arena = w.arena[:mark]
		o := &w.refs[i]
		o.nofollow = o.nofollow && r.nofollow
		o.canonical = o.canonical || r.canonical
		return
	}
	w.refs = append(w.refs, r)
}

// giant says whether v is far too long for a reference, before anything is
// copied of it: cleaning shortens, by escapes, blanks and a fragment, but not
// by that much.
func (w *work) giant(v []byte) bool { return len(v) > 64*w.opt.MaxURL }

// keep stores a reference that is no link: a base.
func (p *Page) keep(v []byte) ref {
	if v = trim(v); p.work.giant(v) {
		return ref{}
	}
	from, to := p.clean(v, true)
	if to-from > p.work.opt.MaxURL {
		from, to = 0, 0
	}
	return ref{from: from, to: to}
}

// clean appends v to the arena as the URL parser is to see it: in UTF-8,
// character references replaced, without tabs and line ends, without the
// fragment, trimmed, and with a query in the document's encoding (URL, 4.1;
// HTML, 2.4.3).
func (p *Page) clean(v []byte, escapes bool) (from, to int) {
	w := &p.work
	from = len(w.arena)
	n := 0
	for n < len(v) && class[v[n]]&cPlain != 0 {
		n++
	}
	w.arena = append(w.arena, v[:n]...)
	if n == len(v) || v[n] == '#' {
		return from, len(w.arena)
	}
	ascii := true
	w.scratch, ascii = p.text(w.scratch[:0], v[n:], escapes)
	cut := false
	for _, c := range w.scratch {
		if c == '#' {
			cut = true
			break
		}
		if c != '\t' && c != '\n' && c != '\r' {
			w.arena = append(w.arena, c)
		}
	}
	to = len(w.arena)
	if cut && to > from && w.arena[to-1] <= ' ' {
		// A space before the fragment is part of the URL: the number sign
		// keeps the resolver from trimming it.
		w.arena = append(w.arena, '#')
		to++
	}
	for to > from && w.arena[to-1] <= ' ' {
		to--
	}
	for from < to && w.arena[from] <= ' ' {
		from++
	}
	w.arena = w.arena[:to]
	if !ascii && w.cs.legacy {
		if q := bytes.IndexByte(w.arena[from:to], '?'); q >= 0 {
			w.scratch = append(w.scratch[:0], w.arena[from+q:to]...)
			w.arena = w.cs.appendQuery(w.arena[:from+q], w.scratch)
			to = len(w.arena)
		}
	}
	return from, to
}

// text appends v in UTF-8 with its character references replaced.
func (p *Page) text(dst, v []byte, escapes bool) (out []byte, ascii bool) {
	ascii = true
	for _, c := range v {
		if c >= 0x80 {
			ascii = false
			break
		}
	}
	if !ascii && !p.work.cs.utf8 {
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

// finish resolves the references against the base and fills p.Links with as
// many as make no more than room bytes of URLs.
func (p *Page) finish(self weburl.URL, room int) {
	w := &p.work
	if len(w.title) > 0 {
		p.Title = string(w.title)
	}
	p.Base = self
	if w.haveURL && w.baseRef.to > w.baseRef.from {
		if u, err := self.ResolveBytes(w.arena[w.baseRef.from:w.baseRef.to]); err == nil {
			p.Base = u
		}
	}
	var bases []weburl.URL
	if len(w.bases) > 0 {
		bases = p.resolveBases()
	}
	w.table.reset()
	for i := range w.refs {
		r := &w.refs[i]
		u := p.Base
		switch {
		case r.base > 0:
			u = bases[r.base-1]
		case r.base == ofSelf:
			u = self
		}
		if r.to > r.from {
			var err error
			if u, err = u.ResolveBytes(w.arena[r.from:r.to]); err != nil {
				if !errors.Is(err, weburl.ErrScheme) {
					p.BadLinks++
				}
				continue
			}
		}
		if u.IsZero() {
			continue
		}
		if r.canonical && p.Canonical.IsZero() {
			p.Canonical = u
		}
		if p.NoFollow && (r.hop == 'L' || r.hop == 'M') {
			p.Withheld++
			continue
		}
		j, found := w.table.find(maphash.String(seed, u.String())+uint64(r.hop), func(j int) bool {
			return p.Links[j].Hop == r.hop && p.Links[j].URL == u
		}, len(p.Links))
		if found {
			p.Links[j].NoFollow = p.Links[j].NoFollow && r.nofollow
			continue
		}
		if room -= len(u.String()); room < 0 {
			p.Dropped += len(w.refs) - i
			return
		}
		p.Links = append(p.Links, Link{URL: u, Hop: r.hop, Tag: r.tag, NoFollow: r.nofollow})
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

// seed makes collisions unknowable to those who write pages.
var seed = maphash.MakeSeed()

// table is an open-addressing set of indices; its user compares.
type table struct {
	slots []slot
	n     int
}

type slot struct {
	hash  uint32
	index int32 // plus one; 0 is empty
}

func (t *table) reset() { clear(t.slots); t.n = 0 }

// find returns the index stored under h for which same says yes; where there
// is none it stores index.
func (t *table) find(h uint64, same func(int) bool, index int) (int, bool) {
	if 2*t.n >= len(t.slots) {
		t.grow()
	}
	h ^= h >> 32
	mask := uint32(len(t.slots) - 1)
	for i := uint32(h) & mask; ; i = (i + 1) & mask {
		switch s := &t.slots[i]; {
		case s.index == 0:
			*s = slot{uint32(h), int32(index) + 1}
			t.n++
			return index, false
		case s.hash == uint32(h) && same(int(s.index)-1):
			return int(s.index) - 1, true
		}
	}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(256, 2*len(old)))
	mask := uint32(len(t.slots) - 1)
	for _, s := range old {
		if s.index == 0 {
			continue
		}
		i := s.hash & mask
		for t.slots[i].index != 0 {
			i = (i + 1) & mask
		}
		t.slots[i] = s
	}
}
