package coordinator

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// TestJourney follows hosts from Discover to the stream, with two agents.
func TestJourney(t *testing.T) {
	bubble(t, func(t *testing.T) {
		asked := map[string]int{}
		var mu sync.Mutex
		g := newGroup(t, 1, Config{Exists: func(ctx context.Context, host string) bool {
			mu.Lock()
			asked[host]++
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			return !strings.HasPrefix(host, "dead")
		}})
		times := func(host string) int {
			mu.Lock()
			defer mu.Unlock()
			return asked[host]
		}
		w := newWorld(t, testseed.Rand(t), g)
		a, b := w.start("a", 1), w.start("b", 1)
		time.Sleep(2 * time.Second)
		if !a.has(time.Now()) || !b.has(time.Now()) {
			t.Fatal("the agents have no right to start visits")
		}
		var hosts []string
		for i := range 100 {
			hosts = append(hosts, fmt.Sprintf("h%d.example", i))
		}
		begin := time.Now()
		for _, answer := range a.discover(append(hosts, "dead1.example")...)[:100] {
			if answer.State != HostAssigned {
				t.Fatalf("got %v", answer)
			}
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %v", took)
		}
		dead := b.discover("dead1.example", hosts[0])
		if dead[0].State != HostDead || dead[0].After > time.Minute || dead[1].State != HostAssigned {
			t.Errorf("got %v", dead)
		}
		time.Sleep(dead[0].After)
		if again := b.discover("dead1.example"); again[0].State != HostAssigned || times("dead1.example") != 2 {
			t.Errorf("after its second look-up a dead host is %v, looked up %d times", again[0], times("dead1.example"))
		}
		time.Sleep(time.Second)
		if !reflect.DeepEqual(a.all(), b.all()) || times("h5.example") != 1 {
			t.Error("the agents have read different entries, or a host was looked up again")
		}
		s := g.members[0].c.Status()
		if !s.Leads || s.Hosts != 101 || s.Pending != 0 || s.NoAddress != 2 && s.NoAddress != 1 || len(s.Agents) != 2 ||
			s.Agents[0].Hosts+s.Agents[1].Hosts != 101 || s.Agents[0].Read != s.Entries || s.Agents[0].State != "up" {
			t.Errorf("status %+v", s)
		}
	})
}

// TestLeaderKilled lets leaders change while agents ask for hosts, and while commands end with an unknown outcome. No
// host may be lost or assigned twice, and all agents read the same.
func TestLeaderKilled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := testseed.Rand(t)
		g := newGroup(t, 3, Config{Exists: func(ctx context.Context, host string) bool {
			time.Sleep(50 * time.Millisecond)
			return true
		}})
		w := newWorld(t, r, g)
		g.disturb(func() time.Duration { return 5 * w.delay() }, func() bool { return w.chance(10) })

		peers := []*peer{w.start("a", 1), w.start("b", 2), w.start("c", 1)}
		var wg sync.WaitGroup
		for i, p := range peers {
			wg.Go(func() {
				for n := range 20 {
					var hosts []string
					for j := range 40 {
						hosts = append(hosts, fmt.Sprintf("h%d.example", i*400+n*20+j)) // others ask for some of them
					}
					p.discover(hosts...)
				}
			})
		}
		for range 12 {
			time.Sleep(time.Duration(w.number(700)) * time.Millisecond)
			g.lead(-1)
			time.Sleep(time.Duration(w.number(300)) * time.Millisecond)
			g.lead(w.number(3))
		}
		g.disturb(nil, nil)
		wg.Wait()
		time.Sleep(2 * time.Second)
		owner := map[string]string{}
		for _, e := range peers[0].all() {
			for _, s := range e.Shares {
				for _, h := range s.Hosts {
					if owner[h] != "" {
						t.Errorf("%s is assigned twice", h)
					}
					owner[h] = s.Agent
				}
			}
		}
		if len(owner) != 800+400+20 {
			t.Errorf("%d hosts", len(owner))
		}
		for _, p := range peers[1:] {
			if !reflect.DeepEqual(p.all(), peers[0].all()) {
				t.Errorf("agents %s and a have read different entries", p.name)
			}
		}
		if g.members[0].machine.Digest() != g.members[2].machine.Digest() {
			t.Error("the coordinators differ")
		}
	})
}

