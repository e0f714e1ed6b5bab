package drum

import (
	"math/bits"
	"sync/atomic"
)

const (
	blockWords = 8 // of a filter's block: 512 bits, a cache line
	blockBits  = 64 * blockWords
	// filterBits a key make about one new key in a hundred look known.
	filterBits = 10
)

// A filter is a blocked Bloom filter (Putze, Sanders, Singler, WEA 2007): a
// key has one bit in each of the eight words of one block, so that asking
// costs one cache miss. Bits are set by the owner, for keys as they come, and
// while it is being filled also by a pass; hence the atomics, of which reading
// costs nothing. A pass fills one of its own and then unites the two.
type filter struct {
	words  []uint64
	blocks uint64
	keys   int64 // for which it was made
}

// newFilter has room for keys at so many bits each.
func newFilter(keys int64, bitsPerKey float64) *filter {
	blocks := max(1, (int64(float64(keys)*bitsPerKey)+blockBits-1)/blockBits)
	return &filter{make([]uint64, blocks*blockWords), uint64(blocks), keys}
}

func (f *filter) bytes() int64 {
	if f == nil {
		return 0
	}
	return int64(len(f.words)) * 8
}

func (f *filter) block(h uint64) *[blockWords]uint64 {
	b, _ := bits.Mul64(h, f.blocks)
	return (*[blockWords]uint64)(f.words[b*blockWords:])
}

// touch brings the line of h into the cache.
func (f *filter) touch(h uint64) uint64 { return atomic.LoadUint64(&f.block(h)[0]) }

// has says whether a key of hash h may have been added.
func (f *filter) has(h uint64) bool {
	w := f.block(h)
	g := h * 0x9e3779b97f4a7c15
	for i := range w {
		if atomic.LoadUint64(&w[i])>>(g>>58&63)&1 == 0 {
			return false
		}
		g <<= 6
	}
	return true
}

func (f *filter) add(h uint64) {
	w := f.block(h)
	g := h * 0x9e3779b97f4a7c15
	for i := range w {
		bit := uint64(1) << (g >> 58 & 63)
		if atomic.LoadUint64(&w[i])&bit == 0 {
			atomic.OrUint64(&w[i], bit)
		}
		g <<= 6
	}
}

// set is add where nobody else knows the filter.
func (f *filter) set(h uint64) {
	w := f.block(h)
	g := h * 0x9e3779b97f4a7c15
	for i := range w {
		w[i] |= uint64(1) << (g >> 58 & 63)
		g <<= 6
	}
}

// unite adds what is in o, which is as large.
func (f *filter) unite(o *filter) {
	for i, w := range o.words {
		if w != 0 {
			atomic.OrUint64(&f.words[i], w)
		}
	}
}

// like makes f empty and as large as o.
func (f *filter) like(o *filter) {
	if cap(f.words) < len(o.words) {
		f.words = make([]uint64, len(o.words))
	}
	f.words, f.blocks, f.keys = f.words[:len(o.words)], o.blocks, o.keys
	clear(f.words)
}
