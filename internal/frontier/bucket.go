package frontier

import (
	"net/netip"
	"time"
)

// A bucketKey names an address or a site. The other field is zero. Without a SiteDelay, site is the name of a host (see
// siteKey).
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

// A bucket is an address or a site that hosts share. The host in process holds it; then it is quiet until freeAt. An
// address or site of a host that is alone has no bucket, see share.
type bucket struct {
	key    bucketKey
	freeAt int64
	holder *host
	last   string         // the last host that held it
	parked *heap[*group]  // the groups that it holds back; nil if there are none
	in     *heap[*bucket] // shares.freeing, shares.fading or nil
	pos    int32
	refs   int32 // number of groups with this bucket
}

func (b *bucket) free(clock int64) bool { return b.holder == nil && b.freeAt <= clock }

func (b *bucket) heapPos() *int32 { return &b.pos }

type groupKey struct{ addr, site *bucket }

// A group is the set of ready hosts that share both address and site. The same buckets hold all of them back. Without
// IPDelay and SiteDelay there is only one group. A group with hosts is in shares.ready or in a bucket's parked heap.
// A group without hosts is in no heap.
type group struct {
	addr, site *bucket // nil if there is none
	hosts      heap[*host]
	key        uint64 // order of the best host
	in         *heap[*group]
	parkedAt   *bucket
	pos        int32
	refs       int32 // number of hosts with this group as their share
}

func newGroup(addr, site *bucket) *group {
	return &group{addr: addr, site: site, pos: -1}
}

func (g *group) heapPos() *int32 { return &g.pos }

// A key is the position of a host in the ready queue: that of its first link.
type key struct {
	level  uint8
	warm   bool // its connection is open, and it had fewer than Config.Burst requests in a row
	number uint64
}

// numberBits is the number of bits of a request number that the order uses. No crawl makes more requests.
const numberBits = 55

// order packs k into a number. Lower numbers come first: hosts of a higher level, then warm hosts, then
// hosts with a lower request number. levelOf recovers the level.
func (k key) order() uint64 {
	o := uint64(^k.level)<<(numberBits+1) | min(k.number, 1<<numberBits-1)
	if !k.warm {
		o |= 1 << numberBits
	}
	return o
}

// levelOf returns the level of a key with this order.
func levelOf(order uint64) uint8 { return ^uint8(order >> (numberBits + 1)) }

// obstacle returns the bucket that holds g back: if both do, the one that does so longer. nil means that g is ready.
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

// regroup updates the position of g after its hosts have changed.
func (s *shares) regroup(g *group) {
	if g.hosts.len() == 0 {
		s.detach(g)
		s.wakeParked(g.addr, nil)
		s.wakeParked(g.site, nil)
		return
	}
	g.key = g.hosts.first()
	if g.in == nil || g.obstacle(s.time.now) != g.parkedAt {
		s.placeGroup(g)
	} else {
		g.in.fix(g, g.key)
	}
	s.wakeParked(g.addr, g)
	s.wakeParked(g.site, g)
}

// detach removes g from the heap that it is in.
func (s *shares) detach(g *group) {
	if g.in == nil {
		return
	}
	g.in.remove(g)
	g.in = nil
	if b := g.parkedAt; b != nil {
		g.parkedAt = nil
		s.heldBack -= g.hosts.len()
		if b.parked.len() == 0 {
			b.parked = nil
			if b.in == &s.freeing {
				s.schedule(b, &s.fading)
			}
		}
	}
}

// placeGroup puts g into the ready queue, or parks it at the bucket that holds it back. It reports whether g is ready.
// g must have hosts.
func (s *shares) placeGroup(g *group) bool {
	s.detach(g)
	b := g.obstacle(s.time.now)
	if b == nil {
		g.in = &s.ready
		g.in.push(g, g.key)
		return true
	}
	if b.parked == nil {
		b.parked = new(heap[*group])
	}
	g.parkedAt, g.in = b, b.parked
	g.in.push(g, g.key)
	s.heldBack += g.hosts.len()
	if b.holder == nil {
		s.schedule(b, &s.freeing)
	}
	return false
}

// schedule moves b to the heap to.
func (s *shares) schedule(b *bucket, to *heap[*bucket]) {
	if b.in == to {
		return
	}
	if b.in != nil {
		b.in.remove(b)
	}
	b.in = to
	to.push(b, uint64(b.freeAt))
}

// wakeParked lets the best group that b holds back become ready if b is free, unless the ready group taker comes before
// it.
func (s *shares) wakeParked(b *bucket, taker *group) {
	if taker != nil && taker.in != &s.ready {
		taker = nil
	}
	for b != nil && b.free(s.time.now) && b.parked != nil {
		g := b.parked.top()
		if taker != nil && g.key >= taker.key {
			return
		}
		if s.placeGroup(g) {
			return
		}
	}
}

// releaseBuckets ends h's hold on its address and site. Their quiet times begin, unless nothing was sent.
func (s *shares) releaseBuckets(h *host, d *Done) {
	noRequest := d.NoRequest
	if h.share.alone() {
		if h.state == inProcess && !noRequest {
			h.share = endedAt(s.time.now)
		}
		return
	}
	g := s.groupOf(h)
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b == nil || b.holder != h {
			continue
		}
		b.holder = nil
		if !noRequest {
			// Round up to milliseconds, as for hosts that are alone.
			rest := s.quietOf(b.key, s.sentAt(d))
			b.freeAt = max(b.freeAt, millis(s.time.now)*int64(time.Millisecond)+int64(rest))
		}
		if s.cfg.Lease != nil {
			s.used(b, d)
		}
	}
	// h must release both before wakeParked is called for either.
	for _, b := range [...]*bucket{g.addr, g.site} {
		switch {
		case b == nil:
		case b.free(s.time.now):
			s.wakeParked(b, nil)
		case b.holder == nil:
			s.retime(b)
		}
	}
}

