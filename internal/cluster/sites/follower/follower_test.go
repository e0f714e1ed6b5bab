package follower

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

const (
	addr    = "192.0.2.1:7480" // of the coordinator
	latency = 10 * time.Millisecond
)

var ours = rpc.ID{7}

func member(name string, state assignment.State) assignment.Member {
	return assignment.Member{Name: name, Instance: [16]byte{1}, Boot: 1, Capacity: 1, Addr: "192.0.2.9:7470",
		State: state}
}

// A world is a coordinator and the other agents, as the Follower of agent a meets them. It is the Calls, the Agent, the
// Crawl and the Visits of that Follower.
type world struct {
	*Follower

	mu      sync.Mutex // guards the fields below
	entries []assignment.Entry
	news    chan struct{} // closed with the next entry
	asked   []coordinator.Follow
	crawl   rpc.ID
	err     error           // of all calls to the coordinator
	silent  map[string]bool // agents that do not answer
	meets   map[string]int
	finish  []string
	told    []string // what the agent and its crawl loop are told
}

func (w *world) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) tell(format string, args ...any) {
	w.do(func() { w.told = append(w.told, fmt.Sprintf(format, args...)) })
}

// heard returns what was told since the last call.
func (w *world) heard() (s string) {
	synctest.Wait()
	w.do(func() { s, w.told = strings.Join(w.told, "; "), nil })
	return s
}

// add appends an entry of the coordinator.
func (w *world) add(e assignment.Entry) {
	w.do(func() {
		e.Number = uint64(len(w.entries)) + 1
		w.entries = append(w.entries, e)
		close(w.news)
		w.news = make(chan struct{})
	})
}

// roster appends a roster. Agents are up, unless "-" follows: they leave.
func (w *world) roster(ended bool, lost []assignment.Member, agents ...string) {
	r := &assignment.Roster{Ended: ended, Lost: lost}
	for _, name := range agents {
		m := member(strings.TrimSuffix(name, "-"), assignment.Up)
		if strings.HasSuffix(name, "-") {
			m.State = assignment.Leaving
		}
		r.Members = append(r.Members, m)
	}
	w.add(assignment.Entry{Roster: r})
	time.Sleep(10 * latency)
}

func (w *world) Follow(ctx context.Context, _ string, q coordinator.Follow) (a coordinator.Followed, err error) {
	var news chan struct{}
	w.do(func() {
		w.asked, err, news = append(w.asked, q), w.err, w.news
		if q.From <= uint64(len(w.entries)) {
			q.Wait = 0
		}
	})
	select {
	case <-time.After(latency):
	case <-ctx.Done():
	}
	if err == nil && q.Wait > 0 {
		select {
		case <-news:
		case <-time.After(q.Wait):
		case <-ctx.Done():
		}
	}
	if err != nil || ctx.Err() != nil {
		return a, errors.Join(err, ctx.Err())
	}
	w.do(func() {
		a.Last, a.Stamp, a.Crawl = uint64(len(w.entries)), q.Stamp+1, w.crawl
		for _, e := range w.entries {
			if e.Roster != nil {
				m, ok := e.Roster.Member("a")
				a.Term, a.Member = e.Number, ok && m.State == assignment.Up
			}
			if e.Number >= q.From {
				a.Entries = e.AppendTo(a.Entries)
			}
		}
	})
	return a, nil
}

// Discover answers by the names of the hosts.
func (w *world) Discover(_ context.Context, _ string, hosts []string, how assignment.How) (as []coordinator.HostAnswer,
	err error) {
	w.tell("discover %s %d", strings.Join(hosts, " "), how)
	for _, h := range hosts {
		a := coordinator.HostAnswer{State: coordinator.HostComing}
		switch h[0] {
		case 'd':
			a = coordinator.HostAnswer{State: coordinator.HostDead, After: time.Minute}
		case 'a':
			a.State = coordinator.HostAssigned
		}
		as = append(as, a)
	}
	w.do(func() { err = w.err })
	return as, err
}

func (w *world) Finish(_ context.Context, _ string, term, number uint64) (err error) {
	w.do(func() { w.finish, err = append(w.finish, fmt.Sprint(term, " ", number)), w.err })
	return err
}

