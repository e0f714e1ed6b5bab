package browser

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/web/browser/devtools"
	"github.com/orbweaver/orbweaver/internal/web/browser/gateway"
	"github.com/orbweaver/orbweaver/internal/web/browser/process"
)

// cleanWithin bounds the end of a tab. A browser that needs longer is ended.
const cleanWithin = 10 * time.Second

// A view is one page in one tab. One goroutine runs it.
type view struct {
	process  *process.Process
	document *Document
	bounds   Bounds
	wants    Wants
	origin   gateway.Origin
	clock    clock.Clock

	gateway *gateway.Gateway
	browser *devtools.Session
	tab     *devtools.Session
	frame   cdp.FrameID
	world   runtime.ExecutionContextID // of behaviour; 0: in no document yet
	until   time.Time

	shown atomic.Int32 // how often the document was asked for

	mu    sync.Mutex // guards Links and Dialogs of found
	found Finished
}

// run shows the document. After an error nothing was read of it.
func (v *view) run(ctx context.Context, a *gateway.Authority) (err error) {
	v.until = v.clock.Now().Add(v.bounds.Time)
	if v.gateway, err = gateway.Open(a, v, v.bounds.Limits, v.clock); err != nil {
		return err
	}
	defer func() { v.found.Counts = v.gateway.Counts() }()
	defer func() { _ = v.gateway.Close() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	v.browser = v.process.Conn.Session("")
	id, err := v.open(ctx)
	if id != "" {
		defer func() { err = errors.Join(err, v.clean(id)) }()
	}
	if err != nil {
		return err
	}
	var events sync.WaitGroup
	defer events.Wait()
	stop := v.listen(ctx, cancel, &events)
	defer stop()
	if err := v.enable(ctx); err != nil {
		return v.cause(ctx, err)
	}
	if err := v.show(ctx); err != nil {
		return v.cause(ctx, err)
	}
	return nil
}

// cause returns why a call has failed, if the view has ended for a reason of its own.
func (v *view) cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// soon bounds the time of one call.
func (v *view) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, v.bounds.Stuck, errStuck)
}

// open makes a context and a tab.
func (v *view) open(ctx context.Context) (cdp.BrowserContextID, error) {
	ctx, cancel := v.soon(ctx)
	defer cancel()
	yes := true
	made, err := cdp.Call(ctx, v.browser, target.CreateBrowserContext, target.CreateBrowserContextParams{
		DisposeOnDetach: &yes, ProxyServer: fmt.Sprintf("http://%s:%d", v.process.Proxy, v.gateway.Port()),
		ProxyBypassList: "<-loopback>"})
	if err != nil {
		return "", err
	}
	id := made.BrowserContextID
	if _, err := cdp.Call(ctx, v.browser, browser.SetDownloadBehavior, browser.SetDownloadBehaviorParams{
		Behavior: browser.SetDownloadBehaviorBehaviorDeny, BrowserContextID: id, EventsEnabled: &yes}); err != nil {
		return id, err
	}
	tab, err := cdp.Call(ctx, v.browser, target.CreateTarget, target.CreateTargetParams{URL: "about:blank",
		BrowserContextID: id})
	if err != nil {
		return id, err
	}
	attached, err := cdp.Call(ctx, v.browser, target.AttachToTarget, target.AttachToTargetParams{
		TargetID: tab.TargetID, Flatten: &yes})
	if err != nil {
		return id, err
	}
	v.tab = v.process.Conn.Session(attached.SessionID)
	return id, nil
}

// clean removes the tab with all that its page has stored. The tab of a page that does not answer goes, too. If the
// browser cannot do it, it ends itself with its slot.
func (v *view) clean(id cdp.BrowserContextID) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanWithin)
	defer cancel()
	_, err := cdp.Call(ctx, v.browser, target.DisposeBrowserContext, target.DisposeBrowserContextParams{
		BrowserContextID: id})
	if err != nil {
		return fmt.Errorf("%w: %w", errStuck, err)
	}
	return nil
}

// listen notes what the page does beside its requests, until stop or the end of the browser.
func (v *view) listen(ctx context.Context, end context.CancelCauseFunc, wait *sync.WaitGroup) (stop func()) {
	var stops []func()
	on := func(s *devtools.Session, method string, handle func(params []byte)) {
		events, stop := s.Subscribe(method)
		stops = append(stops, stop)
		wait.Go(func() {
			for params := range events {
				handle(params)
			}
		})
	}
	on(v.tab, page.JavascriptDialogOpening.Method, func(p []byte) {
		v.dismiss(ctx, decode[page.EventJavascriptDialogOpening](p))
	})
	on(v.tab, page.WindowOpen.Method, func(p []byte) { v.link(decode[page.EventWindowOpen](p).URL, Opened) })
	on(v.tab, page.NavigatedWithinDocument.Method, func(p []byte) {
		v.link(decode[page.EventNavigatedWithinDocument](p).URL, Routed)
	})
	on(v.browser, browser.DownloadWillBegin.Method, func(p []byte) {
		v.link(decode[browser.EventDownloadWillBegin](p).URL, Download)
	})
	on(v.tab, inspector.TargetCrashed.Method, func([]byte) { end(errCrashed) })
	wait.Go(func() {
		select {
		case <-v.process.Conn.Closed():
			end(errCrashed)
		case <-ctx.Done():
		}
	})
	return func() {
		end(nil)
		for _, s := range stops {
			s()
		}
	}
}

