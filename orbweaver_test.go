package orbweaver_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// childDir and childSeed name the variables that make the test program a crawl to kill.
const childDir, childSeed = "ORBWEAVER_TEST_DIR", "ORBWEAVER_TEST_SEED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		_, err := orbweaver.Crawl(context.Background(), orbweaver.Options{
			Dir: dir, Seeds: []string{os.Getenv(childSeed)}, AllowPrivate: true, Delay: -1,
			OnPage: func(_ context.Context, p *orbweaver.Page) error {
				_, err := fmt.Println(p.Path())
				return err
			},
		})
		fmt.Println("not killed:", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// After a kill the next call continues. Each page is given at least once: by the process
// that was killed, or by the next one.
func TestKill(t *testing.T) {
	site := &chain{n: 20}
	at := make(chan struct{}, 1)
	var killed atomic.Bool
	seed := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/10" && !killed.Load() {
			at <- struct{}{}
			<-r.Context().Done() // the process is gone
			return
		}
		site.ServeHTTP(w, r)
	}) + "/0"
	o := local(t, seed)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childDir+"="+o.Dir, childSeed+"="+seed)
	var out strings.Builder
	child.Stdout = &out
	must.Do(t, child.Start())
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	select {
	case <-at:
		if err := child.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-ended
		killed.Store(true)
	case err := <-ended:
		t.Fatalf("the process ended before: %v\n%s", err, out.String())
	}
	got := strings.Fields(out.String())
	if len(got) != 10 {
		t.Errorf("pages before the kill: %q", got)
	}
	o.OnPage = paths(&got)
	res, err := orbweaver.Crawl(t.Context(), o)
	if err != nil || res.Stop != orbweaver.Finished || res.Pages != 20 {
		t.Errorf("%+v, %v", res, err)
	}
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != 20 {
		t.Errorf("%d pages: %q", len(got), got)
	}
}

// serve serves handler on this machine and returns the site's URL.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.URL
}

// html answers with a page that links to each of links.
func html(w http.ResponseWriter, title string, links ...string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<title>%s</title>", title)
	for _, l := range links {
		fmt.Fprintf(w, "<a href=%q>%[1]s</a>\n", l)
	}
}

// chain is a site of n pages, each of which links to the next: /0, /1 and so on. The last
// request to each page is counted in asked.
type chain struct {
	n     int
	mu    sync.Mutex // guards asked
	asked map[string]int
}

func (c *chain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var i int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &i); err != nil || i >= c.n {
		http.NotFound(w, r)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked == nil {
		c.asked = map[string]int{}
	}
	c.asked[r.URL.Path]++
	html(w, r.URL.Path, fmt.Sprint("/", i+1))
}

// once reports the pages that were not asked for exactly once.
func (c *chain) once(t *testing.T, except ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.n {
		if p := fmt.Sprint("/", i); c.asked[p] != 1 && !slices.Contains(except, p) {
			t.Errorf("%s was asked for %d times", p, c.asked[p])
		}
	}
}

// local are options for a site on this machine.
func local(t *testing.T, seeds ...string) orbweaver.Options {
	return orbweaver.Options{Dir: filepath.Join(t.TempDir(), "crawl"), Seeds: seeds, AllowPrivate: true, Delay: -1}
}

// paths is an OnPage that keeps the paths of pages.
func paths(to *[]string) func(context.Context, *orbweaver.Page) error {
	return func(_ context.Context, p *orbweaver.Page) error {
		*to = append(*to, p.Path())
		return nil
	}
}

// web serves hosts that answer with handler, under names of their own.
func web(t *testing.T, cfg testweb.Config) (*testweb.Web, orbweaver.Options) {
	t.Helper()
	w := must.Get(testweb.New(cfg))(t)
	stop := w.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	o := local(t)
	o.DNS, o.ConnectTo = []string{w.DNSAddr()}, w.ConnectTo()
	for _, s := range cfg.Sites {
		o.Seeds = append(o.Seeds, "http://"+s.Host+"/")
	}
	return w, o
}

