package view

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var at = time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)

// sample returns a Review with something in each section.
func sample() *review.Review {
	r := &review.Review{
		Type: "report", AsOf: clock.Stamp{Time: at.Add(time.Hour)},
		Dirs: []review.Dir{
			{Path: "crawls/a1", State: "finished", Started: clock.Stamp{Time: at},
				AsOf: clock.Stamp{Time: at.Add(time.Hour)}, Runs: 1, Seconds: 3600,
				Visits: 900,
				Pages:  700, Bytes: 5e6, Failed: 4, Version: "0.1.0", Summary: &report.Summary{Discovered: 12_345,
					Queued:  2,
					Retries: 7, PeakMemory: 62e6}},
			{Path: "crawls/a2", State: review.Failed, Error: "no space left on device", Visits: 100, Pages: 50},
		},
		Totals: review.Totals{Visits: 1000, Pages: 750, Fetched: 950, Failed: 4, Bytes: 5_100_000, RobotsTxt: 3,
			Denied:     9,
			Redirected: 60, Unchanged: 2, Duplicates: 11, Truncated: 1, HostCount: 120_000, AtLeast: true,
			BrokenCount:  41,
			SkippedCount: 3200, LeastCount: 3, Seconds: 3600, Damaged: 1},
		Status: []review.Count{{Name: "200", Count: 750, Bytes: 5e6}, {Name: "404", Count: 120, Bytes: 9000},
			{Name: "302", Count: 60}, {Name: "503", Count: 20}, {Name: "-8", Count: 4}, {Name: "-9998", Count: 9},
			{Name: "777", Count: 1}},
		Errors: []review.Count{{Name: "timeout-first-byte", Count: 4,
			Example: "read tcp 192.0.2.1:80: i/o timeout"}},
		Categories: []review.Count{{Name: "SCIENCE", Count: 300, Bytes: 3e6, Example: "http://a.example/"}},
		MIME:       []review.Count{{Name: "text/html", Count: 900, Bytes: 4e6, Example: "http://a.example/"}},
		Skipped: []review.Count{{Name: "outOfScope", Count: 3199, Example: "http://z.example/"}, {Name: "later",
			Count: 1}},
		RobotsBy: []review.Count{{Name: "a.example", Count: 9, Example: "Disallow: /private"}},
		Hosts: []review.Host{{Host: "a.example", Visits: 800, Pages: 700, Bytes: 4e6, Failed: 4, Broken: 40, Denied: 9,
			Duplicates: 11, MeanMS: 123}, {Host: "b.example", Visits: 200, Pages: 50, Bytes: 1_100_000,
			MeanMS: 61_000}},
		Slowest: []review.Visit{{URL: "http://b.example/slow", Code: 200, Bytes: 1e6, MS: 3_723_000,
			MIME: "text/html"}},
		Largest: []review.Visit{{URL: "http://b.example/large", Code: 200, Bytes: 2e6, MS: 1, MIME: "application/pdf"}},
		Broken: []review.Broken{
			{URL: "http://a.example/gone", Status: 404, Links: 23, Pages: []string{"http://a.example/1",
				"http://a.example/2"}},
			{URL: "http://a.example/error", Status: 500, Links: 1, Pages: []string{"http://a.example/1"}},
			{URL: "http://nowhere.example/", Status: -8, Error: "dns"}},
		Chains: []review.Chain{{Redirects: 2, Status: 200, Hops: []review.Hop{{URL: "http://a.example/old",
			Status: 301},
			{URL: "http://a.example/newer", Status: 0}, {URL: "http://a.example/new", Status: 200}}},
			{Redirects: 1, Status: 302, Note: "bad-redirect", Hops: []review.Hop{{URL: "http://a.example/x",
				Status: 302}}}},
		Copies:  []review.Count{{Name: "sha1:AAAA", Count: 11, Bytes: 22_000, Example: "http://a.example/copy"}},
		Latency: review.Percentiles{Count: 950, Mean: 80, P50: 20, P90: 200, P95: 900, P99: 1500, Max: 3_723_000},
		Sizes:   review.Percentiles{Count: 750, Mean: 6800, P50: 5000, P90: 9000, P95: 12_000, P99: 90_000, Max: 2e6},
		Histograms: review.Histograms{
			ByLatency: []review.Bar{{From: 0, To: 10, Count: 300}, {From: 10, To: 20, Count: 649}, {From: 60_000,
				Count: 1}},
			BySize: []review.Bar{{From: 0, To: 1 << 10, Count: 50}, {From: 1 << 10, To: 4 << 10, Count: 700}},
			ByDepth: []review.Bar{{From: 0, To: 1, Count: 1}, {From: 1, To: 2, Count: 99}, {From: 10, To: 15,
				Count: 900}},
			ByChain: []review.Bar{{From: 1, To: 2, Count: 40}, {From: 2, To: 3, Count: 10}},
		},
		Speed:  review.Timeline{Start: clock.Stamp{Time: at}, WidthS: 16},
		ByHour: []review.Hour{{Hour: 14, Requests: 300, Pages: 250, Bytes: 5e6}, {Hour: 15, Requests: 1, Bytes: 900}},
	}
	for i := range int64(225) {
		r.Speed.Spans = append(r.Speed.Spans, review.Span{Pages: i % 7, Other: i % 3, Failed: i / 224, Bytes: i * 1000})
	}
	return r
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, Text(&b, Sections(sample(), 10), 0))
	b.WriteString("\n=== on a terminal of 60 columns\n")
	narrow := slices.DeleteFunc(Sections(sample(), 3), func(s Section) bool {
		return s.Name != "errors" && s.Name != "broken"
	})
	must.Do(t, Text(&b, narrow, 60))
	name := filepath.Join("testdata", "report.txt")
	if *update {
		must.Do(t, os.WriteFile(name, b.Bytes(), 0o644))
	}
	want := must.Get(os.ReadFile(name))(t)
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The names of the sections are those of --section, in their order, and a list has as many rows as it is given.
func TestSections(t *testing.T) {
	var names []string
	for _, s := range Sections(sample(), 1) {
		names = append(names, s.Name)
		for _, tab := range s.Tables {
			if tab.noBars && s.Name != "broken" { // the tables that are no lists
				continue
			}
			if strings.HasPrefix(tab.Title, "Lengths") || s.Name == "depth" || s.Name == "hours" ||
				tab.Title == "" && s.Name == "times" || tab.Title == "" && s.Name == "sizes" {
				continue
			}
			if len(tab.Rows) != 1 {
				t.Errorf("%s, %q: %d rows", s.Name, tab.Title, len(tab.Rows))
			}
		}
	}
	if !slices.Equal(names, Names) {
		t.Errorf("sections %q, names %q", names, Names)
	}
	for _, s := range Sections(&review.Review{}, 1) {
		if len(s.charts) > 0 || len(s.shares) > 0 {
			t.Errorf("%s of an empty review has charts", s.Name)
		}
	}
}

