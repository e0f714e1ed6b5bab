package cluster

import (
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
)

// Leases are the permissions to contact the addresses and registered domains that hosts of
// other agents share. The Frontier has them, too, and returns no visit without its leases. Safe for
// concurrent use.
type Leases interface {
	// Grip reports whether requests may begin now with the present leases.
	Grip() bool
	// Counts returns the counts of this run.
	Counts() report.Leases
}

// permits are the Permits of the visits in progress, by point. A point is an address or a
// registered domain.
type permits struct {
	mu sync.Mutex
	at map[uint64]*crawl.Permit
}

// Permit returns the permission for a visit to a host, if it uses a lease.
func (cl *Clustered) Permit(host string) *crawl.Permit {
	if cl.Leases == nil {
		return nil
	}
	points := cl.loop.Frontier.Points(host)
	if len(points) == 0 {
		return nil
	}
	all := &cl.permits
	p := crawl.NewPermit(cl.Leases.Grip, func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		for _, point := range points {
			delete(all.at, point)
		}
	})
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.at == nil {
		all.at = map[uint64]*crawl.Permit{}
	}
	for _, point := range points {
		all.at[point] = p
	}
	return p
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
	cl.loop.Tell(func(now time.Time) { cl.loop.Frontier.Leased(points, now) })
}

// leaseCounts returns the counts of leases in this run, or nil without leases.
func (cl *Clustered) leaseCounts() *report.Leases {
	if cl.Leases == nil {
		return nil
	}
	n := cl.Leases.Counts()
	n.Waits = cl.loop.Frontier.Stats().LeaseWaits
	n.Count(cl.loop.Tally.Pages() - cl.remote.pagesBefore)
	return &n
}
