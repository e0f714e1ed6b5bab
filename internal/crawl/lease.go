package crawl

import (
	"context"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
)

// Leases are the permissions to contact the addresses and registered domains that hosts of
// other agents share. The Frontier has them, too, and returns no visit without its leases. If
// a lease is lost, the Crawler cuts its visits off and puts their URLs back to the front of
// their hosts. Safe for concurrent use.
type Leases interface {
	// Grip reports whether requests may begin now with the present leases.
	Grip() bool
	// Counts returns the counts of this run.
	Counts() report.Leases
}

// cuts are the visits in progress that use leases, by point. A point is an address or a
// registered domain.
type cuts struct {
	mu sync.Mutex
	at map[uint64]*cut
}

// A cut cuts a visit off.
type cut struct {
	points []uint64

	mu   sync.Mutex
	off  bool
	stop context.CancelFunc // nil: not begun
}

// begin returns the context of the visit's work from now on.
func (k *cut) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stop = stop; k.off {
		stop()
	}
	return ctx, stop
}

// isOff reports whether the visit was cut off. For nil it returns false.
func (k *cut) isOff() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.off
}

// cuttable registers v so that it can be cut off, if it uses a lease.
func (c *Crawler) cuttable(v *visit) {
	points := c.Frontier.Points(v.task.Host)
	if len(points) == 0 {
		return
	}
	v.leased = &cut{points: points}
	c.remote.cuts.mu.Lock()
	defer c.remote.cuts.mu.Unlock()
	if c.remote.cuts.at == nil {
		c.remote.cuts.at = map[uint64]*cut{}
	}
	for _, p := range points {
		c.remote.cuts.at[p] = v.leased
	}
}

// settled removes k.
func (c *cuts) settled(k *cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range k.points {
		delete(c.at, p)
	}
}

// CutOff ends the visits in progress that use one of points, because their leases are lost. It
// returns their number. It does not block. Safe for concurrent use.
func (c *Crawler) CutOff(points []uint64) (n int) {
	for _, p := range points {
		c.remote.cuts.mu.Lock()
		k := c.remote.cuts.at[p]
		c.remote.cuts.mu.Unlock()
		if k == nil {
			continue
		}
		k.mu.Lock()
		if !k.off {
			n++
		}
		k.off = true
		if k.stop != nil {
			k.stop()
		}
		k.mu.Unlock()
	}
	if n > 0 {
		c.Events.Write("lease-lost", report.F("visits", n))
	}
	return n
}

// Leased tells the Frontier for which points leases may have arrived. It returns when the
// Frontier knows, or when the run has ended. Safe for concurrent use.
func (c *Crawler) Leased(points []uint64) {
	c.tell(func(now time.Time) { c.Frontier.Leased(points, now) })
}

// lapsed reports that a visit which waited for a worker must not begin any more.
func (c *Crawler) lapsed(v *visit) bool {
	return v.leased != nil && (v.leased.isOff() || !c.Leases.Grip())
}

// leaseCounts returns the counts of leases in this run, or nil without leases.
func (c *Crawler) leaseCounts() *report.Leases {
	if c.Leases == nil {
		return nil
	}
	n := c.Leases.Counts()
	n.Waits = c.Frontier.Stats().LeaseWaits
	n.Count(c.Tally.Pages() - c.remote.pagesBefore)
	return &n
}