// rendered returns the page, and its parsed nodes in their order.
func rendered(t *testing.T, r *review.Review) (string, []*html.Node) {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, HTML(&b, r, Sections(r, 25)))
	doc := must.Get(html.Parse(strings.NewReader(b.String())))(t)
	return b.String(), slices.Collect(doc.Descendants())
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// The page is well-formed: each element that needs an end has it, in the right order.
func TestWellFormed(t *testing.T) {
	for name, r := range map[string]*review.Review{"sample": sample(), "empty": {}} {
		page, _ := rendered(t, r)
		void := []string{"meta", "br", "link", "img"}
		var open []string
		for z := html.NewTokenizer(strings.NewReader(page)); ; {
			kind := z.Next()
			if kind == html.ErrorToken {
				break
			}
			tok := z.Token()
			switch {
			case kind == html.StartTagToken && !slices.Contains(void, tok.Data):
				open = append(open, tok.Data)
			case kind == html.EndTagToken:
				if len(open) == 0 || open[len(open)-1] != tok.Data {
					t.Fatalf("%s: </%s> closes %v", name, tok.Data, open)
				}
				open = open[:len(open)-1]
			}
		}
		if len(open) > 0 {
			t.Errorf("%s: open at the end: %v", name, open)
		}
		if strings.Contains(page, "ZgotmplZ") || strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
			t.Errorf("%s: a value that the template refused, or no number", name)
		}
	}
}

