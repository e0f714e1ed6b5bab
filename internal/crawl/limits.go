package crawl

import (
	"context"
	"time"
)

// spent reports that no visit may begin now because of the page limit. ask is the time to look again;
// zero means never.
func (c *Crawler) spent(now time.Time) (spent bool, ask time.Time) {
	if c.cfg.PageLimit == 0 {
		return false, time.Time{}
	}
	used := c.Tally.Pages() + int64(c.busy)
	if spent, ask := c.cluster.Spent(used, now); spent {
		return true, ask
	}
	return used >= c.cfg.PageLimit, time.Time{}
}

// hostFull reports that a host has as many pages as its limit allows.
func (c *Crawler) hostFull(host string) bool {
	limit := c.cfg.HostPageLimit
	if own := c.Sheets.Table().Host(host).HostPageLimit; own != nil {
		limit = *own
	}
	return limit > 0 && c.Tally.HostPages(host) >= limit
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
