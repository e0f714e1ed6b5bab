package archive

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

const (
	hashBits = 13
	minMatch = 5
	maxMatch = 258
	maxDist  = 32 << 10
	// segment is the input that becomes one block: a place in it fits into 16
	// bits.
	segment = 1<<16 - 1
)

// A deflater compresses (RFC 1951) as fast as it can while it stays near
// level 1 of the libraries in size. Its state is 32 KB for a page, so it stays
// in the nearest cache; it remembers nothing between calls.
type deflater struct {
	table [1 << hashBits]uint16 // hash of five bytes -> last place
	seqs  [segment/minMatch + 1]sequence
	lit   [litCount]uint32
	dist  [distCount]uint32
	codes codes
}

// A sequence is some literals and then a match. In the last one of a segment
// length is 0.
type sequence struct{ lits, length, dist uint16 }

// deflate appends src to w in one or more blocks. At level 0 and for what does
// not shrink the blocks are stored ones.
func (d *deflater) deflate(w *bitWriter, src []byte, final bool) {
	for {
		part := src[:min(len(src), segment)]
		src = src[len(part):]
		last := uint64(0)
		if final && len(src) == 0 {
			last = 1
		}
		seqs := d.find(part)
		d.codes.build(&d.lit, &d.dist)
		d.emit(w, &d.codes, part, seqs, last)
		if len(src) == 0 {
			return
		}
	}
}

// lines is deflate for a record's header and other lines of its kind. A few of
// them get codes that are known before: to find the best ones would take as
// long as all the rest.
func (d *deflater) lines(w *bitWriter, src []byte, final bool) {
	if len(src) > 2<<10 {
		d.deflate(w, src, final)
		return
	}
	last := uint64(0)
	if final {
		last = 1
	}
	d.emit(w, lineCodes(), src, d.find(src), last)
}

// lineCodes suit the records that a crawl writes beside its pages.
var lineCodes = sync.OnceValue(func() *codes {
	d, c := new(deflater), new(codes)
	var lit [litCount]uint32
	var dist [distCount]uint32
	for _, s := range typical {
		d.find([]byte(s))
		for i, n := range d.lit {
			lit[i] += 32 * n
		}
		for i, n := range d.dist {
			dist[i] += 32 * n
		}
	}
	for i := range lit { // whatever comes has a code
		lit[i]++
	}
	for i := range dist {
		dist[i]++
	}
	c.build(&lit, &dist)
	return c
})

// typical are such records.
var typical = [...]string{
	"WARC/1.1\r\nWARC-Type: request\r\nWARC-Record-ID: <urn:uuid:3c2f8d10-9b5e-4a67-8f21-6e0d94b7a15c>\r\nWARC-Date: 2024-05-17T09:42:38.615Z\r\nWARC-Target-URI: https://www.example.org/articles/2024/index.html?page=3\r\nWARC-IP-Address: 198.51.100.47\r\nWARC-Concurrent-To: <urn:uuid:e81b05d7-2a3c-4f96-b7d4-5c089fa162e3>\r\nWARC-Block-Digest: sha1:K5QJ2WXH7TBOZ4MVRC3NYDPGA6ULSEIF\r\nContent-Type: application/http;msgtype=request\r\nContent-Length: 318\r\n\r\nGET /articles/2024/index.html?page=3 HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: orbweaver/1.0 (+https://crawler.example.net/about)\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Encoding: gzip, br, zstd\r\nConnection: keep-alive\r\nReferer: https://news.example.com/world/\r\n\r\n\r\n\r\n",
	"WARC/1.1\r\nWARC-Type: metadata\r\nWARC-Record-ID: <urn:uuid:97d4a0c5-61fb-4e38-a2b9-f07c35e8164d>\r\nWARC-Date: 2023-11-28T20:16:05.372Z\r\nWARC-Target-URI: http://shop.example.net/items/view/84619\r\nWARC-Concurrent-To: <urn:uuid:5f6e2b94-d10a-4c73-98e1-b3a7cd8204f6>\r\nWARC-Block-Digest: sha1:ZH4DXVQ3O7SMEJYBTK6UCF2PIGWRN5LA\r\nContent-Type: application/warc-fields\r\nContent-Length: 127\r\n\r\nfetchTimeMs: 263\r\nvia: http://shop.example.net/items/list/5071\r\nhopsFromSeed: LLRL\r\nsourceTag: example.net\r\ncharset: utf-8\r\n\r\n\r\n",
	"WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:b29c74e1-05d8-4f3a-8c6b-17ea93d05f42>\r\nWARC-Date: 2025-01-09T14:53:27.840Z\r\nWARC-Target-URI: https://blog.example.com/posts/how-we-build\r\nWARC-IP-Address: 203.0.113.169\r\nWARC-Payload-Digest: sha1:T7YKMWC4QZ5HBVXN2ADGROUJ3LPS6EIF\r\nWARC-Block-Digest: sha1:GX2OMA6WQCFTK7DLZRN4IVEHS5BUPY3J\r\nContent-Type: application/http;msgtype=response\r\nContent-Length: 7284\r\n\r\nHTTP/1.1 200 OK\r\nDate: Thu, 09 Jan 2025 14:53:27 GMT\r\nServer: nginx/1.24.0\r\nContent-Type: text/html; charset=UTF-8\r\nContent-Length: 6893\r\nConnection: keep-alive\r\nLast-Modified: Mon, 30 Dec 2024 08:11:46 GMT\r\nETag: \"6772572-5b3f\"\r\nVary: Accept-Encoding\r\nContent-Encoding: gzip\r\nCache-Control: max-age=3600\r\n\r\n",
}