// robots.txt, its Crawl-delay and the delay between requests hold without an option.
func TestPoliteByDefault(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) { html(w, "", "/open", "/closed/1", "/closed/open") }
	w, o := web(t, testweb.Config{
		Sites: []testweb.Site{{Host: "a.example", Scheme: "http", Handler: http.HandlerFunc(handler),
			Robots: "User-agent: orbweaver\nDisallow: /closed/\nAllow: /closed/open\nCrawl-delay: 0.2\n"}},
		Promise: testweb.Promise{HostDelay: 50 * time.Millisecond, CrawlDelay: true},
	})
	o.Contact, o.Delay = "you@example.org", 50*time.Millisecond
	var got []string
	o.OnPage = paths(&got)
	must.Get(orbweaver.Crawl(t.Context(), o))(t)
	if want := []string{"/", "/open", "/closed/open"}; !slices.Equal(got, want) {
		t.Errorf("pages %q, want %q", got, want)
	}
	if r := w.Report(); len(r.ViolationCount) > 0 {
		t.Errorf("violations: %v", r.ViolationCount)
	}
}

// Without AllowPrivate the crawl dials no private address. If it fetches nothing, it returns an error.
func TestPrivateAddressesAreRefused(t *testing.T) {
	var requests atomic.Int64
	o := local(t, serve(t, func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	o.AllowPrivate = false
	o.OnPage = func(context.Context, *orbweaver.Page) error { t.Error("a page"); return nil }
	res, err := orbweaver.Crawl(t.Context(), o)
	if !errors.Is(err, orbweaver.ErrNothingFetched) || res.Stop != orbweaver.Failed || requests.Load() > 0 {
		t.Errorf("%v, stop %s, %d requests", err, res.Stop, requests.Load())
	}
	if len(res.FailedSeeds) != 1 || !strings.HasPrefix(res.FailedSeeds[0].URL, o.Seeds[0]) ||
		!strings.Contains(err.Error(), res.FailedSeeds[0].Reason) {
		t.Errorf("failed seeds %+v, error %v", res.FailedSeeds, err)
	}
}

// A Page says what came and how the crawl came to it, and is the callback's to keep.
func TestPage(t *testing.T) {
	seed := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Add("X-Two", "1")
			w.Header().Add("X-Two", "2")
			z := gzip.NewWriter(w)
			io.WriteString(z, `<title> A  title </title><a href="/copy?q=1#f">1</a><a rel=nofollow href="/no">2</a>`+
				`<img src="/i.png"><a href="https://other.example:81/x?y">3</a>`)
			z.Close()
		case "/copy", "/same":
			html(w, "copy", "/data", "/same")
		case "/data":
			w.Header().Set("Content-Type", "Application/PDF")
			io.WriteString(w, strings.Repeat("x", 3000))
		default:
			http.NotFound(w, r)
		}
	})
	o := local(t, seed)
	o.MaxPageBytes = 1000
	var pages []*orbweaver.Page
	o.OnPage = func(_ context.Context, p *orbweaver.Page) error { pages = append(pages, p); return nil }
	before := time.Now()
	res, err := orbweaver.Crawl(t.Context(), o)
	if err != nil || len(pages) != 4 || res.Pages != 4 || res.Stop != orbweaver.Finished || res.Resumed ||
		res.Bytes == 0 || res.Queued != 0 || res.Duration <= 0 {
		t.Fatalf("%d pages, %+v, %v", len(pages), res, err)
	}
	home, copied, data, same := pages[0], pages[1], pages[2], pages[3]
	if home.URL != seed+"/" || home.Status != 200 || home.ContentType != "text/html" || home.Charset != "utf-8" ||
		home.Title != "A title" || home.Truncated || home.Depth != 0 || home.Referrer != "" || home.Duplicate ||
		home.Again || !slices.Equal(home.Header.Values("x-two"), []string{"1", "2"}) || home.Host() != "127.0.0.1" {
		t.Errorf("home: %+v", home)
	}
	if !strings.HasPrefix(string(home.Body), "<title> A  title") {
		t.Errorf("body %q", home.Body)
	}
	if home.FetchedAt.Before(before) || home.FetchedAt.After(time.Now()) {
		t.Errorf("fetched at %s", home.FetchedAt)
	}
	want := []orbweaver.Link{
		{URL: seed + "/copy?q=1", Depth: 1, Referrer: home.URL},
		{URL: seed + "/no", Depth: 1, Referrer: home.URL, NoFollow: true},
		{URL: "https://other.example:81/x?y", Depth: 1, Referrer: home.URL},
	}
	if !slices.Equal(home.Links, want) {
		t.Errorf("links %+v", home.Links)
	}
	if l := want[2]; l.Host() != "other.example" || l.Path() != "/x" {
		t.Errorf("host %q, path %q", l.Host(), l.Path())
	}
	if copied.Path() != "/copy" || copied.Depth != 1 || copied.Referrer != home.URL || copied.Duplicate {
		t.Errorf("copy: %+v", copied)
	}
	if data.ContentType != "application/pdf" || len(data.Body) != 1000 || !data.Truncated || len(data.Links) != 0 {
		t.Errorf("data: %q, %d octets, truncated %v", data.ContentType, len(data.Body), data.Truncated)
	}
	if !same.Duplicate || same.Depth != 2 {
		t.Errorf("same: %+v", same)
	}
}

