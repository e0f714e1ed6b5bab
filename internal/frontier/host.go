package frontier

import (
	"math"
	"net/netip"
	"strings"
	"time"
)

// maxSlow is the number of pauses after which doubling has no effect.
const maxSlow = 40

type state uint8

const (
	exhausted state = iota
	ready
	parked // alone: held back by its own address or site. Others are ready, their group is parked
	waiting
	slowed
	resolving
	inProcess
	blocked
)

func (s state) String() string {
	return [...]string{"exhausted", "ready", "parked", "waiting", "slowed", "resolving", "in process", "blocked"}[s]
}

// A host is an entry of Polybot's host dictionary. It is in one heap or none:
// ready in its group's, waiting and slowed in Frontier.waiting, exhausted in
// Frontier.resting, else nowhere (pos is negative). What one level and one block
// of links need is in the host, what few have is in the rare, and what only
// hosts have that were given out is in their visit. A host is two lines of the
// processor's cache: what moving it needs is in the first.
type host struct {
	at      int64   // not before
	share   share   // zero: not looked up
	pos     int32   // in its heap; -1: in none; less: see visitOf
	ip4     [4]byte // where it is, once it was looked up; all zero: see rare.addr
	turns   int16   // requests in a row
	state   state
	retired bool // blocked as soon as it is not in process
	*rare
	q    queue // of the highest level
	name string

	until seconds // the look-up expires
	fresh seconds // for the next request it holds until then in any case
}

// A rare is what few hosts have.
type rare struct {
	front     *frontQueue
	look      int64 // exhausted, and at is over: when to look again whether it is forgiven
	slowUntil int64 // end of the last pause
	delay     time.Duration
	addr      netip.Addr // not of IPv4
	slow      uint8
	good      uint8 // answers in a row since the last pause
}

// blank is the rare of all hosts that have none. It is only read.
var blank rare

// own is h's rare, to be written.
func (f *Frontier) own(h *host) *rare {
	if h.rare == &blank {
		if n := len(f.formerRares); n > 0 {
			h.rare, f.formerRares = f.formerRares[n-1], f.formerRares[:n-1]
		} else {
			h.rare = new(rare)
		}
		f.rares++
	}
	return h.rare
}

// disown takes h's rare away if there is nothing in it.
func (f *Frontier) disown(h *host) {
	if own := h.rare; own != &blank && *own == blank {
		h.rare = &blank
		f.rares--
		if len(f.formerRares) < formerMax {
			f.formerRares = append(f.formerRares, own)
		}
	}
}

// addr is where h is; invalid: not known, or not to be known.
func (h *host) addr() netip.Addr {
	if h.ip4 != [4]byte{} {
		return netip.AddrFrom4(h.ip4)
	}
	return h.rare.addr
}

func (f *Frontier) setAddr(h *host, a netip.Addr) {
	h.ip4 = [4]byte{}
	if a.Is4() {
		h.ip4 = a.As4()
	}
	if h.ip4 != [4]byte{} {
		a = netip.Addr{}
	}
	if h.rare.addr != a {
		f.own(h).addr = a
		f.disown(h)
	}
}

// seconds is a time since the frontier's epoch, rounded down.
type seconds uint32

// always is a time that does not come.
const always seconds = math.MaxUint32

func secondsOf(at int64) seconds {
	return seconds(min(max(at, 0)/int64(time.Second), int64(always)))
}

func (s seconds) after(clock int64) bool { return int64(s)*int64(time.Second) > clock }

// host finds or makes the entry of the dictionary.
func (f *Frontier) host(name string) *host {
	p, hash := f.hosts.place(name)
	return f.hostAt(name, p, hash)
}

