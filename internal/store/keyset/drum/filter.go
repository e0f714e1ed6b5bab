package drum

import (
	"math/bits"
	"sync/atomic"
)

const (
	blockWords = 8 // a block of a filter has 512 bits: a cache line
	blockBits  = 64 * blockWords
	// filterBits per key make the filter say "perhaps" to about one new key in a hundred.
	filterBits = 10
)

// A filter is a blocked Bloom filter (Putze, Sanders, Singler, WEA 2007). A key sets one bit in each of the eight words
// of one block, so that a lookup costs one cache miss. The owner adds new keys. While a pass fills the filter, it
// merges in a filter of its own. The bits are therefore set atomically; atomic reads cost nothing extra.
type filter struct {
	words  []uint64
	blocks uint64
	keys   int64 // the number of keys for which it was made
}

// newFilter returns a filter for so many keys at so many bits each.
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

// touch loads the block of h into the processor's cache.
func (f *filter) touch(h uint64) uint64 { return atomic.LoadUint64(&f.block(h)[0]) }

// has reports whether a key with hash h may have been added.
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

// set is add for a filter that no other goroutine uses.
func (f *filter) set(h uint64) {
	w := f.block(h)
	g := h * 0x9e3779b97f4a7c15
	for i := range w {
		w[i] |= uint64(1) << (g >> 58 & 63)
		g <<= 6
	}
}

// union adds all keys of o, which must have the same size.
func (f *filter) union(o *filter) {
	for i, w := range o.words {
		if w != 0 {
			atomic.OrUint64(&f.words[i], w)
		}
	}
}

// clearLike makes f empty and gives it the size of o.
func (f *filter) clearLike(o *filter) {
	if cap(f.words) < len(o.words) {
		f.words = make([]uint64, len(o.words))
	}
	f.words, f.blocks, f.keys = f.words[:len(o.words)], o.blocks, o.keys
	clear(f.words)
}
