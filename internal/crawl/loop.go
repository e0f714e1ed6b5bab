package crawl

import (
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Loop is a crawl loop, as its Cluster sees it: the parts of the agent, which the Cluster uses as the loop does, and
// what only the loop itself can do. Only the dispatcher may use it, except for what is safe for concurrent use: Config,
// Events, Import, and of Run, Links and Applications what their comments say.
type Loop struct {
	c *Crawler

	Run          *run.Run
	Config       Config
	Frontier     *frontier.Frontier
	Seen         *keyset.Store
	Events       *report.Events
	Tally        *report.Tally
	Ledger       *ledger.Ledger
	Gate         *orders.Gate
	Retries      *retry.Book
	Links        *visit.Follower
	Hosts        Hosts
	Applications *applications.Set
	Sharer       visit.Sharer // the strategy, if it is one; otherwise nil
}

func newLoop(c *Crawler) *Loop {
	sharer, _ := c.plan.Planner.(visit.Sharer)
	return &Loop{c: c, Sharer: sharer, Run: c.run, Config: c.cfg, Frontier: c.frontier, Seen: c.seen,
		Events: c.events, Tally: c.tally, Ledger: c.ledger, Gate: c.gate, Retries: c.retries,
		Links: &c.visits.Links, Applications: c.Applications, Hosts: Hosts{&c.origins, c.visits, c.gate}}
}

// Stop ends the run. Finished says that no work is left, except for the links of blocked hosts.
func (l *Loop) Stop(why Stop) {
	switch {
	case why != Finished:
		l.c.halt(why)
	case l.Frontier.Len() > 0:
		l.c.end(OnlyBlocked)
	default:
		l.c.end(Finished)
	}
}

// Busy returns the number of visits that the workers have and that may bring a page.
func (l *Loop) Busy() int { return l.c.progress.pages }

// Idle reports that no visit and no look-up is in progress, and that no URL waits for a retry.
func (l *Loop) Idle() bool {
	c := l.c
	return c.progress.busy == 0 && c.lookups.open == 0 && len(c.lookups.waiting) == 0 && c.retries.Waiting() == 0
}

// Pending returns the number of accepted URLs that are not finished.
func (l *Loop) Pending() int64 { return l.c.View.Pending() }

// Intake accepts the new links of ls, and logs the skipped ones.
func (l *Loop) Intake(ls *visit.Links) {
	l.c.Intake.takeAll(ls)
}

// Forget forgets the state of a waiting link that leaves this agent, and returns the number of its
// accept. It gives a visit that a Planner wanted back to the Planner.
func (l *Loop) Forget(link link.Link, number uint64) uint64 {
	k := link.Key()
	number = l.Retries.Number(k, number)
	l.c.Applications.Left(&link)
	l.Retries.Forget(k)
	l.c.plan.Leaves(link, l.c.cfg.Clock.Now())
	return number
}

// Remember gives the Planner its state of a URL, which another agent had. It reports whether the
// Planner could read it.
func (l *Loop) Remember(link link.Link, planned []byte) (ok bool) {
	return l.c.plan.Remember(link, planned)
}