// With AllResponses the callback also sees redirects and errors.
func TestAllResponses(t *testing.T) {
	o := local(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			html(w, "", "/gone", "/moved")
		case "/moved":
			http.Redirect(w, r, "/", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	o.AllResponses = true
	var got []string
	o.OnPage = func(_ context.Context, p *orbweaver.Page) error {
		got = append(got, fmt.Sprint(p.Status, p.Path()))
		if p.Status != 200 && (p.Body != nil || p.Referrer == "") {
			t.Errorf("%s: body %q, referrer %q", p.URL, p.Body, p.Referrer)
		}
		return nil
	}
	must.Get(orbweaver.Crawl(t.Context(), o))(t)
	if want := []string{"200/", "404/gone", "302/moved"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An error of OnPage ends the crawl and is returned. The next call continues with its page.
func TestOnPageError(t *testing.T) {
	site := &chain{n: 6}
	o := local(t, serve(t, site.ServeHTTP)+"/0")
	errMine := errors.New("my own")
	var got []string
	o.OnPage = func(_ context.Context, p *orbweaver.Page) error {
		if p.Path() == "/3" {
			return fmt.Errorf("sink: %w", errMine)
		}
		return paths(&got)(nil, p)
	}
	res, err := orbweaver.Crawl(t.Context(), o)
	if !errors.Is(err, errMine) || !strings.Contains(err.Error(), "/3") || res.Stop != orbweaver.Failed ||
		res.Queued != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	o.OnPage, o.Seeds = paths(&got), nil
	res, err = orbweaver.Crawl(t.Context(), o)
	if err != nil || res.Stop != orbweaver.Finished || !res.Resumed || res.Pages != 6 {
		t.Errorf("%+v, %v", res, err)
	}
	if want := []string{"/0", "/1", "/2", "/3", "/4", "/5"}; !slices.Equal(got, want) {
		t.Errorf("pages %q", got)
	}
	site.once(t, "/3")
}

// ErrStop ends the crawl without an error. Its page is finished.
func TestErrStop(t *testing.T) {
	site := &chain{n: 6}
	o := local(t, serve(t, site.ServeHTTP)+"/0")
	var got []string
	o.OnPage = func(_ context.Context, p *orbweaver.Page) error {
		if got = append(got, p.Path()); len(got) == 3 {
			return fmt.Errorf("seen enough: %w", orbweaver.ErrStop)
		}
		return nil
	}
	res, err := orbweaver.Crawl(t.Context(), o)
	if err != nil || res.Stop != orbweaver.Stopped || res.Pages != 3 || res.Queued != 1 {
		t.Errorf("%+v, %v", res, err)
	}
	if res, err = orbweaver.Crawl(t.Context(), o); err != nil || res.Stop != orbweaver.Finished {
		t.Errorf("%+v, %v", res, err)
	}
	if want := []string{"/0", "/1", "/2", "/3", "/4", "/5"}; !slices.Equal(got, want) {
		t.Errorf("pages %q", got)
	}
	site.once(t)
}

// The end of the context ends the crawl in order, and the next call continues.
func TestCancel(t *testing.T) {
	for _, c := range []struct {
		name    string
		waits   bool // OnPage waits for its context
		repeats []string
	}{
		{"OnPage ignores it", false, nil},
		{"OnPage returns its error", true, []string{"/2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			site := &chain{n: 6}
			o := local(t, serve(t, site.ServeHTTP)+"/0")
			errMine := errors.New("my own cause")
			ctx, cancel := context.WithCancelCause(t.Context())
			var got []string
			o.OnPage = func(ctx context.Context, p *orbweaver.Page) error {
				if p.Path() != "/2" {
					return paths(&got)(ctx, p)
				}
				cancel(errMine)
				if c.waits {
					<-ctx.Done()
					return fmt.Errorf("my sink: %w", ctx.Err())
				}
				return paths(&got)(ctx, p)
			}
			res, err := orbweaver.Crawl(ctx, o)
			if !errors.Is(err, errMine) || res.Stop != orbweaver.Canceled || res.Queued == 0 {
				t.Errorf("%+v, %v", res, err)
			}
			if res, err := orbweaver.Crawl(ctx, o); !errors.Is(err, errMine) || res.Stop != orbweaver.Canceled {
				t.Errorf("a context that is done: %+v, %v", res, err)
			}
			o.OnPage = paths(&got)
			res, err = orbweaver.Crawl(t.Context(), o)
			if err != nil || res.Stop != orbweaver.Finished || !res.Resumed {
				t.Errorf("%+v, %v", res, err)
			}
			if want := []string{"/0", "/1", "/2", "/3", "/4", "/5"}; !slices.Equal(got, want) {
				t.Errorf("pages %q", got)
			}
			site.once(t, c.repeats...)
		})
	}
}

// Calls of OnPage are serial unless Callbacks says otherwise, and no more pages are fetched
// than workers hold while they wait for it.
func TestBackPressure(t *testing.T) {
	const hosts, workers = 40, 4
	for _, atATime := range []int{0, 3} {
		t.Run(fmt.Sprint("Callbacks ", atATime), func(t *testing.T) {
			var served, done, running, most, ahead atomic.Int64
			raise := func(to *atomic.Int64, n int64) {
				for old := to.Load(); n > old && !to.CompareAndSwap(old, n); old = to.Load() {
				}
			}
			full := make(chan struct{}) // closed when each worker fetches or holds a page
			cfg := testweb.Config{}
			for i := range hosts {
				cfg.Sites = append(cfg.Sites, testweb.Site{Host: fmt.Sprintf("h%d.example", i), Scheme: "http",
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/robots.txt" {
							http.NotFound(w, r)
							return
						}
						n := served.Add(1)
						raise(&ahead, n-done.Load())
						if n == workers {
							close(full)
						}
						html(w, "")
					})})
			}
			_, o := web(t, cfg)
			o.Contact, o.Workers, o.Callbacks = "you@example.org", workers, atATime
			o.OnPage = func(context.Context, *orbweaver.Page) error {
				raise(&most, running.Add(1))
				<-full
				running.Add(-1)
				done.Add(1)
				return nil
			}
			must.Get(orbweaver.Crawl(t.Context(), o))(t)
			if done.Load() != hosts {
				t.Errorf("%d pages, want %d", done.Load(), hosts)
			}
			if want := int64(max(atATime, 1)); most.Load() > want {
				t.Errorf("%d calls at a time, want %d", most.Load(), want)
			}
			if ahead.Load() > workers {
				t.Errorf("%d pages were fetched and not handled, want at most %d", ahead.Load(), workers)
			}
		})
	}
}

// Mistakes in options are told in the options' words, before anything is written.
func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		text string // of the error
		set  func(*orbweaver.Options)
	}{
		{"Options.Dir", func(o *orbweaver.Options) { o.Dir = "" }},
		{"or some with Options.Seeds", func(o *orbweaver.Options) { o.Seeds = nil }},
		{"seed", func(o *orbweaver.Options) { o.Seeds = []string{"ftp://a.example/"} }},
		{"Options.Contact", func(o *orbweaver.Options) { o.Contact = "" }},
		{"Options.Contact", func(o *orbweaver.Options) { o.Contact = "me" }},
		{"Options.UserAgent", func(o *orbweaver.Options) { o.UserAgent = "a\nb" }},
		{"Options.RobotsAgent", func(o *orbweaver.Options) { o.RobotsAgent = "a b" }},
		{"Options.Callbacks", func(o *orbweaver.Options) { o.Callbacks = -1 }},
		{"Options.PageLimit", func(o *orbweaver.Options) { o.PageLimit = -1 }},
		{"Options.TimeLimit", func(o *orbweaver.Options) { o.TimeLimit = -1 }},
		{"Options.RetryWait", func(o *orbweaver.Options) { o.RetryWait = -1 }},
		{"Options.Workers", func(o *orbweaver.Options) { o.Workers = 10_001 }},
		{"Options.Memory", func(o *orbweaver.Options) { o.Memory = 1 << 20 }},
		{"Options.MaxPageBytes", func(o *orbweaver.Options) { o.MaxPageBytes = -1 }},
		{"Options.Scope.Kind", func(o *orbweaver.Options) { o.Scope.Kind = 9 }},
		{"Options.Scope.MaxDepth", func(o *orbweaver.Options) { o.Scope.MaxDepth = -1 }},
		{"Options.Scope.Exclude 1 of 1", func(o *orbweaver.Options) { o.Scope.Exclude = []string{"("} }},
		{"Options.Scope.Include 1 of 1", func(o *orbweaver.Options) { o.Scope.Include = []string{"("} }},
		{"Options.Archive.Keep 1 of 1", func(o *orbweaver.Options) { o.Archive.Keep = []string{"*.pdf"} }},
		{"Options.Headers: every host", func(o *orbweaver.Options) { o.Headers = []string{"Cookie: a=b"} }},
		{"Options.Headers: a header has", func(o *orbweaver.Options) { o.Headers = []string{"Accept"} }},
		{"Options.DNS", func(o *orbweaver.Options) { o.DNS = []string{"here"} }},
		{"Options.Proxy is empty", func(o *orbweaver.Options) { o.Proxy = new(url.URL) }},
		{"Options.HostShare NaN: give", func(o *orbweaver.Options) { o.HostShare = math.NaN() }},
		{"Options.Proxy", func(o *orbweaver.Options) { o.Proxy = &url.URL{Scheme: "ftp", Host: "a.example"} }},
		{"Options.Scope.Exclude", func(o *orbweaver.Options) { o.Scope.Exclude = []string{"."} }},
		{"Max", func(o *orbweaver.Options) {
			o.Strategy = orbweaver.Recrawl(orbweaver.RecrawlOptions{Min: 2, Max: 1})
		}},
		{"RecrawlOptions.Min 1000h0m0s and RecrawlOptions.Max 720h0m0s", func(o *orbweaver.Options) {
			o.Strategy = orbweaver.Recrawl(orbweaver.RecrawlOptions{Min: 1000 * time.Hour})
		}},
		{"RecrawlOptions.Min 1h0m0s and RecrawlOptions.Max 1m0s", func(o *orbweaver.Options) {
			o.Strategy = orbweaver.Recrawl(orbweaver.RecrawlOptions{Max: time.Minute})
		}},
		{"Min -1h0m0s", func(o *orbweaver.Options) {
			o.Strategy = orbweaver.Recrawl(orbweaver.RecrawlOptions{Min: -time.Hour})
		}},
		{"Rounds", func(o *orbweaver.Options) {
			o.Strategy = orbweaver.Recrawl(orbweaver.RecrawlOptions{Rounds: -1})
		}},
		{"Jump", func(o *orbweaver.Options) { o.Strategy = orbweaver.Walk(orbweaver.WalkOptions{Jump: 2}) }},
		{"Steps", func(o *orbweaver.Options) { o.Strategy = orbweaver.Walk(orbweaver.WalkOptions{Steps: -1}) }},
		{"Walkers", func(o *orbweaver.Options) { o.Strategy = orbweaver.Walk(orbweaver.WalkOptions{Walkers: -1}) }},
		{"Options.Scope.MaxDepth 1 has no effect with Options.Strategy walk", func(o *orbweaver.Options) {
			o.Strategy, o.Scope.MaxDepth = orbweaver.Walk(orbweaver.WalkOptions{}), 1
		}},
		{"Options.Cluster.Partition hash", func(o *orbweaver.Options) {
			o.Strategy = orbweaver.Walk(orbweaver.WalkOptions{})
			o.Cluster = &orbweaver.Cluster{Name: "a", Listen: "127.0.0.1:1", Partition: "hash"}
		}},
		{"Options.ConnectTo", func(o *orbweaver.Options) { o.ConnectTo = []string{"x"} }},
		{"Options.Cluster.Name", func(o *orbweaver.Options) {
			o.Cluster = &orbweaver.Cluster{Name: "A B", Listen: "127.0.0.1:1"}
		}},
		{"Options.Cluster.Listen", func(o *orbweaver.Options) {
			o.Cluster = &orbweaver.Cluster{Name: "a", Listen: "x"}
		}},
		{"Options.Cluster.Partition", func(o *orbweaver.Options) {
			o.Cluster = &orbweaver.Cluster{Name: "a", Listen: "127.0.0.1:1", Partition: "x"}
		}},
		{"Options.Cluster.Kappa", func(o *orbweaver.Options) {
			o.Cluster = &orbweaver.Cluster{Name: "a", Listen: "127.0.0.1:1", Kappa: 5}
		}},
		{"Options.DelayFactor", func(o *orbweaver.Options) { o.DelayFactor = -1 }},
		{"no effect without DelayFactor", func(o *orbweaver.Options) { o.DelayMax = time.Minute }},
		{"Options.DelayMax 1s is shorter than Options.Delay 2s", func(o *orbweaver.Options) {
			o.DelayFactor, o.DelayMax = 5, time.Second
		}},
		{"Options.Rate: \"fast\"", func(o *orbweaver.Options) { o.Rate = "fast" }},
		{"Options.ExcludeFile /none: no such file", func(o *orbweaver.Options) { o.ExcludeFile = "/none" }},
		{"Options.Cluster.Replicas", func(o *orbweaver.Options) { o.Cluster = &orbweaver.Cluster{Replicas: 3} }},
		{"Options.Cluster.Capacity", func(o *orbweaver.Options) { o.Cluster = &orbweaver.Cluster{Capacity: -1} }},
		{"Options.Cluster.Agents", func(o *orbweaver.Options) { o.Cluster = &orbweaver.Cluster{Agents: -1} }},
	} {
		o := orbweaver.Options{Dir: filepath.Join(t.TempDir(), "crawl"), Seeds: []string{"https://a.example/"},
			Contact: "you@example.org"}
		dir := o.Dir
		c.set(&o)
		res, err := orbweaver.Crawl(t.Context(), o)
		if !errors.Is(err, orbweaver.ErrOptions) || !strings.Contains(err.Error(), c.text) ||
			strings.Contains(err.Error(), "--") || res.Stop != orbweaver.Failed {
			t.Errorf("%s: %v, stop %q", c.text, err, res.Stop)
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the directory: %v", c.text, err)
		}
	}
}

