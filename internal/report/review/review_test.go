package review

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

func TestTotals(t *testing.T) {
	w := newWorld(t)
	denied := report.Line{Code: report.CodeRobotsDenied, Size: -1, URL: "http://b.example/x", Hops: "L",
		Via: "http://a.example/", Notes: []string{"rule:Disallow:%20/x"}}
	copied := page("http://b.example/copy", 3000, 30)
	copied.Digest, copied.HasDigest, copied.Notes = [20]byte{1}, true, []string{"duplicate:digest"}
	cut := page("http://b.example/long", 9000, 900)
	cut.Notes = []string{"truncated:length"}
	w.log("a",
		report.Line{Code: 200, Size: 50, URL: "http://a.example/robots.txt", Hops: "P", MIME: "text/plain", Began: at},
		report.Line{Code: 200, Size: 1000, URL: "http://a.example/", MIME: "text/html; charset=utf-8", Began: at,
			Took: 10 * time.Millisecond},
		copied, cut, denied,
		status(404, "http://a.example/gone", "L", "http://a.example/"),
		status(304, "http://a.example/same", "L", "http://a.example/"),
		failed("http://c.example/", "timeout-connect"),
	)
	w.write("a", "logs/events.jsonl", join(
		`{"time":"2026-01-02T15:04:05.000Z","event":"started","version":"0.1.0"}`,
		`{"time":"2026-01-02T15:04:15.000Z","event":"stopped","reason":"finished","pages":3}`))
	w.json("a", "reports/summary.json", report.Summary{Skipped: map[string]int64{"outOfScope": 7}})
	w.write("a", "reports/skipped.jsonl", `{"url":"http://z.example/","reason":"outOfScope"}`+"\n")
	r := w.read(Config{}, "a")
	want := Totals{Visits: 7, Pages: 3, Fetched: 5, Failed: 1, Bytes: 13_250, RobotsTxt: 1, Denied: 1, Unchanged: 1,
		Duplicates: 1, Truncated: 1, HostCount: 3, BrokenCount: 2, SkippedCount: 7, Seconds: 10}
	if diff := cmp.Diff(want, r.Totals); diff != "" {
		t.Errorf("totals: -want +got\n%s", diff)
	}
	if d := r.Dirs[0]; d.State != "finished" || d.Runs != 1 || d.Version != "0.1.0" || d.Damaged != 0 {
		t.Errorf("crawl: %+v", d)
	}
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"hosts", r.Hosts, []Host{
			{Host: "a.example", Visits: 3, Pages: 1, Bytes: 1200, Broken: 1, MeanMS: 4},
			{Host: "b.example", Visits: 3, Pages: 2, Bytes: 12_000, Denied: 1, Duplicates: 1, MeanMS: 465},
			{Host: "c.example", Visits: 1, Failed: 1, Broken: 1}}},
		{"errors", r.Errors, []Count{{Name: "timeout-connect", Count: 1, Example: "i/o timeout"}}},
		{"mime", r.MIME, []Count{{Name: "text/html", Count: 5, Bytes: 13_200, Example: "http://a.example/"}}},
		{"robots", r.RobotsBy, []Count{{Name: "b.example", Count: 1, Example: "Disallow: /x"}}},
		{"skipped", r.Skipped, []Count{{Name: "outOfScope", Count: 7, Example: "http://z.example/"}}},
		{"copies", r.Copies, []Count{{Name: "sha1:AEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", Count: 1, Bytes: 3000,
			Example: "http://b.example/copy"}}},
		{"slowest", r.Slowest[0], Visit{URL: "http://b.example/long", Code: 200, Bytes: 9000, MS: 900,
			MIME: "text/html"}},
		{"largest", r.Largest[1].URL, "http://b.example/copy"},
		{"broken", r.Broken, []Broken{
			{URL: "http://a.example/gone", Status: 404, Kind: KindDocument, Links: 1,
				Pages: []string{"http://a.example/"}},
			{URL: "http://c.example/", Status: -8, Error: "timeout-connect", Kind: KindDocument, Links: 1,
				Pages: []string{"http://a.example/"}}}},
		{"sizes", r.Sizes.Count, int64(3)},
		{"depth", r.Histograms.ByDepth, []Bar{{0, 1, 1}, {1, 2, 6}}},
		{"speed", r.Speed.Spans, []Span{{Bytes: 50}, {Pages: 1, Bytes: 1000}, {Pages: 1, Bytes: 3000},
			{Pages: 1, Bytes: 9000}, {}, {Other: 1, Bytes: 100}, {Other: 1, Bytes: 100}, {Failed: 1}}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
	}
}

