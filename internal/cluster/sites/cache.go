package sites

import (
	"hash/maphash"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
)

// ways is the number of hosts in a set of the cache: with its head, a set takes two lines of the processor's
// cache, and a host 18.3 bytes.
const (
	ways     = 7
	setBytes = 128
)

// A cache has the assignments of some hosts. Any goroutine may read it, without a lock. A host is known by a
// hash with a random seed, so no site can name a host that counts as another.
//
// The hosts of a set that were read since the last replacement in it stay longer than the others.
type cache struct {
	seed maphash.Seed
	sets []set
	mu   sync.Mutex // held by writers
	n    atomic.Int64

	hits, misses striped
}

// A set is read by a sequence lock: its sequence is odd while a writer changes it, and grows with each change.
type set struct {
	sequence atomic.Uint32
	read     atomic.Uint32 // a bit for each host: it was read lately
	hashes   [ways]atomic.Uint64
	places   [ways]atomic.Uint64
	_        uint64
}

func newCache(bytes int64) *cache {
	return &cache{seed: maphash.MakeSeed(), sets: make([]set, max(1, bytes/setBytes))}
}

func (c *cache) hash(host string) uint64 {
	return max(1, maphash.String(c.seed, host)) // 0 marks an empty position
}

func (c *cache) set(hash uint64) *set {
	i, _ := bits.Mul64(hash, uint64(len(c.sets)))
	return &c.sets[i]
}

// get returns the assignment of the host with this hash.
func (c *cache) get(hash uint64) (p place, ok bool) {
	s := c.set(hash)
	for {
		sequence := s.sequence.Load()
		if sequence&1 == 1 {
			runtime.Gosched()
			continue
		}
		at := -1
		for i := range s.hashes {
			if s.hashes[i].Load() == hash {
				at, p = i, place(s.places[i].Load())
				break
			}
		}
		if s.sequence.Load() != sequence {
			continue
		}
		if at < 0 {
			c.misses.add(hash)
			return 0, false
		}
		if bit := uint32(1) << at; s.read.Load()&bit == 0 {
			s.read.Or(bit)
		}
		c.hits.add(hash)
		return p, true
	}
}

// put adds a host. If it is there, the later assignment holds, as in the table. asked says that somebody wants to know
// it: it stays for longer.
func (c *cache) put(hash uint64, p place, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.set(hash)
	read, at := s.read.Load(), -1
	for i := range s.hashes {
		switch h := s.hashes[i].Load(); {
		case h == hash:
			if was := place(s.places[i].Load()); p != was && p.number() >= was.number() {
				s.sequence.Add(1)
				s.places[i].Store(uint64(p))
				s.sequence.Add(1)
			}
			return
		case h == 0 && at < 0:
			at = i
		}
	}
	if at >= 0 {
		c.n.Add(1)
	} else {
		if read&(1<<ways-1) == 1<<ways-1 {
			read = 0
		}
		for at = int(hash % ways); read>>at&1 == 1; at = (at + 1) % ways {
		}
	}
	read &^= 1 << at
	if asked {
		read |= 1 << at
	}
	s.sequence.Add(1)
	s.hashes[at].Store(hash)
	s.places[at].Store(uint64(p))
	s.read.Store(read)
	s.sequence.Add(1)
}

// clear removes all hosts.
func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.sets {
		s := &c.sets[i]
		s.sequence.Add(1)
		for j := range s.hashes {
			s.hashes[j].Store(0)
		}
		s.read.Store(0)
		s.sequence.Add(1)
	}
	c.n.Store(0)
}

func (c *cache) bytes() int64 { return int64(len(c.sets)) * setBytes }

// stripes is the number of counters of a striped one: workers that count at the same time rarely share one.
const stripes = 32

// striped is a counter for many goroutines.
type striped [stripes]struct {
	n atomic.Int64
	_ [56]byte
}

func (s *striped) add(hash uint64) { s[hash%stripes].n.Add(1) }

func (s *striped) sum() (n int64) {
	for i := range s {
		n += s[i].n.Load()
	}
	return n
}
