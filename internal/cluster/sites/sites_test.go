package sites

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// bubble runs a test in virtual time.
func bubble(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, fn)
}

func (a *subject) owns(host, want string) {
	a.t.Helper()
	if got, mine := a.Owner(host); got != want || mine != (want == "a") {
		a.t.Errorf("after %v the owner of %s is %q (mine: %t), want %q", time.Since(a.began), host, got, mine, want)
	}
}

// A new host goes to the coordinators. Its owner is known when the entry has come; the first look-up has no answer.
func TestNewHost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a", "b")
		a := start(t, f, testdisk.NewMem(), nil)
		sleep(time.Second)
		for _, h := range []string{"x.example", "y.example", "x.example"} {
			a.owns(h, "")
		}
		sleep(2 * time.Second)
		a.owns("x.example", "a")
		a.owns("y.example", "b")
		// Gathered for 100 ms, asked, looked up, and told.
		at := a.when("x.example") - time.Second
		want := gather + latency + f.lookup
		if at < want || at > want+latency || a.when("y.example") != at+time.Second {
			t.Errorf("the owner of a new host is known after %v, want %v", at, want)
		}
		if f.calls != 1 || f.asked["x.example"] != 1 {
			t.Errorf("%d questions, of them %d for one host; want 1", f.calls, f.asked["x.example"])
		}
		st := a.Status()
		if st.Waiting != 0 || st.Asked != 2 || st.Assigned != 2 || st.Discovered != 2 || st.Number != 2 ||
			st.Term != 1 || st.Leader != c1 || st.Waits != "" || st.Misses != 3 ||
			st.Hits != 2 || st.Hosts != 2 || st.Cached != 2 {
			t.Errorf("status: %+v", st)
		}
		if !a.Right().May(time.Now()) {
			t.Error("the agent may not start visits:", a.Right().Why(time.Now()))
		}
		must.Do(t, a.stop())
	})
}

// A host without an address waits for the time that the coordinators give, and is asked for again. The second time
// that none is found is the last: the host is assigned, and its owner finishes its links.
func TestDeadHost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a")
		f.dead["x.example"] = 1000 // the third question is unchecked
		a := start(t, f, testdisk.NewMem(), nil)
		a.Owner("x.example")
		sleep(20 * time.Second)
		st := a.Status()
		if st.Dead != 1 || st.Unknown != 1 || st.Waits != "1 host has no agent yet (without an address: 1)" {
			t.Errorf("status: %+v", st)
		}
		want := "has no agent yet; the coordinators have found no address of it, since 20s, and are asked again in 10s"
		if got := a.Explain("x.example"); got != want || !a.Waits("x.example") {
			t.Errorf("the host %s, waits: %t; want %s", got, a.Waits("x.example"), want)
		}
		sleep(50 * time.Second)
		if at := a.when("x.example"); at < time.Minute || at > time.Minute+time.Second || f.asked["x.example"] != 3 {
			t.Errorf("the owner is known after %v and %d questions, want 1m and 3", at, f.asked["x.example"])
		}
		must.Do(t, a.stop())
	})
}

// A person's question about a host has no consequences: the coordinators do not hear of the host.
func TestExplainAsksNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a", "b")
		a := start(t, f, testdisk.NewMem(), nil)
		sleep(time.Second)
		f.change(func() { f.assign("x.example", "y.example") })
		sleep(time.Second)
		for host, want := range map[string]string{
			"y.example": "was assigned to agent b by entry 2",
			"z.example": "has no agent as of entry 2, and this agent asks for none",
		} {
			must.Get(a.Lookup(t.Context(), []string{host}))(t)
			if got := a.Explain(host); got != want || a.Waits(host) {
				t.Errorf("%s %s, waits: %t; want %s", host, got, a.Waits(host), want)
			}
		}
		if agent, mine := a.Peek("y.example"); agent != "b" || mine {
			t.Errorf("Peek: y.example belongs to %q, mine: %t", agent, mine)
		}
		if agent, mine := a.Peek("z.example"); agent != "" || mine {
			t.Errorf("Peek: z.example belongs to %q, mine: %t", agent, mine)
		}
		sleep(time.Minute)
		if st := a.Status(); st.Waiting != 0 || st.Asked != 0 || len(f.asked) != 0 {
			t.Errorf("the coordinators were asked for %v; status: %+v", f.asked, st)
		}
		must.Do(t, a.stop())
	})
}

