package frontier

// readyHosts holds the ready hosts of a group, the best first. With addresses and sites, nearly all groups have one
// host at most, which needs no heap.
type readyHosts struct {
	one  *host        // the only host, or nil
	many *heap[*host] // nil if there is at most one host
}

func (c *readyHosts) len() int {
	switch {
	case c.many != nil:
		return c.many.len()
	case c.one != nil:
		return 1
	}
	return 0
}

// top returns the best host. There must be one.
func (c *readyHosts) top() *host {
	if c.many != nil {
		return c.many.top()
	}
	return c.one
}

// first returns the order of the best host. There must be one.
func (c *readyHosts) first() uint64 {
	if c.many != nil {
		return c.many.first()
	}
	return c.one.key().order()
}

func (c *readyHosts) push(h *host) {
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

// remove removes h, which must be in it. A heap stays until it is empty.
func (c *readyHosts) remove(h *host) {
	if c.many == nil {
		c.one, h.pos = nil, -1
		return
	}
	if c.many.remove(h); c.many.len() == 0 {
		c.many = nil
	}
}

// fix restores the order after the first link of h has changed.
func (c *readyHosts) fix(h *host) {
	if c.many != nil {
		c.many.fix(h)
	}
}

// before returns the number of hosts whose order is below k.
func (c *readyHosts) before(k uint64) int {
	switch {
	case c.many != nil:
		return c.many.before(k, nil)
	case c.one != nil && c.first() < k:
		return 1
	}
	return 0
}
