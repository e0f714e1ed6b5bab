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
	for c.planner != nil && c.fatal == nil && len(c.revisiting) < againMax {
		w, wake, err := c.planner.Next(now)
		c.nextWanted = wake
		if err != nil {
			c.fatal = fmt.Errorf("strategy: %w", err)
			return time.Time{}
		}
		if w == nil {
			return wake
		}
		if w.Before == nil {
			if !c.cluster.Recall(w.Link) {
				c.takeIn(w.Link)
			}
			continue
		}
		off, err := c.moveState(w, now)
		if !off && err == nil {
			off, err = c.wantAgain(w, now)
		}
		if c.fatal = err; off {
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
	if !ok {
		return false, nil
	}
	if _, mine := c.cluster.Owner(w.Link.URL.Host()); mine {
		return false, nil
	}
	if !c.cluster.MayCarry(w.Link.URL.Host()) {
		err = m.PutOff(w, now.Add(carryWait))
	} else if planned, e := m.TakeOut(w); e != nil {
		err = e
	} else {
		c.cluster.Carry(w.Link, planned)
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
		c.fatal = fmt.Errorf("strategy: %w", err)
		return
	}
	f.State = state
}

// A lastStates finds the last finish of each URL that has a Planner's state. While the journal is read,
// it counts the states of each URL and adds them to a Spool; when the Spool is read, it counts down. The
// zero lastStates is for a crawl without a Planner.
type lastStates map[link.Key]int

// The numbers in a Spool of states that are in a snapshot and in a finish.
const (
	inSnapshot = iota
	inFinish
)

// add adds the state in a finish.
func (s lastStates) add(to *state.Spool, f *state.Finish) error {
	if s == nil || len(f.State) == 0 {
		return nil
	}
	s[f.Link.PageKey()]++
	return to.Add(state.Visited, inFinish, state.AppendVisited(nil, f.Link.AsLink(), f.State))
}

// addAgain adds that a URL is visited again as if it were new. Its states before are not the last.
func (s lastStates) addAgain(to *state.Spool, l link.Link) error {
	if s == nil {
		return nil
	}
	s[l.PageKey()]++
	return to.Add(state.Again, 0, l.AppendTo(nil))
}

// addTold adds a Told. With an empty state, another agent has the last state.
func (s lastStates) addTold(to *state.Spool, p []byte) error {
	if s == nil {
		return nil
	}
	l, planned, err := state.DecodeTold(p)
	if err != nil {
		return err
	}
	s[l.PageKey()]++
	if len(planned) == 0 {
		return to.Add(state.Again, 0, p)
	}
	return to.Add(state.Visited, inFinish, p)
}

// last reads what was added. If a state is not the last of its URL, last returns none.
func (s lastStates) last(kind byte, number uint64, p []byte) (l link.Link, planned []byte, err error) {
	if kind == state.Again {
		if l, _, err = link.Peek(p); err == nil {
			s[l.PageKey()]--
		}
		return l, nil, err
	}
	if l, planned, err = state.DecodeVisited(p); err != nil {
		return l, nil, err
	}
	k := l.PageKey()
	left, replaced := s[k]
	if number == inFinish {
		left--
		s[k] = left
		replaced = left > 0
	}
	if replaced {
		return l, nil, nil
	}
	return l, planned, nil
}

// states returns an empty lastStates, or nil without a Planner.
func (c *Crawler) states() lastStates {
	if c.planner == nil {
		return nil
	}
	return lastStates{}
}

// restoreState gives a Planner its state of a URL back. The last run may have ended during a
// request to the host, which the journal does not tell: touch sets the host's delay.
func (c *Crawler) restoreState(l link.Link, state []byte, now time.Time,
	touch func(host string, delay time.Duration)) error {
	c.remembered++
	touch(l.URL.Host(), c.Robots.Ask(l.URL, now).Delay)
	if err := c.planner.Restore(l, state); err != nil {
		return fmt.Errorf("strategy: %s: %w", l.URL, err)
	}
	return nil
}
