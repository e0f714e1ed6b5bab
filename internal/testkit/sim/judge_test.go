package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// newTestJudge returns a judge with a delay of 100 ms of a host, and of 50 ms of an address and a site.
func newTestJudge(t *testing.T) *judge {
	t.Helper()
	made := must.Get(gen.New(gen.Plain(1, 2)))(t)
	truth := must.Get(made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true}))(t)
	return newJudge(made, truth, 100*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond)
}

// TestJudge checks that the judge sees every broken rule, and reports no request that breaks none.
func TestJudge(t *testing.T) {
	at := netip.MustParseAddr
	a1 := testweb.OriginHost{Name: "a1.example", Site: "a1.example", Addr: at("127.0.0.1")}
	a2 := testweb.OriginHost{Name: "a2.example", Site: "a2.example", Addr: at("127.0.0.1")} // the same address
	b1 := testweb.OriginHost{Name: "b1.b.example", Site: "b.example", Addr: at("127.0.0.2")}
	b2 := testweb.OriginHost{Name: "b2.b.example", Site: "b.example", Addr: at("127.0.0.3")} // the same site
	page := testweb.Reply{Status: 200}
	for _, c := range []struct {
		name string
		play func(j *judge, ask func(h testweb.OriginHost, from, to int, r testweb.Reply))
		want []string
	}{
		{"polite", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(a1, 0, 10, page)
			ask(b1, 0, 10, page)
			ask(a2, 60, 70, page)
			ask(a1, 120, 130, page)
			ask(b2, 60, 70, page)
		}, nil},
		{"host", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(a1, 0, 10, page)
			ask(a1, 109, 120, page)
		}, []string{"gap host"}},
		{"address", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(a1, 0, 10, page)
			ask(a2, 59, 70, page)
		}, []string{"gap address"}},
		{"site", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(b1, 0, 10, page)
			ask(b2, 59, 70, page)
		}, []string{"gap site"}},
		{"retry-after", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(b1, 0, 10, testweb.Reply{Status: 503, RetryAfter: time.Second})
			ask(b1, 500, 510, page)
		}, []string{"retry-after host"}},
		{"retry-after that was not read", func(j *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(b1, 0, 10, testweb.Reply{Status: 503, RetryAfter: time.Second})
			j.dies(1, start.Add(8*time.Millisecond))
			ask(b1, 500, 510, page)
		}, nil},
		{"retry-after before the death", func(j *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(b1, 0, 10, testweb.Reply{Status: 503, RetryAfter: time.Second})
			j.dies(1, start.Add(11*time.Millisecond))
			j.dies(2, start.Add(8*time.Millisecond))
			ask(b1, 500, 510, page)
		}, []string{"retry-after host"}},
		{"robots", func(_ *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			ask(b1, 0, 10, testweb.Reply{Status: 200, Denied: true})
		}, []string{"robots host"}},
		{"concurrent", func(j *judge, ask func(testweb.OriginHost, int, int, testweb.Reply)) {
			j.begin(a1, 1, "/", start)
			ask(a2, 5, 10, page)
		}, []string{"concurrent address"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newTestJudge(t)
			c.play(j, func(h testweb.OriginHost, from, to int, r testweb.Reply) {
				r.Page = -1
				ms := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
				j.begin(h, 1, "/", ms(from)).end(0, r, ms(to), true)
			})
			var got []string
			for _, v := range j.violations {
				got = append(got, v.Kind+" "+v.Group)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// A separation explains that different agents repeat pages and come too close to each other while
// they are apart. It explains nothing about one agent, and nothing about agents that heard each other.
func TestSeparation(t *testing.T) {
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	fetch := func(agent, n int) fetched { return fetched{agent, at(n)} }
	offline := separation{from: at(10), to: at(50), between: of(3)}
	untold := separation{from: at(20), to: at(50), between: of(3), since: at(10), polite: true}
	last := excuse{agent: 1, from: at(10), to: at(11)} // a1 was killed
	old := []restore{{agent: 1, at: at(40), disk: at(20)}}
	for _, c := range []struct {
		name string
		j    *judge
		fs   []fetched // the last one is judged
		want bool
	}{
		{"no fault", &judge{}, []fetched{fetch(1, 20), fetch(2, 30)}, false},
		{"apart", &judge{apart: []separation{offline}}, []fetched{fetch(1, 5), fetch(3, 20)}, true},
		{"the other way round", &judge{apart: []separation{offline}}, []fetched{fetch(3, 20), fetch(1, 30)}, true},
		{"the same agent", &judge{apart: []separation{offline}}, []fetched{fetch(3, 20), fetch(3, 21)}, false},
		{"the same agent in between", &judge{apart: []separation{offline}},
			[]fetched{fetch(3, 20), fetch(1, 21), fetch(3, 22)}, false},
		{"both on one side", &judge{apart: []separation{offline}}, []fetched{fetch(1, 20), fetch(2, 30)}, false},
		{"before", &judge{apart: []separation{offline}}, []fetched{fetch(1, 5), fetch(3, 9)}, false},
		{"after", &judge{apart: []separation{offline}}, []fetched{fetch(1, 51), fetch(3, 60)}, false},
		{"fetched while apart, repeated later", &judge{apart: []separation{offline}},
			[]fetched{fetch(1, 20), fetch(3, 60)}, true},
		{"went down while apart", &judge{apart: []separation{untold}}, []fetched{fetch(3, 15), fetch(1, 30)}, true},
		{"fetched before, went down while apart", &judge{apart: []separation{untold}},
			[]fetched{fetch(3, 9), fetch(1, 30)}, false},
		{"killed", &judge{excuses: []excuse{last}}, []fetched{fetch(1, 10), fetch(2, 20)}, true},
		{"killed, the same agent", &judge{excuses: []excuse{last}}, []fetched{fetch(1, 10), fetch(1, 20)}, true},
		{"killed later", &judge{excuses: []excuse{last}}, []fetched{fetch(1, 9), fetch(1, 20)}, false},
		{"the repetition is killed", &judge{excuses: []excuse{last}}, []fetched{fetch(2, 5), fetch(1, 10)}, false},
		{"old disk, fetched by another", &judge{restores: old}, []fetched{fetch(2, 30), fetch(1, 50)}, true},
		{"old disk, fetched on another disk", &judge{restores: old}, []fetched{fetch(1, 10), fetch(1, 50)}, true},
		{"old disk, fetched on this disk", &judge{restores: old}, []fetched{fetch(1, 30), fetch(1, 50)}, false},
		{"old disk, fetched since", &judge{restores: old}, []fetched{fetch(2, 41), fetch(1, 50)}, false},
		{"replaced, and all can be heard", &judge{replaced: old}, []fetched{fetch(1, 10), fetch(1, 50)}, false},
		{"old disk of another", &judge{restores: old}, []fetched{fetch(1, 30), fetch(2, 50)}, false},
		{"killed once, fetched twice", &judge{excuses: []excuse{last}},
			[]fetched{fetch(1, 10), fetch(2, 20), fetch(2, 21)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := len(c.fs) - 1
			if got := c.j.mayFetch(0, 0, c.fs[:n], c.fs[n]); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
	j := judge{apart: []separation{offline}}
	for _, c := range []struct {
		kind         string
		agent, after int
		at           time.Duration
		want         bool
	}{
		{"gap", 1, 3, 20 * time.Second, true},
		{"concurrent", 3, 2, 50 * time.Second, true},
		{"retry-after", 3, 2, 20 * time.Second, true},
		{"retry-after", 3, 3, 20 * time.Second, false},
		{"gap", 3, 3, 20 * time.Second, false},
		{"concurrent", 1, 1, 20 * time.Second, false},
		{"gap", 1, 2, 20 * time.Second, false},
		{"gap", 1, 3, 51 * time.Second, false},
		{"gap", 1, 3, 9 * time.Second, false},
		{"robots", 3, 3, 20 * time.Second, false},
		{"robots", 1, 3, 20 * time.Second, false},
	} {
		if got := j.mayViolate(Violation{Kind: c.kind, Agent: c.agent, After: c.after, At: c.at}); got != c.want {
			t.Errorf("%s of a%d after a%d at %s: got %t, want %t", c.kind, c.agent, c.after, c.at, got, c.want)
		}
	}
}

// The requests of an agent are compared with its own last ones, also if another agent came between.
func TestOwnGap(t *testing.T) {
	j := newTestJudge(t)
	h := testweb.OriginHost{Name: "a1.example", Site: "a1.example", Addr: netip.MustParseAddr("127.0.0.1")}
	ask := func(agent, from, to int, r testweb.Reply) {
		ms := func(n int) time.Time { return start.Add(time.Duration(n) * time.Millisecond) }
		r.Page = -1
		j.begin(h, agent, "/", ms(from)).end(0, r, ms(to), true)
	}
	ask(1, 0, 10, testweb.Reply{Status: 429, RetryAfter: time.Second})
	ask(2, 20, 30, testweb.Reply{Status: 200})
	ask(1, 40, 50, testweb.Reply{Status: 200})
	var got []string
	for _, v := range j.violations {
		if v.Group == groupNames[byHost] {
			got = append(got, fmt.Sprintf("%s a%d after a%d", v.Kind, v.Agent, v.After))
		}
	}
	want := []string{"gap a2 after a1", "retry-after a2 after a1", "gap a1 after a1", "gap a1 after a2",
		"retry-after a1 after a1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A stall is excused by the faults that overlap it, each second of it once.
func TestStallsOverlap(t *testing.T) {
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	span := func(from, to int) excuse { return excuse{from: at(from), to: at(to)} }
	for _, c := range []struct {
		name  string
		spans []excuse
		want  time.Duration
	}{
		{"none", nil, 100 * time.Second},
		{"before and after", []excuse{span(0, 9), span(300, 400)}, 100 * time.Second},
		{"within", []excuse{span(150, 160), span(120, 130)}, 80 * time.Second},
		{"overlapping", []excuse{span(110, 140), span(120, 150), span(125, 130)}, 60 * time.Second},
		{"at both ends", []excuse{span(190, 300), span(0, 110)}, 80 * time.Second},
		{"all", []excuse{span(0, 150), span(150, 300)}, 0},
	} {
		if got := uncovered(at(100), at(200), c.spans); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// An agent must end soon after the last page, or after the last start or failure of an agent.
func TestIdle(t *testing.T) {
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	for _, c := range []struct {
		name       string
		ends       int
		lastPage   int
		otherBegan int
		requests   []time.Time
		explained  []excuse
		bad        bool
		otherFails int
	}{
		{"at once", 101, 100, 0, nil, nil, false, 0},
		{"before the last page", 50, 100, 0, nil, nil, false, 0},
		{"100 minutes later", 6100, 100, 0, nil, nil, true, 0},
		{"other requests meanwhile", 160, 100, 0, []time.Time{at(125), at(150)}, nil, false, 0},
		{"a request in the end", 160, 100, 0, []time.Time{at(159)}, nil, true, 0},
		{"soon after a restart", 120, 80, 105, nil, nil, false, 0},
		{"soon after a failure", 142, 112, 0, nil, nil, false, 114},
		{"long after a failure", 155, 112, 0, nil, nil, true, 114},
		{"after an outage", 6100, 100, 0, nil, []excuse{{from: at(90), to: at(6080)}}, false, 0},
		{"long after an outage", 6100, 100, 0, nil, []excuse{{from: at(0), to: at(6000)}}, true, 0},
	} {
		a, other := &actor{name: "a1", run: &process{at: at(c.ends), began: start}}, &actor{name: "a3"}
		if c.otherFails > 0 {
			other.down = at(c.otherFails)
		}
		s := &story{actors: []*actor{a, {name: "a2", run: &process{began: at(c.otherBegan)}}, other},
			judge: &judge{}}
		if wrong := s.idle(a, at(c.lastPage), c.requests, c.explained); (len(wrong) > 0) != c.bad {
			t.Errorf("%s: %v", c.name, wrong)
		}
	}
}

// The verdict as text says all that makes it bad.
func TestVerdictText(t *testing.T) {
	v := &Verdict{Beyond: 3, Stalled: true, Excused: make([]Violation, 2)}
	wants := []string{"3 fetches of pages that the crawl should not", "no fault explains", "2 more excused"}
	for _, want := range wants {
		if !strings.Contains(v.String(), want) {
			t.Errorf("the text does not say %q: %s", want, v)
		}
	}
}