func (w *world) number(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.r.IntN(n)
}

func (w *world) chance(percent int) bool { return w.number(100) < percent }

// TestNeverTwoOwners cuts, slows, kills and restarts at random. At no time may an agent that the coordinators have
// taken off the roster have the right to start visits. At the end the agents that are dead are lost, and the others
// are up.
func TestNeverTwoOwners(t *testing.T) {
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			r := testseed.Rand(t)
			bubble(t, func(t *testing.T) {
				g := newGroup(t, 2, Config{})
				w := newWorld(t, r, g)
				names := []string{"a", "b", "c", "d"}
				for _, n := range names {
					w.start(n, 1)
				}
				time.Sleep(3 * time.Second)
				g.disturb(func() time.Duration { return 2 * w.delay() }, func() bool { return w.chance(5) })
				alive := map[string]bool{"a": true, "b": true, "c": true, "d": true}
				lost := 0
				step := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
						lost += w.judge(names)
					}
				}
				for range 60 {
					n := names[w.number(4)]
					switch w.number(8) {
					case 0:
						w.cutOff(n, true)
					case 1, 2:
						w.cutOff(n, false)
					case 3:
						w.part(n, names[w.number(4)], true)
					case 4:
						for _, o := range names {
							w.part(n, o, w.chance(40))
						}
					case 5:
						if alive[n] {
							w.kill(n)
						} else {
							w.start(n, 1)
						}
						alive[n] = !alive[n]
					case 6:
						g.lead(w.number(3) - 1)
					case 7:
						w.mu.Lock()
						w.slow = []time.Duration{0, 100 * time.Millisecond, 2 * time.Second}[w.r.IntN(3)]
						w.mu.Unlock()
					}
					step(time.Duration(w.number(5000)) * time.Millisecond)
				}
				w.mu.Lock()
				w.slow, w.apart = 0, map[[2]string]bool{}
				w.mu.Unlock()
				g.lead(0)
				if !alive["a"] {
					w.start("a", 1)
					alive["a"] = true
				}
				for _, n := range names {
					w.cutOff(n, false)
				}
				step(40 * time.Second)
				roster, since, read := g.members[0].machine.progress()
				for _, n := range names {
					m, ok := roster.Member(n)
					witness := false
					for _, o := range names {
						witness = witness || alive[o] && since[o] > 0 && since[o] <= max(since[n], read[n])
					}
					switch {
					case alive[n] && (!ok || m.State != assignment.Up):
						t.Errorf("agent %s lives, in the roster: %v, %+v", n, ok, m)
					case !alive[n] && ok && witness:
						t.Errorf("agent %s is dead, and still in the roster: %+v", n, m)
					case !alive[n] && ok: // all others came after the last roster that it may have read
						if err := g.members[0].c.Forget(t.Context(), n); err != nil {
							t.Errorf("forget %s: %v", n, err)
						}
					}
				}
				if len(g.members[0].machine.Roster().Lost) != 4-len(g.members[0].machine.Roster().Members) {
					t.Errorf("at the end: %+v", g.members[0].machine.Roster())
				}
				t.Logf("%d times an agent was lost when judged, %d rosters", lost, roster.Term)
			})
		})
	}
}

// cutOff cuts an agent off from the coordinators, or connects it again.
func (w *world) cutOff(name string, cut bool) {
	w.mu.Lock()
	p := w.peers[name]
	w.mu.Unlock()
	p.mu.Lock()
	p.cut = cut
	p.mu.Unlock()
}

