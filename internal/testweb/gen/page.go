package gen

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// A layout describes which blocks a page has.
type layout struct {
	topic, lang int
	blocks      [numClasses]int
	variants    uint64 // random
	size        int    // of the page in bytes
}

// parts is the number of parts that each page has for itself. The blocks of text are between the two.
const parts = 2

// compose writes a page's own parts into b and returns its layout. version is 0 for a page that does not change.
// Versions of a page differ in title and text, but have the same links.
func (w *Web) compose(b *builder, host, page int64, version uint64) (l layout) {
	k := w.kit
	host = w.source(host)
	page = w.original(host, page)
	l.topic, l.lang = w.topicAndLanguage(host)
	b.refs = w.Links(host, page, b.refs[:0])
	words := k.langs[l.lang]
	if l.lang == 0 {
		words = k.topics[l.topic].words
	}
	r := stream(w.hash(saltBody, host, page))
	x := r.next()
	b.ids = append(b.ids[:0], words+id(x>>8%numWords), words+id(x>>16%numWords))
	b.number(k, uint64(page))
	b.ids = append(b.ids, k.space, k.dash, k.space)
	b.host(w, host, &k.prefix)
	b.add(k.example)
	if version != 0 {
		b.add(k.space)
		b.number(k, version)
	}
	p := paths{w: w, topic: &k.topics[l.topic], host: host, page: page}
	cut := [parts + 1]int{0, len(b.refs) * 2 / 5, len(b.refs)}
	b.text = b.text[:0]
	for part := range parts {
		b.ids = append(b.ids, k.openPart[part]...)
		list := b.refs[cut[part]:cut[part+1]]
		for i := range list {
			if i == 0 {
				b.ids = append(b.ids, k.openList[part]...)
			} else {
				b.add(linkID)
			}
			b.link(&p, &list[i])
			x := r.next()
			if x&1 != 0 {
				b.add(words + id(x>>8%numWords))
			}
			b.ids = append(b.ids, words+id(x>>16%numWords), words+numWords+id(x>>24%numWords))
		}
		if len(list) > 0 {
			b.ids = append(b.ids, k.closeList[part]...)
		}
		b.ids = append(b.ids, k.closePart[part]...)
		from := 0
		if part > 0 {
			from = b.ends[part-1]
		}
		b.ends[part] = len(b.ids)
		b.text = k.appendText(b.text, b.ids[from:])
		b.textEnds[part] = len(b.text)
	}

	least := len(b.text) + classBytes[top]
	want := int(uint64(w.spec.PageBytes) * uint64(w.lengths[x>>52]) >> 16)
	rest := max(0, want-least+classBytes[small]/2)
	l.size = least
	for c := large; c < numClasses; c++ {
		l.blocks[c] = rest / classBytes[c]
		rest %= classBytes[c]
		l.size += l.blocks[c] * classBytes[c]
	}
	l.variants = r.next() ^ version
	return l
}

// paths is what the links of a page have in common.
type paths struct {
	w          *Web
	host, page int64 // the page with the links
	topic      *topicKit
	name       [16]id // of the host, once a link has needed it
	named      int    // length of name
}

// link adds the URL of a link, and the end of its tag.
func (b *builder) link(p *paths, to *Ref) {
	w, k := p.w, p.w.kit
	html := false
	if to.form == absolute {
		prefix := &k.httpPrefix
		if w.secure(to.Host) {
			b.add(k.https)
			prefix = &k.prefix
		}
		if to.Host != p.host {
			b.host(w, to.Host, prefix)
		} else if p.named > 0 {
			b.ids = append(b.ids, p.name[:p.named]...)
		} else {
			from := len(b.ids)
			b.host(w, to.Host, prefix)
			p.named = copy(p.name[:], b.ids[from:])
		}
		if to.Kind == ToPage && to.Page == 0 {
			b.add(k.hostEnd)
			return
		}
		b.add(k.example)
	}
	switch {
	case to.form != relative || p.page == 0 && to.Page == 0:
		b.add(k.slash)
	case p.page != 0:
		b.add(k.up)
	}
	switch to.Kind {
	case ToPage:
		switch {
		case to.Page == 0:
		case to.Host == p.host:
			html = b.pathIn(w, p.topic, to.Host, to.Page)
		default:
			from := w.source(to.Host)
			html = b.pathIn(w, w.topic(from), from, to.Page)
		}
	case ToRedirect:
		b.redirect(k, to.Host, to.Page, int64(to.steps))
	case ToCircle:
		b.add(k.loop)
		b.number(k, uint64(to.number))
	case ToNothing:
		b.add(k.missing)
		b.number(k, uint64(to.number))
		html = true
	case ToTrap:
		b.entrance(k, to.number)
	}
	if html {
		b.add(k.pathEnd)
	} else {
		b.add(k.quote)
	}
}