// A directory with other files is refused, and Overwrite deletes a crawl only.
func TestDir(t *testing.T) {
	site := &chain{n: 2}
	o := local(t, serve(t, site.ServeHTTP)+"/0")
	other := filepath.Join(o.Dir, "thesis.txt")
	must.Do(t, errors.Join(os.Mkdir(o.Dir, 0o755), os.WriteFile(other, nil, 0o644)))
	o.Overwrite = true
	if _, err := orbweaver.Crawl(t.Context(), o); !errors.Is(err, orbweaver.ErrOptions) ||
		!strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("another directory: %v", err)
	}
	must.Do(t, os.Remove(other))
	for range 2 {
		if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Resumed || res.Pages != 2 {
			t.Errorf("%+v, %v", res, err)
		}
	}
	if n := site.asked["/1"]; n != 2 {
		t.Errorf("/1 was asked for %d times", n)
	}
	o.Overwrite = false
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || !res.Resumed || res.Stop != orbweaver.Finished {
		t.Errorf("%+v, %v", res, err)
	}
	o.Strategy = orbweaver.List()
	if _, err := orbweaver.Crawl(t.Context(), o); !errors.Is(err, orbweaver.ErrOptions) ||
		!strings.Contains(err.Error(), "strategy") {
		t.Errorf("another strategy: %v", err)
	}
}

