package termination

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
)

// story runs f in virtual time with a world of some agents.
func story(t *testing.T, agents int, seed uint64, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(ctx, t, agents, seed)
		f(t, w)
		cancel()
		w.running.Wait()
	})
}

// do does f with the lock.
func (w *world) do(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// All agents end when nothing holds them. While one of them has a reason not to end, none does.
func TestWhatHoldsTheEnd(t *testing.T) {
	long := 20 * time.Second
	for name, c := range map[string]struct{ hold, release func(w *world) }{
		"nothing": {},
		"a link is on its way": {
			func(w *world) {
				w.agents[0].disk.out = append(w.agents[0].disk.out, w.link(2))
				w.agents[2].silent = time.Now().Add(long)
			}, nil},
		"an agent is silent": {
			func(w *world) { w.agents[0].silent = time.Now().Add(long) }, nil},
		"an agent is silent that is not asked first": {
			func(w *world) { w.agents[2].silent = time.Now().Add(long) }, nil},
		"an agent is away and comes back": {
			func(w *world) { w.agents[1].kill(); w.agents[1].there = false },
			func(w *world) { w.start(1); w.truth[1].Boot = 2; w.change(w.truth) }},
		"an agent is away and is given up": {
			func(w *world) { w.agents[0].kill(); w.agents[0].there = false },
			func(w *world) { w.change(w.without("a0")) }},
		"something happens at an agent all the time": {
			func(w *world) {
				a := w.agents[1]
				for d := time.Duration(0); d < long; d += pulseEvery / 2 {
					a.after(d, func() { a.activity++ })
				}
			}, nil},
		"a saved state waits": {
			func(w *world) { w.agents[0].unclaimed = true },
			func(w *world) { w.agents[0].unclaimed = false }},
		"an agent that is not asked first owes links": {
			func(w *world) { w.agents[2].unclaimed = true },
			func(w *world) { w.agents[2].unclaimed = false }},
		"pages of a lost archive at the first": {
			func(w *world) { w.agents[0].disk.lost = append(w.agents[0].disk.lost, w.link(0)) },
			func(*world) { time.Sleep(refetchWait - long) }},
		"pages of a lost archive": {
			func(w *world) { w.agents[1].disk.lost = append(w.agents[1].disk.lost, w.link(1)) },
			func(*world) { time.Sleep(refetchWait - long) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, 3, 1, func(t *testing.T, w *world) {
				if c.hold != nil {
					w.do(func() { c.hold(w) })
					time.Sleep(long - time.Millisecond)
					if ended, _ := w.over(); ended > 0 {
						t.Errorf("%d agents have ended", ended)
					}
				}
				waits := 0
				switch {
				case strings.HasPrefix(name, "pages"): // which takes time
					c.release(w)
					if w.do(func() { waits = len(w.undone) }); waits == 0 {
						t.Error("fetched before refetchWait")
					}
				case c.release != nil:
					w.do(func() { c.release(w) })
				}
				time.Sleep(10 * time.Second)
				if ended, not := w.over(); not > 0 || ended < 2 {
					t.Errorf("%d agents have ended, %d have not", ended, not)
				}
			})
		})
	}
}

// An agent that is not idle says so, does not agree to end, and does not look whether the others are idle.
func TestEachAgentMustBeIdle(t *testing.T) {
	for name, hold := range map[string]func(a *agent){
		"a link waits":          func(a *agent) { a.stalled = true; a.accept(a.link(1)) },
		"has another view":      func(a *agent) { a.view = &gossip.View{Agents: a.without("a1")} },
		"has to apply its view": func(a *agent) { a.applied = false },
		"an agent may arrive":   func(a *agent) { a.expected["a9"] = time.Now().Add(time.Hour) },
	} {
		for i := range 3 {
			t.Run(fmt.Sprint(name, " ", i), func(t *testing.T) {
				t.Parallel()
				story(t, 3, 1, func(t *testing.T, w *world) {
					a, first := w.agents[i], w.agents[0]
					f := a.look()
					w.do(func() { hold(a) })
					p, err := a.pulse(t.Context(), rpc.Caller{}, &pb.PulseRequest{})
					if err != nil || p.Idle && p.View == f.view {
						t.Errorf("says %v, %v", p, err)
					}
					agreed, err := a.prepare(t.Context(), &pb.EndRequest{View: f.view, Activity: a.look().activity})
					if err != nil || agreed || !a.look().held.IsZero() || a.Ending() {
						t.Errorf("agreed %v, %v; %+v", agreed, err, a.look())
					}
					if _, idle := first.round(t.Context(), first.View(), follower.Point{}); idle {
						t.Error("the first agent finds all of them idle")
					}
					time.Sleep(20 * time.Second)
					if ended, _ := w.over(); ended > 0 {
						t.Errorf("%d have ended", ended)
					}
				})
			})
		}
	}
}