func (w *world) Meet(ctx context.Context, m assignment.Member) error {
	silent := false
	w.do(func() { w.meets[m.Name]++; silent = w.silent[m.Name] })
	if silent {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (w *world) Waiting() (hosts, urls uint64) { return 3, 40 }
func (w *world) Unchecked(host string) bool    { return strings.HasPrefix(host, "free") }
func (w *world) Assigned(hosts ...string)      { w.tell("assigned %s", strings.Join(hosts, " ")) }
func (w *world) Unanswered()                   { w.tell("unanswered") }
func (w *world) ViewChanged()                  { w.tell("view changed") }
func (w *world) Resume()                       { w.tell("resume") }
func (w *world) CutAll() int                   { w.tell("cut"); return 2 }
func (w *world) TakeOver() {
	owner, _ := w.Peek("x.example")
	w.tell("take over, owner of x.example: %s", owner)
}
func (w *world) Lose(v *gossip.View, owner func(string) string) {
	var names []string
	for _, a := range v.Agents {
		names = append(names, a.Name)
	}
	before := "none"
	if owner != nil {
		before = owner("x.example")
	}
	w.tell("lose all but %s, lost %d, owner of x.example: %s", strings.Join(names, " "), len(v.Lost), before)
}

// story plays with the Follower of agent a in virtual time. The crawl loop takes calls.
func story(t *testing.T, play func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		fs := testdisk.NewMem()
		events, err := report.OpenEvents(fs, "events.jsonl", clock.System)
		must.Do(t, err)
		w := &world{news: make(chan struct{}), crawl: ours, silent: map[string]bool{}, meets: map[string]int{}}
		of := &members.Members{Self: gossip.Agent{Name: "a", Instance: [16]byte{1}, Boot: 1, Capacity: 2,
			Addr: "192.0.2.9:7470"}}
		of.SetCrawl(ours)
		w.Follower, err = Open(Config{Sites: sites.Config{FS: fs, Dir: "sites", Coordinators: []string{addr},
			MemoryBytes: 1 << 20, Clock: clock.System}, Members: of, Calls: w, Agent: w, Events: events,
			Settings: map[string]string{"partition": "sites"}})
		must.Do(t, err)
		w.Answer()
		w.Attach(w, w)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.Run(ctx); close(ended) }()
		play(t, w)
		cancel()
		<-ended
		must.Do(t, errors.Join(w.Close(), events.Close()))
	})
}

// An agent reads all that was decided before it asks to be up. It owns hosts when a roster has it, and the crawl begins
// when enough agents are up. Each roster is told before its owners are asked for, and when it is in effect.
func TestAgentJoins(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		ready := func(want int, why string) {
			t.Helper()
			if got := w.Ready(want); got != why {
				t.Errorf("ready: %q, want %q", got, why)
			}
		}
		ready(1, "the coordinators")
		w.add(assignment.Entry{Shares: []assignment.Share{{Agent: "b", Hosts: []string{"x.example"}}}})
		w.roster(false, nil, "b")
		ready(1, "the coordinators to take this agent into the crawl")
		if got := w.Owner("x.example"); got != "b" || w.May(time.Now()) {
			t.Errorf("x.example belongs to %q; may visit: %v", got, w.May(time.Now()))
		}
		var states []assignment.State
		w.do(func() {
			for _, q := range w.asked {
				states = append(states, q.Report.State)
				if q.Report.State == assignment.Joining && q.Wait > 0 {
					t.Errorf("waits for entries before it is up: %+v", q)
				}
			}
		})
		states = slices.Compact(states)
		if !slices.Equal(states, []assignment.State{assignment.Joining, assignment.Up}) {
			t.Errorf("the agent wants %v", states)
		}
		w.heard()
		w.roster(false, []assignment.Member{member("b", assignment.Up)}, "a")
		want := "lose all but a, lost 1, owner of x.example: b; take over, owner of x.example: a; view changed; resume"
		time.Sleep(2 * rightEvery)
		if got := w.heard(); got != want {
			t.Errorf("told: %s\nwant: %s", got, want)
		}
		ready(1, "")
		ready(2, "the coordinators to take in 2 agents; they have 1")
		if a, ok := w.Agent("a"); !ok || a.State != gossip.Up || a.Addr != "192.0.2.9:7470" {
			t.Errorf("agent a is %+v", a)
		}
		if _, ok := w.Agent("b"); ok {
			t.Error("an agent that is lost is in the roster")
		}
		q := w.asked[len(w.asked)-1].Report
		if q.Capacity != 2 || q.Hosts != 3 || q.URLs != 40 || q.Term != 3 || q.Settings["partition"] != "sites" {
			t.Errorf("the agent reports %+v", q)
		}
	})
}

