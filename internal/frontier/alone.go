package frontier

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"time"
)

// A share tells what a host shares with others. Zero means that it was not looked up yet. With the bit grouped, it is
// the number of the host's group. Otherwise the host is alone at its address and its site, and the share holds the end
// of its last response. The two quiet times of a host that is alone thus take no more memory than this.
//
// The end is in milliseconds of the frontier's clock, rounded up, and wraps around after 24 days. If a host is not used
// for exactly that long, it may have to wait for its quiet time once more.
type share uint32

const (
	grouped share = 1 << 31

	// free is the share of hosts that nothing can hold back: group 0.
	free = grouped
	// unasked is the share of a host that is alone and has no quiet time of address and site.
	unasked share = 1
	// shareEnds is the number of ends that can be distinguished.
	shareEnds = 1<<31 - 2
	// aloneMost is the longest quiet time for which a share is used.
	aloneMost = 24 * time.Hour
)

func (s share) alone() bool { return s > 0 && s < grouped }

func millis(at int64) int64 {
	return (at + int64(time.Millisecond) - 1) / int64(time.Millisecond)
}

// endedAt returns the share of a host that is alone and whose response ended at clock.
func endedAt(clock int64) share { return unasked + 1 + share(millis(clock)%shareEnds) }

// ended returns the end of the host's last response, as seen from clock. ok is false if it is unknown or does not
// matter.
func (s share) ended(clock int64) (at int64, ok bool) {
	if s <= unasked || s >= grouped {
		return 0, false
	}
	now := millis(clock)
	ago := (now - int64(s-unasked-1) + shareEnds) % shareEnds
	return (now - ago) * int64(time.Millisecond), true
}

// freeAt returns when the quiet times of h's address and site are over, for a host that is alone. It includes the quiet
// time that a Hush began only if hushed is true.
func (s *shares) freeAt(h *host, hushed bool) (addr, site int64) {
	if !h.share.alone() {
		return 0, 0
	}
	began, ok := h.share.ended(s.time.now)
	if hushed && s.time.hushed && (!ok || s.time.hushedAt > began) {
		began, ok = s.time.hushedAt, true
	}
	if !ok {
		return 0, 0
	}
	if s.cfg.IPDelay > 0 && h.addr().IsValid() {
		addr = began + int64(s.cfg.IPDelay)
	}
	if s.cfg.SiteDelay > 0 {
		site = began + int64(s.cfg.SiteDelay)
	}
	return addr, site
}

// quietAt returns when both are over.
func (s *shares) quietAt(h *host) int64 {
	addr, site := s.freeAt(h, true)
	return max(addr, site)
}

// tryAlone makes h alone if no other host has its address (if that is valid) or its site (if there is one). h must
// have no share. It reports whether h is alone now.
func (s *shares) tryAlone(h *host, addr, site bucketKey) bool {
	// With a Lease, other agents may have hosts there.
	others := max(s.cfg.IPDelay, s.cfg.SiteDelay) > aloneMost || s.cfg.Lease != nil || s.paced[site.site]
	if addr.addr.IsValid() {
		if o := s.aloneAt.of(addr); o != nil {
			s.makeShared(o)
		}
		others = others || s.addrs[addr.addr] != nil
	}
	if site.site != "" {
		if o := s.aloneIn.of(site); o != nil {
			s.makeShared(o)
		}
		others = others || s.sites[site.site] != nil
	}
	if others {
		return false
	}
	h.share = unasked
	if addr.addr.IsValid() {
		s.aloneAt.add(h, addr)
	}
	if site.site != "" {
		s.aloneIn.add(h, site)
	}
	return true
}

// keys returns the bucket keys of h's address and site, as far as these have quiet times.
func (s *shares) keys(h *host, a netip.Addr) (addr, site bucketKey) {
	if s.cfg.IPDelay > 0 {
		addr.addr = a
	}
	return addr, s.siteKey(h.name)
}

// leaveAlone ends that h is alone. h has no share afterwards.
func (s *shares) leaveAlone(h *host) {
	addr, site := s.keys(h, h.addr())
	if addr.addr.IsValid() {
		s.aloneAt.remove(h, addr)
	}
	if site.site != "" {
		s.aloneIn.remove(h, site)
	}
	h.share = 0
}

// makeShared gives o, which is alone, a group and buckets, as busy as its address and site are. It is called when
// another host has one of them too, or when they must be remembered without o.
func (s *shares) makeShared(o *host) {
	moves := o.pos >= 0 && (o.state == ready || o.state == parked)
	if moves {
		s.hosts.leave(o)
	}
	addr, site := s.keys(o, o.addr())
	addrAt, siteAt := s.freeAt(o, false)
	asked := o.share > unasked
	s.leaveAlone(o)
	s.group(o, addr, site)
	g := s.groupOf(o)
	for i, b := range [...]*bucket{g.addr, g.site} {
		if b == nil {
			continue
		}
		if asked {
			b.last = o.name
		}
		if o.state == inProcess && o.pos < -1 { // o still has its visit: see end
			if b.holder, b.last = o, o.name; b.in != nil {
				b.in.remove(b)
				b.in = nil
			}
		}
		if at := [...]int64{addrAt, siteAt}[i]; at > max(b.freeAt, s.time.now) {
			if b.freeAt = at; b.holder == nil {
				s.retime(b)
			}
		}
	}
	if moves {
		s.hosts.place(o)
	}
}