// A crawl of the command line is refused and stays as it is.
func TestCrawlOfTheCommandLine(t *testing.T) {
	o := local(t, "http://127.0.0.1:1/")
	yaml := filepath.Join(o.Dir, "crawl.yaml")
	const text = "# The flags of this crawl; \"orbweaver crawl --resume\" reads them.\npage-limit: 3\n"
	must.Do(t, errors.Join(os.Mkdir(o.Dir, 0o755), os.WriteFile(yaml, []byte(text), 0o644)))
	if _, err := orbweaver.Crawl(t.Context(), o); !errors.Is(err, orbweaver.ErrOptions) ||
		!strings.Contains(err.Error(), "continue it with `orbweaver crawl --resume --dir "+o.Dir+"`") {
		t.Errorf("a crawl of the command line: %v", err)
	}
	if b, err := os.ReadFile(yaml); err != nil || string(b) != text {
		t.Errorf("crawl.yaml: %q, %v", b, err)
	}
	if entries, err := os.ReadDir(o.Dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory: %v, %v", entries, err)
	}
}

// A directory belongs to one crawl at a time.
func TestInUse(t *testing.T) {
	site := &chain{n: 1}
	o := local(t, serve(t, site.ServeHTTP)+"/0")
	second := o
	o.OnPage = func(ctx context.Context, _ *orbweaver.Page) error {
		if _, err := orbweaver.Crawl(ctx, second); !errors.Is(err, orbweaver.ErrInUse) ||
			!strings.Contains(err.Error(), "is being crawled by this process") {
			t.Errorf("a second crawl: %v", err)
		}
		return nil
	}
	if _, err := orbweaver.Crawl(t.Context(), o); err != nil {
		t.Error(err)
	}
}