// Before the crawl has enough agents, no owner is known. A host of an earlier instance with this agent's name has none.
func TestOwnersThatAreNotKnown(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.asked = nil
		w.add(assignment.Entry{Shares: []assignment.Share{{Agent: "a", Hosts: []string{"x.example"}}}})
		other := member("a", assignment.Up)
		other.Instance[0] = 2
		w.add(assignment.Entry{Roster: &assignment.Roster{Members: []assignment.Member{other}}})
		time.Sleep(time.Second)
		if got, since := w.Tenure("x.example"); w.Owner("x.example") != "" || got != "" || since != 0 {
			t.Errorf("x.example belongs to %q since %d", got, since)
		}
		w.roster(false, nil, "a")
		name, since := w.Tenure("x.example")
		if w.Owner("x.example") != "a" || name != "a" || since == 0 {
			t.Errorf("x.example belongs to %q since %d", name, since)
		}
		w.Follower.asked.Store(false)
		if name, _ := w.Tenure("x.example"); w.Owner("x.example") != "" || name != "" {
			t.Error("an owner is known before the crawl has enough agents")
		}
	})
}

// What a coordinator refuses for good ends the crawl of the agent, and so does a coordinator of another crawl. All
// other errors may pass.
func TestErrorsOfCoordinators(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		q := sites.Question{From: 1}
		for _, c := range []struct {
			err    error
			lasts  bool
			leader string
			text   string
		}{
			{err: &rpc.NotLeader{Leader: "192.0.2.2:7480"}, leader: "192.0.2.2:7480"},
			{err: &rpc.Refusal{Reason: "settings"}, lasts: true},
			{err: &rpc.Refusal{Reason: "crawl"}, lasts: true},
			{err: &rpc.Refusal{Reason: "full"}, lasts: true},
			{err: &rpc.Refusal{Reason: "report"}, lasts: true},
			{err: &rpc.Refusal{Reason: "name"}},
			{err: rpc.ErrAgain, text: "it says to ask again later"},
			{err: errors.New("connection refused"), text: "connection refused"},
		} {
			w.do(func() { w.err = fmt.Errorf("call: %w", c.err) })
			_, err := w.Follower.Follow(t.Context(), addr, q)
			_, also := w.Follower.Discover(t.Context(), addr, []string{"a.example"}, 0)
			for _, err := range []error{err, also} {
				n, _ := errors.AsType[*sites.NotLeader](err)
				if errors.Is(err, sites.ErrRefused) != c.lasts || (n != nil) != (c.leader != "") ||
					n != nil && n.Leader != c.leader || err == nil || !strings.Contains(err.Error(), c.text) {
					t.Errorf("%v: %v", c.err, err)
				}
			}
		}
		w.do(func() { w.err, w.crawl = nil, rpc.ID{8} })
		if _, err := w.Follower.Follow(t.Context(), addr, q); !errors.Is(err, sites.ErrRefused) ||
			!strings.Contains(err.Error(), ours.String()) {
			t.Errorf("the answer of another crawl: %v", err)
		}
		if err := <-w.Failed(); !errors.Is(err, sites.ErrRefused) {
			t.Errorf("the end of following: %v", err)
		}
	})
}

// Hosts that may have no address here are asked for without looking for it. Each answer stays with its host.
func TestDiscover(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.heard()
		hosts := []string{"coming", "free-a", "dead", "assigned"}
		got, err := w.Follower.Discover(t.Context(), addr, hosts, 0)
		want := []sites.Decision{{State: sites.Coming}, {State: sites.Coming}, {State: sites.Dead, After: time.Minute},
			{State: sites.Assigned}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
		_, err = w.Follower.Discover(t.Context(), addr, hosts[:2], assignment.Unchecked)
		must.Do(t, err)
		_, err = w.Follower.Discover(t.Context(), addr, hosts[:2], assignment.Kept)
		must.Do(t, err)
		asked := "discover coming dead assigned 0; discover free-a 1; discover coming free-a 1; " +
			"discover coming free-a 2"
		if s := w.heard(); s != asked {
			t.Errorf("asked: %s\nwant: %s", s, asked)
		}
	})
}

// While the coordinators are away, an agent keeps the right to start visits as long as the others answer it: it asks
// each of them at most once a second, one question at a time. Without an answer it ends the visits under way. When the
// coordinators are back, visits begin again. An agent that has ended ends no visits.
func TestRightToVisit(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.roster(false, nil, "a", "b")
		w.do(func() { w.err = errors.New("connection refused") })
		time.Sleep(time.Minute)
		if got := w.heard(); !strings.HasSuffix(got, "resume") || strings.Contains(got, "cut") || !w.May(time.Now()) {
			t.Errorf("while b answers: %s", got)
		}
		if n := w.meets["b"]; n < 3 || n > 61 {
			t.Errorf("%d questions to b in a minute", n)
		}
		w.do(func() { w.silent["b"], w.meets["b"] = true, 0 })
		time.Sleep(time.Minute)
		if got := w.heard(); got != "cut" || w.May(time.Now()) || w.meets["b"] > 31 {
			t.Errorf("while b is silent: %s; %d questions", got, w.meets["b"])
		}
		w.do(func() { w.silent["b"] = false })
		if time.Sleep(time.Minute); w.heard() != "" || w.May(time.Now()) {
			t.Error("the answer of b alone gives the right back")
		}
		w.do(func() { w.err = nil })
		if time.Sleep(time.Minute); w.heard() != "resume" || !w.May(time.Now()) {
			t.Error("the agent may not visit when the coordinators are back")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.Leave(ctx) // which gives the right back
		if w.roster(false, nil, "b"); w.heard() == "" || w.May(time.Now()) {
			t.Error("an agent that has left may visit")
		}
		if time.Sleep(time.Minute); strings.Contains(w.heard(), "cut") {
			t.Error("visits end after the agent has left")
		}
	})
}

