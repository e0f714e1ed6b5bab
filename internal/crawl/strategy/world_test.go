package strategy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/web/dns"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A doc is a page of a web in memory.
type doc struct {
	links   []string
	to      string // redirect
	status  int    // 0: 200
	text    string // the body of a document that is not HTML
	html    string // the body; empty: one with links
	pad     int    // number of bytes to append
	breaks  bool   // the connection ends within the body, each time elsewhere
	changes func(at time.Duration) (version int, last time.Duration)
	etag    bool // sends ETag, and answers 304 to it
	dated   bool // sends Last-Modified, and answers 304 to it
}

func (d *doc) version(at time.Duration) (int, time.Duration) {
	if d.changes == nil {
		return 0, -24 * time.Hour
	}
	return d.changes(at)
}

// every returns the changes of a page that changes at regular times.
func every(d time.Duration) func(time.Duration) (int, time.Duration) {
	return func(at time.Duration) (int, time.Duration) { return int(at / d), at.Truncate(d) }
}

// A web answers for all hosts, over connections in memory. It implements crawl.Resolver.
type web struct {
	start time.Time
	docs  map[string]*doc // by URL
	down  atomic.Bool     // no server answers

	mu    sync.Mutex // guards all below
	asked []asked
	open  map[string]int
	twice string // a host that got two requests at once
}

type asked struct {
	at     time.Duration
	url    string
	ifs    string // the condition, as sent
	status int
}

func (w *web) Lookup(context.Context, string) (dns.Answer, error) {
	return dns.Answer{Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Expires: time.Now().Add(time.Hour)}, nil
}

func (w *web) dialer(dead func() bool) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		if dead() || w.down.Load() {
			return nil, net.ErrClosed
		}
		here, there := net.Pipe()
		go w.serve(there)
		return here, nil
	}
}

func (w *web) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		url := "http://" + r.Host + r.RequestURI
		now := time.Since(w.start)
		text, status := w.answer(url, r.Header, now)
		w.mu.Lock()
		w.asked = append(w.asked, asked{now, url,
			strings.TrimSpace(r.Header.Get("If-None-Match") + " " + r.Header.Get("If-Modified-Since")), status})
		if w.open[r.Host]++; w.open[r.Host] > 1 {
			w.twice = r.Host
		}
		w.mu.Unlock()
		time.Sleep(time.Millisecond)
		_, err = c.Write([]byte(text))
		w.mu.Lock()
		w.open[r.Host]--
		w.mu.Unlock()
		if d := w.docs[url]; err != nil || d != nil && d.breaks {
			return
		}
	}
}

func (w *web) answer(url string, h http.Header, now time.Duration) (string, int) {
	d := w.docs[url]
	if d == nil {
		d = &doc{status: 404}
	}
	version, last := d.version(now)
	status, head := max(d.status, 200), ""
	if d.to != "" {
		status, head = 301, "Location: "+d.to+"\r\n"
	}
	etag, modified := fmt.Sprintf(`"%d"`, version), w.start.Add(last).UTC().Format(http.TimeFormat)
	if d.etag {
		head += "ETag: " + etag + "\r\n"
	}
	if d.dated {
		head += "Last-Modified: " + modified + "\r\n"
	}
	if d.etag && h.Get("If-None-Match") == etag || d.dated && !d.etag && h.Get("If-Modified-Since") == modified {
		return "HTTP/1.1 304 Not Modified\r\n" + head + "\r\n", 304
	}
	if d.text != "" {
		return fmt.Sprintf("HTTP/1.1 200 X\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(d.text),
			d.text), 200
	}
	body := fmt.Sprintf("<title>%s</title><p>Version %d</p>\n", url, version)
	if d.html != "" {
		body = d.html
	}
	body += strings.Repeat("x", d.pad)
	for _, l := range d.links {
		body += `<a href="` + l + `">x</a> <img src="/i.png">`
	}
	size := len(body)
	if d.breaks {
		body = body[:size/2+int(now.Milliseconds()%20)]
	}
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: text/html\r\nContent-Length: %d\r\n%s\r\n%s", status, size, head,
		body), status
}

// visits returns the times of the requests for a URL.
func (w *web) visits(url string) (at []time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.asked {
		if a.url == url {
			at = append(at, a.at)
		}
	}
	return at
}

// A world is a crawl with a strategy: its settings, its web and its disk.
type world struct {
	web      *web
	seeds    []weburl.URL
	cfg      crawl.Config
	delay    time.Duration
	delays   map[string]time.Duration // Crawl-delay of hosts
	maxBody  int64
	strategy func(Place) (visit.Strategy, error)
	mem      *testdisk.Mem
}

