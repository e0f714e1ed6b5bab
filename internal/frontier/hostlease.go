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
func (f *Frontier) siteKey(name string) bucketKey {
	switch {
	case f.cfg.SiteDelay > 0:
		return bucketKey{site: siteOf(name)}
	case f.cfg.HostLease != nil:
		return bucketKey{site: name}
	case len(f.paced) > 0:
		if site := siteOf(name); f.paced[site] {
			return bucketKey{site: site}
		}
	}
	return bucketKey{}
}

// show returns the name of k for people.
func (f *Frontier) show(k bucketKey) string {
	if f.cfg.SiteDelay <= 0 && f.cfg.HostLease != nil && !k.addr.IsValid() {
		return "host " + k.site
	}
	return k.String()
}

// leaseQuiet returns the quiet time to ask a lease for. It includes the delay of h if h's state travels with it.
func (f *Frontier) leaseQuiet(k bucketKey, h *host) time.Duration {
	if f.cfg.HostLease == nil || k.site == "" {
		return f.delay(k)
	}
	return max(f.delay(k), f.HostDelay(h.name), h.delay)
}

// learn applies to the best host of g what the last agent has noted of it. It reports whether the host must wait
// now. Then g may have no host any more.
func (f *Frontier) learn(g *group) (waits bool) {
	if f.cfg.HostLease == nil || g.site == nil {
		return false
	}
	h := g.hosts.top()
	n, ok := f.cfg.HostLease.Kept(g.site.key.point(), hostKey(h.name), f.timeAt(f.clock))
	if !ok {
		return false
	}
	own, end := f.needExtra(h), f.clock+int64(f.cfg.SlowMax)
	own.delay = max(own.delay, n.Delay)
	if !n.SlowUntil.IsZero() {
		// This agent may know of a later pause, if it lost the lease without handing it on.
		if until := min(f.since(n.SlowUntil), end); until >= own.slowUntil {
			own.slow, own.slowUntil = min(n.Slow, maxSlow), until
		}
	}
	f.trimExtra(h)
	var at int64
	if !n.NotBefore.IsZero() {
		at = min(f.since(n.NotBefore), end)
	}
	if !n.Ended.IsZero() {
		at = max(at, f.since(n.Ended)+int64(max(f.HostDelay(h.name), h.delay)))
	}
	if at <= f.clock {
		return false
	}
	f.leave(h)
	f.notBefore(h, at)
	f.place(h)
	return true
}

// keep notes the state of h, whose request ends with d, for the next agent.
func (f *Frontier) keep(h *host, d *Done) {
	if f.cfg.HostLease == nil || h.state != inProcess {
		return
	}
	b := f.groupOf(h).site
	if b == nil || b.holder != h {
		return
	}
	s, now := f.hostState(h), f.timeAt(f.clock)
	n := LeaseNote{Delay: s.Delay, Slow: s.Slow, SlowUntil: s.SlowUntil}
	if h.at > f.clock {
		n.NotBefore = f.timeAt(h.at)
	}
	point := b.key.point()
	if d.Robots.Print != 0 {
		f.cfg.HostLease.Keep(point, originKey(d.Robots.Origin), LeaseNote{Robots: d.Robots.Print}, now)
	}
	f.cfg.HostLease.Keep(point, hostKey(h.name), n, now)
	if h.empty() && d.Again == nil {
		return
	}
	for _, b := range [...]*bucket{f.groupOf(h).addr, b} {
		if b != nil && b.holder == h {
			f.cfg.HostLease.Expect(b.key.point(), f.timeAt(max(h.at, f.clock+int64(f.delay(b.key)))), now)
		}
	}
}

// robotsPrint returns the print of the robots.txt of t's origin as another agent has read it last; 0: unknown.
func (f *Frontier) robotsPrint(t *Task, g *group) uint64 {
	if f.cfg.HostLease == nil || g.site == nil {
		return 0
	}
	n, _ := f.cfg.HostLease.Kept(g.site.key.point(), originKey(t.Link.URL.Origin()), f.timeAt(f.clock))
	return n.Robots
}

// A RobotsPrint tells what the robots.txt of an origin says, as a hash.
type RobotsPrint struct {
	Origin string
	Print  uint64
}
