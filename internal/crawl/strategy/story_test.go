package strategy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

func fixed(s visit.Strategy) func(Place) (visit.Strategy, error) {
	return func(Place) (visit.Strategy, error) { return s, nil }
}

func recrawl(cfg RecrawlConfig) func(Place) (visit.Strategy, error) {
	return func(at Place) (visit.Strategy, error) { return OpenRecrawl(at, cfg) }
}

// requests lists the requests that a web received, with their times.
func (w *web) requests() string {
	var b strings.Builder
	for _, a := range w.asked {
		fmt.Fprintf(&b, "%-5s %3d %s", a.at.Truncate(100*time.Millisecond), a.status,
			strings.TrimPrefix(a.url, "http://"))
		if a.ifs != "" {
			fmt.Fprintf(&b, " if %s", a.ifs)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var small = map[string]*doc{
	"http://a.example/":  {links: []string{"/1", "http://b.example/"}},
	"http://a.example/1": {links: []string{"/2"}},
	"http://b.example/":  {to: "http://b.example/home"},
}

func TestBreadthFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, small, fixed(BreadthFirst{}), "http://a.example/")
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			if n := p.Tally.Finished(); n != 5 || stop != crawl.Finished {
				t.Errorf("%d URLs, %s", n, stop)
			}
		})
	})
}

// List fetches the seeds and the targets of their redirects.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, small, fixed(List{}), "http://a.example/", "http://b.example/")
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {})
		want := "0s    404 a.example/robots.txt\n0s    404 b.example/robots.txt\n1s    200 a.example/\n1s    301 " +
			"b.example/\n2s    404 b.example/home\n"
		if diff := cmp.Diff(want, sorted(w.web.requests())); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, small, fixed(List{}), "http://a.example/")
		w.cfg.Requisites = true
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {})
		want := "0s    404 a.example/robots.txt\n1s    200 a.example/\n2s    404 a.example/i.png\n"
		if diff := cmp.Diff(want, w.web.requests()); diff != "" {
			t.Errorf("requests with requisites (-want +got):\n%s", diff)
		}
	})
}

func sorted(lines string) string {
	ls := strings.SplitAfter(lines, "\n")
	slices.Sort(ls)
	return strings.Join(ls, "")
}

// TestRecrawlSession visits a redirect that adds a session id, and the page behind it, as two pages, also after a kill.
func TestRecrawlSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const from, to = "http://a.example/r", "http://a.example/r;jsessionid=1"
		w := newWorld(t, map[string]*doc{from: {to: to}, to: {changes: every(50 * time.Second)}},
			recrawl(RecrawlConfig{Min: time.Minute, Max: time.Minute, Rounds: 4}), from)
		w.run(t, []end{{100 * time.Second, "kill"}}, func(p *process, stop crawl.Stop, last bool) {
			if s := p.Tally.Summary(0, ""); last && (stop != crawl.Finished || s.Finished != 2 || s.Revisits != 8) {
				t.Errorf("%s, %d URLs, %d visits again, want 2 and 8", stop, s.Finished, s.Revisits)
			}
		})
		for _, u := range []string{from, to} {
			if n := len(w.web.visits(u)); n != 5 {
				t.Errorf("%d visits of %s, want 5", n, u)
			}
		}
	})
}

