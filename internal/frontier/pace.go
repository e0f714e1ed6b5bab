package frontier

import (
	"maps"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Paces bounds the requests of single sites: of registered domains, with all hosts below them.
type Paces struct {
	// Paced are the sites that have a pace at first. Repace adds more.
	Paced []string
	Pace  Pace
}

// A Pace bounds the requests to a paced site. It may change while the frontier is in use: then it holds from the site's
// next request on.
type Pace interface {
	// Of returns the least time between two requests to the hosts of a site; less than 1 ms means that.
	Of(site string) time.Duration
}

// gap returns the least time between two requests to a site, or 0 if the site is not paced.
func (s *shares) gap(site string) time.Duration {
	if len(s.paced) == 0 || !s.paced[site] {
		return 0
	}
	return max(s.cfg.Pace.Of(site), time.Millisecond) // a lease needs some
}

// quietOf returns how long an address or a site is left alone after a request that was sent at sent and has ended now.
func (s *shares) quietOf(k bucketKey, sent int64) time.Duration {
	if k.addr.IsValid() {
		return s.cfg.IPDelay
	}
	return max(s.cfg.SiteDelay, s.gap(k.site)-time.Duration(s.time.now-sent))
}

// sentAt returns when the request of d was sent, at the latest now. If it is unknown, that is now.
func (s *shares) sentAt(d *Done) int64 {
	if d.Sent.IsZero() {
		return s.time.now
	}
	return min(s.time.since(d.Sent), s.time.now)
}

// Repace tells that Config.Pace has a pace for more sites. With the pace, one link at a time is in process for all
// hosts of the site. A site stays paced.
func (f *Frontier) Repace(sites []string, now time.Time) {
	f.tick(now)
	more := map[string]bool{}
	for _, s := range sites {
		if !f.hosts.shares.paced[s] {
			more[s] = true
		}
	}
	if len(more) == 0 {
		return
	}
	var moving []*host // ready hosts, which leave their groups
	var hosts []*host
	for _, h := range slices.Collect(f.hosts.dict.all()) {
		if !more[weburl.Site(h.name)] || h.share == 0 {
			continue
		}
		if h.share.alone() {
			f.hosts.shares.makeShared(h)
		}
		if h.pos >= 0 && h.state == ready {
			f.hosts.leave(h)
			moving = append(moving, h)
		}
		hosts = append(hosts, h)
		f.hosts.shares.leaveGroup(h)
	}
	maps.Copy(f.hosts.shares.paced, more)
	for _, h := range hosts {
		addr, site := f.hosts.shares.keys(h, h.addr())
		f.hosts.shares.group(h, addr, site)
		if b := f.hosts.shares.groupOf(h).site; f.time.hushed && b != nil {
			f.hosts.shares.quiet(b, f.time.hushedAt)
		}
	}
	for _, h := range moving {
		f.hosts.place(h)
	}
}
