// Package orders answers: may this link be visited now, by what the operator has ordered?
//
//	order of an operator, on any goroutine -> Set -> in force
//	dispatcher: Heed -> hosts are blocked or unblocked, links that were set aside are looked at again
//	dispatcher, before a visit -> HeedPause, Bars, Excludes, Dropped
//	worker, before a request -> HeldBack, Overtaken
//
// No order loses a link: the links of a barred host, and excluded links, wait until the order is taken back. Only a
// drop ends links, and the journal has each of them.
//
// The dispatcher of the crawl loop owns a Gate. Other goroutines may call what is safe for concurrent use.
package orders

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
)

// A Loop is the crawl loop, as its Gate sees it.
type Loop interface {
	// Foreign reports that another agent crawls a host.
	Foreign(host string) bool
	// Ending reports that all agents are about to end the run together. Until that is over, one way or the other, no
	// link that waits may become work.
	Ending() bool
	// HostBlocked is told that a host is blocked: all of its links wait.
	HostBlocked(host string)
	// Hides reports that links may wait where their hosts cannot be told: in the seen-set, on their way to other
	// agents, or with a Planner.
	Hides() bool
}

// A Gate has the operator's orders that are in force, and what the frontier has been told of them.
// It implements ledger.Participant.
type Gate struct {
	run      *run.Run
	loop     Loop
	frontier *frontier.Frontier
	events   *report.Events

	bars       atomic.Pointer[bars]       // nil: there are none
	heeded     *bars                      // see HeedBars
	barred     map[string]netip.Addr      // hosts that are blocked because of bars, with the address that was known
	blocked    []string                   // their names, see BlockedHosts; nil: to be sorted
	exclusions atomic.Pointer[exclusions] // nil: there are none
	reviewed   *exclusions                // see HeedExclusions
	paced      atomic.Pointer[[]string]   // domains that may have a pace, see SetPaced
	pause      pausing
	drops      drops
	underWay   map[uint64]int // visits in progress, by the number of drops before them
}

// NewGate returns a Gate without orders.
func NewGate(r *run.Run, loop Loop, f *frontier.Frontier, events *report.Events) *Gate {
	return &Gate{run: r, loop: loop, frontier: f, events: events, underWay: map[uint64]int{}}
}

// HeldBack reports whether the orders keep a request of v from being sent. Safe for concurrent use.
func (g *Gate) HeldBack(v *visit.Attempt) bool {
	return g.pause.wanted.Load() || g.Bars(v.Task.Host, v.Task.Addr) || g.Excludes(&v.Task.Link)
}

// SetPaced names the domains that the frontier may hold back; see frontier.Repace. Safe for concurrent use.
func (g *Gate) SetPaced(domains []string) { g.paced.Store(&domains) }

// HeedPaces tells the frontier of these domains.
func (g *Gate) HeedPaces(now time.Time) {
	if domains := g.paced.Load(); domains != nil {
		g.frontier.Repace(*domains, now)
	}
}

// pausing says whether the operator has paused the crawl. Then no visit begins. Visits in progress end as usual, and
// accepted links wait. The time limit stands still.
type pausing struct {
	wanted atomic.Bool

	// The dispatcher owns the fields below.
	on    bool
	since time.Time
	past  time.Duration // of earlier pauses in this run
}

// SetPause keeps visits from beginning while on is set. Safe for concurrent use.
func (g *Gate) SetPause(on bool) { g.pause.wanted.Store(on) }

// HeedPause begins or ends a pause, and reports whether the crawl is paused.
func (g *Gate) HeedPause(now time.Time) (paused bool) {
	p := &g.pause
	on := p.wanted.Load()
	if on == p.on {
		return on
	}
	if p.on = on; on {
		p.since = now
		g.events.Write("crawl-paused")
	} else {
		p.past += now.Sub(p.since)
		g.events.Write("crawl-continued")
	}
	return on
}

// Paused reports whether the crawl was paused at the last HeedPause, and if so since when.
func (g *Gate) Paused() (paused bool, since time.Time) { return g.pause.on, g.pause.since }

// Pauses returns how long the run has been paused.
func (g *Gate) Pauses(now time.Time) time.Duration {
	if g.pause.on {
		return g.pause.past + now.Sub(g.pause.since)
	}
	return g.pause.past
}
