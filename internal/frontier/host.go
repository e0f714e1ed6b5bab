package frontier

import (
	"math"
	"net/netip"
	"strings"
	"time"
)

// maxSlow is the number of pauses above which doubling has no further effect.
const maxSlow = 40

// A state is a state of a host. String returns the word that users see, which two states may share.
type state uint8

const (
	exhausted state = iota
	ready
	// of a host that is alone: held back by its own address or site; other hosts stay ready and their group parks
	parked
	waiting
	slowed
	resolving
	inProcess
	blocked
)

func (s state) String() string {
	return [...]string{"empty", "ready", "resting", "resting", "paused", "resolving", "fetching", "blocked"}[s]
}

// A host is an entry of Polybot's host dictionary. It is in one heap or in none: a ready host in that of its group, a
// waiting, slowed or parked one in Frontier.waiting, an exhausted one in Frontier.resting. In all other states pos is
// negative. The struct holds what one level and one block of links need. What few hosts have is in extra; what only a
// host that was given out has is in its visit. A host takes two cache lines; what moving it needs is in the first.
type host struct {
	at      int64   // not to be fetched before, in ns of the frontier's clock
	share   share   // zero: not looked up yet
	pos     int32   // position in its heap; -1: in no heap; less: see visitOf
	ip4     [4]byte // its address, if it was looked up; all zero: see extra.addr
	turns   int16   // requests in a row
	state   state
	retired bool // blocked by the operator, as soon as it is not in process
	*extra
	q    queue // links of the highest level
	name string

	until seconds // when the look-up expires
	fresh seconds // until then the look-up is valid for the next request in any case
}

// An extra holds what few hosts have.
type extra struct {
	front     *frontQueue
	look      int64 // for an exhausted host with at in the past: when to check again whether it is forgiven
	slowUntil int64 // end of the last pause
	delay     time.Duration
	addr      netip.Addr // if it is not IPv4
	slow      uint8
}

// noExtra is the extra of all hosts without one of their own. It must not be written.
var noExtra extra

// needExtra returns an extra of h that may be written.
func (f *Frontier) needExtra(h *host) *extra {
	if h.extra == &noExtra {
		if n := len(f.spareExtras); n > 0 {
			h.extra, f.spareExtras = f.spareExtras[n-1], f.spareExtras[:n-1]
		} else {
			h.extra = new(extra)
		}
		f.extras++
	}
	return h.extra
}

// trimExtra removes h's extra if it is empty.
func (f *Frontier) trimExtra(h *host) {
	if own := h.extra; own != &noExtra && *own == noExtra {
		h.extra = &noExtra
		f.extras--
		if len(f.spareExtras) < spareMax {
			f.spareExtras = append(f.spareExtras, own)
		}
	}
}

// addr returns the address of h. It is invalid if it is unknown or not needed.
func (h *host) addr() netip.Addr {
	if h.ip4 != [4]byte{} {
		return netip.AddrFrom4(h.ip4)
	}
	return h.extra.addr
}

func (f *Frontier) setAddr(h *host, a netip.Addr) {
	h.ip4 = [4]byte{}
	if a.Is4() {
		h.ip4 = a.As4()
	}
	if h.ip4 != [4]byte{} {
		a = netip.Addr{}
	}
	if h.extra.addr != a {
		f.needExtra(h).addr = a
		f.trimExtra(h)
	}
}

// seconds is a time in whole seconds since the frontier's epoch, rounded down.
type seconds uint32

// always is a time that never comes.
const always seconds = math.MaxUint32

func secondsOf(at int64) seconds {
	return seconds(min(max(at, 0)/int64(time.Second), int64(always)))
}

func (s seconds) after(clock int64) bool { return int64(s)*int64(time.Second) > clock }

// host returns the dictionary's entry for name and adds it if it is missing.
func (f *Frontier) host(name string) *host {
	h := f.hosts.of(name)
	if h != nil {
		return h
	}
	if n := len(f.spareHosts); n > 0 {
		h, f.spareHosts = f.spareHosts[n-1], f.spareHosts[:n-1]
	} else {
		h = new(host)
	}
	*h = host{extra: &noExtra, name: strings.Clone(name), pos: -1, state: exhausted}
	f.stats.Empty++
	f.hosts.add(h)
	if f.hushing() {
		f.notBefore(h, f.quietTill)
	}
	if f.cfg.DelayOf != nil && f.quieted {
		if d := f.HostDelay(h.name); d > f.cfg.HostDelay {
			f.notBefore(h, f.quietFrom+int64(d))
		}
	}
	if f.cfg.Lease != nil {
		if k := f.siteKey(h.name); k.site != "" {
			f.want(k, h)
		}
	}
	if f.cfg.NoAddresses {
		f.moveTo(h, netip.Addr{})
	} else if a, ok := addrIn(h.name); ok {
		f.moveTo(h, a)
		h.until = always
	}
	return h
}