// Two crawls in one process at the same time know nothing of each other, and leave alone
// what belongs to the process.
func TestTwoCrawls(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	debug.SetGCPercent(percent)
	var started sync.WaitGroup
	started.Add(2)
	var both sync.WaitGroup
	for range 2 {
		site := &chain{n: 50}
		o := local(t, serve(t, site.ServeHTTP)+"/0")
		var got []string
		o.OnPage = func(_ context.Context, p *orbweaver.Page) error {
			if len(got) == 0 {
				started.Done()
				started.Wait() // until the other crawl runs, too
				if l := debug.SetMemoryLimit(-1); l != limit {
					t.Errorf("memory limit %d, before %d", l, limit)
				}
			}
			if !strings.HasPrefix(p.URL, o.Seeds[0][:len(o.Seeds[0])-1]) {
				t.Errorf("%s in the crawl of %s", p.URL, o.Seeds[0])
			}
			return paths(&got)(nil, p)
		}
		both.Go(func() {
			if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Pages != 50 || len(got) != 50 {
				t.Errorf("%d pages, %+v, %v", len(got), res, err)
			}
			site.once(t)
		})
	}
	both.Wait()
	if l, p := debug.SetMemoryLimit(-1), debug.SetGCPercent(percent); l != limit || p != percent {
		t.Errorf("memory limit %d and GC percent %d, before %d and %d", l, p, limit, percent)
	}
}

