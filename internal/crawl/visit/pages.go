package visit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// Pages receive each HTTP response that ends a URL's visits, after its record is in the
// archive and before the URL is finished. They do not receive responses to robots.txt and
// responses that lead to a retry. Workers call Receive concurrently, and each worker waits for it.
// So a slow Receive slows the crawl, and at most Config.Workers calls run at a time. p is valid
// until Receive returns. ctx is done when the run no longer waits for its visits.
//
// After nil the URL is finished. After ErrEnough it is finished, and the run stops with
// ByPages. After any other error the URL is left to the next run, and this run stops
// with ByPages. If the context of Run is done, the reason is Signal as usual. A run that
// stops with ByPages cancels the other visits under way and leaves them to the next run.
//
// A kill repeats the calls of the URLs whose finish was not yet in the journal: those
// that had not returned, and those that returned within Config.CommitEvery.
type Pages interface {
	Receive(ctx context.Context, p *Page) error
}

// A PagesFunc is Pages of one function.
type PagesFunc func(ctx context.Context, p *Page) error

func (f PagesFunc) Receive(ctx context.Context, p *Page) error { return f(ctx, p) }

// ErrEnough is returned by Receive to stop the run after this page.
var ErrEnough = errors.New("enough pages")

// handOn passes v's response to Pages, but not that there is no sitemap at its usual place. ctx is the context of the
// run, because the loss of a lease must not cut off a page that has been fetched.
func (p *Pool) handOn(ctx context.Context, v *Attempt, r *fetch.Response) {
	if p.Pages == nil || v.Response.Failure != 0 || v.App().Of != nil || v.Task.Link.IsGuess() && r.Status/100 != 2 {
		return
	}
	v.Page.Shown.Began, v.Page.Shown.Took, v.Page.Shown.Again = r.Began, r.Duration, v.Plan().Before != nil
	v.Page.Shown.MIME, v.Page.Shown.Size, v.Page.Shown.Written = v.Response.MIME, v.Response.Content, v.Record.Written
	v.Page.Shown.Duplicate = v.Contents().Duplicate || v.Record.Written.Revisit || v.Confirmed()
	v.Page.Shown.Cut, v.Page.Shown.archive = v.Page.Shown.Cut || r.Truncated != "", p.Archive
	p.handing.begin(p.cfg.Clock.Now())
	err := p.Pages.Receive(ctx, &v.Page.Shown)
	p.handing.end(p.cfg.Clock.Now())
	if err == nil {
		return
	}
	if v.Page.Stops = true; !errors.Is(err, ErrEnough) {
		v.Outcome = Abandoned
		p.Events.Write("page-refused", report.F("url", v.Task.Link.URL.String()), report.F("error", err))
	}
	p.closing.Store(true)
}

// handing counts the calls of Receive that run now.
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
