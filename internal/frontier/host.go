package frontier

import (
	"math"
	"math/rand/v2"
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
// waiting, slowed or parked one in hosts.waiting, an exhausted one in hosts.resting. In all other states pos is
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

// hosts has the hosts that the frontier knows, and the order in which it gives them out.
type hosts struct {
	cfg    *Config
	time   *clock
	queues *queues
	rand   *rand.Rand

	dict    dict
	waiting heap[*host] // hosts with links, by time; including hosts that are alone and parked
	resting heap[*host] // hosts without links, by time
	shares  shares      // has the ready ones
	visits  visits
	classes classes
	recent  recent

	stats  Stats // the counts of hosts by their states, and of the links of blocked hosts
	queued int64 // links in hosts' queues, withdrawn ones, and those in Sides

	// Memory to reuse.
	spareHosts []*host
	extras     extras
	fronts     []*frontQueue // empty ones
	prefetched int           // keeps the compiler from removing reads that fill the processor's cache
}

// extras makes and reuses extras.
type extras struct {
	n     int // hosts with an extra
	spare []*extra
}

// noExtra is the extra of all hosts without one of their own. It must not be written.
var noExtra extra

// need returns an extra of h that may be written.
func (x *extras) need(h *host) *extra {
	if h.extra == &noExtra {
		if n := len(x.spare); n > 0 {
			h.extra, x.spare = x.spare[n-1], x.spare[:n-1]
		} else {
			h.extra = new(extra)
		}
		x.n++
	}
	return h.extra
}

// trim removes h's extra if it is empty.
func (x *extras) trim(h *host) {
	if own := h.extra; own != &noExtra && *own == noExtra {
		h.extra = &noExtra
		x.n--
		if len(x.spare) < spareMax {
			x.spare = append(x.spare, own)
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

func (s *shares) setAddr(h *host, a netip.Addr) {
	h.ip4 = [4]byte{}
	if a.Is4() {
		h.ip4 = a.As4()
	}
	if h.ip4 != [4]byte{} {
		a = netip.Addr{}
	}
	if h.extra.addr != a {
		s.extras.need(h).addr = a
		s.extras.trim(h)
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
func (hs *hosts) host(name string) *host {
	h := hs.dict.of(name)
	if h != nil {
		return h
	}
	if n := len(hs.spareHosts); n > 0 {
		h, hs.spareHosts = hs.spareHosts[n-1], hs.spareHosts[:n-1]
	} else {
		h = new(host)
	}
	*h = host{extra: &noExtra, name: strings.Clone(name), pos: -1, state: exhausted}
	hs.stats.Empty++
	hs.dict.add(h)
	if hs.time.hushing() {
		hs.notBefore(h, hs.time.quietTill)
	}
	if hs.cfg.Delays != nil && hs.time.quieted {
		if d := hs.cfg.hostDelay(h.name); d > hs.cfg.HostDelay {
			hs.notBefore(h, hs.time.quietFrom+int64(d))
		}
	}
	if hs.cfg.Lease != nil {
		if k := hs.shares.siteKey(h.name); k.site != "" {
			hs.shares.want(k, h)
		}
	}
	if hs.cfg.NoAddresses {
		hs.shares.moveTo(h, netip.Addr{})
	} else if a, ok := addrIn(h.name); ok {
		hs.shares.moveTo(h, a)
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
func (hs *hosts) notBefore(h *host, at int64) {
	if at > h.at {
		h.at = at
	}
}

// due returns the key of h in waiting or resting.
func (hs *hosts) due(h *host) int64 {
	if h.state == parked {
		return hs.shares.quietAt(h)
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
func (s *shares) groupOf(h *host) *group {
	if h.share > free {
		return s.groupsByNumber[h.share&^grouped]
	}
	return s.unbound
}

// heapOf returns the heap of h's state, or nil. Ready hosts are in their group instead. The state of a host must not
// change while it is in a heap.
func (hs *hosts) heapOf(h *host) *heap[*host] {
	switch h.state {
	case waiting, slowed, parked:
		return &hs.waiting
	case exhausted:
		return &hs.resting
	}
	return nil
}

// busy reports whether h was given to the caller.
func (h *host) busy() bool { return h.state == inProcess || h.state == resolving }

func (h *host) heapPos() *int32 { return &h.pos }

// count adds d to the number of hosts in state s.
func (hs *hosts) count(s state, d int) {
	switch s {
	case exhausted:
		hs.stats.Empty += d
	case ready:
		hs.stats.Ready += d // Stats subtracts the parked ones
	case parked:
		hs.stats.Ready += d
		hs.shares.heldBack += d
	case waiting:
		hs.stats.Resting += d
	case slowed:
		hs.stats.Paused += d
	case resolving:
		hs.stats.Resolving += d
	case inProcess:
		hs.stats.Fetching += d
	case blocked:
		hs.stats.Blocked += d
	}
}

func (hs *hosts) become(h *host, s state) {
	hs.count(h.state, -1)
	h.state = s
	hs.count(s, +1)
}

// leave removes h from the heap that it is in, if any.
func (hs *hosts) leave(h *host) {
	if h.pos < 0 {
		return
	}
	if h.state == ready {
		hs.unready(h)
		hs.shares.groupOf(h).hosts.remove(h)
	} else {
		hs.heapOf(h).remove(h)
	}
	if h.look != 0 {
		h.look = 0
		hs.extras.trim(h)
	}
	if h.state == ready {
		g := hs.shares.groupOf(h)
		if g.parkedAt != nil {
			hs.shares.heldBack--
		}
		hs.shares.regroup(g)
	}
}

// place puts h where it belongs. h must be in no heap and not in process.
func (hs *hosts) place(h *host) {
	if h.empty() {
		h.turns = 0 // links that come from the pools later do not find it warm
	}
	switch {
	case h.retired:
		hs.become(h, blocked)
	case h.empty():
		hs.forgive(h)
		if h.at <= hs.time.now && h.slow == 0 {
			hs.forget(h)
			return
		}
		hs.become(h, exhausted)
		if h.at <= hs.time.now {
			// Only a slow-down is left: check again when it is forgiven.
			hs.extras.need(h).look = max(h.slowUntil+int64(hs.cfg.ForgiveAfter), hs.time.now+1)
		}
		hs.resting.push(h, uint64(hs.due(h)))
	case h.at > hs.time.now:
		if h.slowUntil > hs.time.now {
			hs.become(h, slowed)
		} else {
			hs.become(h, waiting)
		}
		hs.waiting.push(h, uint64(hs.due(h)))
	case hs.shares.quietAt(h) > hs.time.now:
		hs.become(h, parked)
		hs.waiting.push(h, uint64(hs.due(h)))
	case hs.classes.on && !hs.choose(h):
		hs.notBefore(h, hs.time.now+heldWait)
		hs.become(h, waiting)
		hs.waiting.push(h, uint64(hs.due(h)))
	default:
		if h.share.alone() {
			h.share = unasked // before the stored end wraps around
		}
		hs.become(h, ready)
		g := hs.shares.groupOf(h)
		g.hosts.push(h, hs.order(h))
		if g.parkedAt != nil {
			hs.shares.heldBack++
		}
		hs.shares.regroup(g)
	}
}

// rekey moves h after its first link has changed. If there are classes, h keeps its slot.
func (hs *hosts) rekey(h *host) {
	if h.state == ready && !hs.classes.on {
		g := hs.shares.groupOf(h)
		g.hosts.fix(h, h.key().order())
		hs.shares.regroup(g)
	}
}

// begin gives h, the best host of g, to the caller.
func (hs *hosts) begin(h *host, g *group, e entry) {
	if hs.classes.on {
		hs.classes.now = max(hs.classes.now, g.key)
		hs.unready(h)
	}
	g.hosts.remove(h)
	hs.visits.begin(h, e, hs.time.now)
	hs.queues.fixed += e.ram()
	if hs.shares.resolved(h) {
		hs.become(h, inProcess)
		h.fresh = 0
		for _, b := range [...]*bucket{g.addr, g.site} {
			if b != nil {
				b.holder, b.last = h, h.name
			}
		}
	} else {
		hs.become(h, resolving)
	}
	hs.shares.regroup(g)
}

// end takes h back from the caller. back is nil or the link that comes next.
func (hs *hosts) end(h *host, back *entry) {
	hs.queues.fixed -= hs.visits.link(h).ram()
	if back != nil {
		hs.putFront(h, *back, true)
	}
	hs.visits.end(h)
	if h.retired {
		hs.stats.BlockedLinks += h.links()
	}
	hs.place(h)
}

// forget removes a host about which nothing must be remembered.
func (hs *hosts) forget(h *host) {
	hs.count(h.state, -1)
	hs.shares.leaveGroup(h)
	hs.dict.remove(h)
	if h.extra != &noExtra {
		*h.extra = extra{}
		hs.extras.trim(h)
	}
	if len(hs.spareHosts) < spareMax {
		*h = host{}
		hs.spareHosts = append(hs.spareHosts, h)
	}
}

// spareMax is the number of forgotten hosts whose memory is kept for reuse. Hosts that come and go then make no work
// for the garbage collector.
const spareMax = 1 << 10

// slowDownOrWait applies the pause that d asks for.
func (hs *hosts) slowDownOrWait(h *host, d Done) {
	if d.SlowDown {
		hs.slowDown(h, d.RetryAfter)
		return
	}
	hs.extras.need(h).slowUntil = max(h.slowUntil, hs.time.now+int64(min(d.RetryAfter, hs.cfg.SlowMax)))
	hs.notBefore(h, h.slowUntil)
}

// slowDown makes h pause. The first pause is as long as the host has asked for with least, but at most SlowBase;
// without least it is SlowBase. It is doubled for each pause that is not yet forgiven, within a tenth. The pause is at
// least least and at most SlowMax.
func (hs *hosts) slowDown(h *host, least time.Duration) {
	hs.forgive(h)
	if h.slow < maxSlow {
		hs.extras.need(h).slow++
	}
	first := hs.cfg.SlowBase
	if least > 0 {
		first = min(first, least)
	}
	pause := hs.cfg.SlowMax
	if n := h.slow - 1; first <= hs.cfg.SlowMax>>n {
		pause = first << n
	}
	pause += time.Duration((hs.rand.Float64()*0.2 - 0.1) * float64(pause))
	pause = min(max(pause, least), hs.cfg.SlowMax)
	hs.extras.need(h).slowUntil = max(h.slowUntil, hs.time.now+int64(pause))
	hs.notBefore(h, h.slowUntil)
}

// answered records how a request to h has ended. Each good answer halves the next pause, as it halves the way back to
// the usual delay in Scrapy's AutoThrottle. If it took several, a host that refuses one request in five would pause
// ever longer. If more than half of the answers are refusals, the pauses grow.
func (hs *hosts) answered(h *host, d Done) {
	if h.slow > 0 && !d.NoRequest && !d.SlowDown && !d.Failed && d.RetryAfter == 0 {
		h.slow--
	}
}

// forgive halves the next pause of h once per ForgiveAfter that has passed since the end of the last pause.
func (hs *hosts) forgive(h *host) {
	if h.slow == 0 {
		return
	}
	if hs.cfg.ForgiveAfter == 0 && hs.time.now >= h.slowUntil {
		h.slow = 0
	}
	for h.slow > 0 && hs.time.now-h.slowUntil >= int64(hs.cfg.ForgiveAfter) {
		h.slow--
		h.slowUntil += int64(hs.cfg.ForgiveAfter)
	}
}

// freshAddress is how long an address may be used for the request for which it was looked up, even if its TTL is
// shorter. Otherwise a host that waits for its turn at a shared address would be looked up again and again.
const freshAddress = 10 * time.Minute