// The strategies that come with the library.
func TestStrategies(t *testing.T) {
	soon := orbweaver.RecrawlOptions{Min: time.Millisecond, Max: time.Millisecond, Rounds: 1}
	dropAll := func(p *orbweaver.Page, l orbweaver.Link) orbweaver.Choice {
		if p.Path() != "/0" || p.Title != "/0" || len(p.Body) == 0 || l.Path() != "/1" || l.Kind != orbweaver.Anchor {
			t.Errorf("Follow(%+v, %+v)", p, l)
		}
		return orbweaver.Drop
	}
	for _, c := range []struct {
		name         string
		s            orbweaver.Strategy
		calls, again int
	}{
		{"breadth-first", orbweaver.BreadthFirst(), 4, 0},
		{"list", orbweaver.List(), 1, 0},
		{"recrawl", orbweaver.Recrawl(soon), 8, 4},
		{"walk", orbweaver.Walk(orbweaver.WalkOptions{Steps: 50}), 4, 0},
		{"own", orbweaver.FollowFunc(dropAll), 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			site := &chain{n: 4}
			o := local(t, serve(t, site.ServeHTTP)+"/0")
			o.Strategy = c.s
			var got []string
			again := 0
			o.OnPage = func(_ context.Context, p *orbweaver.Page) error {
				if p.Again {
					again++
				}
				return paths(&got)(nil, p)
			}
			res, err := orbweaver.Crawl(t.Context(), o)
			if err != nil || res.Stop != orbweaver.Finished || len(got) != c.calls || again != c.again {
				t.Errorf("%q, %d again, %+v, %v", got, again, res, err)
			}
		})
	}
}

