package crawl

import (
	"context"
	"time"
)

// The limits of a crawl of many agents hold for all of them together. Pages are
// given to each in rations, by who counts them for all; a visit begins only if
// its page, should it come to one, is in the ration. So the limit is never
// passed. The time limit counts from the start of the agent that began first.

// A ration is how many pages this agent may fetch, if it shares a limit.
type ration struct {
	shared  bool
	allowed int64 // in all, over all runs
}

// A Need is what an agent has fetched of its ration, and whether it wants more.
type Need struct {
	// Pages were fetched, over all runs; Busy are the visits under way, each of
	// which may come to one; Allowed is the ration, never less than both.
	Pages, Busy, Allowed int64
	// Pending are the links that wait to be visited.
	Pending int64
}

// ShareLimit says that Config.PageLimit is that of several agents together:
// pages are fetched as Ration allows. It is called before Run.
func (c *Crawler) ShareLimit() { c.remote.ration = ration{shared: c.cfg.PageLimit > 0} }

// Ration lets f look at what is needed, and sets the ration to what f returns,
// or to what is used of it if that is more. Safe for concurrent use; ctx bounds
// the wait.
func (c *Crawler) Ration(ctx context.Context, f func(Need) (allowed int64)) error {
	return c.ask(ctx, "ration", func() {
		used := c.Tally.Pages() + int64(c.busy)
		r := &c.remote.ration
		r.allowed = max(r.allowed, used)
		r.allowed = max(used, f(Need{Pages: c.Tally.Pages(), Busy: int64(c.busy), Allowed: r.allowed,
			Pending: c.Frontier.Pending()}))
	})
}

// rationWait is how often a crawl that has used its ration up looks again,
// beside being told.
const rationWait = 100 * time.Millisecond

// spent says that no visit may begin for now; ask is when to look again, zero if
// that is no use.
func (c *Crawler) spent(now time.Time) (spent bool, ask time.Time) {
	if c.cfg.PageLimit == 0 {
		return false, time.Time{}
	}
	used := c.Tally.Pages() + int64(c.busy)
	if r := c.remote.ration; r.shared && used >= r.allowed {
		if c.Frontier.Pending() == 0 {
			return true, time.Time{} // a ration would change nothing
		}
		return true, now.Add(rationWait)
	}
	return used >= c.cfg.PageLimit, time.Time{}
}

// Halt stops the run for a reason that others have found. Safe for concurrent
// use; ctx bounds the wait.
func (c *Crawler) Halt(ctx context.Context, why Stop) error {
	return c.ask(ctx, "halt", func() { c.halt(why) })
}

// RanBefore lets Config.TimeLimit count from d before Run, which is called
// afterwards: other agents began so much earlier.
func (c *Crawler) RanBefore(d time.Duration) {
	if c.cfg.TimeLimit > 0 {
		c.cfg.TimeLimit = max(c.cfg.TimeLimit-max(d, 0), 1)
	}
}
