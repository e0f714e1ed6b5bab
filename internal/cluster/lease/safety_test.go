package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// work makes an agent try random points.
func (w *world) work(place, points int) {
	a := w.agents[place]
	if a != nil && a.runs() {
		ps := []uint64{uint64(w.rand.IntN(points))}
		if w.chance(0.4) {
			if q := uint64(w.rand.IntN(points)); q != ps[0] {
				ps = append(ps, q)
			}
		}
		d := w.within(time.Second)
		if w.chance(0.03) {
			d = w.within(9 * time.Second)
		}
		switch {
		case w.chance(0.05):
			a.peer.Want(uint64(w.rand.IntN(points)), w.quiet(0), a.clock())
		case w.chance(0.02):
			a.peer.Leave(uint64(w.rand.IntN(points)), a.clock())
		default:
			a.try(d, ps...)
		}
		a.peer.Freed()
	}
	w.after(w.within(400*time.Millisecond), func() { w.work(place, points) })
}

// trouble causes faults of agents, one at a time.
func (w *world) trouble(every time.Duration, until time.Duration) {
	if w.now > until {
		return
	}
	w.after(w.within(2*every), func() { w.trouble(every, until) })
	a := w.agents[w.rand.IntN(len(w.agents))]
	living := 0
	for _, o := range w.agents {
		if o != nil && !w.troubled[o.id] {
			living++
		}
	}
	if a == nil || w.troubled[a.id] || living < 3 {
		return // it sees no living agent: it is in a partition
	}
	what := w.rand.IntN(6)
	if what != 4 && w.struck != nil {
		w.struck()
	}
	switch what {
	case 0, 1:
		place := a.place
		w.kill(a)
		w.after(w.within(40*time.Second), func() { w.again(place, a) })
	case 2:
		w.stop(a, w.within(40*time.Second))
	case 3:
		w.suspect(a, w.within(30*time.Second))
	case 4:
		w.loss = 0.3 * w.rand.Float64()
	case 5:
		place := a.place
		w.part(a, false)
		w.after(2*time.Minute+w.within(40*time.Second), func() { w.again(place, a) })
	}
}

// again starts an agent in the place of an earlier one, with its crawl directory or with an empty
// one.
func (w *world) again(place int, earlier *agent) {
	if w.chance(0.5) {
		w.resume(place, earlier)
		return
	}
	w.start(place).look()
	w.viewed()
}

