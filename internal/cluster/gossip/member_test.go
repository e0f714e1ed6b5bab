package gossip

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// story runs agents in virtual time.
func story(t *testing.T, run func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, testseed.New(t))
		defer w.end()
		run(t, w)
	})
}

// five returns agents that are up and know each other.
func five(w *world) []*agent {
	var out []*agent
	for i := range 5 {
		a := w.agent(fmt.Sprintf("a%d", i+1))
		a.mustStart(out...)
		out = append(out, a)
	}
	w.settle(out...)
	return out
}

// TestDeath: all agents drop a killed agent soon and remember it as lost. When it comes back with
// the same instance, they know it again.
func TestDeath(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		all := five(w)
		dead := all[2]
		instance := dead.self.Instance
		seq := all[0].m.View().Seq
		dead.kill()
		rest := append(slices.Clone(all[:2]), all[3:]...)
		took := w.settle(rest...)
		t.Logf("dropped by all after %v", took)
		if took > 12*time.Second {
			t.Errorf("it took %v until all had dropped the dead agent", took)
		}
		w.lost(rest, instance)
		if got := all[0].m.View().Seq; got <= seq {
			t.Errorf("views %d, then %d", seq, got)
		}
		select {
		case <-all[0].m.Changes():
		default:
			t.Error("no change was reported")
		}
		dead.mustStart(all[4])
		w.settle(all...)
		w.lost(all)
		for _, a := range all {
			if boot := a.m.View().self(dead).Boot; boot != 2 {
				t.Errorf("%s: boot %d", a.self.Name, boot)
			}
		}
	})
}

// TestQuickRestart: an agent comes back before its death was noticed. It must not be taken for its
// earlier run.
func TestQuickRestart(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		all := five(w)
		all[1].kill()
		all[1].mustStart(all[0])
		w.settle(all...)
		for _, a := range all {
			if v := a.m.View(); v.self(all[1]).Boot != 2 || len(v.Lost) != 0 {
				t.Errorf("%s sees %v, lost %v", a.self.Name, names(v.Agents), names(v.Lost))
			}
		}
	})
}

// TestLeaving: an orderly end is not a failure, and the others see each state.
func TestLeaving(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		all := five(w)
		if err := all[3].m.Announce(t.Context(), Leaving); err != nil {
			t.Error(err)
		}
		w.settle(all...)
		if got := all[0].m.View().self(all[3]).State; got != Leaving {
			t.Errorf("state %s", got)
		}
		begin := time.Now()
		all[3].leave()
		rest := append(slices.Clone(all[:3]), all[4])
		w.settle(rest...)
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("leaving took %v", took)
		}
		time.Sleep(2 * time.Minute) // nor taken for dead later
		w.lost(rest)
		// It may come back.
		all[3].mustStart(all[0])
		w.settle(all...)
	})
}

// TestGoneEarlier: an agent that left has started again. Another agent that was cut off meanwhile
// brings old news to one that has never heard of the earlier life: the agent has left, and has
// announced Gone. The agent disappears from the view until it contradicts. It must be in Lost then,
// because it has not announced Gone in this life.
func TestGoneEarlier(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		near, far, back := w.agent("a1"), w.agent("a2"), w.agent("a3")
		near.open()
		far.open()
		node := func(boot uint64, s State) *memberlist.Node {
			back.self.Boot, back.self.State = boot, s
			meta := appendMeta(nil, back.self)
			return &memberlist.Node{Name: "a3", Addr: net.IPv4(10, 0, 0, 3), Port: 7470, Meta: meta}
		}
		delegate{far.m}.NotifyJoin(node(1, Gone))
		to := delegate{near.m}
		to.NotifyJoin(node(2, Up))
		to.NotifyLeave(node(2, Up))
		to.MergeRemoteState(delegate{far.m}.LocalState(false), false)
		if v := near.m.View(); len(v.Agents) != 1 || len(v.Lost) != 1 || v.Lost[0].Boot != 2 {
			t.Errorf("after old news: sees %v, has lost %v", names(v.Agents), names(v.Lost))
		}
		to.NotifyJoin(node(2, Up))
		to.NotifyLeave(node(2, Up))
		if v := near.m.View(); len(v.Lost) != 1 {
			t.Errorf("lost again: has lost %v", names(v.Lost))
		}
		delegate{far.m}.NotifyUpdate(node(2, Gone))
		to.MergeRemoteState(delegate{far.m}.LocalState(false), false)
		if v := near.m.View(); len(v.Lost) != 0 {
			t.Errorf("it has announced Gone: has lost %v", names(v.Lost))
		}
	})
}

