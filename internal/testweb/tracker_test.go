package testweb

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestGroupAgainstModel: the group finds the same gaps and overlaps as a model that sees all requests together, in
// any order of the reported begins and ends.
func TestGroupAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		type rq struct{ begin, end int64 }
		all := make([]rq, n)
		at := int64(1)
		for i := range all {
			at += rapid.Int64Range(1, 20).Draw(t, "step")
			all[i] = rq{at, at + rapid.Int64Range(1, 30).Draw(t, "lasts")}
		}
		promised := rapid.Int64Range(0, 15).Draw(t, "promised")
		// Each end is reported some time after it happened.
		type event struct {
			at    int64
			i     int
			leave bool
		}
		var events []event
		for i, q := range all {
			late := q.end + rapid.Int64Range(0, 40).Draw(t, "late")
			events = append(events, event{q.begin, i, false}, event{late, i, true})
		}
		slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
		tr := newTracker(Config{LogEntries: 1})
		h := &hostState{number: noNumber, extra: &hostExtra{namedHost: &namedHost{name: "h"}}}
		g := &group{promised: promised, minGap: -1}
		reqs := make([]*request, n)
		for _, e := range events {
			if e.leave {
				g.leave(tr, &reqs[e.i].spans[byHost], all[e.i].end, 0)
			} else {
				info := &requestInfo{host: h, path: fmt.Sprint("/", e.i), begin: all[e.i].begin}
				reqs[e.i] = &request{requestInfo: info}
				g.enter(tr, reqs[e.i].requestInfo, &reqs[e.i].spans[byHost])
			}
		}
		wantGap, wantMax := int64(-1), 1
		var gaps, overlaps int64
		for i, q := range all {
			active, last := 1, int64(0)
			for _, e := range all[:i] {
				if e.end > q.begin {
					active++
				}
				last = max(last, e.end)
			}
			wantMax = max(wantMax, active)
			if active > 1 {
				overlaps++
			}
			if i > 0 {
				gap := max(0, q.begin-last)
				if wantGap < 0 || gap < wantGap {
					wantGap = gap
				}
				if gap < promised {
					gaps++
				}
			}
		}
		gotGaps, gotOverlaps := tr.vcount[tooSoon].Load(), tr.vcount[concurrent].Load()
		if g.minGap != wantGap || int(g.maxActive) != wantMax || g.first != nil || g.waiting != 0 ||
			gotGaps != gaps || gotOverlaps != overlaps {
			t.Fatalf("got gap %d, most %d, waiting %d, violations %d and %d; want %d, %d, 0, gap %d concurrent %d",
				g.minGap, g.maxActive, g.waiting, gotGaps, gotOverlaps, wantGap, wantMax, gaps, overlaps)
		}
	})
}

func TestPoliteClientIsNotBlamed(t *testing.T) {
	const delay = 30 * time.Millisecond
	big := strings.Repeat("a large page ", 100_000)
	// /cut does not fit into the system's buffers.
	pages := map[string]string{"/": "home", "/big": big, "/cut": strings.Repeat(big, 32)}
	w := serving(t, Config{
		Promise: Promise{HostDelay: delay, AddrDelay: delay, SiteDelay: delay},
		Sites:   []Site{{Host: "a.example", Handler: Pages(pages)}},
	})
	c := client(t, w)
	// The gap before a request lies between the start of the request before it and its own end.
	var begins []time.Time
	longest := time.Duration(1<<63 - 1)
	began := func() { begins = append(begins, time.Now()) }
	ended := func() {
		if n := len(begins); n > 1 {
			longest = min(longest, time.Since(begins[n-2]))
		}
	}
	for i, u := range []string{
		"http://a.example/", "http://a.example/big", "https://a.example/big", "https://a.example/",
		"http://a.example/none",
	} {
		if i > 0 {
			time.Sleep(delay)
		}
		began()
		get(t, c, u)
		ended()
		if i == 1 || i == 3 { // the next request goes to the other port
			c.CloseIdleConnections()
		}
	}
	c.CloseIdleConnections()
	// A client that closes in the middle of a response ends its request.
	for range 5 {
		time.Sleep(delay)
		began()
		ask(t, w, "a.example", "/cut", 1000, 10*time.Second)
		ended()
	}
	until(t, "all ended", func() bool { r := w.Report(); return r.Active == 0 && r.Requests == 10 })
	r := w.Report()
	for _, v := range r.Violations {
		t.Error(v)
	}
	h := r.Hosts["a.example"]
	if gap := time.Duration(h.MinGap); h.MaxConcurrent != 1 || h.MaxConnections != 1 || gap < delay || gap > longest {
		t.Errorf("got %+v, want a gap from %s to %s", h, delay, longest)
	}
	if h.Aborted == 0 {
		t.Error("no request counts as aborted")
	}
}

