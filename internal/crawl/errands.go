package crawl

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// errands are the fetches of a robots.txt that are queued for other hosts. The dispatcher owns them.
type errands struct {
	run      *run.Run
	gate     *orders.Gate
	frontier *frontier.Frontier
	robots   *robots.Cache
	failures *retry.Failures

	queued map[string]int // how often each was asked for
}

func errandID(l link.Link) string { return l.URL.String() + " " + l.Via }

// add queues, once, the fetch of a robots.txt on another host. It does not queue it if
// the operator has blocked that host.
func (e *errands) add(l link.Link, now time.Time) {
	if host := l.URL.Host(); e.gate.Bars(host, netip.Addr{}) {
		e.fail(l, theyBlocked, now)
		return
	}
	id := errandID(l)
	if e.queued[id]++; e.queued[id] > 1 {
		return
	}
	if err := e.frontier.PushFront(l); err != nil {
		e.run.Fail(fmt.Errorf("frontier: %w", err))
	}
}

// fail records that the fetch of a robots.txt from another host failed, and why. The
// rules of that file stay unknown.
func (e *errands) fail(l link.Link, why string, now time.Time) {
	e.failures.RobotsFailed(l.URL.Origin(), why)
	if about, err := weburl.Parse(l.Via); err == nil {
		e.robots.Learn(about, weburl.URL{}, robots.Reply{Failed: true}, now)
	}
}

// end notes that an errand is in no queue any more.
func (e *errands) end(l link.Link) { delete(e.queued, errandID(l)) }

// settleErrand processes a fetch of a robots.txt for another host.
func (c *Crawler) settleErrand(v *visit.Attempt, now time.Time) {
	l := v.Task.Link
	c.errands.end(l)
	switch v.Outcome {
	case visit.Prerequisite:
		c.logRobots(v, now)
	default:
		why := v.ErrorKind()
		if cause := c.failures.CauseOf(v); cause != "" {
			why += ": " + cause
		}
		c.errands.fail(l, why, now)
	}
}

// settleRobots processes a fetch of robots.txt for the URL. If it succeeds, the URL is due again after the quiet time.
// Then the robots cache decides about it.
func (c *Crawler) settleRobots(v *visit.Attempt, d *frontier.Done, now time.Time) {
	l := v.Task.Link
	c.logRobots(v, now)
	if v.Plain {
		v.Asked, v.Outcome, v.Record.Archived = l, visit.Failed, false
		c.finish(v, now)
		return
	}
	if v.Response.Failure == fetch.Refused || v.Response.Failure == fetch.TLS && !v.Response.Fail.Retryable() {
		// The robots.txt cannot be fetched, and time will not change that. The URL itself would fail in
		// the same way.
		c.origins.GiveUp(v, now)
		v.Asked, v.Outcome, v.Record.Archived, v.Record.Left = l, visit.Failed, false, false
		c.finish(v, now)
		return
	}
	if v.Response.Failure != 0 {
		c.retries.NoteFailure(l.Key(), v.Reason(), now)
	}
	a := c.robots.Ask(l.URL, now)
	if a.Verdict != robots.Unreachable {
		d.Again, d.Attempt = &l, v.Task.Attempt
		return
	}
	// The URL has failed with its robots.txt.
	u := c.visits.New(v.Task)
	u.Outcome, u.Robots.Until, u.Last, u.Thread, u.Drops = visit.RobotsUnreachable, a.Until, v.Last, v.Thread, v.Drops
	u.Plan().Before = v.Plan().Before
	if c.origins.Settle(u, now); c.visits.Final(u) {
		c.finish(u, now)
	} else {
		c.again(u, c.visits.Policy(u), d, now)
	}
	c.visits.Recycle(u)
}