// TestEnded: the view has the lives that have ended in order, those of an earlier run, too. An agent may say before
// that it ends, while it leaves. It is back when it is up again, and lost if a later life goes without a word.
func TestEnded(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		near, back := w.agent("a1"), w.agent("a3")
		near.ended = []Ending{{Life{[16]byte{9}, 4}, true}}
		near.open()
		to := delegate{near.m}
		node := func(boot uint64, s State) *memberlist.Node {
			back.self.Boot, back.self.State = boot, s
			meta := appendMeta(nil, back.self)
			return &memberlist.Node{Name: "a3", Addr: net.IPv4(10, 0, 0, 3), Port: 7470, Meta: meta}
		}
		join := func(boot uint64, s State) { to.NotifyJoin(node(boot, s)) }
		leave := func(boot uint64, s State) { to.NotifyLeave(node(boot, s)) }
		const none = 0
		for i, c := range []struct {
			do   func()
			boot uint64 // of its life that has ended
			lost int
			left bool
		}{
			{func() { join(1, Up) }, none, 0, false},
			{func() { join(1, Gone) }, 1, 0, false},
			{func() { leave(1, Gone) }, 1, 0, false},
			{func() { join(2, Joining) }, none, 0, false},
			{func() { leave(2, Joining) }, none, 1, false},
			{func() { join(3, Leaving) }, none, 0, false},
			{func() { near.m.Leaves(Life{back.self.Instance, 3}) }, 3, 0, true},
			{func() { join(3, Leaving) }, 3, 0, true}, // this agent has met it again
			{func() { join(3, Up) }, none, 0, false},  // all agents were leaving, and it stays
			{func() { near.m.Leaves(Life{back.self.Instance, 3}) }, 3, 0, true},
			{func() { join(3, Gone) }, 3, 0, true},
			{func() { leave(3, Leaving) }, 3, 0, true}, // killed after it had said so
			{func() { join(4, Gone) }, 4, 0, false},    // it came back, and was stopped
			{func() { join(5, Leaving) }, none, 0, false},
			{func() { leave(5, Leaving) }, none, 1, false},
		} {
			c.do()
			want := []Ending{{Life{[16]byte{9}, 4}, true}}
			if c.boot != none {
				want = append(want, Ending{Life{back.self.Instance, c.boot}, c.left})
			}
			slices.SortFunc(want, func(a, b Ending) int { return slices.Compare(a.Instance[:], b.Instance[:]) })
			if v := near.m.View(); !slices.Equal(v.Ended, want) || len(v.Lost) != c.lost {
				t.Errorf("step %d: ended %v, lost %v; want %v, %d", i, v.Ended, v.Lost, want, c.lost)
			}
			other := w.agent(fmt.Sprint("b", i)) // it was away
			other.open()
			delegate{other.m}.MergeRemoteState(to.LocalState(false), false)
			if v := other.m.View(); !slices.Equal(v.Ended, want) {
				t.Errorf("step %d: another agent hears of %v, want %v", i, v.Ended, want)
			}
		}
	})
}

// TestSuccessor: another instance with the name of a dead agent must not be taken for that agent.
func TestSuccessor(t *testing.T) {
	for _, sameMachine := range []bool{true, false} {
		t.Run(fmt.Sprintf("same machine=%v", sameMachine), func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				all := five(w)
				old := all[2].self.Instance
				all[2].kill()
				w.settle(all[0], all[1], all[3], all[4])
				next := w.agent("a3")
				if sameMachine {
					next.addr, next.self.Addr, next.machine = all[2].addr, all[2].addr, all[2].machine
				}
				next.mustStart(all[0])
				now := []*agent{all[0], all[1], next, all[3], all[4]}
				w.settle(now...)
				time.Sleep(3 * time.Minute)
				w.settle(now...)
				for _, a := range now {
					v := a.m.View()
					if got, _ := v.Agent("a3"); got.Instance != next.self.Instance {
						t.Errorf("%s sees %v", a.self.Name, names(v.Agents))
					}
				}
				w.lost([]*agent{all[0], all[1], all[3], all[4]}, old)
				w.goOn(now...)
			})
		})
	}
}