// part cuts two agents off from each other, or connects them again.
func (w *world) part(a, b string, apart bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apart[[2]string{min(a, b), max(a, b)}] = apart
}

// judge counts the agents that are lost, and fails if one of them may start visits.
func (w *world) judge(names []string) (lost int) {
	roster, now := w.g.members[0].machine.Roster(), time.Now()
	for _, n := range names {
		if slices.ContainsFunc(roster.Lost, func(m assignment.Member) bool { return m.Name == n }) {
			w.mu.Lock()
			p := w.peers[n]
			w.mu.Unlock()
			if lost++; p.has(now) {
				w.t.Errorf("agent %s is lost in term %d, and may start visits by term %d", n, roster.Term,
					p.last().Term)
			}
		}
	}
	return lost
}

// TestHeardByAnother keeps an agent away from the coordinators. It stays in the roster while another agent hears it,
// and for LostAfter from then on.
func TestHeardByAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGroup(t, 1, Config{})
		w := newWorld(t, testseed.Rand(t), g)
		w.start("a", 1)
		w.start("b", 1)
		c := w.start("c", 1)
		time.Sleep(3 * time.Second)
		in := func() bool {
			r := g.members[0].machine.Roster()
			_, ok := r.Member("c")
			return ok
		}
		w.cutOff("c", true)
		w.part("a", "c", true)
		time.Sleep(5 * time.Minute)
		if !in() {
			t.Fatal("an agent was lost that another one heard")
		}
		if c.has(time.Now()) {
			t.Error("an agent may start visits that does not reach another one")
		}
		w.part("b", "c", true)
		time.Sleep(8 * time.Second)
		if !in() {
			t.Error("an agent was lost too early")
		}
		time.Sleep(4 * time.Second)
		if in() {
			t.Error("an agent that nobody hears was not lost")
		}
		if err := g.members[0].c.Forget(t.Context(), "b"); err == nil {
			t.Error("Forget took an agent that runs")
		}
		w.cutOff("c", false)
		time.Sleep(3 * time.Second)
		if !in() || len(g.members[0].machine.Roster().Lost) > 0 {
			t.Error("an agent that returned is not in the roster")
		}
		c.set(func() { c.wants = assignment.Leaving })
		time.Sleep(3 * time.Second)
		roster := g.members[0].machine.Roster()
		if m, _ := roster.Member("c"); m.State != assignment.Leaving {
			t.Errorf("an agent that leaves is %+v", m)
		}
		c.set(func() { c.wants = assignment.Gone })
		time.Sleep(3 * time.Second)
		if roster := g.members[0].machine.Roster(); in() || len(roster.Lost) > 0 {
			t.Errorf("an agent that is gone: %+v", roster)
		}
	})
}

// TestJoinersGetTheirShare: hosts wait for agents that are joining, but not for long.
func TestJoinersGetTheirShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGroup(t, 1, Config{})
		w := newWorld(t, testseed.Rand(t), g)
		a, b := w.start("a", 1), w.start("b", 1)
		b.set(func() { b.wants = assignment.Joining })
		time.Sleep(time.Second)
		go func() {
			time.Sleep(2 * time.Second)
			b.set(func() { b.wants = assignment.Up })
		}()
		share := func() (n int) {
			for _, e := range a.all() {
				for _, s := range e.Shares {
					if s.Agent == "b" {
						n += len(s.Hosts)
					}
				}
			}
			return n
		}
		a.discover("h1.example", "h2.example", "h3.example", "h4.example")
		time.Sleep(time.Second)
		if n := share(); n != 2 {
			t.Errorf("b got %d of 4 hosts, want 2", n)
		}
		c := w.start("c", 1)
		c.set(func() { c.wants = assignment.Joining }) // for ever
		time.Sleep(time.Second)
		begin := time.Now()
		a.discover("h5.example")
		if took := time.Since(begin); took < time.Second || took > joinTime {
			t.Errorf("with an agent that never joins, an assignment took %s", took)
		}
		begin = time.Now()
		a.discover("h6.example")
		if took := time.Since(begin); took > time.Second {
			t.Errorf("after %s, an assignment took %s", joinTime, took)
		}
	})
}

