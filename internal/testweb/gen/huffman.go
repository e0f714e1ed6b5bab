package gen

import "math/bits"

// A code is a Huffman code in the order in which it is written: its first bit is the lowest.
type code struct {
	code uint16
	bits uint8
}

// A huffman has the codes of a deflate block (RFC 1951, 3.2).
type huffman struct {
	header  []code // of the block, without the bit that marks the last block
	literal [286]code
	dist    [30]code
}

// canonical returns the codes for these lengths (RFC 1951, 3.2.2).
func canonical(lens []uint8) []code {
	var count, next [17]uint16
	for _, l := range lens {
		if l > 0 {
			count[l+1]++
		}
	}
	for l := 2; l < len(next); l++ {
		next[l] = (next[l-1] + count[l]) << 1
	}
	codes := make([]code, len(lens))
	for i, l := range lens {
		if l > 0 {
			codes[i] = code{bits.Reverse16(next[l]) >> (16 - l), l}
			next[l]++
		}
	}
	return codes
}

// length returns the code for a match of length n, with its extra bits.
func (h *huffman) length(n int) (code uint64, size uint8) {
	symbol, extra := lengthSymbol(n)
	c := h.literal[symbol]
	return uint64(c.code) | uint64((n-3)&(1<<extra-1))<<c.bits, c.bits + extra
}

// distance returns the code for a match at distance d, with its extra bits.
func (h *huffman) distance(d int) (code uint64, size uint8) {
	symbol, extra := distanceSymbol(d)
	c := h.dist[symbol]
	return uint64(c.code) | uint64((d-1)&(1<<extra-1))<<c.bits, c.bits + extra
}
