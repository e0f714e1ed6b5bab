package crawl

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// Pages receives each HTTP response that ends a URL's visits, after its record is in the
// archive and before the URL is finished. It does not receive responses to robots.txt and
// responses that lead to a retry. Workers call it concurrently, and each worker waits for it.
// So a slow Pages slows the crawl, and at most Config.Workers calls run at a time. p is valid
// until Pages returns. ctx is done when the run no longer waits for its visits.
//
// After nil the URL is finished. After ErrEnough it is finished, and the run stops with
// ByPages. After any other error the URL is left to the next run, and this run stops
// with ByPages. If the context of Run is done, the reason is Signal as usual. A run that
// stops with ByPages cancels the other visits under way and leaves them to the next run.
//
// A kill repeats the calls of the URLs whose finish was not yet in the journal: those
// that had not returned, and those that returned within Config.CommitEvery.
type Pages func(ctx context.Context, p *Page) error

// ErrEnough is returned by Pages to stop the run after this page.
var ErrEnough = errors.New("enough pages")

// handOn passes v's response to Pages. ctx is the context of the run, because the loss of a
// lease must not cut off a page that has been fetched.
func (c *Crawler) handOn(ctx context.Context, v *visit, r *fetch.Response) {
	if c.Pages == nil || v.failure != 0 || v.app != nil {
		return
	}
	v.shown.Began, v.shown.Took, v.shown.Again = r.Began, r.Duration, v.before != nil
	v.shown.MIME, v.shown.Size, v.shown.Written = v.mime, v.content, v.written
	v.shown.Duplicate = v.duplicate || v.written.Revisit || v.confirmed()
	v.shown.Cut = v.shown.Cut || r.Truncated != ""
	c.handing.begin(c.cfg.Now())
	err := c.Pages(ctx, &v.shown)
	c.handing.end(c.cfg.Now())
	if err == nil {
		return
	}
	if v.stops = true; !errors.Is(err, ErrEnough) {
		v.outcome = Abandoned
		c.Events.Write("page-refused", report.F("url", v.task.Link.URL.String()), report.F("error", err))
	}
	c.closing.Store(true)
}

// handing counts the calls of Pages that run now.
type handing struct {
	mu    sync.Mutex // guards the fields below
	calls int
	since time.Time // when the first of them began, or when the last call returned, whichever is later
}

func (h *handing) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls++; h.calls == 1 {
		h.since = now
	}
}

func (h *handing) end(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls--
	h.since = now
}

// state returns the number of calls that run, and since when none has returned.
func (h *handing) state() (calls int, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls, h.since
}