// hostAt is host, with what dict.place says of the name.
func (f *Frontier) hostAt(name string, p *dictPart, hash uint32) *host {
	_, h := p.find(name, hash)
	if h != nil {
		return h
	}
	if n := len(f.formerHosts); n > 0 {
		h, f.formerHosts = f.formerHosts[n-1], f.formerHosts[:n-1]
	} else {
		h = new(host)
	}
	*h = host{rare: &blank, name: strings.Clone(name), pos: -1, state: exhausted}
	f.stats.Exhausted++
	f.hosts.add(h, p, hash)
	if f.hushing() {
		f.notBefore(h, f.quietTill)
	}
	if f.cfg.Lease != nil && f.cfg.SiteDelay > 0 {
		f.want(bucketKey{site: siteOf(h.name)})
	}
	if f.cfg.NoAddresses {
		f.settleAt(h, netip.Addr{})
	} else if a, ok := addrIn(h.name); ok {
		f.settleAt(h, a)
		h.until = always
	}
	return h
}

// addrIn is the address that a host's name is, if it is one: then it ends with
// a digit, or with a bracket.
func addrIn(name string) (a netip.Addr, ok bool) {
	if n := len(name); n == 0 || name[n-1] != ']' && (name[n-1] < '0' || name[n-1] > '9') {
		return a, false
	}
	a, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return a.Unmap(), err == nil
}

// notBefore holds h back until at. It is in no heap.
func (f *Frontier) notBefore(h *host, at int64) {
	if at > h.at {
		h.at = at
	}
}

// due is h's place in waiting or resting.
func (f *Frontier) due(h *host) int64 {
	if h.state == parked {
		return f.quietAt(h)
	}
	return max(h.at, h.look)
}

// empty says whether h has no links.
func (h *host) empty() bool { return h.q.n == 0 && h.front.len() == 0 }

// links is the number of h's links, without the one in process.
func (h *host) links() int64 {
	n := int64(h.front.len())
	for q := h.first(); q != nil; q = q.next() {
		n += int64(q.n)
	}
	return n
}

// first is the queue of the highest level, nil if there is none.
func (h *host) first() *queue {
	if h.q.n == 0 {
		return nil
	}
	return &h.q
}

// key is h's place in the ready queue: that of its first link. h has links.
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

// groupOf is where h is when it is ready.
func (f *Frontier) groupOf(h *host) *group {
	if h.share > free {
		return f.homes[h.share&^grouped]
	}
	return f.open_
}

// heapOf is the heap of h's state, ready apart, which has one in each group. The state does not change while
// h is in it.
func (f *Frontier) heapOf(h *host) *heap[*host] {
	switch h.state {
	case waiting, slowed, parked:
		return &f.waiting
	case exhausted:
		return &f.resting
	}
	return nil
}

// busy says whether the caller has h.
func (h *host) busy() bool { return h.state == inProcess || h.state == resolving }

func (f *Frontier) newHostTimes() heap[*host] {
	return heap[*host]{
		key: func(h *host) uint64 { return uint64(f.due(h)) },
		pos: func(h *host) *int32 { return &h.pos },
	}
}

// count keeps the number of hosts in each state.
func (f *Frontier) count(s state, d int) {
	switch s {
	case exhausted:
		f.stats.Exhausted += d
	case ready:
		f.stats.Ready += d // parked ones are taken off in Stats
	case parked:
		f.stats.Ready += d
		f.stats.Parked += d
	case waiting:
		f.stats.Waiting += d
	case slowed:
		f.stats.Slowed += d
	case resolving:
		f.stats.Resolving += d
	case inProcess:
		f.stats.InProcess += d
	case blocked:
		f.stats.Blocked += d
	}
}

func (f *Frontier) become(h *host, s state) {
	f.count(h.state, -1)
	h.state = s
	f.count(s, +1)
}

// leave takes h out of the heap that it is in.
func (f *Frontier) leave(h *host) {
	if h.pos < 0 {
		return
	}
	if h.state == ready {
		f.groupOf(h).hosts.remove(h)
	} else {
		f.heapOf(h).remove(h)
	}
	if h.look != 0 {
		h.look = 0
		f.disown(h)
	}
	if h.state == ready {
		g := f.groupOf(h)
		if g.parkedAt != nil {
			f.stats.Parked--
		}
		f.regroup(g)
	}
}