// A sitemap is a file. One that is a guess is no failure of the site.
func TestSitemaps(t *testing.T) {
	w := newWorld(t)
	of := func(code int, url, note string) report.Line {
		l := status(code, url, "M", "http://a.example/robots.txt")
		l.Notes = []string{note}
		return l
	}
	w.log("a", of(200, "http://a.example/map.xml", "sitemap"), of(404, "http://a.example/gone.xml", "sitemap"),
		of(404, "http://b.example/sitemap.xml", "sitemap-guess"),
		of(200, "http://c.example/sitemap.xml", "sitemap-guess"))
	r := w.read(Config{}, "a")
	if r.Visits != 4 || r.Files != 2 || r.Pages != 0 || r.Fetched != 3 || r.Failed != 0 || len(r.Status) != 2 {
		t.Errorf("totals: %+v, status %+v", r.Totals, r.Status)
	}
	if len(r.Broken) != 1 || r.Broken[0].URL != "http://a.example/gone.xml" {
		t.Errorf("broken: %+v", r.Broken)
	}
}

// The visits to pages of a category are those whose page the archive has.
func TestCategories(t *testing.T) {
	w := newWorld(t)
	of := func(url string, archived bool, notes ...string) report.Line {
		l := page(url, 100, 1)
		l.HasDigest, l.Notes = archived, notes
		return l
	}
	w.log("a",
		of("http://a.example/1", true, "category:A%20B"),
		of("http://a.example/2", true, "imported:a2", "category:A%20B"),
		of("http://a.example/3", true, "category:A%20B", "duplicate:digest"),
		of("http://a.example/sent", false, "category:A%20B", "exported"),
		of("http://a.example/near", false, "category:A%20B", "near-duplicate:http://a.example/1"),
		of("http://a.example/unkept", false, "category:A%20B", "not-kept"),
		of("http://a.example/none", true),
		of("http://a.example/1", true, "category:C"))
	want := []Count{{Name: "A B", Count: 3, Bytes: 300, Example: "http://a.example/1"},
		{Name: "C", Count: 1, Bytes: 100, Example: "http://a.example/1"}}
	if diff := cmp.Diff(want, w.read(Config{}, "a").Categories); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// Several directories are added up.
func TestSeveralCrawls(t *testing.T) {
	w := newWorld(t)
	w.log("a1", page("http://a.example/1", 10, 1), page("http://b.example/1", 10, 1))
	w.log("a2", page("http://a.example/2", 30, 3), status(404, "http://b.example/2", "L", "http://a.example/1"))
	for _, d := range []string{"a1", "a2"} {
		w.write(d, "reports/skipped.jsonl", `{"url":"http://z.example/","reason":"outOfScope"}`+"\n")
	}
	r := w.read(Config{}, "a1", "a2")
	if r.Visits != 4 || r.Pages != 3 || r.HostCount != 2 || r.BrokenCount != 1 || r.SkippedCount != 2 ||
		len(r.Dirs) != 2 {
		t.Errorf("totals: %+v", r.Totals)
	}
	if r.Dirs[0].Visits != 2 || r.Dirs[1].Bytes != 130 || r.Dirs[1].Pages != 1 {
		t.Errorf("crawls: %+v", r.Dirs)
	}
	if diff := cmp.Diff([]Span{{Pages: 2, Bytes: 40}, {Pages: 1, Other: 1, Bytes: 110}}, r.Speed.Spans); diff != "" {
		t.Errorf("speed: -want +got\n%s", diff)
	}
}

// A state is what the last event says. Without an end, the lock says whether the crawl runs.
func TestStates(t *testing.T) {
	const begin = `{"time":"2026-01-02T15:00:00.000Z","event":"started","version":"0.1.0"}`
	end := func(reason string) string {
		return `{"time":"2026-01-02T15:01:00.000Z","event":"stopped","reason":"` + reason + `"}`
	}
	again := strings.NewReplacer("started", "resumed", "15:00", "15:02").Replace(begin)
	for _, tt := range []struct {
		name    string
		events  []string
		held    bool
		state   State
		runs    int
		seconds float64
		summary bool
	}{
		{"no events", nil, false, Unknown, 0, 0, true},
		{"finished", []string{begin, end("finished")}, false, "finished", 1, 60, true},
		{"page limit", []string{begin, end("page-limit")}, false, "page-limit", 1, 60, true},
		{"running", []string{begin}, true, Running, 1, 245, false},
		{"killed", []string{begin}, false, Killed, 1, 245, false},
		{"resumed", []string{begin, end("signal"), again}, true, Running, 2, 60 + 125, false},
		{"resumed and finished", []string{begin, end("signal"), again,
			`{"time":"2026-01-02T15:05:00.000Z","event":"stopped","reason":"finished"}`}, false, "finished", 2, 240,
			true},
		{"error", []string{begin, `{"time":"2026-01-02T15:01:00.000Z","event":"error","error":"disk"}`}, false,
			Failed, 1,
			60, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.log("a", report.Line{Time: at, Code: 200, URL: "http://a.example/"}) // 15:04:05
			w.write("a", "logs/events.jsonl", join(tt.events...))
			w.json("a", "reports/summary.json", report.Summary{Queued: 3})
			w.held["a"] = tt.held
			d := w.read(Config{}, "a").Dirs[0]
			if d.State != tt.state || d.Runs != tt.runs || d.Seconds != tt.seconds || (d.Summary != nil) != tt.summary {
				t.Errorf("got %s, %d runs, %v s, summary %v, want %s, %d, %v, %v", d.State, d.Runs, d.Seconds,
					d.Summary != nil, tt.state, tt.runs, tt.seconds, tt.summary)
			}
		})
	}
}

