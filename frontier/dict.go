package frontier

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// A dict is Polybot's host dictionary: open addressing with a byte of each
// name's hash beside the pointer, so that other hosts are hardly ever looked
// at. Unlike a map it needs no second copy of the name's header, and gives
// memory back when hosts leave. It is divided by the hash into parts that grow
// and shrink by themselves, so that no Push waits for all hosts to be moved.
type dict struct {
	seed  maphash.Seed
	parts [dictParts]dictPart
	n     int
}

type dictPart struct {
	tags  []uint8 // of the hash; 0: a free slot
	slots []*host
	n     int
}

const (
	dictParts = 64
	dictMin   = 8 // slots of a part with hosts
)

func newDict() dict { return dict{seed: maphash.MakeSeed()} }

func (d *dict) len() int { return d.n }

// find is where name is, or where it would be put; home is where the search
// for it begins.
func (d *dict) find(name string) (p *dictPart, tag uint8, slot int, h *host) {
	var home int
	p, tag, home = d.place(name)
	if len(p.slots) == 0 {
		return p, tag, 0, nil
	}
	for slot = home; p.tags[slot] != 0; {
		if p.tags[slot] == tag && p.slots[slot].name == name {
			return p, tag, slot, p.slots[slot]
		}
		if slot++; slot == len(p.slots) {
			slot = 0
		}
	}
	return p, tag, slot, nil
}

// place takes the part from the hash's lowest bits, the tag from the next ones
// and the slot from the highest ones.
func (d *dict) place(name string) (p *dictPart, tag uint8, home int) {
	x := maphash.String(d.seed, name)
	p = &d.parts[x%dictParts]
	tag = uint8(x/dictParts) | 1
	hi, _ := bits.Mul64(x, uint64(len(p.slots)))
	return p, tag, int(hi)
}

// of is the host with this name, or nil.
func (d *dict) of(name string) *host {
	_, _, _, h := d.find(name)
	return h
}

// add puts in h, which is not there yet.
func (d *dict) add(h *host) {
	p, _, _ := d.place(h.name)
	if 8*(p.n+1) > 7*len(p.slots) {
		d.resize(p, max(dictMin, len(p.slots)+len(p.slots)/2))
	}
	p, tag, slot, _ := d.find(h.name)
	p.tags[slot], p.slots[slot] = tag, h
	p.n++
	d.n++
}

// remove takes h out, which is there.
func (d *dict) remove(h *host) {
	p, _, hole, _ := d.find(h.name)
	// Those behind the hole that a search would no longer reach move into it.
	for i := hole; ; {
		if i++; i == len(p.slots) {
			i = 0
		}
		if p.tags[i] == 0 {
			break
		}
		_, _, home := d.place(p.slots[i].name)
		if between(hole, home, i) {
			continue
		}
		p.tags[hole], p.slots[hole] = p.tags[i], p.slots[i]
		hole = i
	}
	p.tags[hole], p.slots[hole] = 0, nil
	p.n--
	d.n--
	if len(p.slots) > dictMin && p.n < len(p.slots)/4 {
		d.resize(p, max(dictMin, len(p.slots)/2))
	}
}

// between says whether home lies behind hole and not behind i, going round.
func between(hole, home, i int) bool {
	if hole <= i {
		return hole < home && home <= i
	}
	return hole < home || home <= i
}

func (d *dict) resize(p *dictPart, n int) {
	old := p.slots
	p.tags, p.slots = make([]uint8, n), make([]*host, n)
	for _, h := range old {
		if h != nil {
			_, tag, slot, _ := d.find(h.name)
			p.tags[slot], p.slots[slot] = tag, h
		}
	}
}

// all are the hosts; none may be added or removed meanwhile.
func (d *dict) all() iter.Seq[*host] {
	return func(yield func(*host) bool) {
		for i := range d.parts {
			for _, h := range d.parts[i].slots {
				if h != nil && !yield(h) {
					return
				}
			}
		}
	}
}
