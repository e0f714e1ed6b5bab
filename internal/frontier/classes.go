package frontier

import (
	"cmp"
	"math"
	"slices"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Classes of links share the requests by weight, within a host and among the hosts. A class that needs less than its
// share leaves the rest to the others. The order is that of start-time fair queueing (Goyal, Vin and Cheng, SIGCOMM
// 1996), in which a host that becomes ready gets a slot in virtual time:
//
//	start  = max(virtual time now, finish of the class)
//	finish = start + 1/weight
//
// The slot belongs to the class of the host that is furthest behind its share. Several classes are behind if the hosts
// of another one are faster. These share the host by weight, too: see pick. Next takes the host with the earliest
// slot, and virtual time goes on to it. A link of a higher level moves its host's slot towards now, within the slots of
// its class. So the class gets no more than its share in the long run.
//
// Before the first SetClasses there is one class, and hosts are ordered by level and request number (see key).

// MaxClasses is the number of classes.
const MaxClasses = 16

// A Class is a set of links with a share of the requests.
type Class struct {
	// Weight is the share of the class, relative to those of the other classes that have ready hosts. Zero means 1.
	Weight float64
	// Held says that Next gives out no links of the class for now. They count as Pending.
	Held bool
}

const (
	levels     = 16 // of a class
	classShift = 4

	// unit is the virtual time of one request of a class with weight 1.
	unit = 1 << 20
	// weightMin and weightMax bound the weights.
	weightMin, weightMax = 1.0 / 1024, 1024

	// heldWait is the time after which a host is looked at again if all of its links are held, in nanoseconds.
	heldWait = int64(1e9)
)

// classes is the state of the classes. The zero value has one class.
type classes struct {
	on     bool
	step   [MaxClasses]uint64 // virtual time of a request
	held   [MaxClasses]bool
	finish [MaxClasses]uint64 // end of the last slot
	now    uint64             // virtual time: the slot of the last host that was given out
	ready  [MaxClasses]int    // hosts that have a slot

	// tags and tag are like finish and now, but only of choices between classes that are behind their share.
	tags [MaxClasses]uint64
	tag  uint64
}

// SetClasses sets the weights of the classes, by the numbers that Config.ClassOf returns. Classes without an entry have
// weight 1. It panics if there are more than MaxClasses. A host whose links were held is ready again within a second.
func (f *Frontier) SetClasses(cs []Class) {
	var step [MaxClasses]uint64
	var held [MaxClasses]bool
	for i := range step {
		step[i] = unit
	}
	for i, c := range cs {
		if held[i] = c.Held; c.Weight > 0 {
			step[i] = uint64(unit / min(max(c.Weight, weightMin), weightMax))
		}
	}
	was := f.hosts.classes.held
	f.hosts.classes.step, f.hosts.classes.held = step, held
	var again []*host // lose their places
	for h := range f.hosts.dict.all() {
		if h.state == ready && (!f.hosts.classes.on || held[h.q.turn] && !was[h.q.turn]) {
			again = append(again, h)
		}
	}
	slices.SortFunc(again, func(a, b *host) int { return cmp.Compare(f.hosts.placeOf(a), f.hosts.placeOf(b)) })
	for _, h := range again {
		f.hosts.leave(h)
	}
	f.hosts.classes.on = true
	for _, h := range again {
		f.hosts.place(h)
	}
}

// rank returns the level under which l is queued: its class and its level.
func (c *Config) rank(l *link.Link) uint8 {
	if c.ClassOf == nil {
		return l.Level
	}
	return c.ClassOf(l)<<classShift | min(l.Level, levels-1)
}

func classOf(rank uint8) uint8 { return rank >> classShift }

// lead returns the queue of h whose turn it is. It has no links if h has none in its queues.
func (hs *hosts) lead(h *host) *queue {
	if hs.classes.on {
		for q := h.first(); q != nil; q = q.next() {
			if classOf(q.level) == h.q.turn {
				return q // the highest level of the class
			}
		}
	}
	return &h.q
}

// choose gives h the class whose turn it is: that of its front queue, or the one that is furthest behind its share. It
// returns false if all links are held.
func (hs *hosts) choose(h *host) bool {
	c := &hs.classes
	if h.front.len() > 0 {
		h.q.turn = classOf(h.front.items[h.front.head].level)
		return !c.held[h.q.turn]
	}
	var of [MaxClasses]bool // classes with links that are not held
	least := uint64(math.MaxUint64)
	for q := h.first(); q != nil; q = q.next() {
		if i := classOf(q.level); !c.held[i] {
			of[i] = true
			least = min(least, max(c.finish[i], c.now))
		}
	}
	if least == math.MaxUint64 {
		return false
	}
	h.q.turn = c.pick(of, least)
	return true
}

// pick returns the one of these classes that is furthest behind its share. least is the least end of their slots, but
// not before now. Several classes end there if they cannot use their shares. Their slots begin now, whatever their
// weights. So they get turns in an order of their own, also by start-time fair queueing.
func (c *classes) pick(of [MaxClasses]bool, least uint64) (best uint8) {
	behind, tag := 0, uint64(math.MaxUint64)
	for i, is := range of {
		if !is || max(c.finish[i], c.now) != least {
			continue
		}
		behind++
		if at := max(c.tags[i], c.tag); at < tag {
			best, tag = uint8(i), at
		}
	}
	if behind > 1 {
		c.tag, c.tags[best] = tag, tag+c.step[best]
	}
	return best
}

// order returns the place of h among the ready hosts. If there are classes, h gets a slot of its class.
func (hs *hosts) order(h *host) uint64 {
	if !hs.classes.on {
		return h.key().order()
	}
	c := &hs.classes
	c.ready[h.q.turn]++
	start := max(c.now, c.finish[h.q.turn])
	c.finish[h.q.turn] = start + c.step[h.q.turn]
	if h.turns > 0 {
		return c.now // its connection is open
	}
	level := hs.lead(h).level % levels
	if h.front.len() > 0 {
		level = max(level, h.front.items[h.front.head].level%levels)
	}
	return start - (start-c.now)*uint64(level)/levels
}

// placeOf returns what order has returned for h, which is ready.
func (hs *hosts) placeOf(h *host) uint64 { return hs.shares.groupOf(h).hosts.tree[h.pos].key }

// unready records that h has no place among the ready hosts any more.
func (hs *hosts) unready(h *host) {
	if hs.classes.on {
		hs.classes.ready[h.q.turn]--
	}
}

// poolToRead returns the pool that is to be read next; nil: none is.
func (f *Frontier) poolToRead() (best *pool) {
	if !f.hosts.classes.on {
		if len(f.pools.list) > 0 && f.hosts.needed(f.pools.list[0].level, f.active) {
			return f.pools.list[0]
		}
		return nil
	}
	least := uint64(math.MaxUint64)
	for _, p := range f.pools.list { // the highest level of a class comes first
		i := classOf(p.level)
		n := uint64(f.hosts.classes.ready[i]) * f.hosts.classes.step[i]
		if !f.hosts.classes.held[i] && n < least && f.hosts.needed(p.level, f.active) {
			best, least = p, n
		}
	}
	return best
}

// holding reports whether a pool has links that are held.
func (ps *pools) holding(c *classes) bool {
	return c.on && slices.ContainsFunc(ps.list, func(p *pool) bool { return c.held[classOf(p.level)] })
}

// withheld reports whether all links of h are held.
func (hs *hosts) withheld(h *host) bool {
	if !hs.classes.on || h.empty() {
		return false
	}
	if h.front.len() > 0 {
		return hs.classes.held[classOf(h.front.items[h.front.head].level)]
	}
	for q := h.first(); q != nil; q = q.next() {
		if !hs.classes.held[classOf(q.level)] {
			return false
		}
	}
	return true
}