// moveTo makes a the address of h, which must not be among the ready hosts of a group.
func (s *shares) moveTo(h *host, a netip.Addr) {
	if h.share.alone() && h.addr() == a {
		return
	}
	addr, site := s.keys(h, a)
	if h.share > free {
		// h stays in its group, unless it is the last host that needs the group.
		g := s.groupOf(h)
		same := (g.addr == nil) == !addr.addr.IsValid() && (g.addr == nil || g.addr.key == addr)
		if same && (g.refs > 1 || s.shared(g.addr) || s.shared(g.site)) {
			s.setAddr(h, a)
			return
		}
	}
	s.leaveGroup(h)
	s.setAddr(h, a)
	switch {
	case !addr.addr.IsValid() && site.site == "":
		h.share = free
	case !s.tryAlone(h, addr, site):
		s.group(h, addr, site)
	}
}

// shared reports whether another group needs b, or b is not free yet. b may be nil.
func (s *shares) shared(b *bucket) bool { return b != nil && (b.refs > 1 || !b.free(s.time.now)) }

// group gives h, which has no share, the group of this address and site as its share.
func (s *shares) group(h *host, addr, site bucketKey) {
	var k groupKey
	if addr.addr.IsValid() {
		k.addr = s.bucket(addr, h)
	}
	if site.site != "" {
		k.site = s.bucket(site, h)
	}
	n, ok := s.groups[k]
	if !ok {
		if last := len(s.freeGroups); last > 0 {
			n, s.freeGroups = s.freeGroups[last-1], s.freeGroups[:last-1]
		} else {
			n = grouped | share(len(s.groupsByNumber))
			s.groupsByNumber = append(s.groupsByNumber, nil)
		}
		s.groupsByNumber[n&^grouped] = newGroup(k.addr, k.site)
		s.groups[k] = n
		for _, b := range [...]*bucket{k.addr, k.site} {
			if b != nil {
				b.refs++
			}
		}
	}
	h.share = n
	s.groupsByNumber[n&^grouped].refs++
}

// leaveGroup takes the share of h away. Quiet times that run stay.
func (s *shares) leaveGroup(h *host) {
	if h.share.alone() {
		if addr, site := s.freeAt(h, false); max(addr, site) <= s.time.now {
			s.leaveAlone(h)
			return
		}
		s.makeShared(h)
	}
	n := h.share
	h.share = 0
	if n <= free {
		return
	}
	g := s.groupsByNumber[n&^grouped]
	if g.refs--; g.refs > 0 {
		return
	}
	s.groupsByNumber[n&^grouped] = nil
	s.freeGroups = append(s.freeGroups, n)
	delete(s.groups, groupKey{g.addr, g.site})
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b != nil {
			b.refs--
			s.forgetBucket(b)
		}
	}
}

// bucket returns the bucket of a key, and makes it if necessary for the host h.
func (s *shares) bucket(k bucketKey, h *host) *bucket {
	b := s.addrs[k.addr]
	if k.site != "" {
		b = s.sites[k.site]
	}
	if b == nil {
		b = &bucket{key: k, pos: -1}
		if k.site != "" {
			s.sites[k.site] = b
		} else {
			s.addrs[k.addr] = b
		}
		if s.time.hushed {
			s.quiet(b, s.time.hushedAt)
		}
		s.want(k, h)
	}
	return b
}

// hush starts the quiet times of all addresses and sites now, including those met later.
func (hs *hosts) hush() {
	if hs.time.hushed && hs.time.hushedAt == hs.time.now {
		return
	}
	hs.time.hushed, hs.time.hushedAt = true, hs.time.now
	hs.shares.hushShared()
	hs.hushAlone()
}

// hushShared starts the quiet times of all addresses and sites that are shared.
func (s *shares) hushShared() {
	for _, b := range s.addrs {
		s.quiet(b, s.time.now)
	}
	for _, b := range s.sites {
		s.quiet(b, s.time.now)
	}
}

// quiet starts the quiet time of b at from, unless b is quiet for longer.
func (s *shares) quiet(b *bucket, from int64) {
	if at := from + int64(s.delay(b.key)); at > max(b.freeAt, s.time.now) {
		if b.freeAt = at; b.holder == nil {
			s.retime(b)
		}
	}
}

// retime puts b among the timers after its quiet time has changed.
func (s *shares) retime(b *bucket) {
	if b.in != nil {
		b.in.remove(b)
		b.in = nil
	}
	if b.parked != nil {
		s.schedule(b, &s.freeing)
	} else {
		s.schedule(b, &s.fading)
	}
}

// forgetBucket removes b if no group has it and its quiet time is over.
func (s *shares) forgetBucket(b *bucket) {
	if b.refs == 0 && b.free(s.time.now) {
		if s.endAwait(b) {
			s.cfg.Lease.Leave(b.key.point(), s.time.timeAt(s.time.now))
		}
		if b.in != nil {
			b.in.remove(b)
			b.in = nil
		}
		if len(s.asked) > 0 {
			delete(s.asked, b.key.point())
		}
		if b.key.site != "" {
			delete(s.sites, b.key.site)
		} else {
			delete(s.addrs, b.key.addr)
		}
	}
}