func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// slot is a place in the table for the first five bytes of v.
func slot(v uint64, shift uint) uint64 {
	return (v << (64 - 8*minMatch)) * 889523592379 >> (shift & 63) & (1<<hashBits - 1)
}

// find splits src into sequences and counts their symbols.
func (d *deflater) find(src []byte) []sequence {
	used := min(max(bits.Len(uint(len(src))), 8), hashBits)
	shift := uint(64 - used)
	clear(d.table[:1<<used])
	clear(d.lit[:])
	clear(d.dist[:])
	d.lit[endBlock] = 1
	n, next := 0, 0
	for s, limit := 1, len(src)-16-8; s < limit; {
		v := load(src, s)
		p := &d.table[slot(v, shift)]
		from := int(*p)
		*p = uint16(s)
		x := load(src, from) ^ v
		if x<<(64-8*minMatch) != 0 || s-from > maxDist {
			s += 1 + (s-next)>>5
			continue
		}
		length := 0
		if x == 0 {
			x, length = load(src, s+8)^load(src, from+8), 8
		}
		length += bits.TrailingZeros64(x) >> 3
		if x == 0 {
			for end := min(len(src)-8, s+maxMatch-8); ; length += 8 {
				if s+length > end {
					for length < maxMatch && s+length < len(src) && src[s+length] == src[from+length] {
						length++
					}
					break
				}
				if x := load(src, s+length) ^ load(src, from+length); x != 0 {
					length += bits.TrailingZeros64(x) >> 3
					break
				}
			}
		}
		end := s + length
		for s > next && from > 0 && length < maxMatch && src[s-1] == src[from-1] {
			s--
			from--
			length++
		}
		for _, b := range src[next:s] {
			d.lit[b]++
		}
		dist := s - from - 1
		d.lit[lengthSymbol[length]&511]++
		d.dist[distSymbol(dist)]++
		d.seqs[n] = sequence{uint16(s - next), uint16(length), uint16(dist)}
		n++
		s, next = end, end
		if s < limit {
			d.table[slot(load(src, s-2), shift)] = uint16(s - 2)
		}
	}
	for _, b := range src[next:] {
		d.lit[b]++
	}
	d.seqs[n] = sequence{lits: uint16(len(src) - next)}
	return d.seqs[:n+1]
}

// distSymbol is the code of a distance less one.
func distSymbol(dist int) int {
	if dist < 4 {
		return dist
	}
	n := bits.Len(uint(dist)) - 1
	return 2*n + dist>>(n-1)&1
}

// lengthSymbol has for each match length its symbol in the lowest nine bits,
// then how many bits follow it (four), and those bits.
var lengthSymbol = func() (t [maxMatch + 1]uint32) {
	symbol, length := uint32(257), 3
	for i := range uint32(28) {
		extra := uint32(0)
		if i >= 8 {
			extra = i/4 - 1
		}
		for k := range uint32(1) << extra {
			t[length] = symbol | extra<<9 | k<<13
			length++
		}
		symbol++
	}
	t[maxMatch] = 285
	return t
}()

