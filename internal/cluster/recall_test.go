package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A reader is a crawl.Sharer that wants some URLs, one after the other. The state of a URL that it
// visits is the status.
type reader struct {
	wants  []string
	next   int
	told   chan string // the answers to its questions
	shared int
	states map[string]string
}

func (*reader) Follow(*visit.Page, *link.Link) visit.Choice { return visit.Drop }

func (r *reader) Visited(v *visit.Visit) ([]byte, error) {
	state := fmt.Sprint(v.Status)
	r.states[v.Link.URL.String()] = state
	return []byte(state), nil
}

func (r *reader) Restore(l link.Link, state []byte) error {
	r.states[l.URL.String()] = string(state)
	return nil
}

func (r *reader) Next(time.Time) (*visit.Wanted, time.Time, error) {
	if r.next == len(r.wants) {
		return nil, time.Time{}, nil
	}
	r.next++
	return &visit.Wanted{Link: link.Link{URL: weburl.MustParse(r.wants[r.next-1]), Hops: "L"}}, time.Time{}, nil
}

func (r *reader) Share(mine func(task string) bool) {
	if r.shared++; mine("task.invalid") {
		r.next = 0
	}
}

func (r *reader) Recall(u weburl.URL) (l link.Link, state []byte, err error) {
	if s, ok := r.states[u.String()]; ok {
		return link.Link{URL: u}, []byte(s), nil
	}
	return l, nil, nil
}

func (r *reader) Told(l link.Link, state []byte) error {
	if string(state) == "invalid" {
		return fmt.Errorf("invalid state")
	}
	r.told <- fmt.Sprintf("%s %s", l.URL, state)
	return nil
}

// A library is the other agents of a reader. It owns all hosts but those of .own.example.
type library struct {
	static
	mu      sync.Mutex // guards the fields below
	answers map[string][]recalled
	asked   []string
}

func (l *library) Before(host string) ([]string, int) { return []string{"b2", "b1", "b3"}, 2 }

func (l *library) Recall(_ context.Context, agent string, q *pb.RecallRequest) (*pb.RecallResponse, error) {
	time.Sleep(10 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := new(pb.RecallResponse)
	for rest := q.Links; len(rest) > 0; {
		found, n, err := link.Peek(rest)
		if err != nil {
			return nil, err
		}
		rest = rest[n:]
		what := fmt.Sprintf("%s %s", agent, found.URL)
		if q.Accept {
			what += " accept"
		}
		if !slices.Contains(l.asked, what) {
			l.asked = append(l.asked, what)
		}
		a := recalled{verdict: recallLater}
		if list := l.answers[what]; len(list) > 0 {
			if a = list[0]; len(list) > 1 {
				l.answers[what] = list[1:]
			}
		}
		answer := &pb.RecallAnswer{Verdict: a.verdict}
		if a.verdict == recallKnown {
			answer.Link, answer.State = found.AppendTo(nil), []byte(a.state)
		}
		r.Answers = append(r.Answers, answer)
	}
	return r, checkRecalled(q, r)
}

// A recalled is an answer of the library about a URL.
type recalled struct {
	verdict uint32
	state   string
}

func (l *library) takeAsked() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.asked
	l.asked = nil
	return asked
}

// TestRecall: an agent asks for the states of the URLs that its strategy wants, and ends only when it
// has them all.
func TestRecall(t *testing.T) {
	known := func(state string) recalled { return recalled{recallKnown, state} }
	later, none := recalled{verdict: recallLater}, recalled{verdict: recallNone}
	blocked := recalled{verdict: recallBlocked}
	for _, c := range []struct {
		name, want string
		answers    map[string][]recalled
		told       string
		asked      []string
		least      time.Duration
		idle       bool // the agent is idle before it is told
	}{
		{name: "own page", want: "http://a.own.example/1", told: "http://a.own.example/1 200"},
		{name: "own page that is missing", want: "http://a.own.example/x", told: "http://a.own.example/x 404"},
		{name: "the owner knows it", want: "http://x.example/", told: "http://x.example/ s",
			answers: map[string][]recalled{"b1 http://x.example/ accept": {known("s")}},
			asked:   []string{"b1 http://x.example/ accept"}},
		{name: "the owner fetches it", want: "http://x.example/", told: "http://x.example/ s",
			answers: map[string][]recalled{"b1 http://x.example/ accept": {later, later, later, later, known("s")}},
			asked:   []string{"b1 http://x.example/ accept"}, least: 500 * time.Millisecond},
		{name: "another agent knows it", want: "http://x.example/", told: "http://x.example/ s",
			answers: map[string][]recalled{"b1 http://x.example/ accept": {none}, "b2 http://x.example/": {later, none},
				"b3 http://x.example/": {known("s")}},
			asked: []string{"b1 http://x.example/ accept", "b2 http://x.example/", "b3 http://x.example/"}},
		{name: "no agent knows it", want: "http://x.example/", told: "http://x.example/ ",
			answers: map[string][]recalled{"b1 http://x.example/ accept": {known("invalid")},
				"b2 http://x.example/": {none}, "b3 http://x.example/": {none}},
			asked: []string{"b1 http://x.example/ accept", "b2 http://x.example/", "b3 http://x.example/"}},
		{name: "blocked", want: "http://x.example/", told: "http://x.example/ s", idle: true,
			answers: map[string][]recalled{"b1 http://x.example/ accept": append(
				slices.Repeat([]recalled{blocked}, 20), known("s"))},
			asked: []string{"b1 http://x.example/ accept"}, least: 3 * time.Second},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				others := &library{answers: c.answers, static: static{func(host string) (string, bool) {
					if strings.HasSuffix(host, ".own.example") || host == "task.invalid" {
						return "a1", true
					}
					return "b1", false
				}}}
				r := &reader{wants: []string{c.want}, told: make(chan string, 1), states: map[string]string{}}
				w, end := startReader(t, r, others)
				idle := false
				var got string
				for began := time.Now(); got == ""; {
					select {
					case got = <-r.told:
					case <-time.After(50 * time.Millisecond):
						p := must.Get(w.cl.Pulse(t.Context()))(t)
						idle = idle || p.Idle && len(r.told) == 0
						if time.Since(began) > time.Minute {
							t.Fatalf("no answer; asked %v", others.takeAsked())
						}
					}
					if got != "" && time.Since(began) < c.least {
						t.Errorf("told after %s", time.Since(began))
					}
				}
				if got != c.told || idle != c.idle {
					t.Errorf("told %q, idle before: %v; want %q, %v", got, idle, c.told, c.idle)
				}
				if diff := cmp.Diff(c.asked, others.takeAsked()); diff != "" {
					t.Errorf("asked (-want +got):\n%s", diff)
				}
				end()
			})
		})
	}
}