// TestFinish ends a crawl only when all agents agree.
func TestFinish(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGroup(t, 1, Config{})
		w := newWorld(t, testseed.Rand(t), g)
		a, b := w.start("a", 1), w.start("b", 1)
		time.Sleep(3 * time.Second)
		c, m := g.members[0].c, g.members[0].machine
		a.discover("h.example")
		last, _ := m.Extent()
		term := m.Roster().Term
		if err := c.Finish(t.Context(), a.self, term, last); !errors.Is(err, ErrAgain) {
			t.Errorf("one of two agents: %v", err)
		}
		if err := c.Finish(t.Context(), b.self, term, last-1); !errors.Is(err, ErrAgain) {
			t.Errorf("at another entry: %v", err)
		}
		if err := c.Finish(t.Context(), Caller{Name: "x"}, term, last); !errors.As(err, new(*Refusal)) {
			t.Errorf("a stranger: %v", err)
		}
		if m.Roster().Ended {
			t.Fatal("ended")
		}
		var wg sync.WaitGroup
		for _, p := range []*peer{a, b} {
			wg.Go(func() {
				if err := c.Finish(t.Context(), p.self, term, last); err != nil {
					t.Errorf("agent %s: %v", p.name, err)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		if !m.Roster().Ended || !a.last().Ended || !b.last().Ended {
			t.Error("not ended")
		}
		if _, err := c.Discover(t.Context(), a.self, []string{"i.example"}, false); !errors.As(err, new(*Refusal)) {
			t.Errorf("Discover after the end: %v", err)
		}
		w.cutOff("a", true)
		time.Sleep(time.Minute)
		err := c.Forget(t.Context(), "a")
		if !errors.As(err, new(*Refusal)) || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("Forget after the end: %v", err)
		}
	})
}

// TestRefusals lists what an agent is told that cannot be a part of the crawl.
func TestRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGroup(t, 1, Config{})
		w := newWorld(t, testseed.Rand(t), g)
		a := w.start("a", 1)
		time.Sleep(3 * time.Second)
		crawl := g.members[0].machine.claimed().Crawl
		good := Follow{From: 1, Report: a.report}
		good.Report.State = assignment.Up
		for name, c := range map[string]struct {
			who  Caller
			f    func(f *Follow)
			want string
		}{
			"crawl": {Caller{Name: "x", Crawl: [16]byte{7}}, nil, "agent \"x\" belongs to crawl 07"},
			"settings": {Caller{Name: "x", Crawl: crawl}, func(f *Follow) {
				f.Report.Settings = map[string]string{"partition": "hash"}
			}, `agent "x" has partition "hash", the crawl has "sites": all agents must have the same`},
			"a setting more": {Caller{Name: "x"}, func(f *Follow) {
				f.Report.Settings = map[string]string{"partition": "sites", "new": "1"}
			}, `agent "x" has new "1", the crawl does not know it: all agents must have the same version`},
			"name": {Caller{Name: "a", Instance: [16]byte{9}}, nil,
				`agent "a" is in the crawl already, with another directory (at 192.0.2.9:7470): choose another name`},
			"an old start": {Caller{Name: "a", Instance: a.self.Instance}, nil,
				`agent "a" has been started again since this start`},
			"ahead": {Caller{Name: "x"}, func(f *Follow) { f.From = 1000 },
				`it has `},
			"capacity": {Caller{Name: "x"}, func(f *Follow) { f.Report.Capacity = -1 },
				`agent "x" reports: malformed entry: agent x: capacity -1`},
		} {
			f := good
			if c.f != nil {
				c.f(&f)
			}
			_, err := g.members[0].c.Follow(t.Context(), c.who, f)
			if !errors.As(err, new(*Refusal)) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", name, err, c.want)
			}
		}
		if _, err := g.members[0].c.Discover(t.Context(), Caller{Name: "x"}, nil, false); err == nil ||
			err.Error() != `agent "x" is not in the crawl's roster` {
			t.Errorf("a stranger's Discover: %v", err)
		}
		if _, err := g.members[0].c.Discover(t.Context(), a.self, []string{"A b"}, false); err == nil {
			t.Error("Discover took a malformed host")
		}
		g.lead(-1)
		time.Sleep(time.Second)
		if _, err := g.members[0].c.Follow(t.Context(), a.self, good); !errors.As(err, new(*NotLeader)) {
			t.Errorf("without a leader: %v", err)
		}
	})
}