func TestViolations(t *testing.T) {
	const robots = "User-agent: other\nDisallow: /\n\n" +
		"User-agent: orbweaver\nCrawl-delay: 1000\nDisallow: /private\nAllow: /private/open\n"
	pages := Pages(map[string]string{"/": "home", "/private/x": "x", "/private/open": "o"})
	w := serving(t, Config{Promise: Promise{HostDelay: time.Hour}, Sites: []Site{
		{Host: "shared-0.example", Addr: "127.9.9.9", Handler: pages},
		{Host: "shared-1.example", Addr: "127.9.9.9", Handler: pages},
		{Host: "h0.family.example", Handler: pages}, {Host: "h1.family.example", Handler: pages},
		{Host: "a.example", Handler: pages}, {Host: "robots.example", Robots: robots, Handler: pages},
		{Host: "busy.example", Handler: pages,
			Rules: []Rule{{Path: "/", First: 1, Status: 429, RetryAfter: 100 * time.Second}}},
		{Host: "slow.example", Rules: []Rule{{Wait: 100 * time.Millisecond}}, Handler: pages}}})
	c := client(t, w)
	check := func(kind string, want int64, part string) {
		t.Helper()
		until(t, "requests ended", func() bool { return w.Report().Active == 0 })
		r := w.Report()
		if got := r.ViolationCount[kind]; got != want {
			t.Errorf("%s: got %d, want %d: %v", kind, got, want, r.Violations)
		}
		for _, v := range r.Violations {
			if v.Kind == kind && strings.Contains(v.String(), part) {
				return
			}
		}
		t.Errorf("%s: no violation with %q in %v", kind, part, r.Violations)
	}
	get(t, c, "http://a.example/")
	get(t, c, "http://a.example/private/x")
	check("gap", 1, ": http://a.example/private/x: ")

	w.Reset(Promise{AddrDelay: time.Hour})
	get(t, c, "http://shared-0.example/")
	get(t, c, "http://shared-1.example/")
	check("gap", 1, "of the address 127.9.9.9,")

	w.Reset(Promise{SiteDelay: time.Hour})
	get(t, c, "http://h0.family.example/")
	get(t, c, "http://h1.family.example/")
	check("gap", 1, "of the site family.example,")

	w.Reset(Promise{})
	get(t, c, "http://robots.example/robots.txt")
	get(t, c, "http://robots.example/private/open")
	get(t, c, "http://robots.example/private/x")
	check("robots", 1, "disallow: /private")
	if r := w.Report(); r.ViolationCount["gap"] != 0 {
		t.Errorf("without a promise: got %v", r.Violations)
	}

	w.Reset(Promise{CrawlDelay: true})
	get(t, c, "http://robots.example/robots.txt")
	get(t, c, "http://robots.example/")
	check("gap", 1, "not 16 min 40 s")

	w.Reset(Promise{})
	get(t, c, "http://busy.example/")
	get(t, c, "http://busy.example/")
	check("retry-after", 1, "asks for 1 min 40 s")

	w.Reset(Promise{})
	c.CloseIdleConnections()
	done := make(chan bool, 3)
	for i := range 3 {
		go func() {
			res, err := c.Get(fmt.Sprintf("http://slow.example/%d", i))
			if err == nil {
				res.Body.Close()
			}
			done <- err == nil
		}()
	}
	until(t, "three at once", func() bool { return w.Report().Hosts["slow.example"].MaxConcurrent == 3 })
	for range 3 {
		<-done
	}
	check("concurrent", 2, "slow.example")
	check("connections", 2, "connections at once")
	if got := w.Report().Hosts["slow.example"]; got.MaxConcurrent != 3 || got.MaxConnections != 3 || got.MinGap != 0 {
		t.Errorf("got %+v", got)
	}
}