// startReader starts a crawl with a strategy. end waits until the agent is idle, and ends the crawl.
func startReader(t *testing.T, r *reader, others interface {
	Placement
	Exchange
}) (w *world, end func()) {
	t.Helper()
	s := newStory(t, "dns a.own.example 192.0.2.1\nhttp://a.own.example/ 200\nhttp://a.own.example/1 200\n")
	s.strategy, s.name = func(disk.FS) (visit.Strategy, error) { return r, nil }, "a1"
	s.among(Others{Placement: others, Exchange: others}, nil, nil)
	w, stop := s.start(t, testdisk.NewMem())
	return w, func() {
		for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			if p, err := w.cl.Pulse(t.Context()); err != nil || time.Since(began) > time.Minute {
				t.Fatalf("the agent is not idle: %+v, %v", p, err)
			} else if p.Idle {
				if agreed, err := w.cl.End(t.Context(), p.Activity); agreed && err == nil {
					break
				}
			}
		}
		synctest.Wait()
		if why := stop(); why != crawl.Finished {
			t.Errorf("stop %s", why)
		}
	}
}

// TestRecalled: an agent answers what its strategy knows. It accepts a link that it does not know, if
// it is the owner of the URL. A state that no message may have is none.
func TestRecalled(t *testing.T) {
	if handoff.MaxState != visit.MaxState {
		t.Errorf("a state has up to %d bytes, and %d in a record", visit.MaxState, handoff.MaxState)
	}
	synctest.Test(t, func(t *testing.T) {
		mine := static{func(host string) (string, bool) {
			return "a1", strings.HasSuffix(host, ".own.example")
		}}
		r := &reader{told: make(chan string, 1), states: map[string]string{"http://x.example/": "s",
			"http://x.example/most":  strings.Repeat("s", visit.MaxState),
			"http://x.example/large": strings.Repeat("s", visit.MaxState+1)}}
		w, end := startReader(t, r, mine)
		ask := func(url string, accept bool) string {
			t.Helper()
			q := &pb.RecallRequest{Count: 1, Links: link.Link{URL: weburl.MustParse(url), Hops: "L"}.AppendTo(nil),
				Accept: accept}
			r, err := w.cl.recalls.answer(t.Context(), rpc.Caller{Name: "b1"}, q)
			if err != nil || checkRecalled(q, r) != nil {
				t.Fatalf("%v, %v", r, err)
			}
			return fmt.Sprintf("%d %s", r.Answers[0].Verdict, r.Answers[0].State)
		}
		want := func(url string, accept bool, want string) {
			t.Helper()
			if got := ask(url, accept); got != want {
				t.Errorf("%s: %q, want %q", url, got, want)
			}
		}
		none, later := fmt.Sprint(recallNone, " "), fmt.Sprint(recallLater, " ")
		blocked := fmt.Sprint(recallBlocked, " ")
		want("http://x.example/", false, fmt.Sprint(recallKnown, " s"))
		want("http://x.example/most", false, fmt.Sprint(recallKnown, " ", strings.Repeat("s", visit.MaxState)))
		want("http://x.example/large", false, none)
		want("http://x.example/2", false, none)
		want("http://x.example/2", true, later) // this agent is not the owner
		want("http://a.own.example/1", false, none)
		want("http://a.own.example/1", true, later)
		time.Sleep(20 * time.Second)
		want("http://a.own.example/1", true, fmt.Sprint(recallKnown, " 200"))
		must.Do(t, w.Orders.Bar(t.Context(), []crawl.Bar{{Host: "a.own.example"}}))
		want("http://a.own.example/2", true, blocked)
		must.Do(t, w.Orders.Bar(t.Context(), nil))
		want("http://a.own.example/2", true, later)
		time.Sleep(20 * time.Second)
		want("http://a.own.example/2", true, fmt.Sprint(recallKnown, " 404"))
		delete(r.states, "http://a.own.example/2") // it is finished, and nothing is left to do
		want("http://a.own.example/2", true, none)
		end()
	})
}
