package crawl

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func mustURL(t testing.TB, s string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(s)
	must(t, err)
	return u
}

// explain returns what the crawl says of a URL. noPast stands for logs without the URL.
func (w *world) explain(t testing.TB, u string, past Past) string {
	t.Helper()
	text, err := w.ExplainURL(context.Background(), mustURL(t, u), func(weburl.URL) Past { return past })
	must(t, err)
	return text
}

// inOrder reports the first of some texts that text does not contain after the one before it.
func inOrder(t testing.TB, text string, wants ...string) {
	t.Helper()
	rest := text
	for _, want := range wants {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Errorf("no %q, or not at this place, in\n%s", want, text)
			return
		}
		rest = after
	}
}

// crawlLines returns what an explanation says of the crawl as a whole.
func crawlLines(text string) string {
	_, lines, _ := strings.Cut(text, "\nthe crawl:\n")
	return lines
}

const wholeWeb = `
delay 10s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /1 /2
`

// adrift is the Cluster of an agent that may have lost its hosts, or that leaves.
type adrift struct {
	alone
	lost    bool
	leaving string
	held    int
}

func (a *adrift) Paused(now time.Time) time.Time {
	if a.lost {
		return now.Add(time.Second)
	}
	return time.Time{}
}

func (a *adrift) Status(time.Time) ClusterStatus {
	return ClusterStatus{Waits: "the other agents", Leaving: a.leaving, Moves: &report.Moves{Held: a.held}}
}

// noProxy is a Fetcher whose proxy is away.
type noProxy struct{ Fetcher }

func (p noProxy) Fetch(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	resp, err := p.Fetcher.Fetch(ctx, r)
	if err == nil {
		resp.Failure = &fetch.Failure{Kind: fetch.Proxy, Err: fetch.ErrProxyDown}
	}
	return resp, err
}

