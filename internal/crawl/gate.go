package crawl

import "github.com/orbweaver/orbweaver/internal/crawl/visit"

// HeldBack reports whether the operator's orders keep a request of v from being sent. Safe for concurrent use.
func (c *Crawler) HeldBack(v *visit.Attempt) bool {
	return c.pause.wanted.Load() || c.bars.Load().of(v.Task.Host, v.Task.Addr) != nil ||
		c.exclusions.Load().holds(&v.Task.Link)
}