// seeds runs f with n seeds, and before them with the known ones, which once failed.
func seeds(t *testing.T, n int, f func(t *testing.T, seed uint64), known ...uint64) {
	base := testseed.New(t)
	all := slices.Clone(known)
	for i := range uint64(n) {
		if i < uint64(n)/2 {
			all = append(all, i+1)
		} else {
			all = append(all, base+i) // the other half of the seeds is new each time
		}
	}
	for _, seed := range all {
		f(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func TestNoPointIsUsedTwice(t *testing.T) {
	pages, cut, changes, surveys := 0, 0, 0, 0
	seeds(t, testtier.Rounds(1, 10), func(t *testing.T, seed uint64) {
		w := newWorld(t, seed, 3+int(seed%5), Config{})
		const points = 12
		w.loss, w.twice, w.delay = 0.1*w.rand.Float64(), 0.1, 0.05
		for i := range w.agents {
			w.work(i, points)
		}
		w.trouble(15*time.Second, 15*time.Minute)
		w.run(15 * time.Minute)
		w.loss, w.twice = 0, 0
		w.run(17 * time.Minute)
		for _, j := range w.points {
			clear(j.byPlace)
		}
		// The trouble is over: every agent must get turns.
		w.run(40 * time.Minute)
		for p, j := range w.points {
			for place, a := range w.agents {
				if a != nil && j.byPlace[place] == 0 && !w.dead {
					t.Errorf("point %d: agent at %d was never there after the trouble: %v", p, place, j.byPlace)
				}
			}
			changes += j.changes
		}
		pages += w.pages
		cut += w.cut
		surveys += w.surveys
	})
	t.Logf("%d pages, %d changes of hand, %d cut off, %d surveys", pages, changes, cut, surveys)
	if surveys == 0 {
		t.Error("no surveys: agents that go or come are not tested")
	}
}

// TestWhatIsAssumed: with views that differ for a minute there are violations. So the assumption is
// needed, and the judge detects violations.
func TestWhatIsAssumed(t *testing.T) {
	found := 0
	for seed := uint64(1); seed <= 20 && found == 0; seed++ {
		w := newWorld(t, seed, 5, Config{})
		w.lag = time.Minute
		for i := range w.agents {
			w.work(i, 12)
		}
		w.trouble(15*time.Second, 10*time.Minute)
		w.run(10 * time.Minute)
		if w.dead {
			found++
			t.Logf("seed %d: a violation after %v", seed, w.now)
		}
	}
	if found == 0 {
		t.Error("no violation in 20 runs with views that differ for a minute: the judge misses them")
	}
}

// TestAlone: a single agent gets every lease at once, without calls.
func TestAlone(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := New(1, Config{}, now)
	if ok, _ := p.Ready(7, time.Second, now); ok {
		t.Error("ready before there is a view")
	}
	p.Look(&picture{members: []AgentID{1}}, now)
	for i := range 100 {
		now = now.Add(time.Hour)
		p.Ready(7, time.Second, now)
		if calls := p.Calls(now); len(calls) > 0 {
			t.Fatalf("calls %+v", calls)
		}
		if ok, at := p.Ready(7, time.Second, now); !ok {
			t.Fatalf("round %d: not ready until %v", i, at)
		}
		if !p.Begin(now, 7) {
			t.Fatal("a ready request cannot begin")
		}
		if ok, _ := p.Ready(7, time.Second, now); ok || p.Begin(now, 7) {
			t.Fatal("begun twice")
		}
		now = now.Add(10 * time.Second)
		p.Used(7, now, time.Second, true, now)
		if ok, at := p.Ready(7, time.Second, now); ok || !at.Equal(now.Add(time.Second)) {
			t.Fatalf("ready %v at %v, want a second after %v", ok, at, now)
		}
	}
}

// TestWithoutContact: an agent without contact must stop, and its requests must be cut off.
func TestWithoutContact(t *testing.T) {
	start := time.Unix(1e9, 0)
	p := New(1, Config{}, start)
	v := &picture{members: []AgentID{1, 2}}
	var point uint64
	for v.Owner(point) != 1 {
		point++
	}
	p.Look(v, start)
	now := start
	for now.Sub(start) < 30*time.Second {
		now = now.Add(250 * time.Millisecond)
		p.Contact(now, now)
		p.Ready(point, time.Second, now)
		p.Calls(now)
		if ok, _ := p.Ready(point, time.Second, now); ok && now.Sub(start) < 11*time.Second {
			t.Fatalf("granted %v after the agent was new", now.Sub(start))
		}
	}
	if !p.Begin(now, point) {
		t.Fatal("not granted after half a minute")
	}
	last := now
	for len(p.Lost(now)) == 0 {
		if now = now.Add(100 * time.Millisecond); now.Sub(last) > 5*time.Second {
			t.Fatal("not cut off 5 s after the last contact")
		}
	}
	if now.Sub(last) < 4500*time.Millisecond {
		t.Errorf("cut off %v after the last contact", now.Sub(last))
	}
	p.Used(point, now, time.Second, true, now)
	now = now.Add(5 * time.Second)
	if p.Begin(now, point) {
		t.Error("begun without contact")
	}
	p.Contact(now, now)
	p.Ready(point, time.Second, now)
	p.Calls(now)
	if ok, _ := p.Ready(point, time.Second, now); ok {
		t.Error("after a time without contact the agent still has its lease")
	}
}
