package crawl

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// want asks the Planner for URLs and queues them. wake is the time to ask again; zero means when a visit has ended.
func (c *Crawler) want(now time.Time) (wake time.Time) {
	quota := quotaMax
	for c.planner != nil && !c.run.Failed() && len(c.revisiting) < againMax {
		w, wake, err := c.planner.Next(now)
		c.nextWanted = wake
		if err != nil {
			c.run.Fail(fmt.Errorf("strategy: %w", err))
			return time.Time{}
		}
		if w == nil {
			return wake
		}
		if w.Before == nil {
			if m := c.Cluster.Moves; m == nil || !m.Recall(w.Link) {
				c.takeIn(w.Link)
			}
			continue
		}
		off, err := c.moveState(w, now)
		if !off && err == nil {
			off, err = c.wantAgain(w, now)
		}
		if c.run.Fail(err); off {
			if quota--; quota == 0 {
				return now // let other work of the dispatcher run first
			}
		}
	}
	return time.Time{}
}

// carryWait is the pause before a Planner's state that cannot be sent to its agent is looked at again.
const carryWait = time.Second

// moveState sends the Planner's state of a URL to the agent that crawls the URL's host. off reports
// that it is not this agent.
func (c *Crawler) moveState(w *visit.Wanted, now time.Time) (off bool, err error) {
	m, ok := c.planner.(visit.Mover)
	if !ok || c.Cluster.Moves == nil {
		return false, nil
	}
	if _, mine := c.Cluster.Owners.Owner(w.Link.URL.Host()); mine {
		return false, nil
	}
	taken, err := c.Cluster.Moves.Carry(w.Link, func() ([]byte, error) { return m.TakeOut(w) })
	if err == nil && !taken {
		err = m.PutOff(w, now.Add(carryWait))
	}
	if err != nil {
		err = fmt.Errorf("strategy: %w", err)
	}
	return true, err
}

// takeIn accepts one link that does not come from a page.
func (c *Crawler) takeIn(l link.Link) {
	var ls visit.Links
	ls.Add(l, l.Key(), c.visits.Links.NotOurs(l.URL))
	c.intake(&ls)
	c.append()
}

// refuse tells the Planner that a link will not be fetched, although it is in scope and new.
func (c *Crawler) refuse(l link.Link) error {
	if c.planner == nil || l.App() != "" {
		return nil
	}
	if _, err := c.planner.Visited(&visit.Visit{Link: l, Outcome: visit.Refused}); err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	return nil
}

// visited tells the Planner how the visits to a URL ended, and puts the Planner's state of the
// URL into the finish.
func (c *Crawler) visited(v *visit.Attempt, f *state.Finish, now time.Time) {
	if c.planner == nil || v.Task.Link.App() != "" {
		return
	}
	l := v.Task.Link
	told := visit.Visit{
		Link: l, Outcome: v.Outcome, Status: v.Response.Status, Began: v.Response.Began, Now: now,
		Again: v.Plan().Before != nil, Unchanged: v.Unchanged(), Compared: v.Compared(),
		Response: visit.Before{If: v.Plan().Validators, Print: v.Plan().Print}, Modified: v.Plan().Modified,
		Offered: v.Plan().Offered,
		Plain:   v.Plain,
	}
	told.Response.Original, told.Response.Digest = v.Record.Written.Original, v.Record.Written.BodyDigest
	if v.Plan().Before != nil {
		c.revisited(l)
		f.Flags |= state.FlagAgain
		switch {
		case told.Unchanged:
			f.Flags |= state.FlagUnchanged
		case v.Outcome == visit.Fetched && !told.Compared:
			f.Flags |= state.FlagUnknown
		}
		if v.Response.Status == 304 {
			told.Response = *v.Plan().Before
			told.Response.If = v.Plan().Before.If.Renew(v.Plan().Validators)
		}
	}
	state, err := c.planner.Visited(&told)
	if err != nil {
		c.run.Fail(fmt.Errorf("strategy: %w", err))
		return
	}
	f.State = state
}