// TestRecrawlStory visits pages with both validators, with one and with none. The first page
// is a day old at its first visit; the bounds are one and two minutes.
func TestRecrawlStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]*doc{
			"http://a.example/":  {links: []string{"/1", "/2"}, etag: true, dated: true},
			"http://a.example/1": {dated: true, changes: every(100 * time.Second)},
			"http://a.example/2": {},
		}, recrawl(RecrawlConfig{Min: time.Minute, Max: 2 * time.Minute, Rounds: 2}), "http://a.example/")
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			s := p.Tally.Summary(0, "")
			if stop != crawl.Finished || s.Unique != 3 || s.Finished != 3 || s.Revisits != 6 || s.Unchanged != 5 ||
				s.Changed != 1 || s.Pages != 6 || s.Duplicates != 2 || s.Status["304"] != 3 {
				t.Errorf("%s, %+v", stop, s)
			}
			must.Do(t, w.mem.MkdirAll(dir+"/reports", 0o755))
			must.Do(t, p.Strategy.(*Recrawl).WriteReport(w.mem, dir+"/reports"))
			must.Do(t, p.Archive.Close())
			must.Do(t, warc.BuildIndex(w.mem, dir))
		})
		first := w.web.start.UTC()
		day, zero := first.Add(-24*time.Hour).Format("Mon, 02 Jan 2006 15:04:05 GMT"),
			first.Format("Mon, 02 Jan 2006 15:04:05 GMT")
		want := fmt.Sprintf(`0s    404 a.example/robots.txt
1s    200 a.example/
2s    200 a.example/1
3s    200 a.example/2
1m2s  304 a.example/1 if %s
1m27.8s 200 a.example/2
2m1s  304 a.example/ if "0" %s
3m2s  200 a.example/1 if %s
3m27.8s 200 a.example/2
4m1s  304 a.example/ if "0" %[2]s
`, zero, day, zero)
		if diff := cmp.Diff(want, w.web.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}

		// The records in the archive and the lines of the index.
		home := testparts.Captures(t, w.mem, "http://a.example/")
		second := testparts.Captures(t, w.mem, "http://a.example/2")
		if len(home) != 3 || len(second) != 3 {
			t.Fatalf("%d and %d captures", len(home), len(second))
		}
		for i, c := range []testparts.Capture{home[1], home[2], second[1], second[2]} {
			of, profile, block := home[0], warc.ProfileNotModified,
				"HTTP/1.1 304 Not Modified\r\nETag: \"0\"\r\nLast-Modified: "+day+"\r\n\r\n"
			if i >= 2 {
				of, profile = second[0], warc.ProfileIdentical
				block, _, _ = strings.Cut(of.Block, "\r\n\r\n")
				block += "\r\n\r\n"
			}
			got := []string{c.Type, c.Header.Value("WARC-Profile"), c.Header.Value("WARC-Refers-To"),
				c.Header.Value("WARC-Refers-To-Target-URI"), c.Header.Value("WARC-Refers-To-Date"), c.Block}
			want := []string{"revisit", profile, of.Header.Value("WARC-Record-ID"), of.Header.Value("WARC-Target-URI"),
				of.Header.Value("WARC-Date"), block}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("revisit %d (-want +got):\n%s", i, diff)
			}
		}
		index, err := disk.ReadFile(w.mem, dir+"/indexes/index.cdxj", 1<<20)
		must.Do(t, err)
		var kinds []string
		for line := range strings.Lines(string(index)) {
			if strings.HasPrefix(line, "example,a)/ ") {
				_, rest, _ := strings.Cut(line, `"mime": "`)
				kind, _, _ := strings.Cut(rest, `"`)
				kinds = append(kinds, kind)
			}
		}
		if want := []string{"text/html", "warc/revisit", "warc/revisit"}; !slices.Equal(kinds, want) {
			t.Errorf("index %q, want %q\n%s", kinds, want, index)
		}
		csv, err := disk.ReadFile(w.mem, dir+"/reports/recrawl.csv", 1<<20)
		must.Do(t, err)
		wantCSV := `url,visits,changes,changes_per_day,interval_s,last_visit,last_change,next_visit
http://a.example/1,3,1,438.9,120,2000-01-01T00:03:02Z,2000-01-01T00:01:40Z,2000-01-01T00:05:02Z
http://a.example/,3,0,0,120,2000-01-01T00:04:01Z,,2000-01-01T00:06:01Z
http://a.example/2,3,0,0,120,2000-01-01T00:03:27Z,,2000-01-01T00:05:27Z
`
		if diff := cmp.Diff(wantCSV, string(csv)); diff != "" {
			t.Errorf("report (-want +got):\n%s", diff)
		}
	})
}