// TestPartition: two halves are apart for so long that memberlist has forgotten the other half.
// They must become one cluster again by themselves.
func TestPartition(t *testing.T) {
	for _, apart := range []time.Duration{20 * time.Second, 10 * time.Minute} {
		t.Run(apart.String(), func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				var all []*agent
				for i := range 4 {
					a := w.agent(fmt.Sprintf("a%d", i+1))
					a.mustStart(all...)
					all = append(all, a)
				}
				w.settle(all...)
				w.partition(all[:2]...)
				w.settle(all[:2]...)
				w.settle(all[2:]...)
				time.Sleep(apart)
				w.settle(all[:2]...)
				w.settle(all[2:]...)
				w.heal()
				took := w.settle(all...)
				t.Logf("one view %v after the partition ended", took)
				if took > 90*time.Second {
					t.Errorf("one view only after %v", took)
				}
				w.lost(all)
			})
		})
	}
}

// TestFrozen: an agent that nothing reaches for 30 s is dropped, and comes back by itself.
func TestFrozen(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		all := five(w)
		w.partition(all[4])
		time.Sleep(30 * time.Second)
		for _, a := range all[:4] {
			if _, ok := a.m.View().Agent("a5"); ok {
				t.Errorf("%s still trusts the frozen one", a.self.Name)
			}
		}
		w.heal()
		t.Logf("back after %v", w.settle(all...))
		if got := all[0].m.View().self(all[4]); got.Boot != 1 {
			t.Errorf("boot %d", got.Boot)
		}
	})
}

// TestBadNetwork: with 20 % packet loss and 200 ms each way, agents can join. Agents are hardly
// ever dropped wrongly, and never for long.
func TestBadNetwork(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.loss, w.delay = 0.2, 200*time.Millisecond
		all := five(w)
		wrong, samples := 0, 0
		for range 1800 { // three minutes
			time.Sleep(100 * time.Millisecond)
			for _, a := range all {
				samples++
				if len(a.m.View().Agents) != len(all) {
					wrong++
				}
			}
		}
		share := float64(wrong) / float64(samples)
		t.Logf("a view was wrong %.3f %% of the time", 100*share)
		if share > 0.05 {
			t.Errorf("views were wrong %.1f %% of the time", 100*share)
		}
		w.settle(all...)
		all[1].kill()
		took := w.settle(all[0], all[2], all[3], all[4])
		t.Logf("a dead agent is dropped by all after %v", took)
	})
}

// TestNames: an agent that may not join is told why before it gossips.
func TestNames(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		all := five(w)
		refused := func(a *agent, want string) {
			t.Helper()
			boot := a.self.Boot
			if err := a.start(all[0]); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			a.self.Boot = boot
		}
		refused(w.agent("a2"), `agent name "a2" is in use by another agent, at 10.0.0.2:7470`)
		refused(w.agent("a1"), `agent name "a1" is in use by another agent, at 10.0.0.1:7470`)
		copied := w.agent("a2")
		copied.self.Instance = all[1].self.Instance
		refused(copied, "is running already, at 10.0.0.2:7470")
		renamed := w.agent("a9")
		renamed.self.Instance = all[1].self.Instance
		refused(renamed, `the crawl directory of agent "a9" is that of agent "a2"`)
		// Two new agents ask for the same name at once.
		first, second := w.agent("b"), w.agent("b")
		if err := all[0].m.Admit(first.self, time.Now()); err != nil {
			t.Error(err)
		}
		if err := all[0].m.Admit(first.self, time.Now()); err != nil {
			t.Errorf("asking twice: %v", err)
		}
		refused(second, "has just been given to another agent")
		time.Sleep(reserved)
		second.mustStart(all[0])
		w.settle(append(all, second)...)
	})
}

