package frontier

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

// A Lease decides at which addresses and sites requests may be made now, if the hosts of one live on several agents. A
// point stands for an address or a site (see Frontier.Points). Its quiet time is Config.IPDelay or Config.SiteDelay.
// The frontier calls the methods from its owner's goroutine. They must not block and must not call the frontier.
type Lease interface {
	// Want announces that a host at point will have its turn soon.
	Want(point uint64, quiet time.Duration, now time.Time)
	// Ready reports whether a request may begin at point now, for a host that is due. If not, at is the time to ask
	// again; a zero at means that Leased will tell.
	Ready(point uint64, quiet time.Duration, now time.Time) (ok bool, at time.Time)
	// Begin begins a request that uses all of points. It returns false if that is no longer allowed.
	Begin(now time.Time, points ...uint64) bool
	// Used ends the request at one point; the quiet time begins at end. requested is false if nothing was sent.
	Used(point uint64, end time.Time, quiet time.Duration, requested bool, now time.Time)
	// Leave tells that no host here waits for point any more.
	Leave(point uint64, now time.Time)
}

const (
	// leaseAgain is the time after which an awaited point is asked for again, even if Leased has not named it.
	leaseAgain = 5 * time.Second
	// leaseLack is how far the next host must be from its turn before the frontier counts as lacking work.
	leaseLack = 2 * time.Second
	// leaseSoon is the time after which a lease is asked for again that was lost between Ready and Begin.
	leaseSoon = 250 * time.Millisecond
	// awaitedShare is the number of awaited points, as a multiple of the active hosts, from which on the pools are not
	// read for other hosts.
	awaitedShare = 2
)

// point returns the number that all agents use for an address or a site.
func (k bucketKey) point() uint64 {
	var room [64]byte
	b := room[:0]
	if k.addr.IsValid() {
		b = k.addr.AppendTo(append(b, "ip:"...))
	} else {
		b = append(append(b, "site:"...), k.site...)
	}
	return xxhash.Sum64(b)
}

// resolved reports whether h can be fetched without a look-up.
func (s *shares) resolved(h *host) bool {
	return s.cfg.NoAddresses || h.share != 0 && (h.until.after(s.time.now) || h.fresh.after(s.time.now))
}

// want asks ahead for the lease of an address or a site of h.
func (s *shares) want(k bucketKey, h *host) {
	if s.cfg.Lease != nil {
		s.cfg.Lease.Want(k.point(), s.leaseQuiet(k, h), s.time.timeAt(s.time.now))
	}
}

// delay returns the quiet time of an address or a site.
func (s *shares) delay(k bucketKey) time.Duration {
	if k.addr.IsValid() {
		return s.cfg.IPDelay
	}
	return max(s.cfg.SiteDelay, s.gap(k.site)) // 0 for a host, which itself waits for its delay
}

// leased reports whether the leases allow a request to the best host of g, which no bucket may hold back. If a lease is
// missing, leased makes its bucket quiet until the lease is asked for again.
func (s *shares) leased(g *group) bool {
	if s.cfg.Lease == nil || g == s.unbound {
		return true
	}
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b == nil {
			continue
		}
		point := b.key.point()
		yes, at := s.cfg.Lease.Ready(point, s.leaseQuiet(b.key, g.hosts.top()), s.time.timeAt(s.time.now))
		switch {
		case yes:
			delete(s.asked, point)
			continue
		case at.IsZero():
			s.awaiting[point] = b
			if _, again := s.asked[point]; !again {
				s.asked[point] = s.time.now
			}
			s.leaseWaits++
			s.quietUntil(b, s.time.now+int64(leaseAgain))
		default:
			s.quietUntil(b, max(s.time.since(at), s.time.now+1))
		}
		// Ask for the site only with the lease of the address: if one agent had the address and another the site, each
		// would wait for the other.
		return false
	}
	return true
}

// quietUntil makes b, which must be free, quiet until at.
func (s *shares) quietUntil(b *bucket, at int64) {
	b.freeAt = at
	s.retime(b)
}

