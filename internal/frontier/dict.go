package frontier

import (
	"hash/maphash"
	"iter"
	"slices"
)

// A dict is Polybot's host dictionary: open addressing with a hash of each name
// beside the pointer, so that other hosts are hardly ever looked at, and none
// when others leave or are moved. Unlike a map it needs no second copy of the
// name's header, and gives memory back when hosts leave. It is divided by the
// hash into parts that grow and shrink by themselves, so that no Push waits for
// all hosts to be moved.
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

// place takes the part from the hash's lowest bits, and from the highest ones
// what stands in the slot.
func (d *dict) place(name string) (p *dictPart, hash uint32) {
	x := maphash.String(d.seed, name)
	return &d.parts[x%dictParts], uint32(x>>32) | 1
}

// home is where the search for a hash begins.
func (p *dictPart) home(hash uint32) int { return int(uint64(hash) * uint64(len(p.slots)) >> 32) }

// find is where name is, or where it would be put.
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

// of is the host with this name, or nil.
func (d *dict) of(name string) *host {
	p, hash := d.place(name)
	_, h := p.find(name, hash)
	return h
}

// meet finds the hosts of all as, in steps: in each the processor can wait for
// many places of memory at once, where one look-up after the other waits for
// each of its own. Last it looks at where their queues end, to which the links
// go next.
func (d *dict) meet(as []arrival) (looked int) {
	for i := range as {
		a := &as[i]
		a.part, a.hash = d.place(a.name)
	}
	for i := range as {
		a := &as[i]
		a.h = a.part.like(a.hash)
	}
	for i := range as {
		if a := &as[i]; a.h != nil && a.h.name != a.name {
			_, a.h = a.part.find(a.name, a.hash)
		}
	}
	for i := range as {
		if a := &as[i]; a.h != nil {
			a.room = a.h.q.tail().buf
		}
	}
	for i := range as {
		room := as[i].room
		if n := len(room); n > 0 {
			looked += int(room[n-1])
			if n+linkRoom < cap(room) {
				looked += int(room[:cap(room)][n+linkRoom])
			}
		}
	}
	return looked
}

// linkRoom is where, behind a queue's end, another look is taken: a link is
// longer than a line of the processor's cache.
const linkRoom = 96

// like is the first host with this hash, nil if there is none.
func (p *dictPart) like(hash uint32) *host {
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

// add puts in h, which is not there yet; p and hash are what place says of it.
func (d *dict) add(h *host, p *dictPart, hash uint32) {
	if 8*(p.n+1) > 7*len(p.slots) {
		p.resize(max(dictMin, len(p.slots)+len(p.slots)/8))
	}
	p.put(dictSlot{h, hash})
	p.n++
	d.n++
}

// put puts s into the first free slot from its home.
func (p *dictPart) put(s dictSlot) {
	i := p.home(s.hash)
	for p.slots[i].hash != 0 {
		if i++; i == len(p.slots) {
			i = 0
		}
	}
	p.slots[i] = s
}

// remove takes h out, which is there.
func (d *dict) remove(h *host) {
	p, hash := d.place(h.name)
	hole, _ := p.find(h.name, hash)
	// Those behind the hole that a search would no longer reach move into it.
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

// between says whether home lies behind hole and not behind i, going round.
func between(hole, home, i int) bool {
	if hole <= i {
		return hole < home && home <= i
	}
	return hole < home || home <= i
}

// resize makes at least n slots: all that what is allocated for n has room for.
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

// all are the hosts; none may be added or removed meanwhile.
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

// queues are those of the hosts, of all levels; each may get a rest meanwhile.
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
