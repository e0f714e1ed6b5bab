package frontier

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

// A HostLease is a Lease for agents that crawl the same hosts. What an agent knows of a host travels with the lease of
// the host's point: its site, or the host itself without a SiteDelay. A key stands for a host or for the origin of a
// robots.txt at that point.
type HostLease interface {
	Lease
	// Keep notes, before Used, what the next agent must know.
	Keep(point, key uint64, n LeaseNote, now time.Time)
	// Expect tells, before Used, when the host that uses point will use it again.
	Expect(point uint64, due, now time.Time)
	// Kept returns what the last agent has noted, and true if this agent has not seen it before, or if Ended is set.
	Kept(point, key uint64, now time.Time) (n LeaseNote, ok bool)
}

// A LeaseNote is what an agent knows of a host, or what the robots.txt of an origin says.
type LeaseNote struct {
	NotBefore time.Time     // of the next request
	Delay     time.Duration // the host's own delay (Crawl-delay)
	Slow      uint8         // pauses that are not yet forgiven
	SlowUntil time.Time     // end of the last pause
	Robots    uint64        // print of the rules; 0: this is a note of a host
	// Ended is set by Kept only: until then an agent that is lost with its notes may have made requests.
	Ended time.Time
}

// hostKey and originKey return the keys of the notes of a host and of a robots.txt.
func hostKey(host string) uint64     { return xxhash.Sum64String("host:" + host) }
func originKey(origin string) uint64 { return xxhash.Sum64String("robots:" + origin) }

// siteKey returns the key of the bucket of a host's site, if that has a delay or a pace; otherwise that of the host
// if other agents crawl it. All agents have the same SiteDelay, so their points mean the same.
func (s *shares) siteKey(name string) bucketKey {
	switch {
	case s.cfg.SiteDelay > 0:
		return bucketKey{site: siteOf(name)}
	case s.cfg.HostLease != nil:
		return bucketKey{site: name}
	case len(s.paced) > 0:
		if site := siteOf(name); s.paced[site] {
			return bucketKey{site: site}
		}
	}
	return bucketKey{}
}

// show returns the name of k for people.
func (s *shares) show(k bucketKey) string {
	if s.cfg.SiteDelay <= 0 && s.cfg.HostLease != nil && !k.addr.IsValid() {
		return "host " + k.site
	}
	return k.String()
}

// leaseQuiet returns the quiet time to ask a lease for. It includes the delay of h if h's state travels with it.
func (s *shares) leaseQuiet(k bucketKey, h *host) time.Duration {
	if s.cfg.HostLease == nil || k.site == "" {
		return s.delay(k)
	}
	return max(s.delay(k), s.cfg.hostDelay(h.name), h.delay)
}

// learn applies to the best host of g what the last agent has noted of it. It reports whether the host must wait
// now. Then g may have no host any more.
func (hs *hosts) learn(g *group) (waits bool) {
	if hs.cfg.HostLease == nil || g.site == nil {
		return false
	}
	h := g.hosts.top()
	n, ok := hs.cfg.HostLease.Kept(g.site.key.point(), hostKey(h.name), hs.time.timeAt(hs.time.now))
	if !ok {
		return false
	}
	own, end := hs.extras.need(h), hs.time.now+int64(hs.cfg.SlowMax)
	own.delay = max(own.delay, n.Delay)
	if !n.SlowUntil.IsZero() {
		// This agent may know of a later pause, if it lost the lease without handing it on.
		if until := min(hs.time.since(n.SlowUntil), end); until >= own.slowUntil {
			own.slow, own.slowUntil = min(n.Slow, maxSlow), until
		}
	}
	hs.extras.trim(h)
	var at int64
	if !n.NotBefore.IsZero() {
		at = min(hs.time.since(n.NotBefore), end)
	}
	if !n.Ended.IsZero() {
		at = max(at, hs.time.since(n.Ended)+int64(max(hs.cfg.hostDelay(h.name), h.delay)))
	}
	if at <= hs.time.now {
		return false
	}
	hs.leave(h)
	hs.notBefore(h, at)
	hs.place(h)
	return true
}

// keep notes the state of h, whose request ends with d, for the next agent.
func (hs *hosts) keep(h *host, d *Done) {
	if hs.cfg.HostLease == nil || h.state != inProcess {
		return
	}
	b := hs.shares.groupOf(h).site
	if b == nil || b.holder != h {
		return
	}
	s, now := hs.hostState(h), hs.time.timeAt(hs.time.now)
	n := LeaseNote{Delay: s.Delay, Slow: s.Slow, SlowUntil: s.SlowUntil}
	if h.at > hs.time.now {
		n.NotBefore = hs.time.timeAt(h.at)
	}
	point := b.key.point()
	if d.Robots.Print != 0 {
		hs.cfg.HostLease.Keep(point, originKey(d.Robots.Origin), LeaseNote{Robots: d.Robots.Print}, now)
	}
	hs.cfg.HostLease.Keep(point, hostKey(h.name), n, now)
	if h.empty() && d.Again == nil {
		return
	}
	for _, b := range [...]*bucket{hs.shares.groupOf(h).addr, b} {
		if b != nil && b.holder == h {
			due := max(h.at, hs.time.now+int64(hs.shares.delay(b.key)))
			hs.cfg.HostLease.Expect(b.key.point(), hs.time.timeAt(due), now)
		}
	}
}

// robotsPrint returns the print of the robots.txt of t's origin as another agent has read it last; 0: unknown.
func (hs *hosts) robotsPrint(t *Task, g *group) uint64 {
	if hs.cfg.HostLease == nil || g.site == nil {
		return 0
	}
	n, _ := hs.cfg.HostLease.Kept(g.site.key.point(), originKey(t.Link.URL.Origin()), hs.time.timeAt(hs.time.now))
	return n.Robots
}

// A RobotsPrint tells what the robots.txt of an origin says, as a hash.
type RobotsPrint struct {
	Origin string
	Print  uint64
}
