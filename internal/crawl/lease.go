package crawl

import (
	"context"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
)

// Leases are those of the addresses and sites at which other agents have hosts,
// too. The Frontier has them, and gives out no visit without; the rest is here:
// a visit whose lease is lost is cut off, and its URL goes back to the front of
// its host. Safe for concurrent use.
type Leases interface {
	// Grip says whether requests may begin now, with the leases that there are.
	Grip() bool
	// Counts are those of this run, as far as they are known there.
	Counts() report.Leases
}

// cuts are the visits under way that use leases, by point.
type cuts struct {
	mu sync.Mutex
	at map[uint64]*cut
}

// A cut is how a visit is cut off.
type cut struct {
	points []uint64

	mu   sync.Mutex
	off  bool
	stop context.CancelFunc // nil: not begun
}

// begin is the context of what v does from now on.
func (k *cut) begin(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stop = stop; k.off {
		stop()
	}
	return ctx, stop
}

// isOff says whether it was cut off; a nil one never is.
func (k *cut) isOff() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.off
}

// cuttable lets v be cut off, if it uses a lease.
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

// settled forgets k.
func (c *cuts) settled(k *cut) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range k.points {
		delete(c.at, p)
	}
}

// CutOff ends the visits under way that use any of points: their leases are lost.
// It does not wait for the dispatcher.
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

// Leased says of which points leases have come, or may have. It returns when the
// Frontier knows, or when nobody crawls any more.
func (c *Crawler) Leased(points []uint64) {
	c.tell(func(now time.Time) { c.Frontier.Leased(points, now) })
}

// lapsed says that a visit which waited for a worker is not to begin any more.
func (c *Crawler) lapsed(v *visit) bool {
	return v.leased != nil && (v.leased.isOff() || !c.Leases.Grip())
}

// leaseCounts is what leases have cost in this run; nil without them.
func (c *Crawler) leaseCounts() *report.Leases {
	if c.Leases == nil {
		return nil
	}
	n := c.Leases.Counts()
	n.Waits = c.Frontier.Stats().LeaseWaits
	n.Count(c.Tally.Pages() - c.remote.pagesBefore)
	return &n
}