// TestRivals: two agents have the same name, each admitted on one side of a partition. Exactly one
// of them must stop, with the reason.
func TestRivals(t *testing.T) {
	for _, same := range []bool{false, true} {
		t.Run(fmt.Sprintf("same instance=%v", same), func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				all := five(w)
				one, two := w.agent("twin"), w.agent("twin")
				if same {
					two.self.Instance, two.self.Boot = one.self.Instance, 4
				}
				w.partition(all[0], all[1], one)
				one.mustStart(all[0])
				two.mustStart(all[2])
				w.settle(all[0], all[1], one)
				w.settle(all[2], all[3], all[4], two)
				stay, stop := one, two
				if stops(one.m.View().self(one), two.m.View().self(two)) {
					stay, stop = two, one
				}
				w.heal()
				var conflict *ConflictError
				select {
				case err := <-stop.m.Failed():
					if !errors.As(err, &conflict) || !strings.Contains(err.Error(), stay.addr) {
						t.Errorf("%v", err)
					}
				case err := <-stay.m.Failed():
					t.Errorf("the wrong one stops: %v", err)
				case <-time.After(10 * time.Minute):
					t.Error("both go on")
				}
				stop.kill()
				w.settle(append(slices.Clone(all), stay)...)
				time.Sleep(time.Minute)
				w.goOn(stay)
			})
		})
	}
}