// TestRecrawlGoesOn ends crawls at random instants by a signal, a kill or a power failure.
// In all cases each page gets its visits and not one more, and the next run restores the
// histories of all pages.
func TestRecrawlGoesOn(t *testing.T) {
	for seed := range uint64(testtier.Rounds(8, 30)) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(seed, 3))
				docs := map[string]*doc{
					"http://a.example/":           {etag: true},
					"http://c.example/robots.txt": {text: "User-agent: *\nCrawl-delay: 3\n"},
				}
				for i := range 12 {
					path := fmt.Sprint("http://", string(rune('a'+i%3)), ".example/p", i)
					docs["http://a.example/"].links = append(docs["http://a.example/"].links, path)
					docs[path] = &doc{etag: i%2 == 0, dated: i%3 == 0,
						changes: poissonDoc(uint64(i), time.Duration(5+20*i)*time.Second)}
				}
				const rounds = 4
				cfg := RecrawlConfig{Min: 5 * time.Second, Max: 40 * time.Second, Rounds: rounds,
					MemoryBytes: int64(1 + rng.IntN(5000))}
				w := newWorld(t, docs, recrawl(cfg), "http://a.example/")
				w.cfg.SnapshotBytes = int64(1 + rng.IntN(20000))
				var ends []end
				for range rng.IntN(5) {
					ends = append(ends, end{time.Duration(1 + rng.IntN(60_000)*int(time.Millisecond)),
						[]string{"signal", "kill", "crash"}[rng.IntN(3)]})
				}
				w.delays = map[string]time.Duration{"c.example": 3 * time.Second}
				known := map[string]string{}
				w.run(t, ends, func(p *process, stop crawl.Stop, last bool) {
					if !last {
						return
					}
					s := p.Tally.Summary(0, "")
					if stop != crawl.Finished || s.Finished != 13 || s.Revisits != 13*rounds ||
						s.Unchanged+s.Changed != s.Revisits || p.View.Pending() != 0 {
						t.Errorf("%s, %d pending, %+v", stop, p.View.Pending(), s)
					}
					known = pagesOf(t, p.Strategy.(*Recrawl))
				})
				if len(known) != 13 {
					t.Errorf("%d pages known", len(known))
				}
				// The restored state must be the same.
				p := w.open(t)
				if diff := cmp.Diff(known, pagesOf(t, p.Strategy.(*Recrawl))); diff != "" {
					t.Errorf("restored (-before +after):\n%s", diff)
				}
				p.close(t)
				if t.Failed() {
					t.Logf("seed %d, ends %v\n%s", seed, ends, w.web.requests())
				}
			})
		})
	}
}

// pagesOf returns the histories of all pages of a Recrawl, by URL.
func pagesOf(t *testing.T, r *Recrawl) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := r.due.All(func(entry []byte) error {
		l, h, err := decodePage(entry)
		if _, twice := out[l.URL.String()]; twice {
			t.Errorf("%s is there twice", l.URL)
		}
		if err == nil {
			out[l.URL.String()] = fmt.Sprintf("%+v %+v", l, *h)
		}
		return err
	})
	must.Do(t, err)
	for _, o := range r.out {
		out[o.url] = "in the queues"
	}
	return out
}

// If the disk is full when the schedule writes, the run ends. With free space, the crawl
// continues as if it had never stopped.
func TestRecrawlOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := map[string]*doc{"http://a.example/": {}}
		for i := range 40 {
			path := fmt.Sprint("/", i)
			docs["http://a.example/"].links = append(docs["http://a.example/"].links, path)
			docs["http://a.example"+path] = &doc{etag: true}
		}
		full := true
		cfg := RecrawlConfig{Min: time.Minute, Max: 10 * time.Minute, Rounds: 2, MemoryBytes: 4096}
		w := newWorld(t, docs, func(at Place) (visit.Strategy, error) {
			at.FS = testdisk.NewFaulty(at.FS, func(c testdisk.Call) testdisk.Fault {
				if full && c.Op == testdisk.OpWrite {
					return testdisk.Fault{Err: syscall.ENOSPC}
				}
				return testdisk.Fault{}
			})
			return OpenRecrawl(at, cfg)
		}, "http://a.example/")
		p := w.open(t)
		if _, err := p.Run(t.Context()); !disk.IsFull(err) || !strings.Contains(err.Error(), "strategy") {
			t.Errorf("error %v", err)
		}
		full = false
		p.close(t)
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			if s := p.Tally.Summary(0, ""); stop != crawl.Finished || s.Finished != 41 || s.Revisits != 82 ||
				s.Unchanged != 82 {
				t.Errorf("%s, %+v", stop, s)
			}
		})
	})
}