// Each condition of the crawl as a whole that keeps the dispatcher from a visit is a reason. What ends it says when the
// visit may be.
func TestExplainTheWholeCrawl(t *testing.T) {
	away := func(a *adrift) func(*story) {
		return func(s *story) { s.with = func(r *Parts) error { r.Cluster = a; return nil } }
	}
	for name, c := range map[string]struct {
		web   string
		with  func(*story)
		when  time.Duration
		does  func(t *testing.T, w *world)
		wants []string
		until string // the line "when"; empty: none
	}{
		"pause": {does: func(t *testing.T, w *world) {
			must(t, w.Pause(context.Background(), true))
			time.Sleep(time.Minute)
		}, wants: []string{"the crawl is paused for 1 min 0 s by the operator\n"},
			until: `after "orbweaver ctl resume"`},
		"pause of an order": {
			with: func(s *story) { s.cfg.WhyPaused = func() string { return "order 7 of alice: a line" } },
			does: func(t *testing.T, w *world) {
				must(t, w.Pause(context.Background(), true))
			}, wants: []string{"by order 7 of alice: a line\n"},
			until: `after "orbweaver ctl resume", but not before `},
		"slow rate": {with: func(s *story) { s.cfg.WhyRate = func() string { return "0.01/s now" } },
			web: "rate 5\n", when: 20 * time.Second, does: func(_ *testing.T, w *world) {
				w.Rate.Set(rate.Limit{Requests: 0.01}, 1, time.Time{})
				time.Sleep(10 * time.Second)
			}, wants: []string{"rate 0.01/s now; the next request may begin in 1 min "},
			until: "2000-01-01 00:0"},
		"no share of the rate": {web: "rate 5\n", does: func(_ *testing.T, w *world) {
			w.Rate.Set(rate.Limit{Requests: 5}, 0, time.Time{})
			time.Sleep(20 * time.Second)
		}, wants: []string{"rate; this agent has no share of it now"},
			until: "when the agents have divided the rate again"},
		"busy workers": {web: "workers 1\nslow-visits -1\nseed http://b.example/\ndns b.example 192.0.2.2\n" +
			"seed http://c.example/\ndns c.example 192.0.2.3\nhttp://b.example/robots.txt slow=50s\n" +
			"http://c.example/robots.txt slow=50s\nhttp://a.example/robots.txt slow=50s\n", when: 20 * time.Second,
			wants: []string{"all 1 workers are busy: 1 visit is in progress"}, until: ""},
		"page limit": {
			web:  "page-limit 2\nseed http://b.example/\ndns b.example 192.0.2.2\nhttp://b.example/ slow=1h\n",
			when: 30 * time.Second, wants: []string{"page limit: 1 page and 1 visit in progress of at most 2"},
			until: "if a visit in progress brings no page"},
		"lost hosts": {with: away(&adrift{lost: true}), wants: []string{"this agent may have lost its hosts to " +
			"other agents; it waits for the other agents"}, until: "when the agents agree again"},
		"leaving": {with: away(&adrift{leaving: "other agents, which take its 3 links", held: 2}), wants: []string{
			"this agent leaves the crawl: it waits for other agents, which take its 3 links",
			"2 hosts are held until other agents have told"}, until: "when another agent has taken over the host"},
		"stopping": {web: "seed http://b.example/\ndns b.example 192.0.2.2\nhttp://b.example/ slow=25s\n",
			when: 20 * time.Second, does: func(t *testing.T, w *world) {
				must(t, w.Halt(context.Background(), TimeLimit))
			}, wants: []string{"the run ends: the time limit is reached"},
			until: `after "orbweaver crawl --resume" with a higher limit`},
		"pages that a program holds": {with: func(s *story) {
			s.with = func(r *Parts) error {
				r.PagesTo = "the loader"
				r.Pages = func(ctx context.Context, _ *Page) error {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		}, when: 20 * time.Second, wants: []string{"1 page waits for ", ": the loader\n"},
			until: "now: a visit has begun"},
		"no proxy": {with: func(s *story) {
			s.with = func(r *Parts) error { r.Fetch = noProxy{r.Fetch}; return nil }
		}, wants: []string{"the proxy cannot be reached for ", "; each URL is tried again after about 30 s"}},
		"nothing": {},
	} {
		bubble(t, name, func(t *testing.T) {
			s := &story{text: wholeWeb + c.web}
			if c.with != nil {
				c.with(s)
			}
			w, cancel, end := s.begin(t)
			time.Sleep(max(c.when, 2*time.Second))
			if c.does != nil {
				c.does(t, w)
			}
			text, err := w.Explain(t.Context(), "a.example")
			must(t, err)
			inOrder(t, crawlLines(text), c.wants...)
			if len(c.wants) == 0 && crawlLines(text) != "" {
				t.Errorf("reasons without a reason:\n%s", text)
			}
			if c.until != "" {
				inOrder(t, text, "  when: "+c.until)
			}
			if strings.Contains(text, "its turn is next\n") && len(c.wants) > 0 {
				t.Errorf("its turn is not next:\n%s", text)
			}
			cancel()
			ran(t)(end())
			must(t, w.close())
		})
	}
}

// An explanation tells what became of a URL, or what would become of it.
func TestExplainURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: `
delay 10s
retries 3
retry-wait 1h
scope host
depth 2
seed http://a.example/
seed http://b.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://b.example/ /1 /2 /3 /4 /5 /6 /7 /8 /9 /10 /11 /12 /13 /14 /15 /16 /17 /18 /19 /20
http://a.example/robots.txt robots=User-agent:_*;Disallow:_/private
http://a.example/ /fails /1 /2 /3 /4 /private/x /out
http://a.example/fails reset
http://a.example/1 /deep
`}
		s.scope.Exclude = []string{"/never"}
		w, cancel, end := s.begin(t)
		time.Sleep(15 * time.Second) // after robots.txt and the seed
		inOrder(t, w.explain(t, "http://a.example/", Past{Finished: "at noon: status 200"}),
			"http://a.example/: finished\n  at noon: status 200\n", "a.example: resting")
		inOrder(t, w.explain(t, "http://a.example/", Past{}), "http://a.example/: finished\n  its visit is older than")
		inOrder(t, w.explain(t, "http://a.example/1", Past{}), "/1: waits for its turn\n  place: ", " of 7 links of "+
			"its host that wait\n  found on http://a.example/, 1 link from a seed\n  robots.txt allows it\n  when: ")
		inOrder(t, w.explain(t, "http://a.example/private/x", Past{}), "x: waits for its turn\n", "robots.txt "+
			"disallows it: line 2, \"Disallow: /private\"; its turn finishes it without a visit\n")
		inOrder(t, w.explain(t, "http://a.example/nowhere", Past{}), "nowhere: not known: no link to it was accepted\n",
			"if a page links to it, the crawl accepts it, if it is at most 2 links from a seed\n",
			"  robots.txt allows it\n")
		inOrder(t, w.explain(t, "http://a.example/never", Past{}), "never: not known",
			"does not follow the link:\n    exclude: out, excluded (", "/never")
		inOrder(t, w.explain(t, "http://elsewhere.example/", Past{Skipped: &report.Skip{Via: "http://a.example/9",
			Hops: "LL", Reason: string(scope.OutOfScope)}}), "/: not known",
			"the link on http://a.example/9, 2 links from a seed was not followed: outside --scope (outOfScope)\n",
			"scope: out, outOfScope (host elsewhere.example; the seeds have a.example, b.example)\n",
			"elsewhere.example: unknown")

		sc, err := scope.New(scope.Config{Scope: scope.Any}, nil)
		must(t, err)
		must(t, w.SetApplications([]Application{{Name: "wide", Scope: sc}}))
		inOrder(t, w.explain(t, "http://elsewhere.example/", Past{}), "does not follow the link:\n", "if a page of "+
			"the application wide links to it, the application accepts it\n")

		must(t, w.Exclude(t.Context(), []Exclusion{{Pattern: "/out", Deeper: -1, Why: "order 3, /out"}}))
		inOrder(t, w.explain(t, "http://a.example/out", Past{}), "/out: set aside until its exclusion ends\n",
			"excluded by order 3, /out\n", "when: after the exclusion is taken back\n")
		w.blocks(t, "a.example")
		inOrder(t, w.explain(t, "http://a.example/1", Past{}),
			"when: after the block is lifted, but not before 2000-01-01 00:00:20Z",
			"blocked by order 1, a.example\n")
		inOrder(t, w.explain(t, "http://a.example/out", Past{}),
			"when: after the exclusion is taken back, and after the block is lifted\n")
		w.blocks(t)

		time.Sleep(2 * time.Minute) // all are visited once
		inOrder(t, w.explain(t, "http://a.example/fails", Past{}), "/fails: failed, and waits for its next try\n",
			"last failure: broken (", "when: 2000-01-01 00:1")
		inOrder(t, w.explain(t, "http://a.example/deep", Past{}), "/deep: finished")
		if text := w.explain(t, "http://a.example/fails", Past{}); strings.Contains(text, "place:") {
			t.Errorf("a retry has no place in the queue:\n%s", text)
		}
		cancel()
		ran(t)(end())
		must(t, w.close())
	})
}