// TestFairLookups lets one agent ask for hosts without end, whose look-ups hang. Another agent's hosts must not wait
// behind them, and memory is bounded.
func TestFairLookups(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGroup(t, 1, Config{Lookups: 8, MaxPending: 2000, MaxDead: 500, LookupTime: 2 * time.Second,
			Exists: func(ctx context.Context, host string) bool {
				if strings.HasPrefix(host, "h") {
					return true
				}
				<-ctx.Done()
				return false
			}})
		w := newWorld(t, testseed.Rand(t), g)
		a, b := w.start("a", 1), w.start("b", 1)
		time.Sleep(3 * time.Second)
		c := g.members[0].c
		for i := range 5 {
			var hosts []string
			for j := range 1000 {
				hosts = append(hosts, fmt.Sprintf("slow%d.example", i*1000+j))
			}
			as, err := c.Discover(t.Context(), a.self, hosts, false)
			if err != nil {
				t.Fatal(err)
			}
			if want := []HostState{HostComing, HostDead}[min(i, 1)]; as[999].State != want {
				t.Errorf("batch %d: the last host is %v, want %v", i, as[999].State, want)
			}
		}
		begin := time.Now()
		b.discover("h1.example", "h2.example")
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("another agent's hosts took %v", took)
		}
		time.Sleep(10 * time.Minute)
		if s := c.Status(); s.Pending != 0 || s.Dead > 500 || s.Hosts < 2+400 {
			t.Errorf("status %+v", s)
		}
		time.Sleep(time.Hour)
		if s := c.Status(); s.Dead != 0 {
			t.Errorf("after an hour %d hosts are remembered as dead", s.Dead)
		}
		if unchecked, err := c.Discover(t.Context(), a.self, []string{"slow-x.example"}, true); err != nil {
			t.Error(err)
		} else if time.Sleep(time.Second); unchecked[0].State != HostComing ||
			a.discover("slow-x.example")[0].State != HostAssigned {
			t.Error("an unchecked host was looked up")
		}
	})
}

// TestLeastLoadedByReports gives hosts to the agents whose reports have few URLs.
func TestLeastLoadedByReports(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGroup(t, 1, Config{LeastLoaded: true})
		w := newWorld(t, testseed.Rand(t), g)
		a, b := w.start("a", 1), w.start("b", 1)
		a.set(func() { a.report.Hosts, a.report.URLs = 10, 1000 })
		b.set(func() { b.report.Hosts, b.report.URLs = 10, 200 })
		time.Sleep(3 * time.Second)
		var hosts []string
		for i := range 60 {
			hosts = append(hosts, fmt.Sprintf("h%d.example", i))
		}
		a.discover(hosts...)
		// A host counts as 20 URLs. So b gets 40 more than a, and they share the other 20.
		s := g.members[0].c.Status()
		if s.Agents[0].Hosts != 10 || s.Agents[1].Hosts != 50 {
			t.Errorf("a has %d hosts, b %d", s.Agents[0].Hosts, s.Agents[1].Hosts)
		}
	})
}