// place puts h, which is in no heap and not in process, where it belongs.
func (f *Frontier) place(h *host) {
	if h.empty() {
		h.turns = 0 // its links in the pools, if any, do not find it warm
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
			// Nothing but a slow-down is left: look again when it is forgiven.
			f.own(h).look = max(h.slowUntil+int64(f.cfg.ForgiveAfter), f.clock+1)
		}
		f.resting.push(h)
	case h.at > f.clock:
		if h.slowUntil > f.clock {
			f.become(h, slowed)
		} else {
			f.become(h, waiting)
		}
		f.waiting.push(h)
	case f.quietAt(h) > f.clock:
		f.become(h, parked)
		f.waiting.push(h)
	default:
		if h.share.alone() {
			h.share = unasked // before the numbers of ends begin again
		}
		f.become(h, ready)
		g := f.groupOf(h)
		g.hosts.push(h)
		if g.parkedAt != nil {
			f.stats.Parked++
		}
		f.regroup(g)
	}
}

// rekey moves a host whose first link has changed.
func (f *Frontier) rekey(h *host) {
	if h.state == ready {
		g := f.groupOf(h)
		g.hosts.fix(h)
		f.regroup(g)
	}
}

// begin gives h, the best of g, to the caller.
func (f *Frontier) begin(h *host, g *group, e entry) {
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

// end takes h back from the caller, with the link that comes next.
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

// forget removes a host of which nothing is to be remembered.
func (f *Frontier) forget(h *host) {
	f.count(h.state, -1)
	f.leaveHome(h)
	f.hosts.remove(h)
	if h.rare != &blank {
		*h.rare = rare{}
		f.disown(h)
	}
	if len(f.formerHosts) < formerMax {
		*h = host{}
		f.formerHosts = append(f.formerHosts, h)
	}
}

// formerMax is how many forgotten hosts are kept for others: what comes and
// goes in a short while is no work for the collector.
const formerMax = 1 << 10

// slowDownOrWait applies the pause that d asks for.
func (f *Frontier) slowDownOrWait(h *host, d Done) {
	if d.SlowDown {
		f.slowDown(h, d.RetryAfter)
		return
	}
	f.own(h).slowUntil = max(h.slowUntil, f.clock+int64(min(d.RetryAfter, f.cfg.SlowMax)))
	f.notBefore(h, h.slowUntil)
}

// slowDown lets h pause: SlowBase, doubled for each pause that is not yet
// forgiven, within a tenth, but at least least.
func (f *Frontier) slowDown(h *host, least time.Duration) {
	f.forgive(h)
	if h.slow < maxSlow {
		f.own(h).slow++
	}
	pause := f.cfg.SlowMax
	if n := h.slow - 1; f.cfg.SlowBase <= f.cfg.SlowMax>>n {
		pause = f.cfg.SlowBase << n
	}
	pause += time.Duration((f.rand.Float64()*0.2 - 0.1) * float64(pause))
	pause = min(max(pause, least), f.cfg.SlowMax)
	f.own(h).slowUntil = max(h.slowUntil, f.clock+int64(pause))
	f.notBefore(h, h.slowUntil)
}

// forgiveGood is how many good answers in a row halve the pause that threatens
// a host: one that fails now and then would else stand still in the end.
const forgiveGood = 16

// answered notes how a request to h has ended.
func (f *Frontier) answered(h *host, d Done) {
	switch {
	case d.NoRequest || h.slow == 0:
	case d.SlowDown || d.RetryAfter > 0:
		h.good = 0
	default:
		if h.good++; h.good == forgiveGood {
			h.good = 0
			h.slow--
		}
	}
}

// forgive halves the pause that threatens h for each ForgiveAfter that has
// passed since the end of the last one.
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

// freshAddress is how long an address serves for the request that it was
// looked up for, however short its TTL: a host that waits for its turn at a
// shared address would otherwise be looked up again and again.
const freshAddress = 10 * time.Minute
