package crawl

import (
	"context"
	"errors"
	"time"
)

// hostFull reports that a host has as many pages as its limit allows.
func (c *Crawler) hostFull(host string) bool {
	limit := c.hostLimit(host)
	return limit > 0 && c.hostPages(host) >= limit
}

// hostLimit returns the limit of a host's pages; 0: none.
func (c *Crawler) hostLimit(host string) int64 {
	if own := c.Sheets.Table().Host(host).HostPageLimit; own != nil {
		return *own
	}
	return c.cfg.HostPageLimit
}

// hostPages returns the number of pages of a host that this agent and the others have fetched.
func (c *Crawler) hostPages(host string) int64 {
	return c.Tally.HostPages(host) + c.Cluster.pagesElsewhere(host)
}

// Halt stops the run for a reason that another agent has found. Safe for concurrent use; ctx
// bounds the wait.
func (c *Crawler) Halt(ctx context.Context, why Stop) error {
	return c.ask(ctx, "halt", func() { c.halt(why) })
}

// RanBefore makes Config.TimeLimit count from d before Run, because other agents started so
// much earlier. Call it before Run.
func (c *Crawler) RanBefore(d time.Duration) {
	if c.cfg.TimeLimit > 0 {
		c.cfg.TimeLimit = max(c.cfg.TimeLimit-max(d, 0), 1)
	}
}

// ErrOutputClosed is the cause with which Run's context ends if the reader of the program's output has closed it. The
// run then stops with OutputClosed.
var ErrOutputClosed = errors.New("the output is closed")

// stopOf returns the reason why a run stops whose context has ended.
func stopOf(ctx context.Context) Stop {
	if errors.Is(context.Cause(ctx), ErrOutputClosed) {
		return OutputClosed
	}
	return Signal
}

// timeLeft returns the time until the time limit, without pauses to come; 0 without a limit.
func (c *Crawler) timeLeft(now time.Time) time.Duration {
	return max(c.cfg.TimeLimit-c.active(now), 0)
}

func (c *Crawler) checkLimits(now time.Time) {
	switch {
	case c.cfg.PageLimit > 0 && c.Tally.Pages() >= c.cfg.PageLimit:
		c.halt(PageLimit)
	case c.cfg.SizeLimit > 0 && c.Tally.Bytes() >= c.cfg.SizeLimit:
		c.halt(SizeLimit)
	case c.cfg.TimeLimit > 0 && c.active(now) >= c.cfg.TimeLimit:
		c.halt(TimeLimit)
	}
}
