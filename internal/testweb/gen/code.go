package gen

import (
	"cmp"
	"math/bits"
	"slices"
)

// codeFor returns a code for symbols with these frequencies. Literals of frequency 0 get no code, but all distances do.
// No literal takes more than most bits.
func codeFor(literals [286]uint32, distances [30]uint32, most uint8) *huffman {
	literals[256]++ // the end of each block
	for i := range distances {
		distances[i]++
	}
	lens := append(limited(literals[:], most), limited(distances[:], 15)...)
	h := &huffman{header: []code{{2, 2}}}
	copy(h.literal[:], canonical(lens[:286]))
	copy(h.dist[:], canonical(lens[286:]))
	h.describe(lens)
	return h
}

// limited returns the lengths of a Huffman code of at most `most` bits.
func limited(freq []uint32, most uint8) []uint8 {
	freq = slices.Clone(freq)
	for {
		lens := huffmanLengths(freq)
		if slices.Max(lens) <= most {
			return lens
		}
		for i, f := range freq { // flatten the frequencies until it fits
			if f > 0 {
				freq[i] = f/2 + 1
			}
		}
	}
}

// huffmanLengths returns the lengths of a Huffman code; 0 for frequency 0.
func huffmanLengths(freq []uint32) []uint8 {
	type node struct {
		weight   uint64
		symbol   int // -1: an inner node
		children [2]*node
	}
	var heap []*node
	for i, f := range freq {
		if f > 0 {
			heap = append(heap, &node{weight: uint64(f), symbol: i})
		}
	}
	lens := make([]uint8, len(freq))
	if len(heap) == 1 {
		lens[heap[0].symbol] = 1
		return lens
	}
	for len(heap) > 1 {
		slices.SortStableFunc(heap, func(a, b *node) int { return cmp.Compare(a.weight, b.weight) })
		both := &node{weight: heap[0].weight + heap[1].weight, symbol: -1, children: [2]*node{heap[0], heap[1]}}
		heap = append(heap[2:], both)
	}
	var walk func(n *node, depth uint8)
	walk = func(n *node, depth uint8) {
		if n.symbol >= 0 {
			lens[n.symbol] = depth
			return
		}
		walk(n.children[0], depth+1)
		walk(n.children[1], depth+1)
	}
	for _, n := range heap {
		walk(n, 0)
	}
	return lens
}

// clOrder is the order of the lengths of the code length code in a header (RFC 1951, 3.2.7).
var clOrder = [19]int{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// describe appends the code lengths to the header (RFC 1951, 3.2.7).
func (h *huffman) describe(lens []uint8) {
	type run struct {
		symbol, extra, bits uint8
	}
	var runs []run
	for i := 0; i < len(lens); {
		n := 1
		for i+n < len(lens) && lens[i+n] == lens[i] {
			n++
		}
		i += n
		l := lens[i-1]
		if l != 0 {
			runs = append(runs, run{symbol: l})
			n--
		}
		for n > 0 {
			switch {
			case l == 0 && n >= 11:
				k := min(n, 138)
				runs = append(runs, run{18, uint8(k - 11), 7})
				n -= k
			case l == 0 && n >= 3:
				runs = append(runs, run{17, uint8(n - 3), 3})
				n = 0
			case l != 0 && n >= 3:
				k := min(n, 6)
				runs = append(runs, run{16, uint8(k - 3), 2})
				n -= k
			default:
				runs = append(runs, run{symbol: l})
				n--
			}
		}
	}
	var freq [19]uint32
	for _, r := range runs {
		freq[r.symbol]++
	}
	clLens := limited(freq[:], 7)
	clCodes := canonical(clLens)
	hclen := 19
	for hclen > 4 && clLens[clOrder[hclen-1]] == 0 {
		hclen--
	}
	h.header = append(h.header, code{286 - 257, 5}, code{30 - 1, 5}, code{uint16(hclen - 4), 4})
	for _, s := range clOrder[:hclen] {
		h.header = append(h.header, code{uint16(clLens[s]), 3})
	}
	for _, r := range runs {
		h.header = append(h.header, clCodes[r.symbol])
		if r.bits > 0 {
			h.header = append(h.header, code{uint16(r.extra), r.bits})
		}
	}
}

// tune makes a Huffman code for the pages of this web and encodes all pieces with it.
func (w *Web) tune() {
	k := w.kit
	var literals [286]uint32
	var distances [30]uint32
	for _, p := range k.pieces {
		for i := range int(p.bytes) {
			literals[byte(p.text[i/8]>>(i%8*8))] = 1
		}
	}
	symbol, _ := lengthSymbol(len(linkMarkup))
	r := stream(w.hash(saltTune, 0, 0))
	var b builder
	for range 300 {
		host := int64(below(r.next(), uint64(w.spec.Hosts)))
		w.compose(&b, host, int64(below(r.next(), uint64(w.Pages(host)))), 0)
		at, last := 0, 0
		for _, i := range b.ids {
			p := &k.pieces[i]
			for i := range int(p.bytes) {
				literals[byte(p.text[i/8]>>(i%8*8))]++
			}
			at += int(p.bytes)
			if i == linkID {
				literals[symbol]++
				s, _ := distanceSymbol(max(at-last, 1))
				distances[s]++
				last = at
				at += len(linkMarkup)
			}
		}
	}
	// If a byte takes at most 9 bits, the 12 bytes of the longest piece fit.
	for most, fit := uint8(12), false; !fit; most-- {
		k.code = codeFor(literals, distances, most)
		fit = true
		for i := range k.pieces {
			fit = k.pieces[i].encode(k.code) && fit
		}
		if most < 9 {
			panic("gen: a piece is too long for its code") // a bug in this package
		}
	}
}

// maxHeader is an upper bound for the bytes that describe a code: 316 lengths of at most 7 bits, and as many bits for
// repeats.
const maxHeader = 1024

// lengthSymbol returns the symbol for a match of length n, and the number of its extra bits (RFC 1951, 3.2.5).
func lengthSymbol(n int) (symbol int, extra uint8) {
	switch {
	case n < 11:
		return 254 + n, 0
	case n < 258:
		extra = uint8(bits.Len(uint(n-3)) - 3)
		return 261 + 4*int(extra) + (n-3)>>extra&3, extra
	}
	return 285, 0
}

// distanceSymbol returns the symbol for a match at distance d, and the number of its extra bits (RFC 1951, 3.2.5).
func distanceSymbol(d int) (symbol int, extra uint8) {
	d--
	if d < 4 {
		return d, 0
	}
	extra = uint8(bits.Len(uint(d)) - 2)
	return 2*int(extra) + 2 + d>>extra&1, extra
}
