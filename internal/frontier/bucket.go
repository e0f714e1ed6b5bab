package frontier

import (
	"net/netip"
	"time"
)

// A bucketKey names an address or a site, the other is zero.
type bucketKey struct {
	addr netip.Addr
	site string
}

func (k bucketKey) String() string {
	if k.addr.IsValid() {
		return "address " + k.addr.String()
	}
	return "site " + k.site
}

// A bucket is what hosts share: an address or a site. It is held by the host
// in process and then quiet until freeAt. Hosts that are alone there have none,
// see share.
type bucket struct {
	key    bucketKey
	freeAt int64
	holder *host
	last   string         // the host that held it last
	parked *heap[*group]  // groups that it holds back; nil: none
	in     *heap[*bucket] // freeing, fading or nil
	pos    int32
	refs   int32 // groups
}

func (b *bucket) free(clock int64) bool { return b.holder == nil && b.freeAt <= clock }

func newBucketTimes() heap[*bucket] {
	return heap[*bucket]{
		key: func(b *bucket) uint64 { return uint64(b.freeAt) },
		pos: func(b *bucket) *int32 { return &b.pos },
	}
}

type groupKey struct{ addr, site *bucket }

// A group is the ready hosts that share both address and site, and so are held
// back by the same things. Without IPDelay and SiteDelay there is only one.
// It is in Frontier.ready, in a bucket's parked, or, without hosts, nowhere.
type group struct {
	addr, site *bucket // nil: none
	hosts      crowd
	key        uint64 // order of the best host's
	in         *heap[*group]
	parkedAt   *bucket
	pos        int32
	refs       int32 // hosts at home in it
}

func newGroup(addr, site *bucket) *group {
	return &group{addr: addr, site: site, pos: -1}
}

func newGroupHeap() heap[*group] {
	return heap[*group]{key: func(g *group) uint64 { return g.key }, pos: func(g *group) *int32 { return &g.pos }}
}

// A key is a host's place in the ready queue: that of its first link.
type key struct {
	level  uint8
	warm   bool // its connection is open, and it has been asked less than Config.Burst times in a row
	number uint64
}

// ahead is the order of the ready queue: higher level, then warm hosts, then
// lower request number.
func (k key) ahead(o key) bool {
	if k.level != o.level {
		return k.level > o.level
	}
	if k.warm != o.warm {
		return k.warm
	}
	return k.number < o.number
}

// numberBits are those of a request number that count in the order: more
// requests than anybody makes.
const numberBits = 55

// order is lower for the key that is ahead, and tells the level.
func (k key) order() uint64 {
	o := uint64(^k.level)<<(numberBits+1) | min(k.number, 1<<numberBits-1)
	if !k.warm {
		o |= 1 << numberBits
	}
	return o
}

// levelOf is the level of a key with this order.
func levelOf(order uint64) uint8 { return ^uint8(order >> (numberBits + 1)) }

// obstacle is the bucket that holds g back, the one for longer if both do.
func (g *group) obstacle(clock int64) *bucket {
	a, s := g.addr, g.site
	if a != nil && a.free(clock) {
		a = nil
	}
	if s != nil && s.free(clock) {
		s = nil
	}
	switch {
	case a == nil:
		return s
	case s == nil || a.holder != nil:
		return a
	case s.holder != nil || s.freeAt > a.freeAt:
		return s
	}
	return a
}

// regroup puts g right after its hosts have changed.
func (f *Frontier) regroup(g *group) {
	if g.hosts.len() == 0 {
		f.detach(g)
		f.offer(g.addr, nil)
		f.offer(g.site, nil)
		return
	}
	g.key = g.hosts.first()
	if g.in == nil || g.obstacle(f.clock) != g.parkedAt {
		f.settle(g)
	} else {
		g.in.fix(g)
	}
	f.offer(g.addr, g)
	f.offer(g.site, g)
}

// detach takes g out of the heap that it is in.
func (f *Frontier) detach(g *group) {
	if g.in == nil {
		return
	}
	g.in.remove(g)
	g.in = nil
	if b := g.parkedAt; b != nil {
		g.parkedAt = nil
		f.stats.Parked -= g.hosts.len()
		if b.parked.len() == 0 {
			b.parked = nil
			if b.in == &f.freeing {
				f.time(b, &f.fading)
			}
		}
	}
}

// settle puts g into the ready queue, or parks it at what holds it back, and
// says whether it is ready. g has hosts.
func (f *Frontier) settle(g *group) bool {
	f.detach(g)
	b := g.obstacle(f.clock)
	if b == nil {
		g.in = &f.ready
		g.in.push(g)
		return true
	}
	if b.parked == nil {
		parked := newGroupHeap()
		b.parked = &parked
	}
	g.parkedAt, g.in = b, b.parked
	g.in.push(g)
	f.stats.Parked += g.hosts.len()
	if b.holder == nil {
		f.time(b, &f.freeing)
	}
	return false
}

// time moves b to the heap to.
func (f *Frontier) time(b *bucket, to *heap[*bucket]) {
	if b.in == to {
		return
	}
	if b.in != nil {
		b.in.remove(b)
	}
	b.in = to
	to.push(b)
}

// offer gives a free bucket to those that it holds back: the best of them
// becomes ready unless taker, which is ready, comes before it.
func (f *Frontier) offer(b *bucket, taker *group) {
	if taker != nil && taker.in != &f.ready {
		taker = nil
	}
	for b != nil && b.free(f.clock) && b.parked != nil {
		g := b.parked.top()
		if taker != nil && g.key >= taker.key {
			return
		}
		if f.settle(g) {
			return
		}
	}
}

