package dns

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// An entry is the result for a name: its addresses, or the error that there are none.
type entry struct {
	addrs   []netip.Addr
	err     error
	expires time.Time
}

const cacheShards = 16

// cache holds the servers' results by name. Each shard replaces entries by the clock algorithm: a
// hit marks an entry, and the hand skips a marked entry once and clears its mark.
type cache struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard
}

type cacheShard struct {
	// mu guards all fields below.
	mu    sync.Mutex
	index map[string]int32 // a name's position in slots
	slots []slot
	hand  int
	size  int // the maximum of len(slots)
}

// A slot stores an entry. It takes about 200 bytes with its name, one address and its place in the
// index. An error takes about 200 bytes more.
type slot struct {
	name    string
	addrs   []netip.Addr
	err     error
	expires time.Time // with its monotonic reading: the wall clock may be set
	used    bool
}

func (s *slot) set(e entry) { s.addrs, s.err, s.expires = e.addrs, e.err, e.expires }

// init limits the cache to size entries, rounded up to a multiple of the number of shards.
func (c *cache) init(size int) {
	c.seed = maphash.MakeSeed()
	for i := range c.shards {
		c.shards[i].index = make(map[string]int32)
		c.shards[i].size = (size + cacheShards - 1) / cacheShards
	}
}

func (c *cache) shard(name string) *cacheShard {
	return &c.shards[maphash.String(c.seed, name)%cacheShards]
}

// find returns the cached result for name at now. ok is false if there is none or if it has
// expired.
func (c *cache) find(name string, now time.Time) (a Answer, err error, ok bool) {
	s := c.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.index[name]
	if !ok {
		return Answer{}, nil, false
	}
	e := &s.slots[i]
	if !now.Before(e.expires) {
		return Answer{}, nil, false
	}
	e.used = true
	if e.err != nil {
		return Answer{}, e.err, true
	}
	return Answer{Addrs: e.addrs, Expires: e.expires}, nil, true
}

// add stores e and replaces the earlier result for name.
func (c *cache) add(name string, e entry) {
	s := c.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.index[name]; ok {
		s.slots[i].set(e)
		return
	}
	fresh := slot{name: name}
	fresh.set(e)
	if len(s.slots) < s.size {
		s.index[name] = int32(len(s.slots))
		s.slots = append(s.slots, fresh)
		return
	}
	for s.slots[s.hand].used {
		s.slots[s.hand].used = false
		s.hand = (s.hand + 1) % len(s.slots)
	}
	delete(s.index, s.slots[s.hand].name)
	s.slots[s.hand] = fresh
	s.index[name] = int32(s.hand)
	s.hand = (s.hand + 1) % len(s.slots)
}

// Cached returns the number of names in the cache. Safe for concurrent use.
func (r *Resolver) Cached() int { return r.cache.len() }

// len returns the number of entries, expired ones included.
func (c *cache) len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += len(s.index)
		s.mu.Unlock()
	}
	return n
}