// A Choice out of range is the nearest one in range.
func TestChoiceOutOfRange(t *testing.T) {
	for choice, pages := range map[orbweaver.Choice]int64{-7: 1, 1000: 4} {
		site := &chain{n: 4}
		o := local(t, serve(t, site.ServeHTTP)+"/0")
		o.Strategy = orbweaver.FollowFunc(func(*orbweaver.Page, orbweaver.Link) orbweaver.Choice { return choice })
		if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Pages != pages {
			t.Errorf("choice %d: %+v, %v", choice, res, err)
		}
	}
}

// Each way in which a run can end has a Stop.
func TestStops(t *testing.T) {
	for stop, want := range map[crawl.Stop]orbweaver.Stop{
		crawl.Finished: orbweaver.Finished, crawl.OnlyBlocked: orbweaver.Blocked, crawl.Left: orbweaver.Left,
		crawl.PageLimit: orbweaver.PageLimit, crawl.SizeLimit: orbweaver.SizeLimit,
		crawl.TimeLimit: orbweaver.TimeLimit,
	} {
		if got := orbweaver.Stop(stop); got != want {
			t.Errorf("%s: got %s", want, got)
		}
	}
}

// Limits end a crawl without an error.
func TestLimits(t *testing.T) {
	site := &chain{n: 20}
	o := local(t, serve(t, site.ServeHTTP)+"/0")
	o.PageLimit = 3
	var got []string
	o.OnPage = paths(&got)
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Stop != orbweaver.PageLimit || len(got) != 3 {
		t.Errorf("%q, %+v, %v", got, res, err)
	}
	o.PageLimit, o.Scope.MaxDepth = 0, 5
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Stop != orbweaver.Finished || len(got) != 6 {
		t.Errorf("%q, %+v, %v", got, res, err)
	}
}

// Agents join a cluster by the same Options. Each page is given to one of them, also one
// whose content the cluster has already. This is one of the few tests of the gate that wait for
// agents in real time: no other one runs a cluster by this package.
func TestCluster(t *testing.T) {
	for _, partition := range []string{"hash", ""}[:testtier.Rounds(1, 2)] {
		t.Run("partition "+partition, func(t *testing.T) {
			cfg := testweb.Config{}
			for i := range 12 {
				cfg.Sites = append(cfg.Sites, testweb.Site{Host: fmt.Sprintf("h%d.example", i), Scheme: "http",
					Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/robots.txt" {
							http.NotFound(w, r)
							return
						}
						html(w, "", fmt.Sprintf("http://h%d.example/2", (i+1)%12))
					})})
			}
			_, o := web(t, cfg)
			o.Contact, o.Seeds = "you@example.org", o.Seeds[:1]
			o.Scope.Kind = orbweaver.Anywhere
			addrs := must.Get(testweb.FreeAddrs(2))(t)
			var mu sync.Mutex // guards the two below
			got := map[string]int{}
			var duplicates []string
			var agents sync.WaitGroup
			for i, addr := range addrs {
				o := o
				o.Dir = filepath.Join(t.TempDir(), "crawl")
				o.Cluster = &orbweaver.Cluster{Name: fmt.Sprint("a", i+1), Listen: addr, Join: addrs[:1], Agents: 2,
					Partition: partition}
				o.OnPage = func(_ context.Context, p *orbweaver.Page) error {
					mu.Lock()
					defer mu.Unlock()
					if got[p.URL]++; p.Duplicate {
						duplicates = append(duplicates, p.URL)
					}
					if len(p.Body) == 0 {
						t.Errorf("%s has no body", p.URL)
					}
					return nil
				}
				agents.Go(func() {
					if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Stop != orbweaver.Finished {
						t.Errorf("%+v, %v", res, err)
					}
				})
			}
			agents.Wait()
			for u, n := range got {
				if n != 1 {
					t.Errorf("%s was given %d times", u, n)
				}
			}
			if len(got) != 13 {
				t.Errorf("%d pages, want 13: %v", len(got), got)
			}
			if want := []string{"http://h0.example/2"}; !slices.Equal(duplicates, want) {
				t.Errorf("duplicates %q, want %q", duplicates, want)
			}
		})
	}
}