// The page loads nothing, runs nothing and styles nothing but by its one style sheet.
func TestSelfContained(t *testing.T) {
	page, nodes := rendered(t, sample())
	var policy, sheet string
	ids, targets := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		if n.Type != html.ElementNode {
			continue
		}
		if id := attr(n, "id"); id != "" {
			if ids[id] {
				t.Errorf("two elements have the id %s", id)
			}
			ids[id] = true
		}
		switch n.Data {
		case "script", "link", "img", "iframe", "object", "embed", "base", "form", "video", "audio", "source", "use",
			"image",
			"foreignobject", "animate", "set":
			t.Errorf("the page has a <%s>", n.Data)
		case "style":
			sheet += n.FirstChild.Data
		case "meta":
			if attr(n, "http-equiv") == "Content-Security-Policy" {
				policy = attr(n, "content")
			}
		case "a":
			if to, ok := strings.CutPrefix(attr(n, "href"), "#"); ok {
				targets[to] = true
			} else if attr(n, "rel") != "noreferrer noopener nofollow" || !regexp.MustCompile(`^https?://`).
				MatchString(attr(n, "href")) {
				t.Errorf("link %v", n.Attr)
			}
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" || a.Key == "srcset" ||
				strings.Contains(a.Val, "url(") || strings.Contains(a.Key, "xlink") {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
	}
	hash := sha256.Sum256([]byte(sheet))
	if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"; !strings.Contains(policy,
		want) ||
		!strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q, want %s", policy, want)
	}
	if strings.Contains(sheet, "url(") || strings.Contains(sheet, "@import") {
		t.Error("the style sheet loads something")
	}
	for to := range targets {
		if !ids[to] {
			t.Errorf("a link leads to #%s, which is not there", to)
		}
	}
	for _, want := range []string{"prefers-color-scheme:dark", "@media print", "screen and (max-width:760px)"} {
		if !strings.Contains(sheet, want) {
			t.Errorf("the style sheet lacks %s", want)
		}
	}
	if n := strings.Count(page, `class="f-good" d="M`); n != 2 { // for wide and for narrow windows
		t.Errorf("%d drawings of the pages a second", n)
	}
}

// hostile returns a Review whose texts try to break out.
func hostile() (r *review.Review, texts []string) {
	texts = []string{`</style><script>alert(1)</script>`, `"><img src=http://canary.example/x.png onerror=alert(1)>`,
		`javascript:alert(1)`, `http://a.example/"onmouseover="alert(1)`, "http://a.example/\u202egnp.exe",
		`data:text/html,<script>alert(1)</script>`, "\x1b[2J\x00\xff", `{{.Title}}`, `http://user:pw@a.example/`,
		"http://a.example/<svg/onload=alert(1)>", " javascript:alert(1)", "JaVaScRiPt:alert(1)", "//canary.example/x",
		"http://a.example/" + review.Cut, "https:canary.example"}
	r = &review.Review{AsOf: clock.Stamp{Time: at}, Totals: review.Totals{Visits: 9, Fetched: 9, Redirected: 9,
		Duplicates: 9, Failed: 9,
		BrokenCount: 99, BrokenKnown: true, HostCount: 99, SkippedCount: 99},
		Latency: review.Percentiles{Count: 1}, Sizes: review.Percentiles{Count: 1}}
	for _, s := range texts {
		c := review.Count{Name: s, Count: 1, Example: s}
		for _, list := range []*[]review.Count{&r.Status, &r.Errors, &r.MIME, &r.Skipped, &r.RobotsBy, &r.Copies} {
			*list = append(*list, c)
		}
		r.Dirs = append(r.Dirs, review.Dir{Path: s, State: review.State(s), Error: s, Version: s})
		r.Hosts = append(r.Hosts, review.Host{Host: s, Visits: 1})
		r.Slowest = append(r.Slowest, review.Visit{URL: s, MIME: s})
		r.Largest = append(r.Largest, review.Visit{URL: s, MIME: s})
		r.Broken = append(r.Broken, review.Broken{URL: s, Error: s, Links: 1, Pages: []string{s}})
		r.Chains = append(r.Chains, review.Chain{Redirects: 1, Hops: []review.Hop{{URL: s}}, Note: s})
	}
	return r, texts
}

