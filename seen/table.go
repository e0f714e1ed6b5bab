package seen

import (
	"math/bits"
	"unsafe"

	"github.com/orbweaver/orbweaver/weburl"
)

const (
	keySize   = int64(unsafe.Sizeof(weburl.Key{}))
	itemSize  = int64(unsafe.Sizeof(Item{}))
	shardSize = int64(unsafe.Sizeof(shard{}))
	segSize   = int64(unsafe.Sizeof(segment{}))

	// segmentKeys is the mean number of keys at which a shard gets another
	// segment; it bounds the longest pause, which is a segment's rebuilding.
	segmentKeys = 4096
	minSlots    = 16
	// pageSlots are the keys in one 8 KiB page of Go's heap: larger tables
	// are whole pages, since the rest of a page would be lost.
	pageSlots = 512
)

// mix is the finalizer of MurmurHash3, a bijection.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// place orders the keys of a shard. Its high bits give the slot, its low bits
// the segment. For one host it is a bijection of the path part.
func place(k weburl.Key, seed uint64) uint64 {
	return mix(k.Path ^ bits.RotateLeft64(k.Host, 32)*0x9e3779b97f4a7c15 ^ seed)
}

// A shard holds all keys of its hosts in segments, whose number grows one by
// one (linear hashing: Litwin, VLDB 1980).
type shard struct {
	segs []segment
	n    int64
}

func (s *shard) segOf(h uint64) *segment {
	n := uint64(len(s.segs))
	top := uint64(1) << (bits.Len64(n) - 1) // n < 2*top
	if i := h & (2*top - 1); i < n {
		return &s.segs[i]
	}
	return &s.segs[h&(top-1)]
}

// insert adds k, not the zero key, and says whether it is new and how much
// memory that took.
func (s *shard) insert(k weburl.Key, seed uint64) (isNew bool, bytes int64) {
	if len(s.segs) == 0 {
		s.segs = []segment{newSegment(0)}
		bytes = segSize + keySize*minSlots
	}
	h := place(k, seed)
	isNew, more := s.segOf(h).insert(k, h, seed)
	bytes += more
	if isNew {
		if s.n++; s.n > segmentKeys*int64(len(s.segs)) {
			bytes += s.split(seed)
		}
	}
	return isNew, bytes
}

// split adds a segment and moves into it the keys of the one that served it.
func (s *shard) split(seed uint64) (bytes int64) {
	before := int64(cap(s.segs)) * segSize
	i := len(s.segs)
	s.segs = append(s.segs, segment{})
	from, to := &s.segs[i&^(1<<(bits.Len(uint(i))-1))], &s.segs[i]
	old := from.slots
	goes := func(k weburl.Key) bool { return s.segOf(place(k, seed)) == to }
	moved := 0
	for _, k := range old {
		if k != (weburl.Key{}) && goes(k) {
			moved++
		}
	}
	*from, *to = newSegment(from.n-moved), newSegment(moved)
	fromEnd, toEnd := 0, 0
	for _, k := range old { // in order, so each lands behind the one before
		switch {
		case k == (weburl.Key{}):
		case goes(k):
			toEnd = to.append(k, place(k, seed), toEnd)
		default:
			fromEnd = from.append(k, place(k, seed), fromEnd)
		}
	}
	return int64(cap(s.segs))*segSize - before + keySize*int64(len(from.slots)+len(to.slots)-len(old))
}

func (s *shard) each(fn func(weburl.Key)) {
	for i := range s.segs {
		for _, k := range s.segs[i].slots {
			if k != (weburl.Key{}) {
				fn(k)
			}
		}
	}
}

// drop removes a host's keys, and says how many and how the memory changed.
func (s *shard) drop(host, seed uint64) (n, bytes int64) {
	for i := range s.segs {
		g := &s.segs[i]
		gone := 0
		for _, k := range g.slots {
			if k != (weburl.Key{}) && k.Host == host {
				gone++
			}
		}
		if gone == 0 {
			continue
		}
		old := g.slots
		*g = newSegment(g.n - gone)
		end := 0
		for _, k := range old {
			if k != (weburl.Key{}) && k.Host != host {
				end = g.append(k, place(k, seed), end)
			}
		}
		n += int64(gone)
		bytes += keySize * int64(len(g.slots)-len(old))
	}
	s.n -= n
	return n, bytes
}

// A segment is an array of keys in the order of (place, host) with free slots
// between them: linear probing that never wraps around, so that a search ends
// at the first larger key and rebuilding is one pass.
type segment struct {
	slots []weburl.Key
	room  int // keys are at home in the first room slots; the others take the overflow
	n     int
}

// newSegment has room for n keys and one more.
func newSegment(n int) segment {
	size := minSlots
	for limit(roomOf(size)) <= n {
		size = nextSize(size)
	}
	return segment{make([]weburl.Key, size), roomOf(size), n}
}

// nextSize steps by an eighth to a quarter, later by pages.
func nextSize(size int) int {
	return size + min(pageSlots, max(minSlots, 1<<(bits.Len(uint(size))-3)))
}

// roomOf leaves the last slots for what would have wrapped around.
func roomOf(size int) int { return size - min(size/16+4, 64) }

// limit is how many keys room slots may hold: seven eighths.
func limit(room int) int { return room - room/8 }

// home is the slot where a key with place h belongs.
func (g *segment) home(h uint64) int {
	hi, _ := bits.Mul64(h, uint64(g.room))
	return int(hi)
}

// insert adds k, whose place is h.
func (g *segment) insert(k weburl.Key, h, seed uint64) (isNew bool, bytes int64) {
	for {
		i := g.home(h)
		for ; i < len(g.slots) && g.slots[i] != (weburl.Key{}); i++ {
			o := g.slots[i]
			if o == k {
				return false, bytes
			}
			if p := place(o, seed); p > h || p == h && o.Host > k.Host {
				break
			}
		}
		if g.n < limit(g.room) && g.shift(i) {
			g.slots[i] = k
			g.n++
			return true, bytes
		}
		bytes += g.rebuild(nextSize(len(g.slots)), seed)
	}
}

// shift frees slot i by moving the keys from there on by one, and says whether
// there was room.
func (g *segment) shift(i int) bool {
	for j := i; j < len(g.slots); j++ {
		if g.slots[j] == (weburl.Key{}) {
			copy(g.slots[i+1:j+1], g.slots[i:j])
			return true
		}
	}
	return false
}

// rebuild moves the keys to a table of another size.
func (g *segment) rebuild(size int, seed uint64) (bytes int64) {
	old := g.slots
	g.slots, g.room = make([]weburl.Key, size), roomOf(size)
	end := 0
	for _, k := range old {
		if k != (weburl.Key{}) {
			end = g.append(k, place(k, seed), end)
		}
	}
	return keySize * int64(len(g.slots)-len(old))
}

// append puts k, larger than all keys before, at its home or at end, whichever
// is later, and returns the new end.
func (g *segment) append(k weburl.Key, h uint64, end int) int {
	i := max(g.home(h), end)
	if i == len(g.slots) { // a crowd at the end, which chance alone hardly makes
		g.slots = append(g.slots, make([]weburl.Key, minSlots)...)
	}
	g.slots[i] = k
	return i + 1
}