// addrIn returns the address that a host name spells, if it does. Such a name ends with a digit or a bracket.
func addrIn(name string) (a netip.Addr, ok bool) {
	if n := len(name); n == 0 || name[n-1] != ']' && (name[n-1] < '0' || name[n-1] > '9') {
		return a, false
	}
	a, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return a.Unmap(), err == nil
}

// notBefore holds h back until at. h must be in no heap.
func (f *Frontier) notBefore(h *host, at int64) {
	if at > h.at {
		h.at = at
	}
}

// due returns the key of h in waiting or resting.
func (f *Frontier) due(h *host) int64 {
	if h.state == parked {
		return f.quietAt(h)
	}
	return max(h.at, h.look)
}

// empty reports whether h has no links in its queues.
func (h *host) empty() bool { return h.q.n == 0 && h.front.len() == 0 }

// links returns the number of h's links in its queues, without the one in process.
func (h *host) links() int64 {
	n := int64(h.front.len())
	for q := h.first(); q != nil; q = q.next() {
		n += int64(q.n)
	}
	return n
}

// first returns the queue of the highest level, or nil.
func (h *host) first() *queue {
	if h.q.n == 0 {
		return nil
	}
	return &h.q
}

// key returns the position of h in the ready queue: that of its first link. h must have links.
func (h *host) key() key {
	k := key{warm: h.turns > 0}
	if h.q.n > 0 {
		k.level, k.number = h.q.level, h.q.head.first
	}
	if h.front.len() > 0 {
		e := &h.front.items[h.front.head]
		k.level, k.number = max(k.level, e.level), e.number
	}
	return k
}

// groupOf returns the group of h when it is ready.
func (f *Frontier) groupOf(h *host) *group {
	if h.share > free {
		return f.groupsByNumber[h.share&^grouped]
	}
	return f.unbound
}

// heapOf returns the heap of h's state, or nil. Ready hosts are in their group instead. The state of a host must not
// change while it is in a heap.
func (f *Frontier) heapOf(h *host) *heap[*host] {
	switch h.state {
	case waiting, slowed, parked:
		return &f.waiting
	case exhausted:
		return &f.resting
	}
	return nil
}

// busy reports whether h was given to the caller.
func (h *host) busy() bool { return h.state == inProcess || h.state == resolving }

func (h *host) heapPos() *int32 { return &h.pos }

// count adds d to the number of hosts in state s.
func (f *Frontier) count(s state, d int) {
	switch s {
	case exhausted:
		f.stats.Empty += d
	case ready:
		f.stats.Ready += d // Stats subtracts the parked ones
	case parked:
		f.stats.Ready += d
		f.stats.RestingShared += d
	case waiting:
		f.stats.Resting += d
	case slowed:
		f.stats.Paused += d
	case resolving:
		f.stats.Resolving += d
	case inProcess:
		f.stats.Fetching += d
	case blocked:
		f.stats.Blocked += d
	}
}

func (f *Frontier) become(h *host, s state) {
	f.count(h.state, -1)
	h.state = s
	f.count(s, +1)
}

// leave removes h from the heap that it is in, if any.
func (f *Frontier) leave(h *host) {
	if h.pos < 0 {
		return
	}
	if h.state == ready {
		f.unready(h)
		f.groupOf(h).hosts.remove(h)
	} else {
		f.heapOf(h).remove(h)
	}
	if h.look != 0 {
		h.look = 0
		f.trimExtra(h)
	}
	if h.state == ready {
		g := f.groupOf(h)
		if g.parkedAt != nil {
			f.stats.RestingShared--
		}
		f.regroup(g)
	}
}

// place puts h where it belongs. h must be in no heap and not in process.
func (f *Frontier) place(h *host) {
	if h.empty() {
		h.turns = 0 // links that come from the pools later do not find it warm
	}
	switch {
	case h.retired:
		f.become(h, blocked)
	case h.empty():
		f.forgive(h)
		if h.at <= f.clock && h.slow == 0 {
			f.forget(h)
			return
		}
		f.become(h, exhausted)
		if h.at <= f.clock {
			// Only a slow-down is left: check again when it is forgiven.
			f.needExtra(h).look = max(h.slowUntil+int64(f.cfg.ForgiveAfter), f.clock+1)
		}
		f.resting.push(h, uint64(f.due(h)))
	case h.at > f.clock:
		if h.slowUntil > f.clock {
			f.become(h, slowed)
		} else {
			f.become(h, waiting)
		}
		f.waiting.push(h, uint64(f.due(h)))
	case f.quietAt(h) > f.clock:
		f.become(h, parked)
		f.waiting.push(h, uint64(f.due(h)))
	case f.classes.on && !f.choose(h):
		f.notBefore(h, f.clock+heldWait)
		f.become(h, waiting)
		f.waiting.push(h, uint64(f.due(h)))
	default:
		if h.share.alone() {
			h.share = unasked // before the stored end wraps around
		}
		f.become(h, ready)
		g := f.groupOf(h)
		g.hosts.push(h, f.order(h))
		if g.parkedAt != nil {
			f.stats.RestingShared++
		}
		f.regroup(g)
	}
}