// emit writes one block, or a stored one where that is no longer.
func (d *deflater) emit(w *bitWriter, c *codes, src []byte, seqs []sequence, final uint64) {
	size := c.cost(&d.lit, &d.dist)
	for i, f := range d.dist {
		if i >= 4 {
			size += int(f) * (i/2 - 1)
		}
	}
	for i := 265; i < 285; i++ {
		size += int(d.lit[i]) * ((i - 261) / 4)
	}
	if size/8 >= len(src)+5 {
		stored(w, src, final)
		return
	}
	c.begin(w, final)
	at := len(w.b)
	need := at + size/8 + 16
	if cap(w.b) < need {
		w.b = append(w.b, make([]byte, need-at)...)
	}
	out := w.b[:need]
	acc, n := w.bits, w.n
	for i := range seqs {
		q := &seqs[i]
		if q.length == 0 {
			for _, b := range src {
				k := c.lit[b]
				acc |= uint64(k>>8) << (n & 63)
				n += uint(k & 0xff)
				binary.LittleEndian.PutUint64(out[at:], acc)
				at += int(n >> 3)
				acc >>= n & 56
				n &= 7
			}
			break
		}
		// Four at a time, of which some may be masked out: a match follows, so
		// there are four. A branch for each would be guessed wrong too often.
		for left := int(q.lits); ; left -= 4 {
			m := &keep[min(left, 4)]
			b := src[:4]
			k := c.lit[b[0]] & m[0]
			acc |= uint64(k>>8) << (n & 63)
			n += uint(k & 0xff)
			k = c.lit[b[1]] & m[1]
			acc |= uint64(k>>8) << (n & 63)
			n += uint(k & 0xff)
			k = c.lit[b[2]] & m[2]
			acc |= uint64(k>>8) << (n & 63)
			n += uint(k & 0xff)
			k = c.lit[b[3]] & m[3]
			acc |= uint64(k>>8) << (n & 63)
			n += uint(k & 0xff)
			binary.LittleEndian.PutUint64(out[at:], acc)
			at += int(n >> 3)
			acc >>= n & 56
			n &= 7
			if left <= 4 {
				src = src[left:]
				break
			}
			src = src[4:]
		}
		src = src[q.length:]
		l := lengthSymbol[q.length]
		k := c.lit[l&511]
		acc |= uint64(k>>8) << (n & 63)
		n += uint(k & 0xff)
		acc |= uint64(l>>13) << (n & 63)
		n += uint(l >> 9 & 15)
		dist := int(q.dist)
		symbol := distSymbol(dist)
		k = c.dist[symbol]
		acc |= uint64(k>>8) << (n & 63)
		n += uint(k & 0xff)
		if symbol >= 4 {
			extra := uint(symbol/2 - 1)
			acc |= uint64(dist) & (1<<(extra&63) - 1) << (n & 63)
			n += extra
		}
		binary.LittleEndian.PutUint64(out[at:], acc)
		at += int(n >> 3)
		acc >>= n & 56
		n &= 7
	}
	w.b, w.bits, w.n = out[:at], acc, n
	k := c.lit[endBlock]
	w.put(uint64(k>>8), uint(k&0xff))
}

// keep masks the codes of four literals so that the first few are left.
var keep = [5][4]code{
	{0, 0, 0, 0}, {^code(0), 0, 0, 0}, {^code(0), ^code(0), 0, 0}, {^code(0), ^code(0), ^code(0), 0},
	{^code(0), ^code(0), ^code(0), ^code(0)},
}

// stored appends src in stored blocks, one at least.
func stored(w *bitWriter, src []byte, final uint64) {
	for {
		p := src[:min(len(src), maxStored)]
		src = src[len(p):]
		last := final
		if len(src) > 0 {
			last = 0
		}
		w.put(last, 3)
		w.align()
		w.b = binary.LittleEndian.AppendUint16(w.b, uint16(len(p)))
		w.b = binary.LittleEndian.AppendUint16(w.b, ^uint16(len(p)))
		w.b = append(w.b, p...)
		if len(src) == 0 {
			return
		}
	}
}