// dismiss answers a dialog as a person does who wants to see the page: no, and yes to leaving it.
func (v *view) dismiss(ctx context.Context, e page.EventJavascriptDialogOpening) {
	v.mu.Lock()
	v.found.Dialogs++
	v.mu.Unlock()
	_, _ = cdp.Call(ctx, v.tab, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{
		Accept: e.Type == page.DialogTypeBeforeunload}) // a dialog that has closed itself needs no answer
}

// link notes a URL that a script has made.
func (v *view) link(url string, how How) {
	v.mu.Lock()
	defer v.mu.Unlock()
	l := Link{url, how}
	if len(v.found.Links) < v.bounds.Links && len(url) <= maxLink && !slices.Contains(v.found.Links, l) {
		v.found.Links = append(v.found.Links, l)
	}
}

// maxLink is the longest URL of a link, in bytes.
const maxLink = 8 << 10

// enable makes the tab tell of what listen listens to.
func (v *view) enable(ctx context.Context) error {
	ctx, cancel := v.soon(ctx)
	defer cancel()
	if _, err := cdp.Call(ctx, v.tab, inspector.Enable, cdp.Empty{}); err != nil {
		return err
	}
	_, err := cdp.Call(ctx, v.tab, page.Enable, page.EnableParams{})
	return err
}

// show opens the document, waits until it rests, moves in it as a reader would, and reads what it has become.
func (v *view) show(ctx context.Context) error {
	if err := v.navigate(ctx); err != nil {
		return err
	}
	v.found.Ended = Rested
	if !v.rest(ctx) {
		v.found.Ended = OutOfTime
	}
	for v.found.Ended == Rested && v.found.Steps < v.bounds.Steps {
		did, err := evaluate[string](ctx, v, "orbweaver.step()")
		if err != nil {
			return err
		}
		if did == "" {
			break
		}
		v.found.Steps++
		if !v.rest(ctx) {
			v.found.Ended = OutOfTime
		}
	}
	return v.read(ctx)
}

// navigate opens the document in the tab. The gateway answers with what the crawler has fetched.
func (v *view) navigate(ctx context.Context) error {
	ctx, cancel := v.soon(ctx)
	defer cancel()
	went, err := cdp.Call(ctx, v.tab, page.Navigate, page.NavigateParams{URL: v.document.URL.String()})
	switch {
	case err != nil:
		return err
	case went.ErrorText != "":
		return fmt.Errorf("%w: %s", errNoPage, went.ErrorText)
	}
	v.frame = went.FrameID
	return nil
}

// rest waits until the page has asked for nothing for a while. It returns false if the view has no time left.
func (v *view) rest(ctx context.Context) bool {
	began := v.clock.Now()
	for {
		open, since := v.gateway.Open()
		now := v.clock.Now()
		if since.Before(began) {
			since = began
		}
		left, quiet := v.until.Sub(now), since.Add(v.bounds.Quiet).Sub(now)
		switch {
		case left <= 0:
			return false
		case open == 0 && quiet <= 0:
			return true
		case open > 0:
			quiet = left
		}
		wait := time.NewTimer(min(left, quiet))
		select {
		case <-wait.C:
		case <-v.gateway.Changed():
		case <-ctx.Done():
		}
		wait.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}

// read reads the document and, if wanted, takes its picture.
func (v *view) read(ctx context.Context) error {
	type document struct {
		HTML  string `json:"html"`
		Text  string `json:"text"`
		Title string `json:"title"`
		Cut   bool   `json:"cut"`
	}
	d, err := evaluate[document](ctx, v, fmt.Sprintf("orbweaver.read(%d, %d)", v.bounds.HTML, v.bounds.Text))
	if err != nil {
		return err
	}
	v.found.HTML, v.found.Text, v.found.Title, v.found.Cut = d.HTML, d.Text, d.Title, d.Cut
	ctx, cancel := v.soon(ctx)
	defer cancel()
	if v.wants.Screenshot {
		shot, err := cdp.Call(ctx, v.tab, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatPng})
		if err != nil {
			return err
		}
		v.found.Screenshot = shot.Data
	}
	if v.wants.PDF {
		yes := true
		pdf, err := cdp.Call(ctx, v.tab, page.PrintToPDF, page.PrintToPDFParams{PrintBackground: &yes})
		if err != nil {
			return err
		}
		v.found.PDF = pdf.Data
	}
	return nil
}

// ending says how a view ended that has failed.
func (v *view) ending(err error) Ending {
	switch {
	case errors.Is(err, errCrashed) || errors.Is(err, devtools.ErrClosed):
		return Crashed
	case errors.Is(err, errNoPage):
		return NoPage
	}
	return Hung
}

// maxShown is how often a page may load itself.
const maxShown = 4

// Answer implements gateway.Origin. It answers the request for the document itself. A request for another document in
// the place of this one is a link, which the crawler follows in its own time; the status lets the browser stay.
func (v *view) Answer(ctx context.Context, r *gateway.Request) (*gateway.Answer, error) {
	if r.Dest != "document" {
		return v.origin.Answer(ctx, r)
	}
	if r.URL == v.document.URL && r.Method == http.MethodGet && v.shown.Add(1) <= maxShown {
		return &gateway.Answer{Status: v.document.Status, Header: v.document.Header,
			Body: io.NopCloser(bytes.NewReader(v.document.Body)), Size: int64(len(v.document.Body))}, nil
	}
	v.link(r.URL.String(), Navigated)
	return gateway.Text(http.StatusNoContent, ""), nil
}
