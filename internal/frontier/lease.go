package frontier

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

// A Lease says at which addresses and sites requests may be made now, where the
// hosts of one live on several agents. A point stands for an address or a site,
// see Point; its quiet time is that of Config.IPDelay or Config.SiteDelay.
type Lease interface {
	// Want says that a host at point will have its turn before long.
	Want(point uint64, quiet time.Duration, now time.Time)
	// Ready says whether a request may begin at point now, for a host that is
	// due. If not, at is when to ask again; the zero time: when Leased says so.
	Ready(point uint64, quiet time.Duration, now time.Time) (ok bool, at time.Time)
	// Begin begins a request that uses all of points, if that is still so.
	Begin(now time.Time, points ...uint64) bool
	// Used says that it has ended at a point, and that quiet begins at end.
	// requested says whether a request was made at all.
	Used(point uint64, end time.Time, quiet time.Duration, requested bool, now time.Time)
	// Leave says that nobody here waits for point any more.
	Leave(point uint64, now time.Time)
}

const (
	// leaseAgain is when a point that is waited for is asked for again, whether
	// or not Leased has named it.
	leaseAgain = 5 * time.Second
	// leaseSoon is the same for one that went away between Ready and Begin.
	leaseSoon = 250 * time.Millisecond
	// barredShare is how many points are waited for at most, as a multiple of
	// the active hosts, before the pools are read for others.
	barredShare = 2
)

// point is what all agents call an address or a site.
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

// resolved says whether h, whose turn it is, can be asked without a look-up.
func (f *Frontier) resolved(h *host) bool {
	return f.cfg.NoAddresses || h.share != 0 && (h.until.after(f.clock) || h.fresh.after(f.clock))
}

// want asks ahead for the lease of a bucket, or of the site of a host that is
// not looked up.
func (f *Frontier) want(k bucketKey) {
	if f.cfg.Lease != nil {
		f.cfg.Lease.Want(k.point(), f.delay(k), f.time_(f.clock))
	}
}

// delay is the quiet time of an address or a site.
func (f *Frontier) delay(k bucketKey) time.Duration {
	if k.addr.IsValid() {
		return f.cfg.IPDelay
	}
	return f.cfg.SiteDelay
}

// leased says whether the best host of g, which no bucket holds back, may be
// asked as far as leases go, or looked up for that. If not, the buckets whose lease is missing are quiet
// from now on, until they are asked for again.
func (f *Frontier) leased(g *group) bool {
	if f.cfg.Lease == nil || g == f.open_ {
		return true
	}
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b == nil {
			continue
		}
		point := b.key.point()
		yes, at := f.cfg.Lease.Ready(point, f.delay(b.key), f.time_(f.clock))
		switch {
		case yes:
			continue
		case at.IsZero():
			f.barred[point] = b
			f.stats.LeaseWaits++
			f.bar(b, f.clock+int64(leaseAgain))
		default:
			f.bar(b, max(f.since(at), f.clock+1))
		}
		// The site's turn is when we have the address's: two agents of which each
		// has one and waits for the other would not come out of that.
		return false
	}
	return true
}

// bar lets b, which is free, be quiet until at.
func (f *Frontier) bar(b *bucket, at int64) {
	b.freeAt = at
	f.retime(b)
}

// unbar takes note that b is no longer waited for, and says whether it was.
func (f *Frontier) unbar(b *bucket) (was bool) {
	if len(f.barred) == 0 {
		return false
	}
	point := b.key.point()
	if was = f.barred[point] == b; was {
		delete(f.barred, point)
	}
	return was
}

// awaited says whether the lease of b is waited for.
func (f *Frontier) awaited(b *bucket) bool {
	return len(f.barred) > 0 && f.barred[b.key.point()] == b
}

// beginLeased begins the request of g's best host with the Lease. If that says no
// after all, g waits a little.
func (f *Frontier) beginLeased(g *group) bool {
	if f.cfg.Lease == nil || g == f.open_ || !f.resolved(g.hosts.top()) {
		return true
	}
	points := f.points[:0]
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b != nil {
			points = append(points, b.key.point())
		}
	}
	if f.cfg.Lease.Begin(f.time_(f.clock), points...) {
		return true
	}
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b != nil {
			f.bar(b, f.clock+int64(leaseSoon))
		}
	}
	f.settle(g)
	return false
}

// used ends what beginLeased has begun, at one bucket.
func (f *Frontier) used(b *bucket, noRequest bool) {
	quiet := f.delay(b.key)
	if noRequest {
		quiet = 0
	}
	now := f.time_(f.clock)
	f.cfg.Lease.Used(b.key.point(), now, quiet, !noRequest, now)
}

// Leased says that Ready may answer otherwise than before at points.
func (f *Frontier) Leased(points []uint64, now time.Time) {
	f.tick(now)
	for _, point := range points {
		b := f.barred[point]
		if b == nil {
			continue
		}
		delete(f.barred, point)
		// Nobody has used it since it was barred; a Hush may have come.
		b.freeAt = f.clock
		if f.hushed {
			b.freeAt = max(b.freeAt, f.hushedAt+int64(f.delay(b.key)))
		}
		if b.freeAt > f.clock {
			f.retime(b)
			continue
		}
		b.in.remove(b)
		b.in = nil
		f.offer(b, nil)
		f.forgetBucket(b)
	}
}

// crowded says whether so many points are waited for that no others are to be
// looked for: those will come free one by one.
func (f *Frontier) crowded() bool {
	return f.active >= 0 && len(f.barred) > 0 && len(f.barred) >= max(barredShare*f.active, f.barredLeast)
}

// Points are those that a host in process uses.
func (f *Frontier) Points(host string) (points []uint64) {
	h := f.visited(host)
	if f.cfg.Lease == nil || h == nil || h.state != inProcess {
		return nil
	}
	g := f.groupOf(h)
	for _, b := range [...]*bucket{g.addr, g.site} {
		if b != nil && b.holder == h {
			points = append(points, b.key.point())
		}
	}
	return points
}
