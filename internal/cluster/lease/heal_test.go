package lease

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// apart reports whether messages between two agents are lost, because they are on different sides.
func (w *world) apart(a, b AgentID) bool {
	return w.sides != nil && !w.healed && w.sides[a] != w.sides[b]
}

// divide judges a point for each side alone from now on, if the network is divided. A visit that is under way belongs
// to the side of its agent: if that agent soon has a view of its own side alone, it has contact and does not cut the
// visit off.
func (w *world) divide(j *judged) {
	if w.sides == nil {
		return
	}
	for i := range 2 {
		side := *j
		side.byPlace, side.sides = map[int]int{}, nil
		if j.user != nil && w.sides[j.user.id] != i {
			side.user = nil
		}
		j.sides = append(j.sides, &side)
	}
}

// unite judges a point for all agents together again.
func (w *world) unite(j *judged) {
	for _, side := range j.sides {
		if side.ended > j.ended {
			j.ended, j.last = side.ended, side.last
		}
		if side.user != nil {
			j.user = side.user
		}
		j.begins += side.begins
	}
	j.sides = nil
}

// partition divides the network for d. The agents with the first n places are one side. Each agent
// drops the other side from its view 4 to 8 s later, like its neighbours. When the network is well
// again, each agent meets the agents of the other side one after the other. When all have the same
// view, and leases without a confirmation have ended, both sides are judged together.
func (w *world) partition(n int, d time.Duration) {
	w.sides, w.healed = map[AgentID]int{}, false
	for _, a := range w.agents {
		if a.place >= n {
			w.sides[a.id] = 1
		}
	}
	for _, j := range w.points {
		w.divide(j)
	}
	settle := w.cfg.Settle * 9 / 10
	notice := []time.Duration{4*time.Second + w.within(time.Second), 4*time.Second + w.within(time.Second)}
	for _, a := range w.agents {
		others := map[AgentID]bool{}
		for _, o := range w.agents {
			if w.sides[o.id] != w.sides[a.id] {
				others[o.id] = true
				w.after(d+w.within(settle), func() { delete(a.lacks, o.id); a.look() })
			}
		}
		w.after(notice[w.sides[a.id]]+w.within(settle), func() { a.lacks = others; a.look() })
	}
	w.after(d, func() { w.healed = true })
	w.after(d+w.cfg.Settle+w.cfg.Term+2*w.cfg.Every, func() {
		w.sides = nil
		for _, j := range w.points {
			w.unite(j)
		}
	})
}

// TestHeal: two halves of a cluster lease the same points. When the network is well again, they
// become one cluster. All the time, agents of one half must not use a point at once, and must keep
// its delay. Soon after, this holds for all agents.
func TestHeal(t *testing.T) {
	// Agent 3 is alone on its side of a partition, and continues a visit that began before, while agent 1 on the other
	// side gets the point.
	const visited = 14636441138578837888
	pages := 0
	seeds(t, testtier.Rounds(1, 6), func(t *testing.T, seed uint64) {
		w := newWorld(t, seed, 3+int(seed%4), Config{})
		w.quiet = func(uint64) time.Duration { return 200 * time.Millisecond }
		for i := range w.agents {
			w.work(i, 12)
		}
		for range 12 {
			w.run(w.now + 10*time.Second)
			w.partition(1+w.rand.IntN(len(w.agents)-1), 8*time.Second+w.within(10*time.Second))
			w.run(w.now + 30*time.Second)
		}
		pages += w.pages
	}, visited)
	t.Logf("%d pages", pages)
}

// TestBack: an agent comes into the view. If it may have been on the other side of a partition, it may
// have a lease of another grantor, and so may the agents that it was in contact with. So a point
// without a holder is not granted before a survey. What the grantor knows of the agent's own lease
// may be old as well.
func TestBack(t *testing.T) {
	all := &picture{members: []AgentID{1, 2, 3}}
	less := &picture{members: []AgentID{1, 3}}
	var point uint64
	for all.Owner(point) != 1 {
		point++
	}
	for _, c := range []struct {
		name   string
		before bool // agent 2 had the lease, and left the view
		fresh  bool
		ask    Ask
		now    bool // granted at once
	}{
		{"an agent that begins", false, true, Ask{}, true},
		{"an agent that comes back", false, false, Ask{}, false},
		{"the holder comes back, and has the lease", true, false, Ask{Holding: true}, true},
		{"the holder comes back without it", true, false, Ask{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			stamp := uint64(0)
			c.ask.Point, c.ask.Quiet, c.ask.Urgent = point, time.Second, true
			ask := func(g *Peer, a Ask) bool {
				t.Helper()
				stamp++
				now = now.Add(time.Second)
				g.Contact(now, now)
				return len(serve(t, g, &Batch{From: 2, To: 1, Stamp: stamp, Asks: []Ask{a}}, now).Grants) == 1
			}
			g := opened(1, less, now)
			if c.before {
				g = opened(1, all, now)
				if !ask(g, Ask{Point: point, Quiet: time.Second, Urgent: true}) {
					t.Fatal("not granted at first")
				}
				g.Look(less, now)
			}
			back := &picture{members: all.members, fresh: map[AgentID]bool{2: c.fresh}}
			g.Look(back, now)
			if got := ask(g, c.ask); got != c.now {
				t.Errorf("granted: %v, want %v", got, c.now)
			}
		})
	}
}