// poissonDoc returns a page that changes at random times, on average every d.
func poissonDoc(seed uint64, d time.Duration) func(time.Duration) (int, time.Duration) {
	rng := rand.New(rand.NewPCG(seed, 1))
	times := []time.Duration{0}
	return func(at time.Duration) (int, time.Duration) {
		for times[len(times)-1] <= at {
			times = append(times, times[len(times)-1]+time.Duration(rng.ExpFloat64()*float64(d)))
		}
		n, _ := slices.BinarySearch(times, at+1)
		return n, times[n-1]
	}
}

// TestRecrawlRates: the visits to each page become as frequent as its changes, with any
// validators.
func TestRecrawlRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := map[string]*doc{
			"http://a.example/": {links: []string{"/bytes", "/etag", "/dated", "/slow", "/still"}},
			// They change every minute on average; /slow every ten minutes.
			"http://a.example/bytes": {changes: poissonDoc(1, time.Minute)},
			"http://a.example/etag":  {changes: poissonDoc(2, time.Minute), etag: true},
			"http://a.example/dated": {changes: poissonDoc(3, time.Minute), dated: true},
			"http://a.example/slow":  {changes: poissonDoc(4, 10*time.Minute), etag: true},
			"http://a.example/still": {},
		}
		w := newWorld(t, docs, recrawl(RecrawlConfig{Min: 5 * time.Second, Max: time.Hour}), "http://a.example/")
		w.cfg.TimeLimit = 6 * time.Hour
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			if stop != crawl.TimeLimit {
				t.Errorf("stop %s", stop)
			}
		})
		for path, c := range map[string]struct {
			want  time.Duration
			ratio float64
		}{
			"bytes": {time.Minute, 1.4}, "etag": {time.Minute, 1.4}, "dated": {time.Minute, 1.4},
			"slow": {10 * time.Minute, 1.7}, "still": {time.Hour, 1.02},
		} {
			at := w.web.visits("http://a.example/" + path)
			at = at[len(at)/2:]
			if len(at) < 3 {
				t.Errorf("%s: %d visits", path, len(at))
				continue
			}
			mean := (at[len(at)-1] - at[0]) / time.Duration(len(at)-1)
			if r := mean.Seconds() / c.want.Seconds(); r > c.ratio || r < 1/c.ratio {
				t.Errorf("%s: visited every %s, want %s", path, mean.Round(time.Second), c.want)
			} else {
				t.Logf("%s: visited every %s", path, mean.Round(time.Second))
			}
		}
	})
}

// TestRecrawlCut: pages whose responses are cut off are compared by their validators. Without
// validators, the visits become rarer.
func TestRecrawlCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		minutes := every(5 * time.Minute)
		w := newWorld(t, map[string]*doc{
			"http://a.example/":       {links: []string{"/still", "/changes", "/dated", "/tagged", "/breaks", "/says"}},
			"http://a.example/still":  {pad: 5000},
			"http://a.example/dated":  {pad: 5000, dated: true},
			"http://a.example/breaks": {pad: 500, breaks: true, changes: minutes},
			// The crawl can see that these change.
			"http://a.example/changes": {pad: 5000, changes: minutes},
			"http://a.example/tagged":  {pad: 5000, etag: true, changes: minutes},
			"http://a.example/says":    {pad: 500, etag: true, breaks: true, changes: minutes},
		}, recrawl(RecrawlConfig{Min: time.Minute, Max: 64 * time.Minute}), "http://a.example/")
		w.maxBody = 1000
		w.cfg.TimeLimit = 24 * time.Hour
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			if s := p.Tally.Summary(0, ""); s.Truncated < 100 || s.Changed+s.Unchanged >= s.Revisits ||
				s.Changed < 100 {
				t.Errorf("%+v", s)
			}
		})
		for path, changing := range map[string]bool{"still": false, "dated": false, "breaks": false, "changes": true,
			"tagged": true, "says": true} {
			n := len(w.web.visits("http://a.example/" + path))
			if !changing && (n < 23 || n > 28) || changing && n < 100 {
				t.Errorf("/%s: %d visits in a day", path, n)
			}
		}
	})
}