var whenTime = regexp.MustCompile(`  when: (?:about )?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ)`)

// The URL is fetched at the time that the explanation tells, also if the rate decides it.
func TestExplainWhen(t *testing.T) {
	for name, c := range map[string]struct {
		settings string
		slack    time.Duration
	}{"delay": {"delay 20s\n", 2 * time.Second}, "rate": {"rate 1\ndelay 30s\n", 3 * time.Second}} {
		bubble(t, name, func(t *testing.T) {
			s := &story{text: c.settings + "seed http://a.example/\ndns a.example 192.0.2.1\n" +
				"http://a.example/ /1 /2 /3 /4 /5 /6\n"}
			w, _, end := s.begin(t)
			time.Sleep(40 * time.Second)
			told := map[string]time.Time{}
			for _, path := range []string{"/1", "/2", "/3", "/4", "/5", "/6"} {
				text := w.explain(t, "http://a.example"+path, Past{})
				m := whenTime.FindStringSubmatch(text)
				if m == nil {
					if !strings.Contains(text, path+": finished") {
						t.Fatalf("no time in\n%s", text)
					}
					continue
				}
				at, err := time.Parse("2006-01-02 15:04:05Z", m[1])
				must(t, err)
				told["http://a.example"+path] = at
			}
			ran(t)(end())
			seen := 0
			for _, r := range s.web.Told() {
				at, ok := told[r.URL]
				if !ok {
					continue
				}
				seen++
				if d := s.web.Start.Add(r.At).Sub(at); d < -c.slack || d > c.slack {
					t.Errorf("%s was fetched %s after the time that was told", r.URL, d)
				}
			}
			if seen < 5 {
				t.Errorf("%d URLs had a time", seen)
			}
			must(t, w.close())
		})
	}
}