// hushAlone makes the hosts wait that are alone and ready or parked.
func (hs *hosts) hushAlone() {
	if hs.shares.aloneAt.n == 0 && hs.shares.aloneIn.n == 0 {
		return
	}
	var moving []*host
	for h := range hs.dict.all() {
		if h.share.alone() && (h.state == ready || h.state == parked) {
			moving = append(moving, h)
		}
	}
	for _, h := range moving {
		hs.leave(h)
		hs.place(h)
	}
}

// A table finds the host that is alone at an address or in a site. It uses open addressing with 16 bits of the hash
// apart from the pointers. Wrong hosts are hardly ever read, and none is read when the table grows. It is nine tenths
// full on average, because a search goes through the hash parts, 32 of which fit in a cache line. Its parts grow
// independently, as those of dict do.
type table struct {
	seed  maphash.Seed
	parts [tableParts]tablePart
	n     int
}

type tablePart struct {
	hosts []*host
	tags  []uint16 // parts of the hash; 0: free
	n     int
}

const (
	tableParts = 64
	tableMin   = 8
)

func newTable() table { return table{seed: maphash.MakeSeed()} }

func (t *table) place(k bucketKey) (p *tablePart, tag uint16) {
	var x uint64
	if k.addr.IsValid() {
		b := k.addr.As16()
		x = maphash.Bytes(t.seed, b[:])
	} else {
		x = maphash.String(t.seed, k.site)
	}
	return &t.parts[x%tableParts], max(uint16(x>>48), 1)
}

func (p *tablePart) home(tag uint16) int { return int(tag) * len(p.tags) >> 16 }

// is reports whether h is at the address or in the site that k names.
func (k bucketKey) is(h *host) bool {
	if k.addr.IsValid() {
		return h.addr() == k.addr
	}
	return siteOf(h.name) == k.site
}

// of returns the host that is alone at k, or nil.
func (t *table) of(k bucketKey) *host {
	p, tag := t.place(k)
	if p.n == 0 {
		return nil
	}
	for i := p.home(tag); p.tags[i] != 0; {
		if p.tags[i] == tag && k.is(p.hosts[i]) {
			return p.hosts[i]
		}
		if i++; i == len(p.tags) {
			i = 0
		}
	}
	return nil
}

// add adds h under key k, which must be free.
func (t *table) add(h *host, k bucketKey) {
	p, tag := t.place(k)
	if 12*(p.n+1) > 11*len(p.tags) {
		p.resize(max(tableMin, len(p.tags)+len(p.tags)/32+1))
	}
	p.put(h, tag)
	p.n++
	t.n++
}

func (p *tablePart) put(h *host, tag uint16) {
	i := p.home(tag)
	for p.tags[i] != 0 {
		if i++; i == len(p.tags) {
			i = 0
		}
	}
	p.hosts[i], p.tags[i] = h, tag
}

// remove removes h, which must be there under key k.
func (t *table) remove(h *host, k bucketKey) {
	p, tag := t.place(k)
	hole := p.home(tag)
	for p.hosts[hole] != h {
		if hole++; hole == len(p.tags) {
			hole = 0
		}
	}
	// Move the later entries that a search would no longer reach into the hole.
	for i := hole; ; {
		if i++; i == len(p.tags) {
			i = 0
		}
		if p.tags[i] == 0 {
			break
		}
		if !between(hole, p.home(p.tags[i]), i) {
			p.hosts[hole], p.tags[hole] = p.hosts[i], p.tags[i]
			hole = i
		}
	}
	p.hosts[hole], p.tags[hole] = nil, 0
	p.n--
	t.n--
	if len(p.tags) > tableMin && p.n < len(p.tags)/2 {
		p.resize(max(tableMin, len(p.tags)*5/8))
	}
}

// resize sets the capacity to at least n hosts. It uses all of the memory that the allocator returns for n.
func (p *tablePart) resize(n int) {
	hosts, tags := p.hosts, p.tags
	p.hosts = slices.Grow([]*host(nil), n)
	p.hosts = p.hosts[:cap(p.hosts)]
	p.tags = make([]uint16, len(p.hosts))
	for i, tag := range tags {
		if tag != 0 {
			p.put(hosts[i], tag)
		}
	}
}

// between reports whether home is after hole and not after i, in circular order.
func between(hole, home, i int) bool {
	if hole <= i {
		return hole < home && home <= i
	}
	return hole < home || home <= i
}
