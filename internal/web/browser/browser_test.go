package browser

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/browser/gateway"
	"github.com/orbweaver/orbweaver/internal/web/browser/process"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) {
	// net/http waits for half a second before it closes a connection that it has cut.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// site answers the files of a test, by URL. It is the Origin of its views.
type site struct {
	files map[string]string // a file whose name ends with .js is a script, and so on

	// A request for /wait is answered when the URLs of until have been asked for, or when the view ends.
	until []string
	met   chan struct{} // closed when they have

	mu    sync.Mutex // guards asked
	asked []string
}

func (s *site) Answer(ctx context.Context, r *gateway.Request) (*gateway.Answer, error) {
	u := r.URL.String()
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+u)
	if i := slices.Index(s.until, u); i >= 0 {
		if s.until = slices.Delete(s.until, i, i+1); len(s.until) == 0 {
			close(s.met)
		}
	}
	s.mu.Unlock()
	if r.URL.Path() == "/wait" {
		select {
		case <-s.met:
		case <-ctx.Done():
		}
	}
	text, ok := s.files[u]
	if !ok {
		return nil, errors.New("no such file")
	}
	a := gateway.Text(200, text)
	a.Header = header(u)
	return a, nil
}

func header(u string) http.Header {
	kinds := map[string]string{".js": "text/javascript", ".json": "application/json", ".css": "text/css",
		".bin": "application/octet-stream"}
	for end, kind := range kinds {
		if strings.HasSuffix(u, end) {
			return http.Header{"Content-Type": {kind}}
		}
	}
	return http.Header{"Content-Type": {"text/html; charset=utf-8"}}
}

// requests returns what the site was asked, sorted.
func (s *site) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.asked))
}

// pool opens a pool of real browsers.
func pool(t *testing.T, c Config) *Pool {
	t.Helper()
	program, err := process.Find(t.Context(), "", os.Environ())
	if errors.Is(err, process.ErrNone) {
		testneed.Missing(t, "Chromium")
	} else if err != nil {
		t.Fatal(err)
	}
	c.Program, c.Dir, c.UserAgent = program, t.TempDir(), "Orbweaver/test (+https://example.org/)"
	c.Environ, c.NoSandbox = os.Environ(), os.Geteuid() == 0
	p := must.Get(Open(c))(t)
	t.Cleanup(func() {
		p.Close()
		if left := must.Get(os.ReadDir(c.Dir))(t); len(left) > 0 {
			t.Errorf("the browsers have left %v", left)
		}
	})
	return p
}

