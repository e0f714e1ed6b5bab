package frontier

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"time"
)

// A share says what a host has to do with others: zero before its first
// look-up, then the number of its group, or, with grouped not set, that it has
// its address and its site to itself, and when its last response ended. So the
// two quiet times of a host that is alone take no more room than this.
//
// Ends are milliseconds of the frontier's clock, rounded up, and begin again
// after 24 days: somebody who was not asked for just as long may be let wait
// for its address once more.
type share uint32

const (
	grouped share = 1 << 31

	// free is the share of hosts that nothing can hold back: those of group 0.
	free = grouped
	// unasked is alone, and no quiet time of its address and site runs.
	unasked share = 1
	// shareEnds is how many ends can be told apart.
	shareEnds = 1<<31 - 2
	// aloneMost is the longest quiet time that a share is used for.
	aloneMost = 24 * time.Hour
)

func (s share) alone() bool { return s > 0 && s < grouped }

func millis(at int64) int64 {
	return (at + int64(time.Millisecond) - 1) / int64(time.Millisecond)
}

// endedAt is the share of a host that is alone, whose response ended at clock.
func endedAt(clock int64) share { return unasked + 1 + share(millis(clock)%shareEnds) }

// ended is when its last response did, as seen from clock; ok is false if it
// is not known to matter.
func (s share) ended(clock int64) (at int64, ok bool) {
	if s <= unasked || s >= grouped {
		return 0, false
	}
	now := millis(clock)
	ago := (now - int64(s-unasked-1) + shareEnds) % shareEnds
	return (now - ago) * int64(time.Millisecond), true
}

// freeAt is when the quiet times of the address and the site of h are over,
// which is alone. What a Hush began counts only if hushed.
func (f *Frontier) freeAt(h *host, hushed bool) (addr, site int64) {
	if !h.share.alone() {
		return 0, 0
	}
	began, ok := h.share.ended(f.clock)
	if hushed && f.hushed && (!ok || f.hushedAt > began) {
		began, ok = f.hushedAt, true
	}
	if !ok {
		return 0, 0
	}
	if f.cfg.IPDelay > 0 && h.addr().IsValid() {
		addr = began + int64(f.cfg.IPDelay)
	}
	if f.cfg.SiteDelay > 0 {
		site = began + int64(f.cfg.SiteDelay)
	}
	return addr, site
}

// quietAt is when both are over.
func (f *Frontier) quietAt(h *host) int64 {
	addr, site := f.freeAt(h, true)
	return max(addr, site)
}

// keepAlone makes h, which has no share, one that is alone if nobody else has
// its address (if that is valid) or its site (if there is one).
func (f *Frontier) keepAlone(h *host, addr, site bucketKey) bool {
	// What others here have not, other agents may have.
	others := max(f.cfg.IPDelay, f.cfg.SiteDelay) > aloneMost || f.cfg.Lease != nil
	if addr.addr.IsValid() {
		if o := f.aloneAt.of(addr); o != nil {
			f.join(o)
		}
		others = others || f.addrs[addr.addr] != nil
	}
	if site.site != "" {
		if o := f.aloneIn.of(site); o != nil {
			f.join(o)
		}
		others = others || f.sites[site.site] != nil
	}
	if others {
		return false
	}
	h.share = unasked
	if addr.addr.IsValid() {
		f.aloneAt.add(h, addr)
	}
	if site.site != "" {
		f.aloneIn.add(h, site)
	}
	return true
}

// keys are those of h's address and site, if they have quiet times.
func (f *Frontier) keys(h *host, a netip.Addr) (addr, site bucketKey) {
	if f.cfg.IPDelay > 0 {
		addr.addr = a
	}
	if f.cfg.SiteDelay > 0 {
		site.site = siteOf(h.name)
	}
	return addr, site
}

// leaveAlone ends that h is alone: it has no share then.
func (f *Frontier) leaveAlone(h *host) {
	addr, site := f.keys(h, h.addr())
	if addr.addr.IsValid() {
		f.aloneAt.remove(h, addr)
	}
	if site.site != "" {
		f.aloneIn.remove(h, site)
	}
	h.share = 0
}

// join gives o, which is alone, a group and buckets that are as busy as its
// address and site are: somebody else has one of them, too, or they are to be
// remembered without it.
func (f *Frontier) join(o *host) {
	moves := o.pos >= 0 && (o.state == ready || o.state == parked)
	if moves {
		f.leave(o)
	}
	addr, site := f.keys(o, o.addr())
	addrAt, siteAt := f.freeAt(o, false)
	asked := o.share > unasked
	f.leaveAlone(o)
	f.group(o, addr, site)
	g := f.groupOf(o)
	for i, b := range [...]*bucket{g.addr, g.site} {
		if b == nil {
			continue
		}
		if asked {
			b.last = o.name
		}
		if o.state == inProcess && o.pos < -1 { // still: see end
			if b.holder, b.last = o, o.name; b.in != nil {
				b.in.remove(b)
				b.in = nil
			}
		}
		if at := [...]int64{addrAt, siteAt}[i]; at > max(b.freeAt, f.clock) {
			if b.freeAt = at; b.holder == nil {
				f.retime(b)
			}
		}
	}
	if moves {
		f.place(o)
	}
}

// hushAlone lets those wait that are alone, and ready or held back by
// themselves.
func (f *Frontier) hushAlone() {
	if f.aloneAt.n == 0 && f.aloneIn.n == 0 {
		return
	}
	var hs []*host
	for h := range f.hosts.all() {
		if h.share.alone() && (h.state == ready || h.state == parked) {
			hs = append(hs, h)
		}
	}
	for _, h := range hs {
		f.leave(h)
		f.place(h)
	}
}

// A table finds the host that has an address, or a site, to itself: open
// addressing with a piece of the hash apart from the pointers, so that hosts
// are hardly looked at in vain, and none when the table grows. It is full to
// nine tenths on average, for searches go through the pieces, 32 of which are a
// line of the processor's cache. Its parts grow by themselves, as the dict's.
type table struct {
	seed  maphash.Seed
	parts [tableParts]tablePart
	n     int
}

type tablePart struct {
	hosts []*host
	tags  []uint16 // 0: free
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

// is says whether h is where k says.
func (k bucketKey) is(h *host) bool {
	if k.addr.IsValid() {
		return h.addr() == k.addr
	}
	return siteOf(h.name) == k.site
}

// of is the host that k belongs to, nil if there is none.
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

// add puts in h as the one that k belongs to. There is none yet.
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

// remove takes h out, which is there with the key k.
func (t *table) remove(h *host, k bucketKey) {
	p, tag := t.place(k)
	hole := p.home(tag)
	for p.hosts[hole] != h {
		if hole++; hole == len(p.tags) {
			hole = 0
		}
	}
	// As in dict.remove.
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

// resize makes room for n hosts at least: for as many as what is allocated for
// n has room for.
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
