package lease

import (
	"testing"
	"time"
)

// After an agent has gone in good order others use at once the points that it
// held, those that it granted and somebody holds, and those that it granted and
// nobody has; without words of its they wait for its leases' end, and for what
// else it may have granted.
func TestGoingInGoodOrder(t *testing.T) {
	const each = 40
	late := func(seed uint64, wordless bool) (longest time.Duration) {
		w := newWorld(t, seed, 4, Config{First: true})
		w.delay = 0.005
		leaver := w.agents[0]
		// It uses the first of the points, another the next, nobody the rest.
		busy := true
		var use func()
		use = func() {
			if !busy {
				return
			}
			for p := range uint64(each) {
				leaver.try(50*time.Millisecond, p)
				w.agents[1].try(50*time.Millisecond, each+p)
			}
			w.after(200*time.Millisecond, use)
		}
		use()
		w.run(time.Minute)
		busy = false
		w.run(w.now + time.Second)
		granted := 0
		for p := range uint64(3 * each) {
			if leaver.view.Owner(p) == leaver.id {
				granted++
			}
		}
		if len(leaver.peer.holder.lots) < each || granted < each/4 {
			t.Fatalf("it has %d points and grants %d", len(leaver.peer.holder.lots), granted)
		}
		w.part(leaver, wordless)
		w.run(w.now + 100*time.Millisecond)
		at := w.now
		first := map[uint64]time.Duration{}
		var want func()
		want = func() {
			for p := range uint64(3 * each) {
				k := 1 + int(p)%3 // its hosts are these agents' now
				if p/each == 1 {
					k = 1
				}
				if _, ok := first[p]; !ok && w.agents[k].try(50*time.Millisecond, p) {
					first[p] = w.now - at
				}
			}
			for _, a := range w.agents {
				if a != nil {
					a.peer.Freed()
				}
			}
			w.after(100*time.Millisecond, want)
		}
		want()
		for len(first) < 3*each && !w.dead && w.now < at+time.Minute {
			w.run(w.now + time.Second)
		}
		for p := range uint64(3 * each) {
			d, ok := first[p]
			if !ok {
				t.Fatalf("point %d is never used again", p)
			}
			longest = max(longest, d)
		}
		return longest
	}
	seeds(t, 6, func(t *testing.T, seed uint64) {
		with, without := late(seed, false), late(seed, true)
		t.Logf("the last point is used after %v, without words after %v", with, without)
		if with > 8*time.Second || without < 14*time.Second {
			t.Errorf("the last point is used after %v, without words after %v", with, without)
		}
	})
}

// What an agent tells that goes is of use only in the view that it was told in,
// only if it is whole, and only from one that had granted for long enough to know
// all: else its heir waits.
func TestWillsThatDoNotCount(t *testing.T) {
	for _, c := range []struct {
		name string
		ok   bool
		do   func(w *world, giver, heir *agent)
	}{
		{"told", true, func(w *world, giver, heir *agent) { w.hand(giver, heir, 100) }},
		{"not told", false, func(*world, *agent, *agent) {}},
		{"told in part", false, func(w *world, giver, heir *agent) { w.hand(giver, heir, 1) }},
		{"told in another view", false, func(w *world, giver, heir *agent) {
			w.start(2)
			heir.look()
			w.hand(giver, heir, 100)
		}},
		{"a view between", false, func(w *world, giver, heir *agent) {
			w.hand(giver, heir, 100)
			w.start(2)
			heir.look()
		}},
		{"told long ago", false, func(w *world, giver, heir *agent) {
			w.hand(giver, heir, 100)
			w.run(w.now + 11*time.Second)
		}},
		{"told by who does not know", false, func(w *world, giver, heir *agent) {
			w.hand(giver, heir, 100)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, 3, Config{First: true})
			giver, heir := w.agents[0], w.agents[1]
			w.run(time.Minute)
			var point, other uint64 // one that is held, and one that nobody has
			for giver.view.Owner(point) != giver.id || giver.view.Heir(point) != heir.id {
				point++
			}
			for other = point + 1; giver.view.Owner(other) != giver.id || giver.view.Heir(other) != heir.id; other++ {
			}
			for i := range 100 {
				giver.peer.Ready(point, time.Second, giver.clock())
				giver.peer.Calls(giver.clock())
				if giver.try(time.Second, point) {
					break
				}
				if i == 99 {
					t.Fatal("not granted")
				}
			}
			giver.peer.grantor.record(other, giver.peer.clock).free = giver.peer.clock + 4*time.Second
			if c.name == "told by who does not know" {
				giver.peer.grantor.doubt(giver.peer.clock)
			}
			giver.peer.Retire(giver.clock())
			c.do(w, giver, heir)
			w.members = []Agent{heir.id, w.agents[2].id}
			w.going = nil
			heir.look()
			r := heir.peer.grantor.record(other, heir.peer.clock)
			settled := heir.peer.grantor.settled(other, r, heir.peer.clock)
			if settled != c.ok {
				t.Errorf("settled %v, want %v", settled, c.ok)
			}
			if c.ok {
				if rest := r.free - heir.peer.clock; rest < 4*time.Second || rest > 5*time.Second {
					t.Errorf("%v of the quiet time are left, want 4 s", rest)
				}
				if h := heir.peer.grantor.points[point]; h == nil || h.holder != giver.id {
					t.Errorf("the point that is held: %+v", h)
				}
			}
		})
	}
}

// An agent that stays after all grants its points again, but not before what it
// told is worth nothing.
func TestStay(t *testing.T) {
	now := time.Unix(1e9, 0)
	v, point := pair()
	g := New(1, Config{First: true}, now)
	g.Look(v, now)
	ready := func() bool {
		g.Contact(now, now)
		g.Ready(point, time.Second, now)
		g.Calls(now)
		ok, _ := g.Ready(point, time.Second, now)
		return ok
	}
	g.Retire(now)
	if ready() {
		t.Fatal("granted by who grants nothing")
	}
	g.Stay(now)
	began := now
	for !ready() {
		if now = now.Add(250 * time.Millisecond); now.Sub(began) > time.Minute {
			t.Fatal("it grants nothing any more")
		}
	}
	if took := now.Sub(began); took < 16*time.Second {
		t.Errorf("it grants again after %v", took)
	}
	g.Quit(now)
	if g.Stay(now); ready() {
		t.Error("there is a way back from Quit")
	}
}

// hand carries so much of what giver has to tell heir.
func (w *world) hand(giver, heir *agent, most int) {
	b := &Batch{From: giver.id, To: heir.id, Stamp: 1}
	giver.peer.grantor.transfer(heir.id, b, giver.peer.clock)
	if b.Transfer == nil {
		return
	}
	b.Transfer.Points = b.Transfer.Points[:min(most, len(b.Transfer.Points))]
	heir.peer.tick(heir.clock())
	heir.peer.grantor.receiveTransfer(giver.id, b.Transfer, heir.peer.clock)
}