// TestOthersGossip: an agent with another label or another secret cannot join, even if Hello
// succeeds.
func TestOthersGossip(t *testing.T) {
	secret := func(b byte) []byte { return slices.Repeat([]byte{b}, 32) }
	for name, change := range map[string]func(w *world){
		"label":     func(w *world) { w.label = "another crawl" },
		"secret":    func(w *world) { w.secret = secret(2) },
		"no secret": func(w *world) { w.secret = nil },
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, w *world) {
				w.secret = secret(1)
				a, b, c := w.agent("a"), w.agent("b"), w.agent("c")
				a.mustStart()
				b.mustStart(a)
				w.settle(a, b)
				change(w)
				c.open()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := c.m.Join(ctx, []string{a.addr}); !errors.Is(err, ErrNobody) {
					t.Errorf("Join: %v", err)
				}
				time.Sleep(time.Minute)
				w.settle(a, b)
				if err := c.sees(c); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestJoin starts agents in several orders.
func TestJoin(t *testing.T) {
	t.Run("each joins the other", func(t *testing.T) {
		story(t, func(t *testing.T, w *world) {
			a, b := w.agent("a"), w.agent("b")
			done := make(chan error)
			go func() { done <- a.start(b) }()
			go func() { time.Sleep(3 * time.Second); done <- b.start(a) }()
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			w.settle(a, b)
		})
	})
	t.Run("only itself", func(t *testing.T) {
		story(t, func(t *testing.T, w *world) {
			a := w.agent("a")
			a.mustStart(a)
			if err := a.sees(a); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("no agent, then alone, then found", func(t *testing.T) {
		story(t, func(t *testing.T, w *world) {
			a, b := w.agent("a"), w.agent("b")
			a.open()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := a.m.Join(ctx, []string{b.addr}); !errors.Is(err, ErrNobody) ||
				!strings.Contains(err.Error(), b.addr) {
				t.Errorf("Join: %v", err)
			}
			if err := a.m.Found(); err != nil {
				t.Error(err)
			}
			if err := a.m.Announce(t.Context(), Up); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Minute)
			b.mustStart()
			w.settle(a, b)
		})
	})
}

// TestRandom causes random faults of six agents. At the end the running agents must see exactly
// each other.
func TestRandom(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		var all []*agent
		for i := range 6 {
			all = append(all, w.agent(fmt.Sprintf("a%d", i+1)))
		}
		all[0].mustStart()
		var log []string
		for range 40 {
			a := all[w.dice.IntN(len(all))]
			running := w.running()
			what := "wait"
			switch w.dice.IntN(6) {
			case 0, 1, 2:
				if a.m == nil {
					what = "start " + a.self.Name
					if len(running) > 0 && w.sides == nil {
						if err := a.start(running[w.dice.IntN(len(running))]); err != nil {
							t.Errorf("start %s: %v", a.self.Name, err)
						}
					} else if w.sides == nil {
						// All are dead: this agent starts alone, and knows addresses of others.
						a.open()
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
						err := a.m.Join(ctx, []string{all[0].addr, all[1].addr})
						cancel()
						if errors.Is(err, ErrNobody) {
							err = a.m.Found()
						}
						if err != nil {
							t.Error(err)
						}
						a.m.Announce(t.Context(), Up)
					}
				} else if w.sides == nil && len(running) > 1 {
					what = "kill " + a.self.Name
					a.kill()
				}
			case 3:
				if a.m != nil && len(running) > 1 && w.sides == nil {
					what = "leave " + a.self.Name
					a.leave()
				}
			case 4:
				if w.sides == nil && len(running) > 1 {
					what = "partition"
					w.partition(running[:1+w.dice.IntN(len(running)-1)]...)
				}
			case 5:
				what = "heal"
				w.heal()
			}
			log = append(log, what)
			time.Sleep(time.Duration(w.dice.Int64N(int64(20 * time.Second))))
		}
		w.heal()
		t.Log(strings.Join(log, ", "))
		t.Logf("%d agents have one view after %v", len(w.running()), w.settle(w.running()...))
		w.goOn(w.running()...)
	})
}

// TestStops: of two living rivals exactly one stops.
func TestStops(t *testing.T) {
	rng := testseed.Rand(t)
	for range 10000 {
		make1 := func() Agent {
			return Agent{Name: "a", Instance: [16]byte{byte(rng.IntN(3))}, Boot: uint64(rng.IntN(3)),
				State: State(1 + rng.IntN(2)), Addr: fmt.Sprintf("h:%d", 1+rng.IntN(3))}
		}
		a, b := make1(), make1()
		if a.Addr == b.Addr {
			continue // an address has one agent
		}
		if stops(a, b) == stops(b, a) {
			t.Fatalf("%+v and %+v: both %v", a, b, stops(a, b))
		}
	}
}

func TestPause(t *testing.T) {
	for _, c := range []struct {
		tries  int
		chance float64
		want   time.Duration
	}{{0, 1, time.Second}, {1, 1, time.Second}, {2, 0, time.Second}, {3, 1, 4 * time.Second}, {6, 1, 30 * time.Second},
		{1 << 40, 0, 15 * time.Second}} {
		if got := pause(time.Second, 30*time.Second, c.tries, c.chance); got != c.want {
			t.Errorf("pause after %d tries, %v: %v, want %v", c.tries, c.chance, got, c.want)
		}
	}
}

// FuzzMeta: decoded data is encoded to the same bytes, and fits. Package placement can divide hosts by its capacity.
func FuzzMeta(f *testing.F) {
	full := Agent{Name: "a", Capacity: 1.5, Instance: [16]byte{1, 2}, Boot: math.MaxUint64,
		Addr: strings.Repeat("h", 249) + ":65535", State: Gone}
	if n := len(appendMeta(nil, full)); n > 512 || full.check() != nil {
		f.Fatalf("%d octets, %v", n, full.check())
	}
	f.Add(appendMeta(nil, full))
	f.Add(appendMeta(nil, Agent{Capacity: math.NaN(), State: Up, Addr: "h:1"}))
	f.Add(appendMeta(nil, Agent{Capacity: 2, State: 9, Addr: "[::1]:1"}))
	f.Add(appendMeta(nil, Agent{Capacity: 1001, State: Up, Addr: "[::1]:1"}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseMeta("a", b)
		if err != nil {
			return
		}
		again := appendMeta(nil, a)
		if len(again) > 512 || a.Capacity > 1000 {
			t.Fatalf("%d octets, capacity %g", len(again), a.Capacity)
		}
		if got, err := parseMeta("a", again); err != nil || got != a {
			t.Fatalf("%+v is %+v, %v", a, got, err)
		}
	})
}