// Without a promise nothing is a violation.
func TestNoPoliteness(t *testing.T) {
	w := serving(t, Config{Promise: Promise{None: true, HostDelay: time.Hour}, Sites: []Site{
		{Host: "a.example", Robots: "User-agent: *\nDisallow: /", Handler: Pages(map[string]string{"/": "home"}),
			Rules: []Rule{{Path: "/busy", Status: 429, RetryAfter: time.Hour}}}}})
	c := client(t, w)
	for range 2 {
		get(t, c, "http://a.example/")
		get(t, c, "http://a.example/busy")
		c.CloseIdleConnections()
		get(t, c, "https://a.example/")
	}
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	r := w.Report()
	if len(r.ViolationCount) != 0 || len(r.Violations) != 0 || r.Hosts["a.example"].Violations != 0 || !r.Unjudged ||
		r.Gaps["host"].Gaps != 0 || w.Count().Violations != 0 {
		t.Errorf("got %+v", r)
	}
	a, _ := w.Lookup("a.example")
	if r.Requests != 6 || r.Hosts["a.example"].Requests != 6 || r.Addrs[a.String()].Requests != 6 || r.Pages != 4 {
		t.Errorf("got %+v, want 6 requests", r)
	}
}

// The report has the share of compressed pages and the most requested 404s.
func TestCompressedAndNotFound(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.html", strings.Repeat("text ", 100))
	w := serving(t, Config{Gzip: true, Folders: []Folder{{Host: "a.example", Dir: dir}}, Sites: []Site{
		{Host: "raw.example", Raw: func(c *RawConn, _ *http.Request) bool {
			c.WriteString("HTTP/1.1 200 OK\r\ncontent-encoding: br\r\nContent-Length: 1\r\n\r\nx")
			return false
		}}}, Origin: &fakeOrigin{hosts: 1, pages: 1, size: 10, replies: map[string]Reply{
		"/packed": {Status: 200, Page: 0, Coded: true}}}})
	c := client(t, w)
	get(t, c, "http://a.example/a.html", "Accept-Encoding", "gzip")
	get(t, c, "http://raw.example/")
	get(t, c, "http://h0.made.example/packed")
	for range 3 {
		get(t, c, "http://a.example/a.html")
		get(t, c, "http://h0.made.example/none")
	}
	get(t, c, "http://a.example/none", "Accept-Encoding", "gzip")
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	r := w.Report()
	if r.Pages != 6 || r.Compressed != 3 {
		t.Errorf("got %d of %d pages compressed, want 3 of 6", r.Compressed, r.Pages)
	}
	want := []URLCount{{"http://h0.made.example/none", 3}, {"http://a.example/none", 1}}
	if !slices.Equal(r.NotFound, want) {
		t.Errorf("got %v, want %v", r.NotFound, want)
	}
	w.Reset(Promise{})
	if r := w.Report(); r.Compressed != 0 || len(r.NotFound) != 0 {
		t.Errorf("after reset: got %d, %v", r.Compressed, r.NotFound)
	}
}

// The most frequent URLs are found among many, in bounded memory.
func TestURLCounts(t *testing.T) {
	var c urlCounts
	for i := range 5 * maxCounted {
		c.add(fmt.Sprint("once", i))
		if i%100 == 0 {
			c.add("often")
		}
		if i%200 == 0 {
			c.add(strings.Repeat("long", 1000))
		}
	}
	if len(c.n) > maxCounted {
		t.Errorf("got %d URLs, want at most %d", len(c.n), maxCounted)
	}
	want := []URLCount{{"often", maxCounted / 20}, {strings.Repeat("long", 250) + "...", maxCounted / 40}}
	if got := c.most(2); !slices.Equal(got, want) {
		t.Errorf("got %.80v, want %.80v", got, want)
	}
}

func TestBounds(t *testing.T) {
	w := serving(t, Config{
		URLs: 3, KeepURLs: 2, LogEntries: 4, Promise: Promise{HostDelay: time.Hour},
		Sites: []Site{{Host: "a.example", Handler: http.NotFoundHandler()}},
	})
	c := client(t, w)
	for i := range maxViolations + 10 {
		get(t, c, fmt.Sprintf("http://a.example/%d", i%5))
	}
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	r := w.Report()
	if r.URLs != 3 || r.Uncounted != 84 || len(w.Fetched()) != 2 || len(w.Log()) != 4 {
		t.Errorf("got %d URLs, %d uncounted, %d kept, %d in the log",
			r.URLs, r.Uncounted, len(w.Fetched()), len(w.Log()))
	}
	if len(r.Violations) != maxViolations || r.ViolationCount["gap"] != maxViolations+9 {
		t.Errorf("got %d listed violations and the counts %v", len(r.Violations), r.ViolationCount)
	}
}

