// Package testbrowser answers a question of a test: what does a real browser do with these pages,
// and whom does it contact?
//
//	Start -> headless Chromium, new profile -> Go, Wait, Text -> Contacts, from its own network log
//
// It is a thin layer over chromedp. It finds elements with JavaScript, because pages replace their elements at any
// time. It never waits until a page has loaded, because a page may load for ever.
//
// Only tests import this package.
package testbrowser

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

// A Browser is a headless Chromium with one tab. It belongs to one goroutine.
type Browser struct {
	tb     testing.TB
	tab    context.Context // of chromedp; it ends with the test
	frames map[target.ID]frame
	cancel func()
	log    string

	mu   sync.Mutex // guards seen
	seen []string   // the URLs of frames, in the order of time
}

// A frame is a frame of another site. It has a process of its own, so chromedp sees it as another tab.
type frame struct {
	tab    context.Context
	gone   <-chan struct{} // closed when the frame is gone
	cancel context.CancelFunc
}

// patience bounds one wait for a page, also on a loaded machine.
const patience = 2 * time.Minute

// deadline returns when a browser that hangs fails the test. On a loaded machine each step may take long, so this is
// the deadline of the test itself, less what is needed to say what hangs. It is far away if the test has no deadline.
func deadline(tb testing.TB) time.Time {
	if t, ok := tb.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := t.Deadline(); ok {
			return end.Add(-time.Until(end) / 20)
		}
	}
	return time.Now().Add(24 * time.Hour)
}

// Start starts a browser with an empty profile. Without Chromium the test is skipped (see package
// testneed). The browser ends with the test.
func Start(tb testing.TB) *Browser {
	tb.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		testneed.Missing(tb, "Chromium")
	}
	dir := tb.TempDir()
	b := &Browser{tb: tb, frames: map[target.ID]frame{}, log: filepath.Join(dir, "network.json")}
	// These are not chromedp's default flags, which switch off protections of users, such as the blocking of pop-ups.
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.Env("HOME=" + dir),
		chromedp.UserDataDir(filepath.Join(dir, "profile")), chromedp.WindowSize(1280, 800),
		chromedp.Flag("log-net-log", b.log), chromedp.Flag("net-log-capture-mode", "Everything")}
	for _, name := range []string{"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
		"disable-background-networking", "disable-component-update", "disable-sync", "disable-crash-reporter",
		"disable-dev-shm-usage"} {
		options = append(options, chromedp.Flag(name, true))
	}
	ctx, end := context.WithDeadline(context.Background(), deadline(tb))
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	quiet := func(string, ...any) {} // what chromedp does not know of newer browsers
	ctx, closeTab := chromedp.NewContext(ctx, chromedp.WithLogf(quiet), chromedp.WithErrorf(quiet))
	b.tab, b.cancel = ctx, func() { closeTab(); stop(); end() }
	tb.Cleanup(b.Stop)
	if err := errors.Join(chromedp.Do(b.tab), chromedp.ListenBrowser(b.tab, b.watch)); err != nil {
		tb.Fatal(err)
	}
	return b
}

// watch notes the URLs of frames.
func (b *Browser) watch(event any) {
	var t *target.Info
	switch e := event.(type) {
	case *target.EventTargetCreated:
		t = e.TargetInfo
	case *target.EventTargetInfoChanged:
		t = e.TargetInfo
	}
	if t != nil && t.Type == "iframe" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.seen = append(b.seen, t.URL)
	}
}

// do runs steps in the tab, or in a frame.
func (b *Browser) do(tab context.Context, steps ...chromedp.Action[chromedp.Void]) {
	b.tb.Helper()
	if err := chromedp.Do(tab, steps...); err != nil {
		b.tb.Fatal(err)
	}
}

