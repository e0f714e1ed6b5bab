package graph

import "slices"

// A recent holds the lists of a block that a list may copy from.
type recent struct {
	lists [window + 1][]uint32
	n     uint // lists of the block so far
}

// back returns the list i lists back, i at least 1.
func (r *recent) back(i uint) []uint32 { return r.lists[(r.n-i)%(window+1)] }

// reach returns how far a list may refer back.
func (r *recent) reach() uint { return min(r.n, window) }

// An encoder writes the lists of a block.
type encoder struct {
	bits    bitWriter
	recent  recent
	codings [2]coding
}

func (e *encoder) reset() {
	e.bits.reset()
	e.recent.n = 0
}

// add writes the list of node x. It is ascending, each number once.
func (e *encoder) add(x uint32, list []uint32) {
	e.bits.gamma(uint64(len(list)))
	if len(list) > 0 {
		best, other := &e.codings[0], &e.codings[1]
		best.plan(list, 0, nil)
		least := best.size(x)
		for ref := uint(1); ref <= e.recent.reach(); ref++ {
			from := e.recent.back(ref)
			if len(from) == 0 {
				continue
			}
			other.plan(list, ref, from)
			if n := other.size(x); n < least {
				best, other, least = other, best, n
			}
		}
		best.write(&e.bits, x, e.recent.n == 0)
	}
	slot := &e.recent.lists[e.recent.n%(window+1)]
	*slot = append((*slot)[:0], list...)
	e.recent.n++
}

// A decoder reads the lists of a block.
type decoder struct {
	bits   bitReader
	recent recent
	nodes  uint64 // of the graph
	extra  []uint32
}

// reset makes d read a payload with padBytes zeros behind it.
func (d *decoder) reset(padded []byte) {
	d.bits.read(padded)
	d.recent.n = 0
}

// next returns the list of node x, valid for window calls. ok is false if the payload is damaged.
func (d *decoder) next(x uint32) (list []uint32, ok bool) {
	slot := &d.recent.lists[d.recent.n%(window+1)]
	list = (*slot)[:0]
	degree := d.bits.gamma()
	if degree > d.nodes {
		return nil, false
	}
	if degree > 0 {
		ref := uint(0)
		if d.recent.n > 0 {
			ref = d.bits.unary()
		}
		if ref > d.recent.reach() {
			return nil, false
		}
		if ref > 0 {
			if list, ok = d.copied(list, d.recent.back(ref)); !ok || uint64(len(list)) > degree {
				return nil, false
			}
		}
		copied := len(list)
		if list, ok = d.others(list, x, degree-uint64(copied)); !ok {
			return nil, false
		}
		list = d.merge(list, copied)
	}
	*slot = list
	d.recent.n++
	return list, !d.bits.bad && d.valid(list)
}

// copied appends the copied blocks of a list.
func (d *decoder) copied(list, from []uint32) (_ []uint32, ok bool) {
	blocks := d.bits.gamma()
	if blocks > uint64(len(from)) {
		return nil, false
	}
	at := uint64(0)
	for i := range blocks {
		n := d.bits.gamma()
		if i > 0 {
			n++
		}
		if n > uint64(len(from))-at {
			return nil, false
		}
		if i%2 == 0 {
			list = append(list, from[at:at+n]...)
		}
		at += n
	}
	if blocks%2 == 0 {
		list = append(list, from[at:]...)
	}
	return list, !d.bits.bad
}

// others appends the n links that are not copied: the intervals, then the gaps.
func (d *decoder) others(list []uint32, x uint32, n uint64) (_ []uint32, ok bool) {
	at := int64(x)
	if n >= minInterval {
		for i := range d.bits.gamma() {
			first := d.step(i == 0, at, d.bits.gamma(), 2)
			length := d.bits.gamma() + minInterval
			if d.bits.bad || length > n || first < 0 || uint64(first)+length > d.nodes {
				return nil, false
			}
			for v := range length {
				list = append(list, uint32(first)+uint32(v))
			}
			n -= length
			at = first + int64(length) - 1
		}
	}
	at = int64(x)
	for i := range n {
		at = d.step(i == 0, at, d.bits.zeta(), 1)
		if d.bits.bad || at < 0 || at >= int64(d.nodes) {
			return nil, false
		}
		list = append(list, uint32(at))
	}
	return list, true
}

// step is the inverse of the function step.
func (d *decoder) step(first bool, at int64, code uint64, least int64) int64 {
	if first {
		return at + unzigzag(code)
	}
	return at + int64(code) + least
}

// merge sorts a list that consists of a few sorted parts, the first of which has n links.
func (d *decoder) merge(list []uint32, n int) []uint32 {
	if slices.IsSorted(list) {
		return list
	}
	rest := list[n:]
	if !slices.IsSorted(rest) {
		gaps := 1
		for gaps < len(rest) && rest[gaps] > rest[gaps-1] {
			gaps++
		}
		rest = merged(&d.extra, rest, gaps)
	}
	if n > 0 && n < len(list) && list[n-1] > rest[0] {
		merged(&d.extra, list, n)
	}
	return list
}

// merged merges the two sorted parts of list, the first of which has n members.
func merged(space *[]uint32, list []uint32, n int) []uint32 {
	a := append((*space)[:0], list[:n]...)
	*space = a
	b := list[n:]
	out := list[:0]
	for len(a) > 0 && len(b) > 0 {
		if a[0] <= b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	if len(a) > 0 {
		copy(list[len(out):], a)
	}
	return list
}

// valid reports that a list is ascending, and that its nodes exist.
func (d *decoder) valid(list []uint32) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return len(list) == 0 || uint64(list[len(list)-1]) < d.nodes
}
