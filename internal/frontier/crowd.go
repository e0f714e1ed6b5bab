package frontier

// A crowd is the ready hosts of a group, the best first. With addresses and
// sites nearly all groups have one at the most, and that needs no heap.
type crowd struct {
	one  *host        // nil: none, or see many
	many *heap[*host] // nil: see one
}

func (c *crowd) len() int {
	switch {
	case c.many != nil:
		return c.many.len()
	case c.one != nil:
		return 1
	}
	return 0
}

// top is the best host; there is one.
func (c *crowd) top() *host {
	if c.many != nil {
		return c.many.top()
	}
	return c.one
}

// first is the order of the best host; there is one.
func (c *crowd) first() uint64 {
	if c.many != nil {
		return c.many.first()
	}
	return c.one.key().order()
}

func (c *crowd) push(h *host) {
	switch {
	case c.many != nil:
		c.many.push(h)
	case c.one == nil:
		c.one, h.pos = h, 0
	default:
		many := heap[*host]{
			key: func(h *host) uint64 { return h.key().order() },
			pos: func(h *host) *int32 { return &h.pos },
		}
		many.push(c.one)
		many.push(h)
		c.one, c.many = nil, &many
	}
}

// remove takes h out, which is in it. A heap stays until it is empty.
func (c *crowd) remove(h *host) {
	if c.many == nil {
		c.one, h.pos = nil, -1
		return
	}
	if c.many.remove(h); c.many.len() == 0 {
		c.many = nil
	}
}

// fix restores the order after h's first link has changed.
func (c *crowd) fix(h *host) {
	if c.many != nil {
		c.many.fix(h)
	}
}

// before counts the hosts whose order is below k.
func (c *crowd) before(k uint64) int {
	switch {
	case c.many != nil:
		return c.many.before(k, nil)
	case c.one != nil && c.first() < k:
		return 1
	}
	return 0
}