// call makes a step of a call of the DevTools protocol.
func call[P, R any](command cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// Go opens a URL in the tab.
func (b *Browser) Go(url string) {
	b.tb.Helper()
	answer, err := chromedp.Run(b.tab, func(ctx context.Context, t *chromedp.Target) (page.NavigateResult, error) {
		return cdp.Call(ctx, t, page.Navigate, page.NavigateParams{URL: url})
	})
	if err != nil || answer.ErrorText != "" {
		b.tb.Fatalf("%s: %s %v", url, answer.ErrorText, err)
	}
	b.Wait("document.readyState != 'loading'")
}

// Wait waits until the JavaScript expression is true in the tab.
func (b *Browser) Wait(expression string) {
	b.tb.Helper()
	b.WaitFrame("", expression)
}

// WaitFrame is Wait in the frame of another site whose URL contains part.
func (b *Browser) WaitFrame(part, expression string) {
	b.tb.Helper()
	b.await(part, "!!("+expression+")", nil)
}

// await waits until an expression has a value other than null and false, which it stores in value. It returns the tab
// of the frame.
func (b *Browser) await(part, expression string, value any) (tab context.Context) {
	b.tb.Helper()
	var last string
	for until := time.Now().Add(patience); b.tab.Err() == nil && time.Now().Before(until); time.Sleep(20 *
		time.Millisecond) {
		text, tab, err := run[[]byte](b, part, expression, false)
		switch {
		case err != nil: // also if the frame has just moved on
			last = err.Error()
		case string(text) == "false" || string(text) == "null":
			last = string(text)
		case value == nil:
			return tab
		default:
			if err := json.Unmarshal(text, value); err != nil {
				b.tb.Fatal(err)
			}
			return tab
		}
	}
	shown, _, err := run[[]byte](b, part, "document.body.innerText", false)
	b.tb.Fatalf("waiting for %s: %s; the page shows %v\n%s", expression, last, err, shown)
	return nil
}

// Until waits until done returns true.
func (b *Browser) Until(what string, done func() bool) {
	b.tb.Helper()
	for ; !done(); time.Sleep(10 * time.Millisecond) {
		if b.tab.Err() != nil {
			b.tb.Fatalf("waiting: %s", what)
		}
	}
}

// Text returns the value of the JavaScript expression in the tab, as a string.
func (b *Browser) Text(expression string) string {
	b.tb.Helper()
	return b.TextFrame("", expression)
}

// TextFrame is Text in the frame of another site whose URL contains part.
func (b *Browser) TextFrame(part, expression string) string {
	b.tb.Helper()
	text, _, err := run[string](b, part, "String("+expression+")", false)
	if err != nil {
		b.tb.Fatalf("%s: %v", expression, err)
	}
	return text
}

// Run runs JavaScript in the tab, as if the user had clicked.
func (b *Browser) Run(script string) {
	b.tb.Helper()
	if _, _, err := run[chromedp.Void](b, "", "void (() => {"+script+"})()", true); err != nil {
		b.tb.Fatalf("%s: %v", script, err)
	}
}

// run runs an expression in the tab, or in the frame of another site whose URL contains part. With gesture it runs as
// if the user had clicked, so that the browser allows what needs a click.
func run[T any](b *Browser, part, expression string, gesture bool) (value T, tab context.Context, err error) {
	if tab, err = b.open(part); err != nil {
		return value, nil, err
	}
	value, err = chromedp.Run(tab, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise,
		func(p *runtime.EvaluateParams) { p.UserGesture = &gesture }))
	return value, tab, err
}

// HasFrame reports whether the tab has a frame of another site whose URL contains part.
func (b *Browser) HasFrame(part string) bool {
	_, err := b.find(part)
	return err == nil
}

// HadFrame reports whether the browser has ever had a frame of another site whose URL contains part.
func (b *Browser) HadFrame(part string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.seen, func(url string) bool { return strings.Contains(url, part) })
}

// find returns the frame of another site whose URL contains part.
func (b *Browser) find(part string) (target.ID, error) {
	all, err := chromedp.Targets(b.tab)
	if err != nil {
		return "", err
	}
	for _, t := range all {
		if t.Type == "iframe" && strings.Contains(t.URL, part) {
			return t.TargetID, nil
		}
	}
	return "", fmt.Errorf("no frame of %q", part)
}

// open returns the tab, or that of the frame of another site whose URL contains part.
func (b *Browser) open(part string) (context.Context, error) {
	if part == "" {
		return b.tab, nil
	}
	id, err := b.find(part)
	if err != nil {
		return nil, err
	}
	if f, ok := b.frames[id]; ok {
		select {
		case <-f.gone: // the frame has got another process
			f.cancel()
		default:
			return f.tab, nil
		}
	}
	f, err := attach(b.tab, id)
	if err == nil {
		b.frames[id] = f
	}
	return f.tab, err
}

// attach opens a frame as a tab.
func attach(parent context.Context, id target.ID) (frame, error) {
	// While chromedp attaches, it reads the document, and changes it by events without a lock. So these events wait.
	var tab context.Context
	attached := make(chan struct{})
	wait := func(event any) {
		switch event.(type) {
		case *dom.EventDocumentUpdated, *dom.EventTopLayerElementsUpdated: // these change nothing
		default:
			if strings.HasPrefix(fmt.Sprintf("%T", event), "*dom.") {
				select {
				case <-attached:
				case <-tab.Done():
				}
			}
		}
	}
	tab, cancel := chromedp.NewContext(parent, chromedp.WithTargetID(id), chromedp.WithDetachOnCancel(),
		chromedp.WithListener(wait))
	// If the frame goes in the meantime, chromedp may wait for ever.
	late := time.AfterFunc(10*time.Second, cancel)
	err := chromedp.Do(tab)
	close(attached)
	gone, _ := chromedp.Detached(tab) // it fails only if Do has failed
	if !late.Stop() || err != nil {
		cancel()
		return frame{}, cmp.Or(err, tab.Err())
	}
	return frame{tab, gone, cancel}, nil
}

// Screenshot writes a picture of the tab to the file name, as PNG.
func (b *Browser) Screenshot(name string) {
	b.tb.Helper()
	png, err := chromedp.Run(b.tab, chromedp.CaptureScreenshot())
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := os.WriteFile(name, png, 0o644); err != nil {
		b.tb.Fatal(err)
	}
}

// Stop ends the browser in an orderly way, so that its network log is complete.
func (b *Browser) Stop() {
	if b.cancel == nil {
		return
	}
	if err := chromedp.Cancel(b.tab); err != nil { // it may close the pipe before it answers
		_ = chromedp.WaitClosed(b.tab)
	}
	b.cancel()
	b.cancel = nil
}