// link returns a new link that leads nowhere, of which the owner is agent i of all.
func (w *world) link(i int) waiting {
	for w.links%len(w.agents) != i {
		w.links++
	}
	w.links++
	w.undone[w.links-1] = true
	return waiting{id: w.links - 1}
}

// All agents must be idle in two rounds without activity in between. Then all end, and know that nothing was fetched.
func TestTwoRounds(t *testing.T) {
	story(t, 2, 1, func(t *testing.T, w *world) {
		time.Sleep(2*pulseEvery - time.Millisecond)
		if w.agents[1].Ending() {
			t.Error("prepared after one round")
		}
		if _, idle := w.agents[1].round(t.Context(), w.agents[1].View(), follower.Point{}); idle {
			t.Error("an agent asks that is not the first by name")
		}
		time.Sleep(time.Second)
		for _, a := range w.agents {
			if f := a.look(); !f.ended || !f.closed || !a.Nothing() {
				t.Errorf("%s: %+v, nothing fetched %v", a.name, f, a.Nothing())
			}
		}
	})
}

// An agent that has agreed waits for the order for prepareTime, and lets no agent join meanwhile. It refuses if
// anything has changed. An order after that asks it again.
func TestPrepared(t *testing.T) {
	story(t, 2, 1, func(t *testing.T, w *world) {
		b := w.agents[1]
		w.do(func() { w.agents[0].silent = time.Now().Add(time.Hour) }) // it does not ask
		f := b.look()
		e := &pb.EndRequest{View: f.view, Activity: f.activity, Prepare: true}
		ask := func(e *pb.EndRequest) bool {
			r, err := b.end(t.Context(), rpc.Caller{}, e)
			return err == nil && r.Agreed
		}
		for _, wrong := range []*pb.EndRequest{{View: e.View + 1, Activity: e.Activity, Prepare: true},
			{View: e.View, Activity: e.Activity + 1, Prepare: true}, {View: e.View, Activity: e.Activity + 1}} {
			if ask(wrong) || b.Ending() || !b.look().held.IsZero() {
				t.Errorf("agreed to %v", wrong)
			}
		}
		now := time.Now()
		if !ask(e) || !b.Ending() || !b.look().held.Equal(now.Add(prepareTime)) || b.look().ended {
			t.Error("does not agree to end")
		}
		if time.Sleep(prepareTime + 1); b.Ending() {
			t.Error("waits for the order for longer than prepareTime")
		}
		e.Prepare = false
		if w.do(func() { b.activity++ }); ask(e) || b.look().ended {
			t.Error("an order that is late ended an agent with work since")
		}
		e.Activity++
		if !ask(e) || !b.look().ended || !b.Ending() || !ask(e) {
			t.Error("did not end")
		}
	})
}

// If an agent refuses, the agent that asks does not wait for the end any more. If an agent does not hear the order to
// end, it is told again, and the agent that asks ends last.
func TestAsker(t *testing.T) {
	story(t, 3, 1, func(t *testing.T, w *world) {
		a, b := w.agents[0], w.agents[2]
		activity := map[string]uint64{"a2": 1}
		if a.close(t.Context(), a.View(), a.look().view, activity, true) || a.Ending() || !a.look().held.IsZero() {
			t.Errorf("goes on to end; %+v", a.look())
		}
		for !b.Ending() {
			time.Sleep(time.Millisecond)
		}
		w.do(func() { b.silent = time.Now().Add(2 * time.Second) })
		for !a.look().ended {
			time.Sleep(time.Millisecond)
		}
		if !b.look().ended {
			t.Error("ended before an agent that is silent for 2 s")
		}
	})
}

// A looking is a Crawl that sees whether its agent is ending.
type looking struct {
	loop
	agreement *Agreement
	ending    []bool
}

func (l *looking) Pulse(ctx context.Context) (Pulse, error) {
	l.ending = append(l.ending, l.agreement.Ending())
	return l.loop.Pulse(ctx)
}

// An agent is ending before it looks whether it is idle.
func TestEndingBeforeItLooks(t *testing.T) {
	story(t, 1, 1, func(t *testing.T, w *world) {
		l := &looking{loop: loop{w.agents[0]}}
		d := New(l.cfg)
		l.agreement, d.crawl = d, l
		_, err := d.prepare(t.Context(), &pb.EndRequest{Activity: 7})
		if err != nil || len(l.ending) != 1 || !l.ending[0] {
			t.Errorf("%v, %v", l.ending, err)
		}
	})
}

// An agent that has been told to end does so as soon as it is idle, whatever has changed in its view.
func TestEndsThoughTheViewChanged(t *testing.T) {
	story(t, 2, 1, func(t *testing.T, w *world) {
		b := w.agents[1]
		f := b.look()
		e := &pb.EndRequest{View: f.view, Activity: f.activity, Prepare: true}
		_, _ = b.end(t.Context(), rpc.Caller{}, e)
		w.do(func() { w.change(w.without("a0")); b.learn() })
		e.Prepare = false
		if r, err := b.end(t.Context(), rpc.Caller{}, e); err != nil || !r.Agreed || !b.look().ended {
			t.Errorf("%v, %v", r, err)
		}
	})
}