// TestRecrawlLargeHost: a host has more due pages than the crawl queues at once. Each page
// gets its visits, and the crawl never leaves the host idle.
func TestRecrawlLargeHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := map[string]*doc{"http://a.example/": {}, "http://b.example/": {changes: every(time.Second)}}
		const pages = 200
		for i := range pages {
			path := fmt.Sprint("http://a.example/p", i)
			docs["http://a.example/"].links = append(docs["http://a.example/"].links, path)
			docs[path] = &doc{changes: every(time.Second)}
		}
		w := newWorld(t, docs, recrawl(RecrawlConfig{Min: 10 * time.Second, Max: 10 * time.Second, MemoryBytes: 5000}),
			"http://a.example/", "http://b.example/")
		w.cfg.TimeLimit = 2000 * time.Second
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {})
		if n := len(w.web.visits("http://b.example/")); n < 150 {
			t.Errorf("the other host's page was visited %d times in 2000 s, due every 10 s", n)
		}
		all := 0
		for i := range pages {
			n := len(w.web.visits(fmt.Sprint("http://a.example/p", i)))
			if all += n; n < 4 {
				t.Errorf("p%d was visited %d times", i, n)
			}
		}
		if all < 1900 {
			t.Errorf("the whale's pages were visited %d times in 2000 s, once a second at the most", all)
		}
		t.Logf("large host %d visits, other %d", all, len(w.web.visits("http://b.example/")))
	})
}

// A page whose waiting visit the operator dropped is not visited again, also after a restart.
func TestRecrawlDropped(t *testing.T) {
	mem := testdisk.NewMem()
	now := time.Unix(1e9, 0)
	open := func() *Recrawl {
		r, err := OpenRecrawl(Place{FS: mem, Dir: dir}, RecrawlConfig{Min: time.Minute, Max: time.Minute})
		must.Do(t, err)
		return r
	}
	r := open()
	l := link.Link{URL: mustURL(t, "http://a.example/")}
	must.Get(r.Visited(&visit.Visit{Link: l, Outcome: visit.Fetched, Status: 200, Began: now, Now: now,
		Response: visit.Before{Print: 2}}))(t)
	now = now.Add(time.Hour)
	w, _, err := r.Next(now)
	if err != nil || w == nil || w.Returned {
		t.Fatalf("%+v, %v", w, err)
	}
	must.Do(t, r.PutOff(w, now.Add(time.Minute)))
	if w, wake, err := r.Next(now); w != nil || wake.Sub(now).Round(time.Second) != time.Minute || err != nil {
		t.Fatalf("%+v, %s, %v", w, wake, err)
	}
	now = now.Add(2 * time.Minute)
	if w, _, err = r.Next(now); err != nil || w == nil || !w.Returned {
		t.Fatalf("%+v, %v", w, err)
	}
	state, err := r.Visited(&visit.Visit{Link: w.Link, Outcome: visit.Dropped, Now: now, Again: true})
	if err != nil || len(state) == 0 {
		t.Fatalf("%q, %v", state, err)
	}
	state = slices.Clone(state)
	for range 2 {
		if w, wake, err := r.Next(now.Add(1000 * time.Hour)); w != nil || !wake.IsZero() || err != nil {
			t.Errorf("%+v, %s, %v", w, wake, err)
		}
		must.Do(t, r.WriteReport(mem, dir))
		if b, err := disk.ReadFile(mem, dir+"/recrawl.csv", 1<<20); err != nil ||
			!strings.HasSuffix(string(b), "http://a.example/,1,0,0,60,2001-09-09T01:46:40Z,,\n") {
			t.Errorf("%q, %v", b, err)
		}
		must.Do(t, r.Close())
		r = open()
		must.Do(t, r.Restore(w.Link, state))
	}
	if err := r.PutOff(w, now); err == nil {
		t.Error("a page was put off that was not due")
	}
	must.Do(t, r.Close())
}

