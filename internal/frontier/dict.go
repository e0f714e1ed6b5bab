package frontier

import (
	"hash/maphash"
	"iter"
	"slices"
)

// A dict is Polybot's host dictionary. It uses open addressing with a hash of each name beside the pointer. Other hosts
// are hardly ever read, and none is read when a host leaves or is moved. Unlike a map, it needs no second copy of the
// name's header, and it returns memory when hosts leave. The hash divides it into parts that grow and shrink
// independently, so that no Push has to wait until all hosts are moved.
type dict struct {
	seed  maphash.Seed
	parts [dictParts]dictPart
	n     int
}

type dictPart struct {
	slots []dictSlot
	n     int
}

type dictSlot struct {
	h    *host
	hash uint32 // 0: free
}

const (
	dictParts = 64
	dictMin   = 8 // slots of a part with hosts
)

func newDict() dict { return dict{seed: maphash.MakeSeed()} }

func (d *dict) len() int { return d.n }

// place returns the part of name, from the lowest bits of its hash, and the highest bits, which are stored in the slot.
func (d *dict) place(name string) (p *dictPart, hash uint32) {
	x := maphash.String(d.seed, name)
	return &d.parts[x%dictParts], uint32(x>>32) | 1
}

// home returns the slot at which the search for a hash begins.
func (p *dictPart) home(hash uint32) int { return int(uint64(hash) * uint64(len(p.slots)) >> 32) }

// find returns the slot and host of name. If name is missing, h is nil and slot is where it would be put.
func (p *dictPart) find(name string, hash uint32) (slot int, h *host) {
	if len(p.slots) == 0 {
		return 0, nil
	}
	slot = p.home(hash)
	for {
		s := &p.slots[slot]
		if s.hash == hash && s.h.name == name {
			return slot, s.h
		}
		if s.hash == 0 {
			return slot, nil
		}
		if slot++; slot == len(p.slots) {
			slot = 0
		}
	}
}

// of returns the host with this name, or nil.
func (d *dict) of(name string) *host {
	p, hash := d.place(name)
	_, h := p.find(name, hash)
	return h
}

// findAll finds the hosts of all arrivals, in steps. In each step the processor can wait for many memory reads at once;
// single look-ups would wait for each of their own. The last step reads the ends of the queues, to which the links go
// next. The result only keeps the compiler from removing these reads.
func (d *dict) findAll(as []arrival) (prefetched int) {
	for i := range as {
		a := &as[i]
		a.part, a.hash = d.place(a.name)
	}
	for i := range as {
		a := &as[i]
		a.h = a.part.firstWithHash(a.hash)
	}
	for i := range as {
		if a := &as[i]; a.h != nil && a.h.name != a.name {
			_, a.h = a.part.find(a.name, a.hash)
		}
	}
	for i := range as {
		if a := &as[i]; a.h != nil {
			a.lastBlock = a.h.q.tail().buf
		}
	}
	for i := range as {
		room := as[i].lastBlock
		if n := len(room); n > 0 {
			prefetched += int(room[n-1])
			if n+linkSpan < cap(room) {
				prefetched += int(room[:cap(room)][n+linkSpan])
			}
		}
	}
	return prefetched
}

// linkSpan is the offset behind the end of a queue at which findAll reads once more. A link is longer than a cache
// line.
const linkSpan = 96

// firstWithHash returns the first host with this hash, or nil.
func (p *dictPart) firstWithHash(hash uint32) *host {
	if len(p.slots) == 0 {
		return nil
	}
	for slot := p.home(hash); ; {
		if s := &p.slots[slot]; s.hash == hash || s.hash == 0 {
			return s.h
		}
		if slot++; slot == len(p.slots) {
			slot = 0
		}
	}
}

// add adds h, which must not be there. p and hash are the result of place.
func (d *dict) add(h *host, p *dictPart, hash uint32) {
	if 8*(p.n+1) > 7*len(p.slots) {
		p.resize(max(dictMin, len(p.slots)+len(p.slots)/8))
	}
	p.put(dictSlot{h, hash})
	p.n++
	d.n++
}

// put puts s into the first free slot from its home on.
func (p *dictPart) put(s dictSlot) {
	i := p.home(s.hash)
	for p.slots[i].hash != 0 {
		if i++; i == len(p.slots) {
			i = 0
		}
	}
	p.slots[i] = s
}

// remove removes h, which must be there.
func (d *dict) remove(h *host) {
	p, hash := d.place(h.name)
	hole, _ := p.find(h.name, hash)
	// Move the later entries that a search would no longer reach into the hole.
	for i := hole; ; {
		if i++; i == len(p.slots) {
			i = 0
		}
		s := p.slots[i]
		if s.hash == 0 {
			break
		}
		if between(hole, p.home(s.hash), i) {
			continue
		}
		p.slots[hole] = s
		hole = i
	}
	p.slots[hole] = dictSlot{}
	p.n--
	d.n--
	if len(p.slots) > dictMin && p.n < len(p.slots)/4 {
		p.resize(max(dictMin, len(p.slots)/2))
	}
}

// between reports whether home is after hole and not after i, in circular order.
func between(hole, home, i int) bool {
	if hole <= i {
		return hole < home && home <= i
	}
	return hole < home || home <= i
}

// resize sets the number of slots to at least n. It uses all of the memory that the allocator returns for n.
func (p *dictPart) resize(n int) {
	old := p.slots
	p.slots = slices.Grow([]dictSlot(nil), n)
	p.slots = p.slots[:cap(p.slots)]
	for _, s := range old {
		if s.hash != 0 {
			p.put(s)
		}
	}
}

// all iterates over the hosts. The caller must not add or remove hosts meanwhile.
func (d *dict) all() iter.Seq[*host] {
	return func(yield func(*host) bool) {
		for i := range d.parts {
			for _, s := range d.parts[i].slots {
				if s.h != nil && !yield(s.h) {
					return
				}
			}
		}
	}
}

// queues iterates over the queues of the hosts, of all levels. The caller may give each a rest meanwhile.
func (p *dictPart) queues() iter.Seq[*queue] {
	return func(yield func(*queue) bool) {
		for _, s := range p.slots {
			if s.h == nil {
				continue
			}
			for q := s.h.first(); q != nil; q = q.next() {
				if !yield(q) {
					return
				}
			}
		}
	}
}