// A crawl that has just begun has nothing, and an empty one has no line.
func TestEmpty(t *testing.T) {
	w := newWorld(t)
	w.write("a", "logs/crawl.log", "")
	for _, dir := range []string{"a", "nothing"} {
		if r := w.read(Config{}, dir); r.Visits != 0 || !r.AsOf.IsZero() || len(r.Speed.Spans) != 0 || r.Damaged != 0 {
			t.Errorf("%s: %+v", dir, r)
		}
	}
	for dir, want := range map[string]bool{"a": true, "nothing": false} {
		if got, err := IsCrawl(w.fs, dir); got != want || err != nil {
			t.Errorf("IsCrawl(%s): %v, %v", dir, got, err)
		}
	}
}

// Damaged lines are counted, and the others count as ever.
func TestDamage(t *testing.T) {
	w := newWorld(t)
	good := page("http://a.example/1", 10, 1)
	good.Time = at
	future, past, large, slow := good, good, good, good
	large.Size, slow.Took = 1<<62, 1<<62
	future.Time, past.Time = time.Now().AddDate(1, 0, 0), time.Unix(0, 0)
	var b []byte
	b = good.AppendTo(b)
	for _, bad := range []string{"", "nonsense", "2026-01-02T15:04:05.000Z x - y", "\x00\x00\x00",
		strings.Repeat("x", maxLine+1), strings.Repeat("y ", maxLine)} {
		b = append(b, bad+"\n"...)
	}
	b = future.AppendTo(b)
	b = past.AppendTo(b)
	b = large.AppendTo(b)
	b = slow.AppendTo(b)
	b = good.AppendTo(b)
	b = append(b, "2026-01-02T15:04:05.000Z   200 incomplete"...) // the crawl is writing it
	w.write("a", "logs/crawl.log", string(b))
	w.write("a", "reports/skipped.jsonl", join(`{"url":"u","reason":"dropped"}`, `{"url":`, `{}`, `[]`))
	w.write("a", "logs/events.jsonl", join(`{"event"`, `null`, `7`))
	w.write("a", "reports/summary.json", "{")
	r := w.read(Config{}, "a")
	if r.Visits != 2 || r.SkippedCount != 1 || r.Damaged != 10+3+3+1 || len(r.Speed.Spans) != 1 {
		t.Errorf("%d visits, %d skipped, %d damaged, %d spans", r.Visits, r.SkippedCount, r.Damaged, len(r.Speed.Spans))
	}
}