func show(t *testing.T, p *Pool, url, html string, s *site, b Bounds) *Finished {
	t.Helper()
	d := Document{must.Get(weburl.Parse(url))(t), 200, header(""), []byte(html)}
	f, err := p.View(t.Context(), d, b, Wants{}, s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestViewOfAnApplication(t *testing.T) {
	s := &site{files: map[string]string{
		"https://a.example/app.js": `
			document.title = "Made by a script";
			fetch("/data.json").then(r => r.json()).then(d => {
				document.getElementById("root").innerHTML = "<h1>" + d.text + "</h1><a href='/next'>next</a>";
				const host = document.createElement("div");
				document.body.append(host);
				host.attachShadow({mode: "open"}).innerHTML = "<a href='/in-shadow'>in a shadow</a>";
				history.pushState({}, "", "/routed");
				window.open("/window");
				document.cookie = "a=b";
				fetch("https://b.example/with-cookie.json", {credentials: "include"}).catch(() => {});
			});`,
		"https://a.example/data.json": `{"text": "Text of the server"}`,
		"https://a.example/style.css": `body { background: url(picture.bin) }`,
	}}
	f := show(t, pool(t, Config{}), "https://a.example/", `<!DOCTYPE html><link rel=stylesheet href=/style.css>
		<div id=root></div><script src=/app.js></script>`, s, Bounds{})
	if f.Ended != Rested || f.Why != nil {
		t.Fatalf("%s: %v", f.Ended, f.Why)
	}
	for _, want := range []string{"<h1>Text of the server</h1>", `href="/next"`, `href="/in-shadow"`} {
		if !strings.Contains(f.HTML, want) {
			t.Errorf("the document lacks %s:\n%s", want, f.HTML)
		}
	}
	if f.Title != "Made by a script" || !strings.Contains(f.Text, "Text of the server") {
		t.Errorf("title %q, text %q", f.Title, f.Text)
	}
	want := []string{"GET https://a.example/app.js", "GET https://a.example/data.json",
		"GET https://a.example/favicon.ico", "GET https://a.example/picture.bin", "GET https://a.example/style.css", "GET https://b.example/with-cookie.json"}
	if got := slices.Compact(s.requests()); !slices.Equal(got, want) {
		t.Errorf("asked for\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, want := range []Link{{"https://a.example/routed", Routed}, {"https://a.example/window", Opened}} {
		if !slices.Contains(f.Links, want) {
			t.Errorf("%v lacks %v", f.Links, want)
		}
	}
	if f.Counts.Requests < len(want) || f.Counts.Failed == 0 {
		t.Errorf("%+v", f.Counts)
	}
	t.Logf("%s, %d steps, %+v", f.Took.Round(time.Millisecond), f.Steps, f.Counts)
}

// inGate are the hostile pages that the gate shows, too: one of each kind of end.
var inGate = map[string]bool{"endless loop later": true, "dialogs": true, "memory": true, "redirect loop": true,
	"reload": true}

// TestHostilePages has pages that keep a browser busy, or bring it down. Each costs its own view: the page after it
// is shown, and nothing is left at the end.
func TestHostilePages(t *testing.T) {
	p := pool(t, Config{Memory: 700 << 20})
	for _, x := range []struct {
		name, html string
		ended      []Ending // any of them
	}{
		{"endless loop", `<script>for (;;) {}</script>`, []Ending{Hung}},
		{"endless loop later", `<script>setTimeout(() => { for (;;) {} }, 100)</script>`, []Ending{Hung}},
		{"dialogs", `<script>for (let i = 0; i < 20; i++) { alert(i); confirm(i); prompt(i) }</script>shown`,
			[]Ending{Rested}},
		{"dialogs for ever", `<script>for (;;) alert(1)</script>`, []Ending{Hung}},
		{"beforeunload", `<script>onbeforeunload = e => { e.preventDefault(); return "stay" }</script>shown`,
			[]Ending{Rested}},
		{"infinite scroll", `<div id=d></div><script>onscroll = () => { for (let i = 0; i < 50; i++)
			d.append(document.createElement("p"), "more") }; for (let i = 0; i < 100; i++) d.append(
			document.createElement("p"), "more")</script>`, []Ending{Rested, OutOfTime}},
		{"memory", `<script>fetch("/wait"); const a = []; setInterval(() => { const b = new Uint8Array(64 << 20);
			b.fill(1); a.push(b) }, 1)</script>`, []Ending{Crashed}},
		{"heap", `<script>const a = []; setInterval(() => { for (let i = 0; i < 1e5; i++) a.push({i, s: "x" + i}) }, 1)
			</script>`, []Ending{Crashed, Hung, Rested}},
		{"windows", `<script>for (let i = 0; i < 3000; i++) open("/w" + i)</script>shown`, []Ending{Rested}},
		{"redirect loop", `<script>location = "/?" + Math.random()</script>`, []Ending{Rested}},
		{"reload", `<script>location.reload()</script>`, []Ending{Rested}},
		{"frames in frames", `<script>for (let i = 0; i < 50; i++) document.write("<iframe src=/frame></iframe>")
			</script>shown`, []Ending{Rested, OutOfTime}},
		{"many nodes", `<script>document.write("<b>x</b>".repeat(1e6))</script>`,
			[]Ending{Rested, OutOfTime, Hung, Crashed}},
		{"deep nodes", `<script>let d = document.body; for (let i = 0; i < 1e5; i++) {
			const e = document.createElement("div"); d.append(e); d = e }</script>`,
			[]Ending{Rested, OutOfTime, Hung, Crashed}},
		{"routes", `<script>setInterval(() => history.pushState({}, "", "/" + Math.random()), 1)</script>shown`,
			[]Ending{Rested, OutOfTime}},
		{"requests for ever", `<script>(async () => { for (let i = 0; ; i++) await fetch("/frame?" + i).catch(() => 0) })()
			</script>shown`, []Ending{Rested, OutOfTime}},
	} {
		if !testtier.Soak() && !inGate[x.name] {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			s := &site{files: map[string]string{"https://a.example/frame": `<iframe src=/frame></iframe>`}}
			b := Bounds{Quiet: 200 * time.Millisecond}
			if len(x.ended) > 1 || x.ended[0] == Hung { // others must not depend on the speed of the machine
				b.Time, b.Stuck = 8*time.Second, 4*time.Second
			}
			f := show(t, p, "https://a.example/", "<!DOCTYPE html><body>"+x.html, s, b)
			t.Logf("%s after %s: %v; %d dialogs, %d steps, %d links, %d bytes, %+v", f.Ended,
				f.Took.Round(time.Millisecond), f.Why, f.Dialogs, f.Steps, len(f.Links), len(f.HTML), f.Counts)
			if !slices.Contains(x.ended, f.Ended) {
				t.Errorf("ended with %s, want one of %v", f.Ended, x.ended)
			}
			if strings.HasSuffix(x.html, "shown") && !strings.Contains(f.Text, "shown") {
				t.Errorf("read %q", f.Text)
			}
			f = show(t, p, "https://b.example/", "<p>the page after it", s, Bounds{})
			if f.Ended != Rested || f.Text != "the page after it" {
				t.Errorf("the page after it: %s %v %q", f.Ended, f.Why, f.Text)
			}
		})
	}
}
