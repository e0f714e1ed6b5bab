package archive

import (
	"encoding/binary"
	"math/bits"
)

const (
	litCount  = 286 // literals, end of block, lengths
	distCount = 30
	endBlock  = 256
	// maxCode is shorter than RFC 1951 allows (15): four literals fit into the
	// bit buffer at once.
	maxCode = 14
)

// A bitWriter appends bits, the lowest first, to b. Fewer than eight are
// pending between calls.
type bitWriter struct {
	b    []byte
	bits uint64
	n    uint
}

// put appends the lowest n bits of v, the others being zero; n is 48 at most.
func (w *bitWriter) put(v uint64, n uint) {
	w.bits |= v << (w.n & 63)
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.b = append(w.b, byte(w.bits))
		w.bits >>= 8
	}
}

// align fills the last byte up with zeros.
func (w *bitWriter) align() {
	if w.n > 0 {
		w.b = append(w.b, byte(w.bits))
	}
	w.bits, w.n = 0, 0
}

// A code is a symbol's bits, as they are written, above its length in the
// lowest byte. Zero: the symbol has none.
type code uint32

// codes are the two alphabets of a block with dynamic codes (RFC 1951, 3.2.7).
type codes struct {
	lit  [litCount]code
	dist [distCount]code
	head bitWriter // the block's header behind BFINAL
}

// cost is the bits that a block takes, without those that follow its codes.
func (c *codes) cost(lit *[litCount]uint32, dist *[distCount]uint32) int {
	n := 3 + 8*len(c.head.b) + int(c.head.n)
	for i, f := range lit {
		n += int(f) * int(c.lit[i]&0xff)
	}
	for i, f := range dist {
		n += int(f) * int(c.dist[i]&0xff)
	}
	return n
}

// build makes the codes that suit the frequencies, which it may raise where
// the format wants a code.
func (c *codes) build(lit *[litCount]uint32, dist *[distCount]uint32) {
	var length [litCount + distCount]uint8
	if huffman(length[:litCount], lit[:], maxCode) < 2 {
		lit[0], lit[endBlock] = max(lit[0], 1), max(lit[endBlock], 1)
		huffman(length[:litCount], lit[:], maxCode)
	}
	if huffman(length[litCount:], dist[:], maxCode) == 0 {
		length[litCount] = 1 // a code that nothing uses
	}
	assign(c.lit[:], length[:litCount])
	assign(c.dist[:], length[litCount:])
	c.header(length[:litCount], length[litCount:])
}

// huffman fills in the lengths of the best code for freq that needs no more
// than limit bits a symbol, and returns the number of symbols that occur. The
// lengths come from Moffat and Katajainen, In-Place Calculation of
// Minimum-Redundancy Codes (1995); what is too long is then shortened at the
// cost of others, which is not quite the best.
func huffman(length []uint8, freq []uint32, limit int) int {
	var space [2][litCount]uint32
	a := space[0][:0]
	var all uint32
	for i, f := range freq {
		length[i] = 0
		if f > 0 {
			a = append(a, f<<9|uint32(i)) // a block has less than 2^17 symbols
			all |= f
		}
	}
	n := len(a)
	switch n {
	case 0:
		return 0
	case 1:
		length[a[0]&511] = 1
		return 1
	}
	sorted := radix(a, space[1][:n], all)
	w := a // the other array
	if &sorted[0] == &a[0] {
		w = space[1][:n]
	}
	for i, k := range sorted {
		w[i] = k >> 9
	}
	var count [32]int
	depths(w, &count)
	for i := limit + 1; i < len(count); i++ {
		count[limit] += count[i]
	}
	total := 0
	for i := 1; i <= limit; i++ {
		total += count[i] << (limit - i)
	}
	for ; total > 1<<limit; total-- {
		count[limit]--
		for i := limit - 1; i > 0; i-- {
			if count[i] > 0 {
				count[i]--
				count[i+1] += 2
				break
			}
		}
	}
	i := 0
	for l := limit; l > 0; l-- {
		for range count[l] {
			length[sorted[i]&511] = uint8(l)
			i++
		}
	}
	return n
}

// radix sorts keys by what is above their lowest nine bits; all has every bit
// that occurs there. It returns one of the two slices.
func radix(keys, tmp []uint32, all uint32) []uint32 {
	for shift := 9; all > 0; shift, all = shift+8, all>>8 {
		var at [256]uint32
		for _, k := range keys {
			at[uint8(k>>shift)]++
		}
		sum := uint32(0)
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for _, k := range keys {
			p := &at[uint8(k>>shift)]
			tmp[*p] = k
			*p++
		}
		keys, tmp = tmp, keys
	}
	return keys
}

