package cluster

import (
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

// permits are the Permits of the visits in progress, by point. A point is an address or a
// registered domain. If there is a Right, all has the Permits of all visits.
type permits struct {
	mu  sync.Mutex
	at  map[uint64]*visit.Permit
	all map[*visit.Permit]struct{}
}

// Permit returns the permission for a visit to a host, if it uses a lease or depends on the Right.
func (cl *Clustered) Permit(host string) *visit.Permit {
	var points []uint64
	if cl.Leases != nil {
		points = cl.loop.Frontier.Points(host)
	}
	if len(points) == 0 && cl.Right == nil {
		return nil
	}
	if len(points) > 0 {
		cl.Leases.Uses(host, points)
	}
	grip := func() bool {
		return (cl.Right == nil || cl.Right(cl.loop.Config.Now())) && (len(points) == 0 || cl.Leases.Grip())
	}
	all := &cl.permits
	var p *visit.Permit
	p = visit.NewPermit(grip, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.all, p)
		for _, point := range points {
			delete(all.at, point)
		}
	})
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.at == nil {
		all.at, all.all = map[uint64]*visit.Permit{}, map[*visit.Permit]struct{}{}
	}
	for _, point := range points {
		all.at[point] = p
	}
	if cl.Right != nil {
		all.all[p] = struct{}{}
	}
	return p
}

// Resume tells the Crawler that visits may begin again. It returns when the dispatcher knows, or when the run has
// ended. Safe for concurrent use.
func (cl *Clustered) Resume() { cl.run.Tell(func(time.Time) {}) }

// CutAll ends all visits in progress that depend on the Right, because it is lost. It returns their number. Their URLs
// go back to the front of their hosts. It does not block. Safe for concurrent use.
func (cl *Clustered) CutAll() (n int) {
	cl.permits.mu.Lock()
	var ps []*visit.Permit
	for p := range cl.permits.all {
		ps = append(ps, p)
	}
	cl.permits.mu.Unlock()
	for _, p := range ps {
		if p.CutOff() {
			n++
		}
	}
	return n
}

// CutOff ends the visits in progress that use one of points, because their leases are lost. It
// returns their number. It does not block. Safe for concurrent use.
func (cl *Clustered) CutOff(points []uint64) (n int) {
	for _, point := range points {
		cl.permits.mu.Lock()
		p := cl.permits.at[point]
		cl.permits.mu.Unlock()
		if p != nil && p.CutOff() {
			n++
		}
	}
	if n > 0 {
		cl.loop.Events.Write("lease-lost", report.F("visits", n))
	}
	return n
}

// Leased tells the Frontier for which points leases may have arrived. It returns when the
// Frontier knows, or when the run has ended. Safe for concurrent use.
func (cl *Clustered) Leased(points []uint64) {
	cl.run.Tell(func(now time.Time) { cl.loop.Frontier.Leased(points, now) })
}

// leaseCounts returns the counts of leases in this run, or nil without leases.
func (cl *Clustered) leaseCounts() *report.Leases {
	if cl.Leases == nil {
		return nil
	}
	n := cl.Leases.Counts()
	n.Waits = cl.loop.Frontier.Stats().LeaseWaits
	n.Count(cl.loop.Tally.Pages() - cl.pagesBefore)
	return &n
}
