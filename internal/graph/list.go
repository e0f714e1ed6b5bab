package graph

// A list of links is coded with these numbers. x is the number of the node. All but the gaps are in gamma code.
//
//	degree     how many links there are. If zero, that is all.
//	reference  which list before this one it copies from: 0 none, else 1 to 7 lists back. Unary; missing in the first
//	           list of a block. A reference never leaves the block.
//	blocks     only with a reference: how many blocks there are, then their lengths, all but the first less 1. The
//	           referenced list is cut in blocks. The first is copied, the next skipped, and so on by turns. The last
//	           block, up to the end of the list, is not written.
//	intervals  only if 4 or more links are left: how many intervals of 4 or more successive numbers there are. For
//	           each its first number and its length less 4. The first number is written as the zigzag of its distance
//	           to x, and later as the distance to the end of the interval before, less 2.
//	gaps       the other links, in zeta code with parameter 3: the first as the zigzag of its distance to x, the next
//	           as the distance to the one before, less 1.

const (
	window      = 7 // lists back that a list may copy from
	minInterval = 4
)

// A coding is one way to write a list.
type coding struct {
	ref       uint
	blocks    []uint32
	rest      []uint32 // the links that are not copied
	intervals []interval
	gaps      []uint32
}

type interval struct{ first, n uint32 }

// plan makes c the coding of list that copies from the list ref lists back. If ref is 0, it copies nothing.
func (c *coding) plan(list []uint32, ref uint, from []uint32) {
	c.ref, c.blocks, c.intervals, c.gaps = ref, c.blocks[:0], c.intervals[:0], c.gaps[:0]
	rest := list
	if ref > 0 {
		c.copy(list, from)
		rest = c.rest
	}
	for i := 0; i < len(rest); {
		j := i + 1
		for j < len(rest) && rest[j] == rest[j-1]+1 {
			j++
		}
		if j-i >= minInterval {
			c.intervals = append(c.intervals, interval{rest[i], uint32(j - i)})
		} else {
			c.gaps = append(c.gaps, rest[i:j]...)
		}
		i = j
	}
}

// copy finds the blocks of from that list copies, and the links that are left.
func (c *coding) copy(list, from []uint32) {
	left := c.rest[:0]
	copying, run := true, uint32(0)
	i := 0
	for _, t := range from {
		for i < len(list) && list[i] < t {
			left = append(left, list[i])
			i++
		}
		has := i < len(list) && list[i] == t
		if has {
			i++
		}
		if has != copying {
			c.blocks = append(c.blocks, run)
			copying, run = has, 0
		}
		run++
	}
	c.rest = append(left, list[i:]...)
}

// size returns how many bits the list of node x takes, without its degree.
func (c *coding) size(x uint32) int {
	n := int(c.ref) + 1
	if c.ref > 0 {
		n += gammaBits(uint64(len(c.blocks)))
		for i, b := range c.blocks {
			n += gammaBits(uint64(b) - uint64(min(i, 1)))
		}
	}
	if c.left() >= minInterval {
		n += gammaBits(uint64(len(c.intervals)))
	}
	at := int64(x)
	for i, v := range c.intervals {
		n += gammaBits(step(i, at, v.first, 2)) + gammaBits(uint64(v.n)-minInterval)
		at = int64(v.first) + int64(v.n) - 1
	}
	at = int64(x)
	for i, v := range c.gaps {
		n += zetaBits(step(i, at, v, 1))
		at = int64(v)
	}
	return n
}

// left returns how many links are not copied.
func (c *coding) left() int {
	n := len(c.gaps)
	for _, v := range c.intervals {
		n += int(v.n)
	}
	return n
}

// step codes v, the i-th number of a row: the first as the zigzag of its distance to at, the next less the least
// distance that is possible.
func step(i int, at int64, v uint32, least int64) uint64 {
	if i == 0 {
		return zigzag(int64(v) - at)
	}
	return uint64(int64(v) - at - least)
}

// write writes the list of node x, without its degree. The first list of a block has no reference.
func (c *coding) write(w *bitWriter, x uint32, first bool) {
	if !first {
		w.unary(c.ref)
	}
	if c.ref > 0 {
		w.gamma(uint64(len(c.blocks)))
		for i, b := range c.blocks {
			w.gamma(uint64(b) - uint64(min(i, 1)))
		}
	}
	if c.left() >= minInterval {
		w.gamma(uint64(len(c.intervals)))
	}
	at := int64(x)
	for i, v := range c.intervals {
		w.gamma(step(i, at, v.first, 2))
		w.gamma(uint64(v.n) - minInterval)
		at = int64(v.first) + int64(v.n) - 1
	}
	at = int64(x)
	for i, v := range c.gaps {
		w.zeta(step(i, at, v, 1))
		at = int64(v)
	}
}
