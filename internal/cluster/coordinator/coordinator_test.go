package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestJourney follows hosts from Discover to the stream, with two agents.
func TestJourney(t *testing.T) {
	asked := map[string]int{}
	var mu sync.Mutex
	times := func(host string) int {
		mu.Lock()
		defer mu.Unlock()
		return asked[host]
	}
	inWorld(t, coordinator.Config{Resolver: resolver(func(ctx context.Context, host string) bool {
		mu.Lock()
		asked[host]++
		mu.Unlock()
		time.Sleep(20 * time.Millisecond)
		return !strings.HasPrefix(host, "dead")
	})}, func(t *testing.T, w *world) {
		a, b := w.start("a", assignment.Up), w.start("b", assignment.Up)
		time.Sleep(2 * time.Second)
		if !a.isMember() || !b.isMember() {
			t.Fatal("the agents are not told that they are members")
		}
		var hosts []string
		for i := range 100 {
			hosts = append(hosts, fmt.Sprintf("h%d.example", i))
		}
		begin := time.Now()
		for _, answer := range a.discover(append(hosts, "dead1.example")...)[:100] {
			if answer.State != coordinator.HostAssigned {
				t.Fatalf("got %v", answer)
			}
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("it took %v", took)
		}
		dead := b.discover("dead1.example", hosts[0])
		if dead[0].State != coordinator.HostDead || dead[0].After > time.Minute ||
			dead[1].State != coordinator.HostAssigned {
			t.Errorf("got %v", dead)
		}
		time.Sleep(dead[0].After)
		again, n := b.discover("dead1.example"), times("dead1.example")
		if again[0].State != coordinator.HostAssigned || n != 2 {
			t.Errorf("after its second look-up a dead host is %v, looked up %d times", again[0], n)
		}
		time.Sleep(time.Second)
		if !reflect.DeepEqual(a.all(), b.all()) || times("h5.example") != 1 {
			t.Error("the agents have read different entries, or a host was looked up again")
		}
		s := w.c.Status()
		if !s.Leads || s.Hosts != 101 || s.Pending != 0 || s.NoAddress != 2 && s.NoAddress != 1 || len(s.Agents) != 2 ||
			s.Agents[0].Hosts+s.Agents[1].Hosts != 101 || s.Agents[0].Read != s.Entries || s.Agents[0].State != "up" {
			t.Errorf("status %+v", s)
		}
	})
}