// remind asks once more for the point that is awaited for longest, if a request has begun since the last refusal and no
// host has its turn soon. wake is when one has. The Lease learns from this that it holds back all that is left here:
// until then it may put off the calls for leases, since an agent with other hosts continues without them.
func (s *shares) remind(wake time.Time) (asks bool) {
	if !s.leaseBegan || len(s.awaiting) == 0 || wake.Sub(s.time.timeAt(s.time.now)) < leaseLack {
		return false
	}
	s.leaseBegan = false
	var first uint64
	for point, b := range s.awaiting {
		if w := s.awaiting[first]; w == nil || b.freeAt < w.freeAt || b.freeAt == w.freeAt && point < first {
			first = point
		}
	}
	s.askAgain([]uint64{first})
	return true
}

// endAwait records that the lease of b is no longer awaited, and reports whether it was.
func (s *shares) endAwait(b *bucket) (was bool) {
	if len(s.awaiting) == 0 {
		return false
	}
	point := b.key.point()
	if was = s.awaiting[point] == b; was {
		delete(s.awaiting, point)
	}
	return was
}

// awaited reports whether the lease of b is awaited.
func (s *shares) awaited(b *bucket) bool {
	return len(s.awaiting) > 0 && s.awaiting[b.key.point()] == b
}

// beginLeased begins the request of g's best host with the Lease. If the Lease refuses, g waits for leaseSoon.
func (s *shares) beginLeased(g *group) bool {
	if s.cfg.Lease == nil || g == s.unbound || !s.resolved(g.hosts.top()) {
		return true
	}
	points := s.points[:0]
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b != nil {
			points = append(points, b.key.point())
		}
	}
	if s.cfg.Lease.Begin(s.time.timeAt(s.time.now), points...) {
		s.leaseBegan = true
		return true
	}
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b != nil {
			s.quietUntil(b, s.time.now+int64(leaseSoon))
		}
	}
	s.placeGroup(g)
	return false
}

// used ends at b what beginLeased has begun.
func (s *shares) used(b *bucket, d *Done) {
	quiet := time.Duration(0)
	if !d.NoRequest {
		quiet = s.quietOf(b.key, s.sentAt(d))
	}
	now := s.time.timeAt(s.time.now)
	s.cfg.Lease.Used(b.key.point(), now, quiet, !d.NoRequest, now)
}

// Leased tells that Ready may answer differently than before at points.
func (f *Frontier) Leased(points []uint64, now time.Time) {
	f.tick(now)
	f.hosts.shares.askAgain(points)
}

// askAgain lets the hosts that wait for these points ask their leases again.
func (s *shares) askAgain(points []uint64) {
	for _, point := range points {
		b := s.awaiting[point]
		if b == nil {
			continue
		}
		delete(s.awaiting, point)
		// No request has used b since; but a Hush may have come.
		b.freeAt = s.time.now
		if s.time.hushed {
			b.freeAt = max(b.freeAt, s.time.hushedAt+int64(s.delay(b.key)))
		}
		if b.freeAt > s.time.now {
			s.retime(b)
			continue
		}
		b.in.remove(b)
		b.in = nil
		s.wakeParked(b, nil)
		s.forgetBucket(b)
	}
}

// tooManyAwaited reports whether so many points are awaited that the pools are not read for other hosts. The awaited
// ones will become free one by one.
func (s *shares) tooManyAwaited(active int) bool {
	return active >= 0 && len(s.awaiting) > 0 && len(s.awaiting) >= max(awaitedShare*active, s.awaitedLeast)
}

// Points returns the points that a host in process uses. It returns nil without a Lease.
func (f *Frontier) Points(host string) (points []uint64) {
	h := f.hosts.visited(host)
	if f.cfg.Lease == nil || h == nil || h.state != inProcess {
		return nil
	}
	g := f.hosts.shares.groupOf(h)
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b != nil && b.holder == h {
			points = append(points, b.key.point())
		}
	}
	return points
}