// top returns the head of a page.
func (w *Web) top(l *layout) *block {
	return w.block(top, l.topic, l.lang, int(l.variants%uint64(variants[top])))
}

// body appends the blocks of a page's text to list.
func (w *Web) body(l *layout, list []*block) []*block {
	for c := large; c < numClasses; c++ {
		for i := range l.blocks[c] {
			variant := int(mix(l.variants+uint64(c)<<8+uint64(i)) % uint64(variants[c]))
			list = append(list, w.block(c, l.topic, l.lang, variant))
		}
	}
	return list
}

// appendPage appends a page without compression.
func (w *Web) appendPage(dst []byte, b *builder, l *layout) []byte {
	dst = append(dst, w.top(l).text...)
	dst = append(dst, b.text[:b.textEnds[0]]...)
	var buf [32]*block
	for _, bl := range w.body(l, buf[:0]) {
		dst = append(dst, bl.text...)
	}
	return append(dst, b.text[b.textEnds[0]:]...)
}

const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"

// appendGzip appends a page as a gzip member (RFC 1952), made of the compressed blocks and the pieces' codes.
func (w *Web) appendGzip(dst []byte, b *builder, l *layout) []byte {
	dst = append(dst, gzipHeader...)
	first := w.top(l)
	dst = append(dst, first.flate...)
	e := encoder{k: w.kit, at: len(first.text), last: -1 << 30}
	dst = e.encode(dst, b.ids[:b.ends[0]], false)
	crc := crc32.Update(first.crc, crc32.IEEETable, b.text[:b.textEnds[0]])
	var buf [32]*block
	for _, bl := range w.body(l, buf[:0]) {
		dst = append(dst, bl.flate...)
		crc = advanceCRC(crc, len(bl.text)) ^ bl.crc
		e.at += len(bl.text)
	}
	dst = e.encode(dst, b.ids[b.ends[0]:], true)
	crc = crc32.Update(crc, crc32.IEEETable, b.text[b.textEnds[0]:])
	dst = binary.LittleEndian.AppendUint32(dst, crc)
	return binary.LittleEndian.AppendUint32(dst, uint32(e.at))
}

// An encoder writes pieces as deflate blocks (RFC 1951).
type encoder struct {
	k    *kit
	at   int // offset in the page
	last int // offset of the last linkMarkup
}

// encode appends a deflate block with the pieces. It ends at a byte boundary.
func (e *encoder) encode(dst []byte, ids []id, final bool) []byte {
	k := e.k
	n := len(dst)
	dst = grow(dst, len(ids)*24+maxHeader)
	at := e.at
	var acc uint64
	var have uint
	put := func(c uint64, bits uint8) {
		acc |= c << have
		have += uint(bits)
		binary.LittleEndian.PutUint64(dst[n:], acc)
		n += int(have >> 3)
		acc >>= have &^ 7
		have &= 7
	}
	if final {
		put(1, 1)
	} else {
		put(0, 1)
	}
	for _, c := range k.code.header {
		put(uint64(c.code), c.bits)
	}
	lenCode, lenBits := k.code.length(len(linkMarkup))
	pieces := k.pieces
	for _, i := range ids {
		if i == linkID {
			if d := at - e.last; d <= 32768 {
				put(lenCode, lenBits)
				put(k.code.distance(d))
			} else {
				for _, i := range k.linkPieces {
					p := &pieces[i]
					put(p.code[0], p.bits[0])
					put(p.code[1], p.bits[1])
				}
			}
			e.last = at
			at += len(linkMarkup)
			continue
		}
		// This does the same as put. It is written out, because most of the time is spent here.
		p := &pieces[i]
		acc |= p.code[0] << (have & 63)
		have += uint(p.bits[0])
		binary.LittleEndian.PutUint64(dst[n:], acc)
		n += int(have >> 3)
		acc >>= have & 0x38
		have &= 7
		if p.bits[1] != 0 {
			put(p.code[1], p.bits[1])
		}
		at += int(p.bytes)
	}
	end := k.code.literal[256]
	put(uint64(end.code), end.bits)
	if !final { // an empty stored block ends at a byte boundary
		put(0, 3)
	}
	if have > 0 {
		n++
	}
	e.at = at
	dst = dst[:n]
	if !final {
		dst = append(dst, 0, 0, 0xff, 0xff)
	}
	return dst
}

// lengthQuantiles returns 4096 quantiles of a log-normal distribution with mean 1, in units of 1/65536.
func lengthQuantiles() []uint32 {
	const n, sigma = 4096, 0.45
	q := make([]float64, n)
	sum := 0.0
	for i := range q {
		z := math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/n-1)
		q[i] = math.Exp(sigma * z)
		sum += q[i]
	}
	list := make([]uint32, n)
	for i := range q {
		list[i] = uint32(math.Round(q[i]/sum*n*4096)) * 16 // rounded, so that it is the same on all machines
	}
	return list
}
