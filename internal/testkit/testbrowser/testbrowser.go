// Package testbrowser answers a question of a test: what does a real browser do with these pages,
// and whom does it contact?
//
//	Start -> headless Chromium, new profile -> Go, Wait, Text -> Contacts, from its own network log
//
// Only tests import this package.
package testbrowser

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

// A Browser is a headless Chromium with one tab. It belongs to one goroutine.
type Browser struct {
	tb      testing.TB
	cmd     *exec.Cmd
	pipe    *pipe
	tab     string // the session of the tab
	log     string
	end     time.Time // when a browser that hangs fails the test
	stopped bool
}

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
// testneed), and so is a short one. The browser ends with the test.
func Start(tb testing.TB) *Browser {
	tb.Helper()
	if testing.Short() {
		tb.Skip("a browser takes long")
	}
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
	b := &Browser{tb: tb, log: filepath.Join(dir, "network.json"), end: deadline(tb)}
	b.cmd = exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-crash-reporter",
		"--disable-dev-shm-usage", "--window-size=1280,800", "--remote-debugging-pipe",
		"--user-data-dir="+filepath.Join(dir, "profile"), "--log-net-log="+b.log, "--net-log-capture-mode=Everything",
		"about:blank")
	b.cmd.Env = append(b.cmd.Environ(), "HOME="+dir)
	toBrowser, in, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, fromBrowser, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	b.cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // descriptors 3 and 4
	if err := b.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	toBrowser.Close()
	fromBrowser.Close()
	b.pipe = newPipe(tb, in, out, b.end)
	tb.Cleanup(b.Stop)
	b.attach()
	return b
}

// attach opens a session with the browser's tab.
func (b *Browser) attach() {
	b.tb.Helper()
	var made struct {
		TargetID string `json:"targetId"`
	}
	b.call("", "Target.createTarget", object{"url": "about:blank"}, &made)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call("", "Target.attachToTarget", object{"targetId": made.TargetID, "flatten": true}, &attached)
	b.tab = attached.SessionID
	b.call(b.tab, "Page.enable", nil, nil)
	b.call(b.tab, "Runtime.enable", nil, nil)
	b.call(b.tab, "Target.setAutoAttach", autoAttach, nil)
	b.call("", "Target.setDiscoverTargets", object{"discover": true}, nil)
}

// object holds the parameters of a call.
type object map[string]any

func (b *Browser) call(session, method string, params object, result any) {
	b.tb.Helper()
	if err := b.pipe.call(session, method, params, result); err != nil {
		b.tb.Fatalf("%s: %v", method, err)
	}
}

// Go opens a URL in the tab.
func (b *Browser) Go(url string) {
	b.tb.Helper()
	var answer struct {
		ErrorText string `json:"errorText"`
	}
	b.call(b.tab, "Page.navigate", object{"url": url}, &answer)
	if answer.ErrorText != "" {
		b.tb.Fatalf("%s: %s", url, answer.ErrorText)
	}
	b.Wait("document.readyState != 'loading'")
}

// Wait waits until the JavaScript expression is true in the tab.
func (b *Browser) Wait(expression string) {
	b.tb.Helper()
	b.waitIn("", expression)
}

// WaitFrame is Wait in the frame of another site whose URL contains part.
func (b *Browser) WaitFrame(part, expression string) {
	b.tb.Helper()
	b.waitIn(part, expression)
}

func (b *Browser) waitIn(part, expression string) {
	b.tb.Helper()
	b.await(part, "!!("+expression+")")
}

// await waits until an expression has a value other than null and false. It returns the value, and the session of the
// frame.
func (b *Browser) await(part, expression string) (value any, session string) {
	b.tb.Helper()
	var last string
	for ; time.Now().Before(b.end); time.Sleep(20 * time.Millisecond) {
		session, ok := b.session(part)
		if !ok {
			last = "no such frame"
			continue
		}
		value, err := b.evaluate(session, expression, false)
		if err == nil && value != nil && value != false {
			return value, session
		}
		if errors.Is(err, errClosed) {
			b.tb.Fatalf("waiting for %s: %v", expression, err)
		}
		if last = "false"; err != nil { // also if the frame has just moved on
			last = err.Error()
		}
	}
	b.tb.Fatalf("waiting for %s: %s", expression, last)
	return nil, ""
}

// Until waits until done returns true.
func (b *Browser) Until(what string, done func() bool) {
	b.tb.Helper()
	for ; !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(b.end) {
			b.tb.Fatalf("waiting: %s", what)
		}
	}
}

// Text returns the value of the JavaScript expression in the tab, as a string.
func (b *Browser) Text(expression string) string {
	b.tb.Helper()
	return b.textIn("", expression, false)
}

// TextFrame is Text in the frame of another site whose URL contains part.
func (b *Browser) TextFrame(part, expression string) string {
	b.tb.Helper()
	return b.textIn(part, expression, false)
}

