package cluster

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
)

// Leases are the permissions to contact the addresses and registered domains that hosts of
// other agents share. The Frontier has them, too, and returns no visit without its leases. Safe for
// concurrent use.
type Leases interface {
	// Grip reports whether requests may begin now with the present leases.
	Grip() bool
	// Uses tells that a visit to a host with these leases begins. When one of them is given back, no connection to the
	// host may stay open.
	Uses(host string, points []uint64)
	// Counts returns the counts of this run.
	Counts() report.Leases
}

// Permits are the permissions of the visits in progress, by point. A point is an address or a registered domain. If
// there is a Right, all has the Permits of all visits. Safe for concurrent use, except for what only the dispatcher
// calls: of and counts.
type Permits struct {
	*base
	mu  sync.Mutex
	at  map[uint64]*visit.Permit
	all map[*visit.Permit]struct{}
}

// of returns the permission for a visit to a host, if it uses a lease or needs the permission of coordinators.
func (ps *Permits) of(host string) *visit.Permit {
	var points []uint64
	if ps.Leases != nil {
		points = ps.loop.Frontier.Points(host)
	}
	if len(points) == 0 && ps.Coordinators == nil {
		return nil
	}
	if len(points) > 0 {
		ps.Leases.Uses(host, points)
	}
	grip := func() bool {
		return ps.mayVisit(ps.loop.Config.Clock.Now()) && (len(points) == 0 || ps.Leases.Grip())
	}
	var p *visit.Permit
	p = visit.NewPermit(grip, func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		delete(ps.all, p)
		for _, point := range points {
			delete(ps.at, point)
		}
	})
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.at == nil {
		ps.at, ps.all = map[uint64]*visit.Permit{}, map[*visit.Permit]struct{}{}
	}
	for _, point := range points {
		ps.at[point] = p
	}
	if ps.Coordinators != nil {
		ps.all[p] = struct{}{}
	}
	return p
}

// mayVisit reports whether coordinators permit visits now, if there are any.
func (o *Others) mayVisit(now time.Time) bool {
	return o.Coordinators == nil || o.Coordinators.May(now)
}

// Resume tells the Crawler that visits may begin again. It returns when the dispatcher knows, or when the run has
// ended. Safe for concurrent use.
func (ps *Permits) Resume() { ps.run.Tell(func(time.Time) {}) }

// CutAll ends all visits in progress that need the permission of coordinators, because it is lost. It returns their
// number. Their URLs
// go back to the front of their hosts. It does not block. Safe for concurrent use.
func (ps *Permits) CutAll() (n int) {
	ps.mu.Lock()
	list := slices.Collect(maps.Keys(ps.all))
	ps.mu.Unlock()
	for _, p := range list {
		if p.CutOff() {
			n++
		}
	}
	return n
}

// CutOff ends the visits in progress that use one of points, because their leases are lost. It
// returns their number. It does not block. Safe for concurrent use.
func (ps *Permits) CutOff(points []uint64) (n int) {
	for _, point := range points {
		ps.mu.Lock()
		p := ps.at[point]
		ps.mu.Unlock()
		if p != nil && p.CutOff() {
			n++
		}
	}
	if n > 0 {
		ps.loop.Events.Write("lease-lost", report.F("visits", n))
	}
	return n
}

// Leased tells the Frontier for which points leases may have arrived. It returns when the
// Frontier knows, or when the run has ended. Safe for concurrent use.
func (ps *Permits) Leased(points []uint64) {
	ps.run.Tell(func(now time.Time) { ps.loop.Frontier.Leased(points, now) })
}

// counts returns the counts of leases in this run, or nil without leases. pagesBefore are those of earlier runs.
func (ps *Permits) counts(pagesBefore int64) *report.Leases {
	if ps.Leases == nil {
		return nil
	}
	n := ps.Leases.Counts()
	n.Waits = ps.loop.Frontier.Stats().LeaseWaits
	n.Count(ps.loop.Tally.Pages() - pagesBefore)
	return &n
}