func TestRules(t *testing.T) {
	pages := Pages(map[string]string{"/": "home", "/e": "e", "/slow": "s"})
	w := serving(t, Config{Sites: []Site{{Host: "a.example", Handler: pages, Rules: []Rule{
		{Path: "/e", Every: 2, Status: 500},
		{Path: "/to", Location: "http://b.example/x"},
		{Path: "/slow", Wait: 60 * time.Millisecond},
		{Path: "/reset", Reset: true},
		{Path: "/none", Empty: true},
		{First: 1, Status: 503, RetryAfter: 3 * time.Second, Body: "later"},
	}}}})
	c := client(t, w)
	res, body := get(t, c, "http://a.example/")
	if res.StatusCode != 503 || res.Header.Get("Retry-After") != "3" || body != "later" {
		t.Errorf("first: got %d %q", res.StatusCode, body)
	}
	for _, want := range []int{200, 500, 200, 500} {
		if res, _ := get(t, c, "http://a.example/e"); res.StatusCode != want {
			t.Errorf("every second: got %d, want %d", res.StatusCode, want)
		}
	}
	res, _ = get(t, c, "http://a.example/to")
	if res.StatusCode != 302 || res.Header.Get("Location") != "http://b.example/x" {
		t.Errorf("got %d to %q", res.StatusCode, res.Header.Get("Location"))
	}
	began := time.Now()
	if get(t, c, "http://a.example/slow"); time.Since(began) < 60*time.Millisecond {
		t.Error("the answer to /slow came too soon")
	}
	for _, p := range []string{"reset", "none"} {
		if _, err := c.Get("http://a.example/" + p); err == nil {
			t.Errorf("%s: got an answer, want an error", p)
		}
	}
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	if got := w.Report().Hosts["a.example"].Broken; got < 2 {
		t.Errorf("got %d broken, want 2 or more", got)
	}
}

// TestManyPoliteClients runs many polite clients at once, which keep the machine busy. None of them is blamed.
func TestManyPoliteClients(t *testing.T) {
	const hosts, turns, delay = 16, 12, 5 * time.Millisecond
	body := strings.Repeat("some words ", 3000)
	var sites []Site
	for i := range hosts {
		sites = append(sites, Site{Host: fmt.Sprintf("h%d.example", i), Handler: Pages(map[string]string{"/1": body})})
	}
	p := Promise{HostDelay: delay, AddrDelay: delay}
	o := &fakeOrigin{hosts: hosts, pages: 10, size: len(body), replies: map[string]Reply{
		"/1": {Status: 200, Page: 1, Wait: time.Millisecond},
	}}
	for name, cfg := range map[string]Config{
		".example":             {Sites: sites, Promise: p},
		".made.example":        {Origin: o, Promise: p},
		".made.example/each":   {Origin: o, Promise: p, CloseEach: true},
		".made.example/shaped": {Origin: o, Promise: p, Shape: Shape{BytesPerSecond: 40e6, Latency: time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			domain, _, _ := strings.Cut(name, "/")
			w := serving(t, cfg)
			var wg sync.WaitGroup
			for i := range hosts {
				wg.Go(func() {
					c := client(t, w)
					c.Transport.(*http.Transport).DisableKeepAlives = i%2 == 0
					u := fmt.Sprintf("http://h%d%s/1", i, domain)
					if i%4 == 3 {
						u = "https" + u[len("http"):]
					}
					for turn := range turns {
						res, err := c.Get(u)
						if err != nil {
							t.Error(err)
							return
						}
						want := len(body)
						if i%4 == 2 && turn%2 == 0 { // the client closes in the middle of the response
							want = 100
						}
						n, _ := io.Copy(io.Discard, io.LimitReader(res.Body, int64(want)))
						res.Body.Close()
						if int(n) != want {
							t.Errorf("got %d bytes, want %d", n, want)
						}
						time.Sleep(delay)
					}
				})
			}
			wg.Wait()
			until(t, "ended", func() bool { return w.Report().Active == 0 })
			r := w.Report()
			for _, v := range r.Violations {
				t.Error(v)
			}
			if r.Requests != hosts*turns {
				t.Errorf("got %d requests, want %d", r.Requests, hosts*turns)
			}
			if g := r.Gaps["host"]; g.Promised != hosts*(turns-1) || g.TooShort != 0 || g.Least == nil || *g.Least < 1 {
				t.Errorf("gaps: got %+v", g)
			}
		})
	}
}