func (b *Browser) textIn(part, expression string, gesture bool) string {
	b.tb.Helper()
	session, ok := b.session(part)
	if !ok {
		b.tb.Fatalf("no frame of %q", part)
	}
	value, err := b.evaluate(session, "String("+expression+")", gesture)
	if err != nil {
		b.tb.Fatalf("%s: %v", expression, err)
	}
	text, _ := value.(string)
	return text
}

// HasFrame reports whether the tab has a frame of another site whose URL contains part.
func (b *Browser) HasFrame(part string) bool {
	_, ok := b.pipe.frame(part)
	return ok
}

// session returns the session of the tab, or of a frame.
func (b *Browser) session(part string) (session string, ok bool) {
	if part == "" {
		return b.tab, true
	}
	return b.pipe.frame(part)
}

// evaluate runs an expression. With gesture it runs as if the user had clicked, so that the browser allows what needs
// a click.
func (b *Browser) evaluate(session, expression string, gesture bool) (any, error) {
	var answer struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := b.pipe.call(session, "Runtime.evaluate", object{"expression": expression, "returnByValue": true,
		"awaitPromise": true, "userGesture": gesture}, &answer)
	if err == nil && answer.Exception != nil {
		return nil, &callError{answer.Exception.Text + " " + answer.Exception.Exception.Description}
	}
	return answer.Result.Value, err
}

// Run runs JavaScript in the tab, as if the user had clicked.
func (b *Browser) Run(script string) {
	b.tb.Helper()
	if _, err := b.evaluate(b.tab, "void (() => {"+script+"})()", true); err != nil {
		b.tb.Fatalf("%s: %v", script, err)
	}
}

// ClickFrame clicks an element of the frame of another site whose URL contains part, when it is
// there.
func (b *Browser) ClickFrame(part, selector string) {
	b.tb.Helper()
	quoted, err := json.Marshal(selector)
	if err != nil {
		b.tb.Fatal(err)
	}
	place, session := b.await(part, `(e => { if (!e || document.readyState !== 'complete') return null;
		e.scrollIntoView(); const r = e.getBoundingClientRect();
		return JSON.stringify([r.x + r.width / 2, r.y + r.height / 2]); })(document.querySelector(`+string(quoted)+`))`)
	text, _ := place.(string)
	var at [2]float64
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		b.tb.Fatal(err)
	}
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.call(session, "Input.dispatchMouseEvent", object{"type": kind, "x": at[0], "y": at[1], "button": "left",
			"clickCount": 1}, nil)
	}
}

// Screenshot writes a picture of the tab to the file name, as PNG.
func (b *Browser) Screenshot(name string) {
	b.tb.Helper()
	var answer struct {
		Data string `json:"data"`
	}
	b.call(b.tab, "Page.captureScreenshot", nil, &answer)
	png, err := base64.StdEncoding.DecodeString(answer.Data)
	if err != nil {
		b.tb.Fatal(err)
	}
	if err := os.WriteFile(name, png, 0o644); err != nil {
		b.tb.Fatal(err)
	}
}

// Stop ends the browser in an orderly way, so that its network log is complete.
func (b *Browser) Stop() {
	if b.stopped {
		return
	}
	b.stopped = true
	_ = b.pipe.call("", "Browser.close", nil, nil) // it may close the pipe before it answers
	late := time.AfterFunc(time.Until(b.end), func() { _ = b.cmd.Process.Kill() })
	_ = b.cmd.Wait()
	late.Stop()
	b.pipe.close()
}

// Contacts ends the browser and returns whom it has contacted, or tried to, by its own network log:
// "dns NAME" for a name that it looked up, "tcp ADDR:PORT" and "udp ADDR:PORT". Names below
// localhost are not looked up.
func (b *Browser) Contacts() []string {
	b.tb.Helper()
	b.Stop()
	text, err := os.ReadFile(b.log)
	if err != nil {
		b.tb.Fatal(err)
	}
	var log struct {
		Constants struct {
			Types map[string]int `json:"logEventTypes"`
		} `json:"constants"`
		Events []struct {
			Type   int             `json:"type"`
			Params json.RawMessage `json:"params"`
		} `json:"events"`
	}
	if err := json.Unmarshal(text, &log); err != nil {
		b.tb.Fatalf("network log: %v", err)
	}
	names := map[int]string{}
	for name, n := range log.Constants.Types {
		names[n] = name
	}
	if len(log.Events) == 0 || len(names) == 0 {
		b.tb.Fatal("the network log is empty")
	}
	var found []string
	for _, e := range log.Events {
		var p struct{ Address, Host, Hostname string }
		_ = json.Unmarshal(e.Params, &p) // other events have other parameters
		switch name := names[e.Type]; {
		case name == "TCP_CONNECT_ATTEMPT" && p.Address != "":
			found = append(found, "tcp "+p.Address)
		case name == "UDP_CONNECT" && p.Address != "":
			found = append(found, "udp "+p.Address)
		case strings.HasPrefix(name, "HOST_RESOLVER") && p.Host+p.Hostname != "":
			if host := p.Host + p.Hostname; !strings.Contains(host, ".localhost") {
				found = append(found, "dns "+host)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
