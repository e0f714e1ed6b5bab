package drum

import "math/bits"

// A cache holds keys that were looked up lately. Each of them is known, or is held and will soon be known. The
// cache may lose keys at any time. It never contains a key that was not asked for.
//
// A set is a cache line of four keys. A key enters in the third position and moves up by one each time it is found.
// Keys that are asked for only once therefore do not displace popular keys.
type cache struct {
	sets [][4]key
}

func newCache(sets int) *cache { return &cache{make([][4]key, max(1, sets))} }

func (c *cache) bytes() int64 {
	if c == nil {
		return 0
	}
	return int64(len(c.sets)) * 64
}

func (c *cache) set(h uint64) *[4]key {
	i, _ := bits.Mul64(h, uint64(len(c.sets)))
	return &c.sets[i]
}

func (c *cache) touch(h uint64) uint64 { return c.set(h)[0].p }

func (c *cache) has(k key, h uint64) bool {
	if k == (key{}) { // marks an empty position
		return false
	}
	s := c.set(h)
	switch k {
	case s[0]:
		return true
	case s[1]:
		s[0], s[1] = s[1], s[0]
		return true
	case s[2]:
		s[1], s[2] = s[2], s[1]
		return true
	case s[3]:
		s[2], s[3] = s[3], s[2]
		return true
	}
	return false
}

func (c *cache) add(k key, h uint64) {
	s := c.set(h)
	s[3], s[2] = s[2], k
}
