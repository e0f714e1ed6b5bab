package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
)

// awaitProxy puts a URL off without counting a try, because the URL and its host did not
// fail. If the proxy cannot be reached for as long as all retries of a URL take, the run
// ends, and the next run continues.
func (c *Crawler) awaitProxy(v *visit.Attempt, d *frontier.Done, now time.Time) {
	if c.noProxy.IsZero() {
		c.noProxy = now
		c.Events.Write("proxy-down", report.F("error", v.Response.Fail.Err))
	}
	if now.Sub(c.noProxy) >= c.cfg.RetryWait<<c.cfg.Retries-c.cfg.RetryWait {
		c.run.Fail(v.Response.Fail.Err)
		return
	}
	l := v.Task.Link
	d.Again, d.Attempt, d.NotBefore = &l, v.Task.Attempt, now.Add(c.retries.Jitter(c.cfg.RetryWait))
	c.retries.NoteFailure(l.Key(), "proxy", d.NotBefore)
}
