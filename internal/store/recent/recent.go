// Package recent answers: which value was last stored under this key, if it was in use lately?
package recent

import "sync"

// A Cache holds values by key, up to a number of them. It makes room by the clock algorithm: a use marks a value, and
// the hand skips a marked value once and clears its mark. Safe for concurrent use.
type Cache[K comparable, V any] struct {
	most int
	// mu guards the fields below.
	mu    sync.Mutex
	index map[K]int32 // a key's position in slots
	slots []slot[K, V]
	hand  int
}

type slot[K comparable, V any] struct {
	key   K
	value V
	used  bool
}

// New returns an empty Cache of at most most values, at least one.
func New[K comparable, V any](most int) *Cache[K, V] {
	return &Cache[K, V]{most: max(1, most), index: map[K]int32{}}
}

// Get returns the value of a key. ok is false if there is none.
func (c *Cache[K, V]) Get(k K) (v V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := c.index[k]
	if !ok {
		return v, false
	}
	c.slots[i].used = true
	return c.slots[i].value, true
}

// Set stores the value of a key.
func (c *Cache[K, V]) Set(k K, v V) { c.put(k, v, true) }

// Add stores the value of a key that has none.
func (c *Cache[K, V]) Add(k K, v V) { c.put(k, v, false) }

func (c *Cache[K, V]) put(k K, v V, replace bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i, ok := c.index[k]; ok {
		if replace {
			c.slots[i].value = v
		}
		return
	}
	if len(c.slots) < c.most {
		c.index[k] = int32(len(c.slots))
		c.slots = append(c.slots, slot[K, V]{key: k, value: v})
		return
	}
	for c.slots[c.hand].used {
		c.slots[c.hand].used = false
		c.hand = (c.hand + 1) % len(c.slots)
	}
	delete(c.index, c.slots[c.hand].key)
	c.slots[c.hand] = slot[K, V]{key: k, value: v}
	c.index[k] = int32(c.hand)
	c.hand = (c.hand + 1) % len(c.slots)
}

// Len returns the number of values.
func (c *Cache[K, V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.index)
}