// While all coordinators are away, what is known stays known, new hosts wait, and the status says so. Alone in the
// roster, the agent keeps its right.
func TestCoordinatorsAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a")
		a := start(t, f, testdisk.NewMem(), nil)
		a.Owner("x.example")
		sleep(time.Second)
		f.change(func() { f.away = map[string]bool{c1: true, c2: true, c3: true} })
		sleep(2 * time.Second)
		for i := range 120 {
			a.Owner(fmt.Sprintf("h%d.example", i))
		}
		before := f.knocks()
		sleep(time.Minute)
		a.owns("x.example", "a")
		want := "waiting for the coordinators (192.0.2.1:7480: connection refused; " +
			"192.0.2.2:7480: connection refused; 192.0.2.3:7480: connection refused): 120 hosts have no agent yet"
		if st := a.Status(); st.Waits != want || st.Leader != "" || f.calls != 1 {
			t.Errorf("status: %q, leader %q, %d questions", st.Waits, st.Leader, f.calls)
		}
		if n := f.knocks() - before; n > 200 || n < 100 {
			t.Errorf("the agent has knocked %d times in a minute, want about 180", n)
		}
		if !a.Right().May(time.Now()) {
			t.Error("the agent may not start visits:", a.Right().Why(time.Now()))
		}
		f.change(func() { f.away, f.leader = map[string]bool{}, c3 })
		sleep(3 * time.Second)
		for i := range 120 {
			a.owns(fmt.Sprintf("h%d.example", i), "a")
		}
		if st := a.Status(); st.Waits != "" || st.Leader != c3 {
			t.Errorf("status: %q, leader %q", st.Waits, st.Leader)
		}
		must.Do(t, a.stop())
	})
}

// The agent finds the leader: by what the others say, or by asking one after the other.
func TestLeaderChanges(t *testing.T) {
	for name, set := range map[string]func(f *fake){
		"named":         func(f *fake) { f.leader = c3 },
		"not named":     func(f *fake) { f.leader, f.hint = c3, false },
		"mute":          func(f *fake) { f.leader, f.hint, f.mute[c1] = c3, false, true },
		"gone":          func(f *fake) { f.leader, f.away[c1], f.away[c2] = c3, true, true },
		"wrongly named": func(f *fake) { f.leader = c3; f.fail[c2] = func() error { return &NotLeader{c1} } },
		"named in turns": func(f *fake) {
			f.leader = c3
			f.fail[c1] = func() error { return &NotLeader{c2} }
			f.fail[c2] = func() error { return &NotLeader{c1} }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake("a", "b")
				a := start(t, f, testdisk.NewMem(), nil)
				sleep(2 * time.Second)
				f.change(func() { set(f) })
				a.Owner("x.example")
				sleep(8 * time.Second)
				a.owns("x.example", "a")
				if st := a.Status(); st.Leader != f.leader {
					t.Errorf("leader %q, want %q", st.Leader, f.leader)
				}
				if n := f.knocks(); n > 60 {
					t.Errorf("the agent has asked %d times in 10 s", n)
				}
				// Each coordinator has its own stamps: they count its answers.
				if q := f.last[c3]; q.Stamp == 0 || q.Stamp >= uint64(f.follows[c3]) {
					t.Errorf("the last stamp is %d after %d questions", q.Stamp, f.follows[c3])
				}
				must.Do(t, a.stop())
			})
		})
	}
}

// A leader that is replaced may forget hosts that it has promised to assign: the agent asks again.
func TestForgottenPromise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a")
		f.lookup = -1 // never
		a := start(t, f, testdisk.NewMem(), nil)
		a.Owner("x.example")
		sleep(time.Minute)
		if n := f.asked["x.example"]; n != 4 { // after 0, 5, 15 and 35 s
			t.Errorf("%d questions in a minute, want 4", n)
		}
		f.change(func() { f.lookup = 0 })
		sleep(time.Minute)
		a.owns("x.example", "a")
		must.Do(t, a.stop())
	})
}

// Many hosts at once are asked for in several questions.
func TestManyNewHosts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a")
		a := start(t, f, testdisk.NewMem(), nil)
		sleep(time.Second)
		const hosts = 2*batch + 5
		for i := range hosts {
			a.Owner(fmt.Sprintf("h%d.example", i))
		}
		sleep(time.Second)
		if st := a.Status(); st.Assigned != hosts || st.Waiting != 0 || f.calls != 3 {
			t.Errorf("%d questions, status %+v", f.calls, st)
		}
		must.Do(t, a.stop())
	})
}