// depths counts the leaves of each depth in the Huffman tree of the weights a,
// two at least and in ascending order. It overwrites them.
func depths(a []uint32, count *[32]int) {
	n := len(a)
	a[0] += a[1]
	root, leaf := 0, 2
	for next := 1; next < n-1; next++ {
		if leaf >= n || a[root] < a[leaf] {
			a[next] = a[root]
			a[root] = uint32(next)
			root++
		} else {
			a[next] = a[leaf]
			leaf++
		}
		if leaf >= n || root < next && a[root] < a[leaf] {
			a[next] += a[root]
			a[root] = uint32(next)
			root++
		} else {
			a[next] += a[leaf]
			leaf++
		}
	}
	a[n-2] = 0
	for i := n - 3; i >= 0; i-- {
		a[i] = a[a[i]] + 1
	}
	free, root := 1, n-2
	for depth := uint32(0); free > 0; depth++ {
		used := 0
		for root >= 0 && a[root] == depth {
			used++
			root--
		}
		count[min(depth, 31)] += free - used
		free = 2 * used
	}
}

// assign gives each symbol its canonical code (RFC 1951, 3.2.2).
func assign(dst []code, length []uint8) {
	var next [maxCode + 2]uint16
	for _, l := range length {
		next[l+1]++
	}
	next[1] = 0
	for i := 2; i < len(next); i++ {
		next[i] += next[i-1]
		next[i] <<= 1
	}
	for i, l := range length {
		if l == 0 {
			dst[i] = 0
			continue
		}
		dst[i] = code(bits.Reverse16(next[l])>>(16-l))<<8 | code(l)
		next[l]++
	}
}

// lengthOrder is the order in which a block's header has the lengths of the
// codes for code lengths.
var lengthOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// header writes the block's header without BFINAL into c.head.
func (c *codes) header(lit, dist []uint8) {
	for len(lit) > 257 && lit[len(lit)-1] == 0 {
		lit = lit[:len(lit)-1]
	}
	for len(dist) > 1 && dist[len(dist)-1] == 0 {
		dist = dist[:len(dist)-1]
	}
	var all [litCount + distCount]uint8
	lens := all[:copy(all[:], lit)+copy(all[len(lit):], dist)]
	// Runs: the symbol in the lowest five bits, what follows it above.
	var runs [litCount + distCount]uint16
	var freq [19]uint32
	n := 0
	emit := func(symbol uint8, extra int) {
		runs[n] = uint16(extra)<<5 | uint16(symbol)
		freq[symbol]++
		n++
	}
	for i := 0; i < len(lens); {
		l, k := lens[i], 1
		for i+k < len(lens) && lens[i+k] == l {
			k++
		}
		i += k
		if l > 0 {
			emit(l, 0)
			for k--; k >= 3; {
				r := min(k, 6)
				emit(16, r-3)
				k -= r
			}
		} else {
			for k >= 3 {
				r := min(k, 138)
				if r <= 10 {
					emit(17, r-3)
				} else {
					emit(18, r-11)
				}
				k -= r
			}
		}
		for ; k > 0; k-- {
			emit(l, 0)
		}
	}
	var length [19]uint8
	if huffman(length[:], freq[:], 7) < 2 {
		freq[0], freq[1] = max(freq[0], 1), max(freq[1], 1)
		huffman(length[:], freq[:], 7)
	}
	var cc [19]code
	assign(cc[:], length[:])
	sent := len(lengthOrder)
	for sent > 4 && length[lengthOrder[sent-1]] == 0 {
		sent--
	}
	w := &c.head
	w.b, w.bits, w.n = w.b[:0], 0, 0
	w.put(2|uint64(len(lit)-257)<<2|uint64(len(dist)-1)<<7|uint64(sent-4)<<12, 2+5+5+4)
	for _, s := range lengthOrder[:sent] {
		w.put(uint64(length[s]), 3)
	}
	for _, r := range runs[:n] {
		k := cc[r&31]
		w.put(uint64(k>>8), uint(k&0xff))
		switch r & 31 {
		case 16:
			w.put(uint64(r>>5), 2)
		case 17:
			w.put(uint64(r>>5), 3)
		case 18:
			w.put(uint64(r>>5), 7)
		}
	}
}

// begin appends the block's header to w.
func (c *codes) begin(w *bitWriter, final uint64) {
	w.put(final, 1)
	b := c.head.b
	for ; len(b) >= 4; b = b[4:] {
		w.put(uint64(binary.LittleEndian.Uint32(b)), 32)
	}
	for _, x := range b {
		w.put(uint64(x), 8)
	}
	w.put(c.head.bits, c.head.n)
}