// The coordinators hear at once that the agent leaves, stays, or has ended, although they had no news for it.
func TestLeave(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.Leave(t.Context()) // there is no roster: nobody knows the agent
		w.roster(false, nil, "a", "b")
		said := func() (s assignment.State) {
			time.Sleep(2 * latency)
			w.do(func() { s = w.asked[len(w.asked)-1].Report.State })
			return s
		}
		if w.WillLeave(); said() != assignment.Leaving || w.IsLast() {
			t.Errorf("wants %v, is the last one: %v", said(), w.IsLast())
		}
		if w.roster(false, nil, "a-"); !w.IsLast() {
			t.Error("an agent that leaves alone is not the last one")
		}
		if w.Stays(); said() != assignment.Up || w.IsLast() {
			t.Errorf("wants %v, is the last one: %v", said(), w.IsLast())
		}
		began := time.Now()
		w.do(func() { w.err = errors.New("connection refused") })
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if w.Leave(ctx); time.Since(began) != 3*time.Second {
			t.Errorf("an agent whose coordinators are away waits %s", time.Since(began))
		}
		w.do(func() { w.err = nil })
		if w.Leave(t.Context()); said() != assignment.Gone || time.Since(began) > time.Minute {
			t.Errorf("says %v after %s", said(), time.Since(began))
		}
	})
}

// All agents end the crawl at one point of the stream. An agent that has read on does not agree. Without coordinators
// nobody is told.
func TestFinish(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		view := &gossip.View{Agents: []gossip.Agent{{Name: "a", Instance: [16]byte{1}, State: gossip.Up}}}
		if w.Agrees(view) {
			t.Error("agrees without a roster")
		}
		w.roster(false, nil, "a")
		at := w.At()
		for name, change := range map[string]func(v *gossip.View){
			"":               func(*gossip.View) {},
			"an agent joins": func(v *gossip.View) { v.Agents = append(v.Agents, gossip.Agent{Name: "b"}) },
			"another agent is up": func(v *gossip.View) {
				v.Agents = append(v.Agents, gossip.Agent{Name: "b", State: gossip.Up})
			},
			"it is another one":     func(v *gossip.View) { v.Agents[0].Instance[0] = 2 },
			"an agent is not there": func(v *gossip.View) { v.Agents = nil },
		} {
			v := &gossip.View{Agents: slices.Clone(view.Agents)}
			if change(v); w.Agrees(v) != (name == "" || name == "an agent joins") {
				t.Errorf("%s: agrees %v", name, w.Agrees(v))
			}
		}
		if !w.Follower.Finish(t.Context(), at) || !slices.Equal(w.finish, []string{"1 1"}) {
			t.Errorf("told %v", w.finish)
		}
		w.do(func() { w.err = &rpc.Refusal{Reason: "busy"} })
		began := time.Now()
		if w.Follower.Finish(t.Context(), at) || time.Since(began) != finishWait {
			t.Errorf("finished, or after %s", time.Since(began))
		}
		w.do(func() { w.err = nil })
		w.roster(false, nil, "a", "b")
		time.Sleep(time.Minute) // the coordinator was away
		if next := w.At(); next == at || next.Digest(view) == at.Digest(view) || w.Follower.Finish(t.Context(), at) {
			t.Error("an agent that has read on agrees")
		}
		w.heard()
		w.roster(true, nil, "a", "b")
		<-w.Over()
		if got := w.heard(); got != "" || !w.Follower.Finish(t.Context(), at) || w.Ready(9) != "" {
			t.Errorf("the last roster: told %s", got)
		}
		w.Leave(t.Context()) // the coordinators need not hear it
		var none *Follower
		if !none.Finish(t.Context(), Point{}) || !none.Agrees(view) || none.At().Digest(view) != view.Digest() ||
			none.Ready(2) != "" || none.Changes() != nil || none.Failed() != nil {
			t.Error("an agent without coordinators waits for them")
		}
	})
}