// Two agents have sent different states of a page. While the page is in the crawl's queues, the second state does not
// make it due again, so it can be put off, move, or be visited.
func TestRecrawlTwoStates(t *testing.T) {
	mem := testdisk.NewMem()
	now := time.Unix(1e9, 0)
	l := link.Link{URL: mustURL(t, "http://a.example/")}
	for name, end := range map[string]func(r *Recrawl, w *visit.Wanted) error{
		"put off": func(r *Recrawl, w *visit.Wanted) error { return r.PutOff(w, now.Add(2*time.Hour)) },
		"moves": func(r *Recrawl, w *visit.Wanted) error {
			_, err := r.TakeOut(w)
			return err
		},
		"visited": func(r *Recrawl, w *visit.Wanted) error {
			_, err := r.Visited(&visit.Visit{Link: w.Link, Outcome: visit.Fetched, Status: 200, Began: now, Now: now,
				Again: true})
			return err
		},
	} {
		r, err := OpenRecrawl(Place{FS: mem, Dir: dir}, RecrawlConfig{Min: time.Minute, Max: time.Minute})
		must.Do(t, err)
		for visits := range uint32(2) {
			h := &history{visits: 1 + visits, last: now.UnixMilli(), due: now.UnixMilli(), interval: time.Minute}
			must.Do(t, r.Restore(l, h.appendTo(nil)))
		}
		later := now.Add(time.Hour)
		w, _, err := r.Next(later)
		if err != nil || w == nil {
			t.Fatalf("%s: %+v, %v", name, w, err)
		}
		if w, _, err := r.Next(later); err != nil || w != nil {
			t.Errorf("%s: while it waits, it is due again: %+v, %v", name, w, err)
		}
		if err := end(r, w); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		must.Do(t, r.Close())
	}
}

// The operator drops the links of a host. Its known pages are not visited again, also after a
// restart. A page found there later is visited again.
func TestRecrawlForgotten(t *testing.T) {
	mem := testdisk.NewMem()
	now := time.Unix(1e9, 0)
	const pages = 2*atOnce + 10
	states := map[string][]byte{}
	for restart := range 2 {
		r, err := OpenRecrawl(Place{FS: mem, Dir: dir},
			RecrawlConfig{Min: time.Minute, Max: time.Minute, MemoryBytes: 5000})
		must.Do(t, err)
		visit := func(url string) {
			state, err := r.Visited(&visit.Visit{Link: link.Link{URL: mustURL(t, url)}, Outcome: visit.Fetched,
				Status: 200, Began: now, Now: now})
			must.Do(t, err)
			states[url] = slices.Clone(state)
		}
		if restart == 0 {
			visit("http://b.example/")
			for i := range pages {
				visit(fmt.Sprint("http://a.example/", i))
			}
			r.Forget("a.example", now.Add(time.Second))
			now = now.Add(2 * time.Second)
			visit("http://a.example/late")
		} else {
			r.Forget("a.example", time.Unix(1e9+1, 0))
			for url, state := range states {
				must.Do(t, r.Restore(link.Link{URL: mustURL(t, url)}, state))
			}
		}
		got := map[string]bool{}
		at := now.Add(time.Hour)
		for turns := 0; ; turns++ {
			w, wake, err := r.Next(at)
			if err != nil || turns > 10 {
				t.Fatal(err, turns)
			}
			if w != nil {
				got[w.Link.URL.String()] = true
			} else if wake.IsZero() {
				if turns < 4 {
					t.Errorf("%d pages were left out in %d turns", pages, turns)
				}
				break
			}
		}
		if len(got) != 2 || !got["http://b.example/"] || !got["http://a.example/late"] {
			t.Errorf("%v are due", got)
		}
		must.Do(t, r.Close())
	}
}