func newWorld(t *testing.T, docs map[string]*doc, open func(Place) (visit.Strategy, error), seeds ...string) *world {
	w := &world{
		web: &web{start: time.Now(), docs: docs, open: map[string]int{}}, strategy: open, delay: time.Second,
		mem: testdisk.NewMem(),
		cfg: crawl.Config{Config: visit.Config{Workers: 8}, DrainTimeout: time.Second, SnapshotBytes: 4096},
	}
	for _, s := range seeds {
		w.seeds = append(w.seeds, mustURL(t, s))
	}
	return w
}

func mustURL(t testing.TB, s string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(s)
	must.Do(t, err)
	return u
}

// A process is one run of the crawler.
type process struct {
	*crawl.Crawler
	crawl.Parts
	parts *testparts.Parts
	dead  atomic.Bool
}

const dir = testparts.Dir

func (w *world) open(t *testing.T) *process {
	t.Helper()
	p := &process{}
	fs := w.mem
	o, err := testparts.Open(fs, testparts.Config{Frontier: frontier.Config{HostDelay: w.delay, Seed: 1},
		Scope: scope.Config{Scope: scope.Any}, Fetch: fetch.Config{AllowPrivate: true, MaxBody: w.maxBody},
		Dial: w.web.dialer(p.dead.Load), Seeds: w.seeds,
		Accept: func(items []keyset.Item) error { return p.Intake.Accept(items) }})
	must.Do(t, err)
	p.parts = o
	p.Parts = crawl.Parts{DNS: w.web, Fetch: o.Fetch, Robots: o.Robots, Tally: o.Tally,
		Queries: scope.NewQueries(500, 0), Scope: o.Scope, Log: o.Log, Events: o.Events, Skipped: o.Skipped,
		Archive: o.Archive, Frontier: o.Frontier, Seen: o.Seen, Journal: o.Journal, Delivery: o.Delivery}
	p.Strategy, err = w.strategy(Place{FS: fs, Dir: dir + "/state/strategy", Seeds: w.seeds})
	must.Do(t, err)
	cfg := w.cfg
	cfg.ResumeWait = w.delay
	p.Crawler = crawl.New(cfg, p.Parts)
	_, err = p.Recover(fs, o.JournalDir(), o.Intact, time.Now())
	must.Do(t, errors.Join(err, p.Intake.SeedAgain(), p.Intake.Seed(w.seeds, nil)))
	return p
}

func (p *process) close(t *testing.T) {
	t.Helper()
	err := p.parts.Close()
	if c, ok := p.Strategy.(interface{ Close() error }); ok {
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

// An end is how a run ends before the crawl does.
type end struct {
	after time.Duration // from the run's start
	how   string        // signal, kill, crash
}

// run plays runs that end as given by ends, and a last run that ends by itself. It calls fn
// with each process when its run has ended, before the process is closed.
func (w *world) run(t *testing.T, ends []end, fn func(p *process, stop crawl.Stop, last bool)) {
	t.Helper()
	for _, e := range append(ends, end{}) {
		p := w.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan crawl.Stop)
		go func() {
			stop, err := p.Run(ctx)
			if err != nil && !p.dead.Load() {
				t.Error(err)
			}
			ended <- stop
		}()
		var stop crawl.Stop
		if e.how != "" {
			select {
			case stop = <-ended: // the crawl ended earlier
				ended = nil
			case <-time.After(e.after):
			}
			synctest.Wait()
			if ended != nil {
				switch e.how {
				case "kill":
					w.mem = w.mem.Clone()
				case "crash":
					w.mem = w.mem.Crash(uint64(e.after))
				}
				p.dead.Store(e.how != "signal")
				cancel()
			}
		}
		if ended != nil {
			stop = <-ended
		}
		cancel()
		if !p.dead.Load() {
			fn(p, stop, e.how == "")
		}
		p.close(t)
	}
	if w.web.twice != "" {
		t.Errorf("%s had two requests at once", w.web.twice)
	}
	last := map[string]time.Duration{}
	for _, a := range w.web.asked {
		host := mustURL(t, a.url).Host()
		delay := w.delay
		if !strings.HasSuffix(a.url, "/robots.txt") {
			delay = max(delay, w.delays[host])
		}
		if before, ok := last[host]; ok && a.at-before < delay {
			t.Errorf("%s at %s, %s after the one before", a.url, a.at, a.at-before)
		}
		last[host] = a.at
	}
	testparts.Verify(t, w.mem)
}
