package crawl_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

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
	watcher
	lost    bool
	leaving string
	held    int
}

func (a *adrift) Bind(l *crawl.Loop) []crawl.Obstacle {
	a.loop = l
	return []crawl.Obstacle{a}
}

func (a *adrift) Holds(now time.Time) (bool, time.Time) { return a.lost, now.Add(time.Second) }

func (a *adrift) Why(time.Time) crawl.Hindrance {
	return crawl.Hindrance{Text: "the agent has lost its hosts", Until: "when the agents agree again"}
}

func (a *adrift) Status(time.Time) crawl.ClusterStatus {
	return crawl.ClusterStatus{Waits: "the other agents", Leaving: a.leaving, Moves: &report.Moves{Held: a.held}}
}

// noProxy is a Fetcher whose proxy is away.
type noProxy struct{ visit.Fetcher }

func (p noProxy) Fetch(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	resp, err := p.Fetcher.Fetch(ctx, r)
	if err == nil {
		resp.Failure = &fetch.Failure{Kind: fetch.Proxy, Err: fetch.ErrProxyDown}
	}
	return resp, err
}

// reasons are crawl.Reasons that the test gives.
type reasons struct{ paused, rate string }

func (r reasons) WhyPaused() string { return r.paused }
func (r reasons) WhyRate() string   { return r.rate }

// held is a crawl.Claim that waits for saved states.
type held string

func (held) Unsure() string      { return "" }
func (h held) Held() string      { return string(h) }
func (h held) Unclaimed() string { return string(h) }

// While states of other agents wait for an agent, a URL and a host that this agent does not know may be in them.
func TestExplainWhatSavedStatesMayHave(t *testing.T) {
	bubble(t, "", func(t *testing.T) {
		const states = "the state of a3, which no agent continues yet"
		s := &story{text: wholeWeb}
		s.cfg.Claim = held(states)
		w, cancel, end := s.begin(t)
		time.Sleep(2 * time.Second)
		text, err := w.View.ExplainURL(t.Context(), weburl.MustParse("http://other.example/x"), nil)
		must.Do(t, err)
		inOrder(t, text, "not known: no link to it was accepted\n", "  a link to it may be in "+states+"\n",
			"links of it may be in "+states, "no visit begins: the crawl waits for "+states)
		cancel()
		ran(t)(end())
		must.Do(t, w.close())
	})
}

// Each condition of the crawl as a whole that keeps the dispatcher from a visit is a reason. What ends it says when the
// visit may be. More of them are in testdata/orders/explain-*.txt.
func TestExplainTheWholeCrawl(t *testing.T) {
	away := func(a *adrift) func(*story) {
		return func(s *story) { s.with = func(r *crawl.Parts) error { r.Cluster.Turns = a; return nil } }
	}
	for name, c := range map[string]struct {
		web   string
		with  func(*story)
		when  time.Duration
		does  func(t *testing.T, w *world)
		wants []string
		until string // the line "when"
	}{
		"pause of an order": {
			with: func(s *story) { s.cfg.Reasons = reasons{paused: "order 7 of alice: a line"} },
			does: func(t *testing.T, w *world) {
				must.Do(t, w.Orders.Pause(context.Background(), true))
			}, wants: []string{"by order 7 of alice: a line\n"},
			until: `after "orbweaver ctl resume", but not before `},
		"slow rate": {with: func(s *story) { s.cfg.Reasons = reasons{rate: "0.01/s now"} },
			web: "rate 5\n", when: 20 * time.Second, does: func(_ *testing.T, w *world) {
				w.Rate.Set(rate.Limit{Requests: 0.01}, 1, time.Time{})
				time.Sleep(10 * time.Second)
			}, wants: []string{"rate 0.01/s now; the next request may begin in 1 min "},
			until: "2000-01-01 00:0"},
		"lost hosts": {with: away(&adrift{lost: true}),
			wants: []string{"the agent has lost its hosts\n"}, until: "when the agents agree again"},
		"leaving": {with: away(&adrift{leaving: "other agents, which take its 3 links", held: 2}), wants: []string{
			"this agent leaves the crawl: it waits for other agents, which take its 3 links",
			"2 hosts are held until other agents have told"}, until: "when another agent has taken over the host"},
		"states that no agent continues": {
			with:  func(s *story) { s.cfg.Claim = held("the state of a3, which no agent continues yet") },
			wants: []string{"no visit begins: the crawl waits for the state of a3, which no agent continues yet\n"},
			until: "when the saved states are continued or taken over"},
		"pages that a program holds": {with: func(s *story) {
			s.with = func(r *crawl.Parts) error {
				r.PagesTo = "the loader"
				r.Pages = visit.PagesFunc(func(ctx context.Context, _ *visit.Page) error {
					<-ctx.Done()
					return ctx.Err()
				})
				return nil
			}
		}, when: 20 * time.Second, wants: []string{"1 page waits for ", ": the loader\n"},
			until: "now: a visit has begun"},
		"no proxy": {with: func(s *story) {
			s.with = func(r *crawl.Parts) error { r.Fetch = noProxy{r.Fetch}; return nil }
		}, wants: []string{"the proxy cannot be reached for ", "; each URL is tried again after about 30 s"}},
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
			text, err := w.View.Explain(t.Context(), "a.example")
			must.Do(t, err)
			inOrder(t, crawlLines(text), c.wants...)
			inOrder(t, text, "  when: "+c.until)
			cancel()
			ran(t)(end())
			must.Do(t, w.close())
		})
	}
}