// TestLost keeps an agent away from the coordinators. It stays in the roster while another agent hears it, and for
// LostAfter from then on, and while there are no fresh reports of others. A person may say that it does not run.
func TestLost(t *testing.T) {
	inWorld(t, coordinator.Config{}, func(t *testing.T, w *world) {
		a, b := w.start("a", assignment.Up), w.start("b", assignment.Up)
		c := w.start("c", assignment.Up)
		time.Sleep(3 * time.Second)
		in := func() bool {
			r := w.machine.Roster()
			_, ok := r.Member("c")
			return ok
		}
		c.connect(false)
		a.set(func() { a.silent["c"] = time.Now() })
		time.Sleep(5 * time.Minute)
		if !in() {
			t.Fatal("an agent was lost that another one heard")
		}
		b.set(func() { b.silent["c"] = time.Now() })
		time.Sleep(8 * time.Second)
		if !in() {
			t.Error("an agent was lost too early")
		}
		time.Sleep(4 * time.Second)
		if in() {
			t.Error("an agent that nobody hears was not lost")
		}
		if err := w.c.Forget(t.Context(), "b"); err == nil {
			t.Error("Forget took an agent that runs")
		}
		c.connect(true)
		time.Sleep(3 * time.Second)
		if !in() || !c.isMember() || len(w.machine.Roster().Lost) > 0 {
			t.Error("an agent that returned is not in the roster")
		}
		late := func(are bool) {
			for _, p := range []*peer{a, b} {
				p.set(func() { p.late = are })
			}
		}
		late(true)
		c.connect(false)
		time.Sleep(20 * time.Second)
		if !in() {
			t.Error("an agent was lost by reports that were made before others may have heard it")
		}
		late(false)
		time.Sleep(2 * time.Second)
		if in() {
			t.Error("an agent was not lost by fresh reports")
		}
		c.connect(true)
		time.Sleep(3 * time.Second)
		c.set(func() { c.report.State = assignment.Leaving })
		time.Sleep(3 * time.Second)
		roster := w.machine.Roster()
		if m, _ := roster.Member("c"); m.State != assignment.Leaving || c.isMember() {
			t.Errorf("an agent that leaves is %+v", m)
		}
		c.set(func() { c.report.State = assignment.Gone })
		time.Sleep(3 * time.Second)
		if roster := w.machine.Roster(); in() || len(roster.Lost) > 0 {
			t.Errorf("an agent that is gone: %+v", roster)
		}
		a.connect(false)
		b.connect(false)
		time.Sleep(time.Minute)
		if len(w.machine.Roster().Members) != 2 {
			t.Error("an agent was lost without a witness")
		}
		if err := w.c.Forget(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if r := w.machine.Roster(); len(r.Members) != 1 || len(r.Lost) != 1 || r.Lost[0].Name != "a" {
			t.Errorf("after Forget: %+v", r)
		}
	})
}

// TestJoinersGetTheirShare: hosts wait for agents that are joining, but not for long.
func TestJoinersGetTheirShare(t *testing.T) {
	inWorld(t, coordinator.Config{}, func(t *testing.T, w *world) {
		a, b := w.start("a", assignment.Up), w.start("b", assignment.Joining)
		time.Sleep(time.Second)
		go func() {
			time.Sleep(2 * time.Second)
			b.set(func() { b.report.State = assignment.Up })
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
		w.start("c", assignment.Joining) // for ever
		time.Sleep(time.Second)
		begin := time.Now()
		a.discover("h5.example")
		if took := time.Since(begin); took < time.Second || took > 5*time.Second {
			t.Errorf("with an agent that never joins, an assignment took %s", took)
		}
		begin = time.Now()
		a.discover("h6.example")
		if took := time.Since(begin); took > time.Second {
			t.Errorf("then an assignment took %s", took)
		}
	})
}

// TestFinish ends a crawl only when all agents agree.
func TestFinish(t *testing.T) {
	inWorld(t, coordinator.Config{}, func(t *testing.T, w *world) {
		a, b := w.start("a", assignment.Up), w.start("b", assignment.Up)
		time.Sleep(3 * time.Second)
		c, m := w.c, w.machine
		a.discover("h.example")
		last, _ := m.Extent()
		term := m.Roster().Term
		if err := c.Finish(t.Context(), a.self, term, last); !errors.Is(err, rpc.ErrAgain) {
			t.Errorf("one of two agents: %v", err)
		}
		if err := c.Finish(t.Context(), b.self, term, last-1); !errors.Is(err, rpc.ErrAgain) {
			t.Errorf("at another entry: %v", err)
		}
		if err := c.Finish(t.Context(), rpc.Caller{Name: "x"}, term, last); !refused(err) {
			t.Errorf("a stranger: %v", err)
		}
		if m.Roster().Ended {
			t.Fatal("ended")
		}
		var wg sync.WaitGroup
		for _, p := range []*peer{a, b} {
			wg.Go(func() {
				if err := c.Finish(t.Context(), p.self, term, last); err != nil {
					t.Errorf("agent %s: %v", p.self.Name, err)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		if !m.Roster().Ended || !a.ended() || !b.ended() {
			t.Error("not ended")
		}
		if _, err := c.Discover(t.Context(), a.self, []string{"i.example"}, 0); !refused(err) {
			t.Errorf("Discover after the end: %v", err)
		}
		a.connect(false)
		time.Sleep(time.Minute)
		err := c.Forget(t.Context(), "a")
		if !refused(err) || !strings.Contains(err.Error(), "has ended") {
			t.Errorf("Forget after the end: %v", err)
		}
	})
}

// TestRefusals lists what an agent is told that cannot be a part of the crawl.
func TestRefusals(t *testing.T) {
	inWorld(t, coordinator.Config{}, func(t *testing.T, w *world) {
		a := w.start("a", assignment.Up)
		time.Sleep(3 * time.Second)
		crawl := w.machine.Crawl()
		good := coordinator.Follow{From: 1, Report: a.report}
		good.Report.State = assignment.Up
		for name, c := range map[string]struct {
			who  rpc.Caller
			f    func(f *coordinator.Follow)
			want string
		}{
			"crawl": {rpc.Caller{Name: "x", Crawl: [16]byte{7}}, nil, "agent \"x\" belongs to crawl 07"},
			"settings": {rpc.Caller{Name: "x", Crawl: crawl}, func(f *coordinator.Follow) {
				f.Report.Settings = map[string]string{"partition": "hash"}
			}, `agent "x" has partition "hash", the crawl has "sites": all agents must have the same`},
			"a setting more": {rpc.Caller{Name: "x"}, func(f *coordinator.Follow) {
				f.Report.Settings = map[string]string{"partition": "sites", "new": "1"}
			}, `agent "x" has new "1", the crawl does not know it: all agents must have the same version`},
			"name": {rpc.Caller{Name: "a", Instance: [16]byte{9}}, nil,
				`agent "a" is in the crawl already, with another directory (at 192.0.2.9:7470): choose another name`},
			"an old start": {rpc.Caller{Name: "a", Instance: a.self.Instance}, nil,
				`agent "a" has been started again since this start`},
			"capacity": {rpc.Caller{Name: "x"}, func(f *coordinator.Follow) { f.Report.Capacity = -1 },
				`agent "x" reports: malformed entry: agent x: capacity -1`},
		} {
			f := good
			if c.f != nil {
				c.f(&f)
			}
			_, err := w.c.Follow(t.Context(), c.who, f)
			if !refused(err) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", name, err, c.want)
			}
		}
		if _, err := w.c.Discover(t.Context(), rpc.Caller{Name: "x"}, nil, 0); err == nil ||
			err.Error() != `agent "x" is not in the crawl's roster` {
			t.Errorf("a stranger's Discover: %v", err)
		}
		if _, err := w.c.Discover(t.Context(), a.self, []string{"A b"}, 0); err == nil {
			t.Error("Discover took a malformed host")
		}
		w.resign()
		time.Sleep(time.Second)
		if _, err := w.c.Follow(t.Context(), a.self, good); !errors.As(err, new(*rpc.NotLeader)) {
			t.Errorf("without a leader: %v", err)
		}
	})
}

// TestKept: hosts that an agent has from before are its own, in any mixture with others. If two agents ask for a host,
// the first one gets it.
func TestKept(t *testing.T) {
	inWorld(t, coordinator.Config{Resolver: resolver(func(_ context.Context, host string) bool {
		time.Sleep(20 * time.Millisecond)
		return !strings.HasPrefix(host, "kept") // they would have no address
	})}, func(t *testing.T, w *world) {
		a, b, c := w.start("a", assignment.Up), w.start("b", assignment.Up), w.start("c", assignment.Up)
		time.Sleep(2 * time.Second)
		name := func(kind string, i int) string { return fmt.Sprintf("%s%d.example", kind, i) }
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() { a.keep(assignment.Kept, name("kept-a", i)) })
			wg.Go(func() { b.keep(assignment.Kept, name("kept-b", i), name("kept-b", i+1)) })
			wg.Go(func() { c.discover(name("any", i)) })
		}
		wg.Wait()
		b.keep(assignment.Kept, name("kept-a", 0), "kept-b-new.example")
		time.Sleep(2 * time.Second)
		of, n := map[string]string{}, map[string]int{}
		for _, e := range a.all() {
			for _, share := range e.Shares {
				for _, h := range share.Hosts {
					if of[h] != "" {
						t.Errorf("%s is assigned twice", h)
					}
					of[h] = share.Agent
					n[h[:3]+share.Agent]++
				}
			}
		}
		for i := range 60 {
			if of[name("kept-a", i)] != "a" || of[name("kept-b", i)] != "b" {
				t.Errorf("%d: %q and %q", i, of[name("kept-a", i)], of[name("kept-b", i)])
			}
		}
		if of["kept-b-new.example"] != "b" || n["anya"] < 15 || n["anyb"] < 15 || n["anyc"] < 15 {
			t.Errorf("new: %s; others: %v", of["kept-b-new.example"], n)
		}
	})
}

// An agent that has entries of another log gets none of this one, and is not taken in.
func TestOtherLog(t *testing.T) {
	inWorld(t, coordinator.Config{}, func(t *testing.T, w *world) {
		a := w.start("a", assignment.Up)
		time.Sleep(3 * time.Second)
		q := coordinator.Follow{From: 1, Report: a.report}
		x := rpc.Caller{Name: "x", Boot: 2}
		first, err := w.c.Follow(t.Context(), x, q)
		if err != nil || len(first.Entries) == 0 || first.Group == [16]byte{} {
			t.Fatalf("%+v, %v", first, err)
		}
		time.Sleep(3 * time.Second)
		x.Name = "y"
		for name, of := range map[string]coordinator.Follow{
			"more entries":      {From: first.Last + 5},
			"another group":     {From: 1, Group: [16]byte{7}},
			"no group, as many": {From: first.Last + 3, Group: first.Group},
		} {
			q.From, q.Group = of.From, of.Group
			got, err := w.c.Follow(t.Context(), x, q)
			if err != nil || len(got.Entries) > 0 || got.Member || got.Group != first.Group || got.Last < first.Last {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		time.Sleep(3 * time.Second)
		roster := w.machine.Roster()
		if _, taken := roster.Member("y"); taken {
			t.Error("the agent was taken in")
		}
		if _, taken := roster.Member("x"); !taken {
			t.Error("the agent without entries was not taken in")
		}
	})
}

// resolver makes a Resolver of a function.
type resolver func(ctx context.Context, host string) bool

func (r resolver) Exists(ctx context.Context, host string) bool { return r(ctx, host) }

// TestFairLookups lets one agent ask for hosts without end, whose look-ups hang. Another agent's hosts must not wait
// behind them, and memory is bounded.
func TestFairLookups(t *testing.T) {
	inWorld(t, coordinator.Config{Lookups: 8, MaxPending: 2000, MaxDead: 500, LookupTime: 2 * time.Second,
		Resolver: resolver(func(ctx context.Context, host string) bool {
			if strings.HasPrefix(host, "h") {
				return true
			}
			<-ctx.Done()
			return false
		})}, func(t *testing.T, w *world) {
		a, b := w.start("a", assignment.Up), w.start("b", assignment.Up)
		time.Sleep(3 * time.Second)
		c := w.c
		for i := range 5 {
			var hosts []string
			for j := range 1000 {
				hosts = append(hosts, fmt.Sprintf("slow%d.example", i*1000+j))
			}
			as := must.Get(c.Discover(t.Context(), a.self, hosts, 0))(t)
			want := coordinator.HostComing
			if i > 0 {
				want = coordinator.HostDead
			}
			if as[999].State != want {
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
		unchecked, err := c.Discover(t.Context(), a.self, []string{"slow-x.example"}, assignment.Unchecked)
		if err != nil {
			t.Error(err)
		} else if time.Sleep(time.Second); unchecked[0].State != coordinator.HostComing ||
			a.discover("slow-x.example")[0].State != coordinator.HostAssigned {
			t.Error("an unchecked host was looked up")
		}
	})
}

// TestLeastLoadedByReports gives hosts to the agents whose reports have few URLs.
func TestLeastLoadedByReports(t *testing.T) {
	inWorld(t, coordinator.Config{LeastLoaded: true}, func(t *testing.T, w *world) {
		a, b := w.start("a", assignment.Up), w.start("b", assignment.Up)
		a.set(func() { a.report.Hosts, a.report.URLs = 10, 1000 })
		b.set(func() { b.report.Hosts, b.report.URLs = 10, 200 })
		time.Sleep(3 * time.Second)
		var hosts []string
		for i := range 60 {
			hosts = append(hosts, fmt.Sprintf("h%d.example", i))
		}
		a.discover(hosts...)
		// A host counts as 20 URLs. So b gets 40 more than a, and they share the other 20.
		s := w.c.Status()
		if s.Agents[0].Hosts != 10 || s.Agents[1].Hosts != 50 {
			t.Errorf("a has %d hosts, b %d", s.Agents[0].Hosts, s.Agents[1].Hosts)
		}
	})
}