// When the coordinators have ended the crawl, an agent without links ends, and one with links goes on.
func TestObey(t *testing.T) {
	for _, links := range []bool{false, true} {
		story(t, 2, 1, func(t *testing.T, w *world) {
			a := w.agents[1]
			w.do(func() { a.stalled, w.refuse = true, true })
			gone, cancel := context.WithCancel(t.Context())
			if cancel(); a.Obey(gone) {
				t.Error("links are left, before the end")
			}
			if links {
				w.do(func() { a.accept(w.link(1)) })
			}
			close(w.sites)
			if left := a.Obey(t.Context()); left != links || a.look().ended == links || a.Ending() == links {
				t.Errorf("with links %v: left %v, %+v", links, left, a.look())
			}
		})
	}
}

// No agent ends while the coordinators do not agree.
func TestCoordinatorsRefuse(t *testing.T) {
	story(t, 2, 1, func(t *testing.T, w *world) {
		w.do(func() { w.refuse = true })
		time.Sleep(20 * time.Second)
		if ended, _ := w.over(); ended > 0 {
			t.Errorf("%d have ended", ended)
		}
		w.do(func() { w.refuse = false })
		time.Sleep(20 * time.Second)
		if _, not := w.over(); not > 0 {
			t.Errorf("%d have not ended", not)
		}
	})
}

// FuzzEnd plays histories of several agents: links come, agents are silent, die with or without their disks, and come
// back. No agent ends while a link waits anywhere (world.judge). When all is quiet, all agents end.
func FuzzEnd(f *testing.F) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		history := make([]byte, 3+chance.IntN(60))
		for i := range history {
			history[i] = byte(chance.Uint32())
		}
		f.Add(history)
	}
	f.Fuzz(func(t *testing.T, history []byte) {
		if len(history) < 2 || len(history) > 300 {
			return
		}
		story(t, 1+int(history[0]%4), uint64(history[1]), func(t *testing.T, w *world) {
			w.do(func() { w.lossy = true })
			for h := history[2:]; len(h) >= 3; h = h[3:] {
				w.do(func() { w.act(h[0]%8, int(h[1]), int(h[1]>>4)) })
				time.Sleep(time.Duration(h[2]) * 8 * time.Millisecond)
			}
			w.do(func() { w.lossy = false })
			for range 600 {
				if _, not := w.over(); not == 0 {
					return
				}
				time.Sleep(time.Second)
			}
			ended, not := w.over()
			t.Errorf("all is quiet, %d agents have ended, %d have not", ended, not)
		})
	})
}

// act does one step of a history at agent i.
func (w *world) act(what byte, i, arg int) {
	i %= len(w.agents)
	a := w.agents[i]
	switch {
	case !a.there && !a.ended && !a.disk.wrecked && (what == 5 || what == 6):
		w.comeBack(i)
	case !a.there || a.ended:
	case what < 3 && !a.Ending(): // an operator adds a URL
		a.found(arg % 4)
	case what == 3:
		a.silent = time.Now().Add(time.Duration(arg) * 500 * time.Millisecond)
	case what == 4 && !a.alone(): // dies
		a.there = false
		a.kill()
		if arg&1 > 0 && !a.Ending() { // with its archive, from which pages must be fetched again
			a.disk.lost, a.disk.wrecked = append(a.disk.lost, w.link(i)), true
		}
		boot := a.boot
		w.running.Go(func() {
			if clock.Pause(w.ctx, time.Duration(1+arg%3)*time.Second) {
				w.do(func() {
					if b := w.agents[i]; !b.there && b.boot == boot {
						w.change(w.without(a.name))
					}
				})
			}
		})
	case what == 7: // the network is slow to tell it of a change
		a.after(w.upTo(time.Second), a.learn)
	}
}

// comeBack starts an agent again, when another agent lets it in or no other is there.
func (w *world) comeBack(i int) {
	was := w.agents[i]
	w.running.Go(func() {
		for welcomed := false; ; {
			if !clock.Pause(w.ctx, 100*time.Millisecond) {
				return
			}
			again := false
			w.do(func() {
				others := 0
				for _, b := range w.agents {
					if !b.there {
						continue
					}
					if others++; !welcomed && !b.ended && !time.Now().Before(b.held) && !time.Now().Before(b.silent) {
						b.expected[was.name] = time.Now().Add(5 * time.Second)
						welcomed = true
					}
				}
				if again = w.agents[i] == was && others > 0 && !welcomed; again || w.agents[i] != was {
					return
				}
				members := append(w.without(was.name), member(was.name, was.boot+1))
				if others == 0 {
					members = members[len(members)-1:]
				}
				w.change(members)
				w.start(i)
				w.agents[i].learn()
			})
			if !again {
				return
			}
		}
	})
}