func TestBrokenTable(t *testing.T) {
	w := newWorld(t)
	w.log("a", status(404, "http://a.example/from-log", "L", "http://a.example/"))
	w.write("a", "logs/events.jsonl", join(`{"time":"2026-01-02T15:00:00.000Z","event":"started"}`,
		`{"time":"2026-01-02T15:01:00.000Z","event":"stopped","reason":"finished"}`))
	w.json("a", "reports/summary.json", report.Summary{})
	w.write("a", "reports/broken.csv", join("url,status,error,links,pages",
		`"http://a.example/x,y",404,,3,http://a.example/1 http://a.example/2`,
		`http://gone.example/,'-8,dns,40,http://a.example/1`,
		`"http://open.example/,404,,1,`, // a quote without end
		`http://b.example/,many,,1,`,
		`http://b.example/,404,,-1,`,
		`,404,,1,`,
		`http://b.example/,404`,
		`http://seed.example/,500,,0,`))
	var got []Broken
	r := w.read(Config{OnBroken: func(b Broken) error { got = append(got, b); return nil }}, "a")
	want := []Broken{
		{URL: "http://a.example/x,y", Status: 404, Kind: KindDocument, Links: 3, Pages: []string{"http://a.example/1",
			"http://a.example/2"}},
		{URL: "http://gone.example/", Status: -8, Error: "dns", Kind: KindDocument, Links: 40,
			Pages: []string{"http://a.example/1"}},
		{URL: "http://seed.example/", Status: 500, Kind: KindDocument, Pages: []string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if r.BrokenCount != 3 || !r.BrokenKnown || r.Damaged != 5 || r.Broken[0].URL != "http://gone.example/" {
		t.Errorf("%d broken, known %v, %d damaged, first %s", r.BrokenCount, r.BrokenKnown, r.Damaged, r.Broken[0].URL)
	}
	// Without a link log, the number of linking pages is not known.
	w.write("a", "reports/broken.csv", join("url,status,error,links,pages",
		"http://a.example/,404,,,http://b.example/"))
	if r := w.read(Config{}, "a"); r.BrokenKnown || r.BrokenCount != 1 || r.Broken[0].Links != 1 {
		t.Errorf("without a link log: %+v", r.Broken)
	}
	stop := errors.New("stop")
	_, err := Read(t.Context(), []string{"a"}, Config{FS: w.fs, OnBroken: func(Broken) error { return stop }})
	if !errors.Is(err, stop) {
		t.Errorf("error %v, want that of OnBroken", err)
	}
	// While the crawl runs, the table is that of an earlier run.
	w.write("a", "logs/events.jsonl", join(`{"time":"2026-01-02T15:00:00.000Z","event":"resumed"}`))
	if r := w.read(Config{}, "a"); r.BrokenCount != 1 || r.BrokenKnown ||
		r.Broken[0].URL != "http://a.example/from-log" {
		t.Errorf("running: %+v", r.Broken)
	}
}

// Broken documents come before broken files of the crawl's own sites, and these before those of other sites, with and
// without broken.csv.
func TestBrokenByKind(t *testing.T) {
	const page = "http://www.a.example/"
	w := newWorld(t)
	w.log("a", status(200, page, "", ""), status(404, "http://cdn.example/1.png", "E", page),
		status(404, "http://cdn.example/2.png", "LRE", page), status(404, "http://static.a.example/x.css", "ER", page),
		status(404, "http://www.a.example/gone", "LR", page), status(404, "http://www.a.example/x.js", "EE", page))
	want := []string{"http://www.a.example/gone document", "http://static.a.example/x.css own-requisite",
		"http://www.a.example/x.js own-requisite", "http://cdn.example/1.png other-requisite",
		"http://cdn.example/2.png other-requisite"}
	check := func(top int, want []string) {
		t.Helper()
		var got []string
		for _, b := range w.read(Config{Top: top}, "a").Broken {
			got = append(got, b.URL+" "+b.Kind)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	check(0, want)
	check(2, want[:2])
	w.write("a", "logs/events.jsonl", join(`{"time":"2026-01-02T15:00:00.000Z","event":"started"}`,
		`{"time":"2026-01-02T15:01:00.000Z","event":"stopped","reason":"finished"}`))
	w.json("a", "reports/summary.json", report.Summary{})
	w.write("a", "reports/broken.csv", join("url,status,error,links,pages,via,kind",
		`http://cdn.example/1.png,404,,90,,,requisite`, `http://cdn.example/2.png,404,,80,,,requisite`,
		`http://static.a.example/x.css,404,,2,,,requisite`, `http://www.a.example/gone,404,,0,,,document`,
		`http://www.a.example/x.js,404,,1,,,requisite`))
	check(0, want)
	check(3, want[:3])
}

// A broken URL counts once, although a killed crawl visited it twice.
func TestBrokenOnce(t *testing.T) {
	w := newWorld(t)
	gone := status(404, "http://a.example/gone", "L", "http://a.example/")
	w.log("a1", gone, gone, status(404, "http://a.example/lost", "L", "http://a.example/"))
	w.log("a2", gone)
	if r := w.read(Config{}, "a1", "a2"); r.BrokenCount != 2 || len(r.Broken) != 2 {
		t.Errorf("%d broken: %+v", r.BrokenCount, r.Broken)
	}
	// Of more URLs than Names, the later ones count with each line.
	if r := w.read(Config{Names: 1}, "a1"); r.BrokenCount != 2 {
		t.Errorf("%d broken", r.BrokenCount)
	}
}

func TestChains(t *testing.T) {
	u := func(n int) string { return fmt.Sprintf("http://a.example/%d", n) }
	w := newWorld(t)
	w.log("a",
		status(301, u(1), "L", "http://a.example/"),
		status(302, u(9), "L", "http://a.example/"), // its target is known
		status(302, u(2), "LR", u(1)),
		status(200, u(3), "LRR", u(2)),
		status(308, u(7), "LRRRR", u(6), "too-many-redirects"), // the lines before it are missing
	)
	r := w.read(Config{}, "a")
	want := []Chain{
		{Redirects: 5, Status: 308, Hops: []Hop{{u(6), 0}, {u(7), 308}}, Note: "too-many-redirects"},
		{Redirects: 2, Status: 200, Hops: []Hop{{u(1), 301}, {u(2), 302}, {u(3), 200}}},
		{Redirects: 1, Status: 302, Hops: []Hop{{u(9), 302}}},
	}
	if diff := cmp.Diff(want, r.Chains); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]Bar{{1, 2, 1}, {2, 3, 1}}, r.Histograms.ByChain); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	// A loop of redirects ends.
	w.log("a", status(301, u(1), "R", u(2)), status(301, u(2), "RR", u(1)), status(301, u(3), strings.Repeat("R", 99),
		u(2)))
	if r := w.read(Config{}, "a"); r.Chains[0].Redirects != 100 || len(r.Chains[0].Hops) > maxHops {
		t.Errorf("%+v", r.Chains[0])
	}
}

// A file that cannot be read, and the end of the context, end the review.
func TestReadErrors(t *testing.T) {
	w := newWorld(t)
	w.log("a", page("http://a.example/", 1, 1))
	faulty := testdisk.NewFaulty(w.fs, nil)
	must.Get(Read(t.Context(), []string{"a"}, Config{FS: faulty}))(t)
	calls, _ := faulty.Calls()
	failures := 0
	for n := int64(1); n <= calls; n++ {
		failed := false
		faulty := testdisk.NewFaulty(w.fs, func(c testdisk.Call) testdisk.Fault {
			if c.N != n || c.Op == testdisk.OpClose {
				return testdisk.Fault{}
			}
			failed = true
			return testdisk.Fault{Err: syscall.EIO}
		})
		_, err := Read(t.Context(), []string{"a"}, Config{FS: faulty})
		if failed {
			failures++
			if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "a/") {
				t.Errorf("call %d: %v", n, err)
			}
		}
	}
	if failures < 4 {
		t.Errorf("%d failures", failures)
	}
	must.Do(t, w.fs.MkdirAll("b/logs/crawl.log", 0o755))
	if _, err := Read(t.Context(), []string{"b"}, Config{FS: w.fs}); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory in place of the log: %v", err)
	}
	var lines []report.Line
	for range 80_000 {
		lines = append(lines, page("http://a.example/", 1, 1))
	}
	w.log("long", lines...)
	ctx, cancel := context.WithCancel(t.Context())
	var progress []Progress
	_, err := Read(ctx, []string{"long"}, Config{FS: w.fs, Progress: func(p Progress) {
		if progress = append(progress, p); p.Read < p.Total {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || len(progress) != 1 {
		t.Errorf("%v after %d reports of progress", err, len(progress))
	}
}