func TestHostileTexts(t *testing.T) {
	r, texts := hostile()
	page, nodes := rendered(t, r)
	var all strings.Builder
	for _, n := range nodes {
		if n.Type == html.TextNode {
			all.WriteString(n.Data + "\n")
		}
		if n.Type != html.ElementNode {
			continue
		}
		if n.Data == "script" || n.Data == "img" || attr(n, "onerror")+attr(n, "onload")+attr(n, "onmouseover") != "" {
			t.Errorf("<%s> of a foreign text", n.Data)
		}
		if href := attr(n, "href"); href != "" && href[0] != '#' {
			t.Errorf("a link to %q", href)
		}
	}
	for _, s := range texts {
		if !strings.Contains(all.String(), report.OneLine(s)) {
			t.Errorf("the page does not show %q", s)
		}
	}
	if strings.ContainsAny(page, "\x00\x1b\u202e") || !utf8.ValidString(page) {
		t.Error("the page has a control character")
	}
	var b bytes.Buffer
	must.Do(t, Text(&b, Sections(r, 25), 0))
	if strings.ContainsAny(b.String(), "\x00\x1b\u202e\r") || !utf8.ValidString(b.String()) {
		t.Error("the tables have a control character")
	}
}

func TestLinkable(t *testing.T) {
	for u, want := range map[string]bool{
		"http://a.example/": true, "https://a.example/x?y=1&z#f": true, "https://xn--a.example:8080/%20": true,
		"ftp://a.example/": false, "http:///x": false, "/x": false, "": false, "http://a.example/a b": false,
		"http://a.example/%zz": false, "http://a.example\\@b.example/": false,
	} {
		if got := linkable(u); got != want {
			t.Errorf("%q: %v, want %v", u, got, want)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{span(-1), "0 ms"}, {span(999 * time.Millisecond), "999 ms"}, {span(1500 * time.Millisecond), "1.5 s"},
		{span(61 * time.Second), "1 min 1 s"}, {span(90 * time.Minute), "1 h 30 min"}, {span(50 * time.Hour),
			"2 d 2 h"},
		{rate(0), "0"}, {rate(0.123), "0.12"}, {rate(12.34), "12.3"}, {rate(1234.5), "1,235"},
		{meanRate(10, 0.02), "500"}, {meanRate(10, 0), "-"},
		{percent(1, 0).Text, "-"}, {percent(1, 3).Text, "33.3 %"}, {percent(1, 9999).Text, "< 0.1 %"},
		{axisNumber(1500), "1,500"}, {axisNumber(0.30000000000000004), "0.3"},
		{Result(review.Broken{Status: 404}), "404 Not Found"}, {Result(review.Broken{Status: -8, Error: "dns: x"}),
			"no address for the host name: x"},
		{Result(review.Broken{Status: 301, Error: "too-many-redirects"}),
			"301 Moved Permanently (end of too many redirects)"},
		{Result(review.Broken{Status: -2}), "connection failed"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestNiceSteps(t *testing.T) {
	for x, want := range map[float64]float64{0: 1, -1: 1, 0.03: 0.05, 1: 1, 1.1: 2, 4: 5, 7: 10, 250: 500, 100: 100} {
		if got := niceStep(x); got != want {
			t.Errorf("niceStep(%v) = %v, want %v", x, got, want)
		}
	}
	for all, want := range map[int64]int64{1: 1, 8: 2, 3600: 600, 86_400: 6 * hour, 1e9: 3000 * day} {
		if got := niceTime(all, 6); got != want && all < 1e9 || all/got > 7 {
			t.Errorf("niceTime(%d) = %d, want %d", all, got, want)
		}
	}
}

// A chart stays within its image, whatever it shows.
func TestDrawings(t *testing.T) {
	for _, n := range []int{1, 2, 240} {
		for _, width := range []int64{1, 64, 1 << 20} {
			l := review.Timeline{Start: clock.Stamp{Time: at}, WidthS: width, Spans: make([]review.Span, n)}
			for i := range l.Spans {
				l.Spans[i] = review.Span{Pages: int64(i * i), Failed: 1, Bytes: int64(i) << 40}
			}
			for _, c := range speedCharts(l) {
				for _, d := range c.Drawings() {
					if len(d.XTicks) > 8 || len(d.YTicks) < 2 || len(d.YTicks) > 6 || len(d.Spans) != n {
						t.Errorf("%d spans of %d s: %d and %d ticks", n, width, len(d.XTicks), len(d.YTicks))
					}
					for _, y := range d.YTicks {
						if y.At < 0 || y.At > d.Base {
							t.Errorf("%d spans of %d s: a label at %v", n, width, y.At)
						}
					}
					for _, x := range d.XTicks {
						if x.At < d.Left || x.At > d.Right {
							t.Errorf("%d spans of %d s: a label at %v", n, width, x.At)
						}
					}
				}
			}
		}
	}
}
