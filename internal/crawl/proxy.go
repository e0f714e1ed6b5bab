package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
)

// A proxy tells whether the proxy of the crawl can be reached.
type proxy struct {
	run    *run.Run
	book   *retry.Book
	events *report.Events
	wait   time.Duration // of the first retry of a URL
	bound  time.Duration // of all of its retries

	down time.Time // when the proxy became unreachable; zero: it is reachable
}

// await puts a URL off without counting a try, because the URL and its host did not
// fail. If the proxy cannot be reached for as long as all retries of a URL take, the run
// ends, and the next run continues.
func (p *proxy) await(v *visit.Attempt, d *frontier.Done, now time.Time) {
	if p.down.IsZero() {
		p.down = now
		p.events.Write("proxy-down", report.F("error", v.Response.Fail.Err))
	}
	if now.Sub(p.down) >= p.bound {
		p.run.Fail(v.Response.Fail.Err)
		return
	}
	l := v.Task.Link
	d.Again, d.Attempt, d.NotBefore = &l, v.Task.Attempt, now.Add(p.book.Jitter(p.wait))
	p.book.NoteFailure(l.Key(), "proxy", d.NotBefore)
}

// answers notes that the proxy has answered.
func (p *proxy) answers() { p.down = time.Time{} }