// rekey moves h after its first link has changed. If there are classes, h keeps its slot.
func (f *Frontier) rekey(h *host) {
	if h.state == ready && !f.classes.on {
		g := f.groupOf(h)
		g.hosts.fix(h, h.key().order())
		f.regroup(g)
	}
}

// begin gives h, the best host of g, to the caller.
func (f *Frontier) begin(h *host, g *group, e entry) {
	if f.classes.on {
		f.classes.now = max(f.classes.now, g.key)
		f.unready(h)
	}
	g.hosts.remove(h)
	f.visit(h, e)
	f.fixed += e.ram()
	if f.resolved(h) {
		f.become(h, inProcess)
		h.fresh = 0
		for _, b := range [...]*bucket{g.addr, g.site} {
			if b != nil {
				b.holder, b.last = h, h.name
			}
		}
	} else {
		f.become(h, resolving)
	}
	f.regroup(g)
}

// end takes h back from the caller. back is nil or the link that comes next.
func (f *Frontier) end(h *host, back *entry) {
	f.fixed -= f.cur(h).ram()
	if back != nil {
		f.putFront(h, *back, true)
	}
	f.leaveVisit(h)
	if h.retired {
		f.stats.BlockedLinks += h.links()
	}
	f.place(h)
}

// forget removes a host about which nothing must be remembered.
func (f *Frontier) forget(h *host) {
	f.count(h.state, -1)
	f.leaveGroup(h)
	f.hosts.remove(h)
	if h.extra != &noExtra {
		*h.extra = extra{}
		f.trimExtra(h)
	}
	if len(f.spareHosts) < spareMax {
		*h = host{}
		f.spareHosts = append(f.spareHosts, h)
	}
}

// spareMax is the number of forgotten hosts whose memory is kept for reuse. Hosts that come and go then make no work
// for the garbage collector.
const spareMax = 1 << 10

// slowDownOrWait applies the pause that d asks for.
func (f *Frontier) slowDownOrWait(h *host, d Done) {
	if d.SlowDown {
		f.slowDown(h, d.RetryAfter)
		return
	}
	f.needExtra(h).slowUntil = max(h.slowUntil, f.clock+int64(min(d.RetryAfter, f.cfg.SlowMax)))
	f.notBefore(h, h.slowUntil)
}

// slowDown makes h pause. The first pause is as long as the host has asked for with least, but at most SlowBase;
// without least it is SlowBase. It is doubled for each pause that is not yet forgiven, within a tenth. The pause is at
// least least and at most SlowMax.
func (f *Frontier) slowDown(h *host, least time.Duration) {
	f.forgive(h)
	if h.slow < maxSlow {
		f.needExtra(h).slow++
	}
	first := f.cfg.SlowBase
	if least > 0 {
		first = min(first, least)
	}
	pause := f.cfg.SlowMax
	if n := h.slow - 1; first <= f.cfg.SlowMax>>n {
		pause = first << n
	}
	pause += time.Duration((f.rand.Float64()*0.2 - 0.1) * float64(pause))
	pause = min(max(pause, least), f.cfg.SlowMax)
	f.needExtra(h).slowUntil = max(h.slowUntil, f.clock+int64(pause))
	f.notBefore(h, h.slowUntil)
}

// answered records how a request to h has ended. Each good answer halves the next pause, as it halves the way back to
// the usual delay in Scrapy's AutoThrottle. If it took several, a host that refuses one request in five would pause
// ever longer. If more than half of the answers are refusals, the pauses grow.
func (f *Frontier) answered(h *host, d Done) {
	if h.slow > 0 && !d.NoRequest && !d.SlowDown && !d.Failed && d.RetryAfter == 0 {
		h.slow--
	}
}

// forgive halves the next pause of h once per ForgiveAfter that has passed since the end of the last pause.
func (f *Frontier) forgive(h *host) {
	if h.slow == 0 {
		return
	}
	if f.cfg.ForgiveAfter == 0 && f.clock >= h.slowUntil {
		h.slow = 0
	}
	for h.slow > 0 && f.clock-h.slowUntil >= int64(f.cfg.ForgiveAfter) {
		h.slow--
		h.slowUntil += int64(f.cfg.ForgiveAfter)
	}
}

// freshAddress is how long an address may be used for the request for which it was looked up, even if its TTL is
// shorter. Otherwise a host that waits for its turn at a shared address would be looked up again and again.
const freshAddress = 10 * time.Minute