// Hosts that find no room to wait are asked for again when there is room.
func TestOverflow(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a")
		a := start(t, f, testdisk.NewMem(), func(c *Config) { c.Waiting = 100 })
		sleep(time.Second)
		for i := range 150 {
			a.Owner(fmt.Sprintf("h%d.example", i))
		}
		if st := a.Status(); st.Waiting != 100 || st.Refused != 50 {
			t.Errorf("status: %+v", st)
		}
		sleep(time.Second)
		if st := a.Status(); a.drained != 1 || st.Waiting != 0 || st.Overflows != 1 {
			t.Errorf("told %d times that there is room, want once; status %+v", a.drained, st)
		}
		for i := range 150 {
			a.Owner(fmt.Sprintf("h%d.example", i))
		}
		sleep(time.Second)
		for i := range 150 {
			a.owns(fmt.Sprintf("h%d.example", i), "a")
		}
		if a.drained != 1 {
			t.Errorf("told %d times that there is room, want once", a.drained)
		}
		must.Do(t, a.stop())
	})
}

// With a small cache and a small table in RAM, the owners of all hosts are found: on disk, in batches, and by
// Lookup. After a clean stop the agent reads on where it was; after a kill where the table was.
func TestManyHosts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const hosts = 3000
		f := newFake("a", "b", "c")
		name := func(i int) string { return fmt.Sprintf("h%d.example", i) }
		for i := 0; i < hosts; i += 100 {
			var some []string
			for j := range 100 {
				some = append(some, name(i+j))
			}
			f.assign(some...)
		}
		f.max = 3
		disk := testdisk.NewMem()
		small := func(c *Config) { c.MemoryBytes = 16 << 10 }
		a := start(t, f, disk, small)
		sleep(5 * time.Second)
		if len(a.rosters) != 1 {
			t.Errorf("rosters in effect: %v", a.rosters)
		}
		a.verify(t, f, hosts, name)
		if st := a.Status(); st.Found == 0 || st.Cached > 16<<10/4/setBytes*ways || st.DiskBytes == 0 || f.calls != 0 {
			t.Errorf("status: %+v, and %d questions to the coordinators", st, f.calls)
		}
		killed := disk.Clone()
		must.Do(t, a.stop())
		for what, d := range map[string]*testdisk.Mem{"stop": disk, "kill": killed} {
			f.change(func() { f.assign(what + ".example"); clear(f.last) })
			var first Question
			b := start(t, f, d, func(c *Config) {
				small(c)
				c.Source = spy{f, func(q Question) {
					if first.From == 0 {
						first = q
					}
				}}
			})
			sleep(5 * time.Second)
			whole := uint64(1 + hosts/100)
			if what == "stop" && first.From <= whole || first.From == 1 {
				t.Errorf("after a %s the agent asks for entry %d and what follows; it had %d", what, first.From, whole)
			}
			b.verify(t, f, hosts, name)
			must.Do(t, b.stop())
		}
	})
}

// A spy sees the questions.
type spy struct {
	Source
	see func(Question)
}

func (s spy) Follow(ctx context.Context, addr string, q Question) (Answer, error) {
	s.see(q)
	return s.Source.Follow(ctx, addr, q)
}

// verify compares all owners with the fake's, by Owner and by Lookup.
func (a *subject) verify(t *testing.T, f *fake, hosts int, name func(int) string) {
	t.Helper()
	want := map[string]string{}
	for _, e := range f.entries {
		for _, s := range e.Shares {
			for _, h := range s.Hosts {
				want[h] = s.Agent
			}
		}
	}
	var all []string
	for i := range hosts {
		all = append(all, name(i))
	}
	for part := range slices.Chunk(all, 50) {
		var asked []string
		a.mu.Lock()
		clear(a.told)
		a.mu.Unlock()
		for _, h := range part {
			got, _ := a.Owner(h)
			if got == "" {
				asked = append(asked, h)
			} else if got != want[h] {
				t.Fatalf("the owner of %s is %q, want %q", h, got, want[h])
			}
		}
		sleep(3 * time.Second) // enough to read a damaged table again
		for _, h := range asked {
			if got, _ := a.Owner(h); got != want[h] && got != "" || a.when(h) < 0 {
				t.Fatalf("the owner of %s is %q, want %q; told after %v", h, got, want[h], a.when(h))
			}
		}
	}
	got, err := a.Lookup(t.Context(), append(all, "new.example"))
	must.Do(t, err)
	for i, h := range all {
		if got[i] != want[h] {
			t.Fatalf("by Lookup the owner of %s is %q, want %q", h, got[i], want[h])
		}
	}
	if got[len(all)] != "" {
		t.Fatalf("new.example has the owner %q", got[len(all)])
	}
}