// releaseBuckets ends h's hold on its address and site; the quiet time begins
// unless nothing was sent.
func (f *Frontier) releaseBuckets(h *host, noRequest bool) {
	if h.share.alone() {
		if h.state == inProcess && !noRequest {
			h.share = endedAt(f.clock)
		}
		return
	}
	g := f.groupOf(h)
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b == nil || b.holder != h {
			continue
		}
		b.holder = nil
		if !noRequest {
			b.freeAt = max(b.freeAt, millis(f.clock)*int64(time.Millisecond)+int64(f.delay(b.key))) // as for those alone
		}
		if f.cfg.Lease != nil {
			f.used(b, noRequest)
		}
	}
	// Both are free of h before either is offered.
	for _, b := range [...]*bucket{g.addr, g.site} {
		switch {
		case b == nil:
		case b.free(f.clock):
			f.offer(b, nil)
		case b.holder == nil:
			f.retime(b)
		}
	}
}

// settleAt makes a the address of h, which is not in a group's crowd.
func (f *Frontier) settleAt(h *host, a netip.Addr) {
	if h.share.alone() && h.addr() == a {
		return
	}
	addr, site := f.keys(h, a)
	if h.share > free {
		// It stays in its group, unless it is the last one of all.
		g := f.groupOf(h)
		same := (g.addr == nil) == !addr.addr.IsValid() && (g.addr == nil || g.addr.key == addr)
		if same && (g.refs > 1 || f.shared(g.addr) || f.shared(g.site)) {
			f.setAddr(h, a)
			return
		}
	}
	f.leaveHome(h)
	f.setAddr(h, a)
	switch {
	case !addr.addr.IsValid() && site.site == "":
		h.share = free
	case !f.keepAlone(h, addr, site):
		f.group(h, addr, site)
	}
}

// shared says whether anybody but one group without hosts that are ready needs
// b, which may be nil.
func (f *Frontier) shared(b *bucket) bool { return b != nil && (b.refs > 1 || !b.free(f.clock)) }

// group makes h, which has no share, one of the group of this address and site.
func (f *Frontier) group(h *host, addr, site bucketKey) {
	var k groupKey
	if addr.addr.IsValid() {
		k.addr = f.bucket(addr)
	}
	if site.site != "" {
		k.site = f.bucket(site)
	}
	n, ok := f.groups[k]
	if !ok {
		if last := len(f.freeGroups); last > 0 {
			n, f.freeGroups = f.freeGroups[last-1], f.freeGroups[:last-1]
		} else {
			n = grouped | share(len(f.homes))
			f.homes = append(f.homes, nil)
		}
		f.homes[n&^grouped] = newGroup(k.addr, k.site)
		f.groups[k] = n
		for _, b := range [...]*bucket{k.addr, k.site} {
			if b != nil {
				b.refs++
			}
		}
	}
	h.share = n
	f.homes[n&^grouped].refs++
}

// leaveHome ends h's share in what it shares. Quiet times that run stay.
func (f *Frontier) leaveHome(h *host) {
	if h.share.alone() {
		if addr, site := f.freeAt(h, false); max(addr, site) <= f.clock {
			f.leaveAlone(h)
			return
		}
		f.join(h)
	}
	n := h.share
	h.share = 0
	if n <= free {
		return
	}
	g := f.homes[n&^grouped]
	if g.refs--; g.refs > 0 {
		return
	}
	f.homes[n&^grouped] = nil
	f.freeGroups = append(f.freeGroups, n)
	delete(f.groups, groupKey{g.addr, g.site})
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b != nil {
			b.refs--
			f.forgetBucket(b)
		}
	}
}

func (f *Frontier) bucket(k bucketKey) *bucket {
	b := f.addrs[k.addr]
	if k.site != "" {
		b = f.sites[k.site]
	}
	if b == nil {
		b = &bucket{key: k, pos: -1}
		if k.site != "" {
			f.sites[k.site] = b
		} else {
			f.addrs[k.addr] = b
		}
		if f.hushed {
			f.quiet(b, f.hushedAt)
		}
		f.want(k)
	}
	return b
}

// hushing says whether all hosts are in their quiet time after Hush.
func (f *Frontier) hushing() bool { return f.quietTill > f.clock }

// hush begins the quiet times of all addresses and sites at the present time,
// of those to come as well.
func (f *Frontier) hush() {
	if f.hushed && f.hushedAt == f.clock {
		return
	}
	f.hushed, f.hushedAt = true, f.clock
	for _, b := range f.addrs {
		f.quiet(b, f.clock)
	}
	for _, b := range f.sites {
		f.quiet(b, f.clock)
	}
	f.hushAlone()
}

// quiet begins b's quiet time at from, unless it is quiet for longer.
func (f *Frontier) quiet(b *bucket, from int64) {
	if at := from + int64(f.delay(b.key)); at > max(b.freeAt, f.clock) {
		if b.freeAt = at; b.holder == nil {
			f.retime(b)
		}
	}
}

// retime puts b, whose quiet time has changed, among the timers.
func (f *Frontier) retime(b *bucket) {
	if b.in != nil {
		b.in.remove(b)
		b.in = nil
	}
	if b.parked != nil {
		f.time(b, &f.freeing)
	} else {
		f.time(b, &f.fading)
	}
}

// forgetBucket removes a bucket that nobody names and whose quiet time is over.
func (f *Frontier) forgetBucket(b *bucket) {
	if b.refs == 0 && b.free(f.clock) {
		if f.unbar(b) {
			f.cfg.Lease.Leave(b.key.point(), f.time_(f.clock))
		}
		if b.in != nil {
			b.in.remove(b)
			b.in = nil
		}
		if b.key.site != "" {
			delete(f.sites, b.key.site)
		} else {
			delete(f.addrs, b.key.addr)
		}
	}
}