// What a coordinator says is checked. The agent goes on with another coordinator, or later.
func TestBadAnswers(t *testing.T) {
	for name, bad := range map[string]func(*Answer){
		"garbage":  func(a *Answer) { a.Entries = []byte("garbage") },
		"torn":     func(a *Answer) { a.Entries = a.Entries[:max(0, len(a.Entries)-1)] },
		"changed":  func(a *Answer) { slices.Reverse(a.Entries) },
		"repeated": func(a *Answer) { a.Entries = append(a.Entries, a.Entries...) },
		"behind":   func(a *Answer) { a.Last, a.Entries = 0, nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake("a")
				a := start(t, f, testdisk.NewMem(), nil)
				sleep(time.Second)
				f.change(func() {
					f.mangle = bad
					f.assign("x.example")
				})
				sleep(3 * time.Second)
				st := a.Status()
				if !strings.HasPrefix(st.Waits, "waiting for the coordinators (192.0.2.1:7480: ") || st.Number != 1 {
					t.Errorf("status: %d %q", st.Number, st.Waits)
				}
				if n := f.knocks(); n > 60 {
					t.Errorf("the agent has asked %d times", n)
				}
				f.change(func() { f.mangle = nil })
				a.Owner("x.example")
				sleep(3 * time.Second)
				a.owns("x.example", "a")
				must.Do(t, a.stop())
			})
		})
	}
}

// Verdicts that do not fit the question count as a failure. The pauses grow.
func TestBadVerdicts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a")
		f.verdict = func(vs []Decision) []Decision { return vs[1:] }
		a := start(t, f, testdisk.NewMem(), nil)
		f.lookup = -1
		a.Owner("x.example")
		sleep(30 * time.Second)
		if f.calls < 8 || f.calls > 14 {
			t.Errorf("%d questions in 30 s, want about 11", f.calls)
		}
		f.change(func() { f.verdict, f.lookup = nil, 0 })
		sleep(6 * time.Second)
		a.owns("x.example", "a")
		must.Do(t, a.stop())
	})
}

// An agent that the coordinators refuse stops with their words.
func TestRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a")
		f.fail[c1] = func() error { return fmt.Errorf("%w: --partition differs", ErrRefused) }
		a := start(t, f, testdisk.NewMem(), nil)
		sleep(time.Second)
		if _, err := a.Lookup(t.Context(), []string{"x.example"}); !errors.Is(err, ErrOver) {
			t.Errorf("Lookup: %v", err)
		}
		if err := a.stop(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--partition differs") {
			t.Errorf("Run: %v", err)
		}
	})
}

// An agent that the last roster does not have may not start visits, also if an old answer said so. A roster with it
// gives the right back.
func TestTakenOffTheRoster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake("a", "b")
		a := start(t, f, testdisk.NewMem(), nil)
		a.Owner("x.example") // a's
		sleep(2 * time.Second)
		explain := func(want string) {
			t.Helper()
			if got := a.Explain("x.example"); got != want {
				t.Errorf("the host %s; want %s", got, want)
			}
		}
		explain("was assigned to agent a by entry 2")
		members, before := f.members, a.Owners()
		f.change(func() { f.members = members[1:]; f.roster() })
		sleep(time.Second)
		a.owns("x.example", "b")
		explain("was assigned to agent a by entry 2; that agent is away, so the host belongs to agent b")
		if got := before("x.example"); got != "a" || before("y.example") != "" {
			t.Errorf("by the roster before, the owner of x.example is %q", got)
		}
		if st := a.Status(); a.Right().May(time.Now()) || !strings.Contains(st.Waits, "have not taken this agent") {
			t.Errorf("the agent may start visits; status: %q", st.Waits)
		}
		f.change(func() { f.members = members; f.roster() })
		sleep(time.Second)
		if _, mine, since := a.Tenure("x.example"); !mine || since != a.View() || !a.Right().May(time.Now()) {
			t.Errorf("mine: %t since %d, roster %d", mine, since, a.View())
		}
		if !slices.Equal(a.rosters, []uint64{1, 3, 4}) {
			t.Errorf("rosters in effect: %v", a.rosters)
		}
		must.Do(t, a.stop())
	})
}
