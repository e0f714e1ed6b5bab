package lease

import (
	"testing"
	"time"
)

// TestGoingInGoodOrder: an agent has left in an orderly way. Then others must use at once the
// points that it held, and the points that it granted, whether they have a holder or not. If it
// leaves without a transfer, they must wait until its leases have ended, and all leases that it may
// have granted.
func TestGoingInGoodOrder(t *testing.T) {
	const each = 40
	late := func(seed uint64, wordless bool) (longest time.Duration) {
		w := newWorld(t, seed, 4, Config{First: true})
		w.delay = 0.005
		leaver := w.agents[0]
		// It uses the first point, another agent uses the next one, and no agent uses the rest.
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
				k := 1 + int(p)%3 // its hosts belong to these agents now
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
				t.Fatalf("point %d is not used again", p)
			}
			longest = max(longest, d)
		}
		return longest
	}
	seeds(t, 6, func(t *testing.T, seed uint64) {
		with, without := late(seed, false), late(seed, true)
		t.Logf("the last point is used after %v, without a transfer after %v", with, without)
		if with > 8*time.Second || without < 14*time.Second {
			t.Errorf("the last point is used after %v, without a transfer after %v", with, without)
		}
	})
}

// TestTransfersThatDoNotCount: a transfer counts only in the view in which it was sent, only if it
// is complete, and only if its sender has been the grantor for long enough. Otherwise the heir
// waits.
func TestTransfersThatDoNotCount(t *testing.T) {
	for _, c := range []struct {
		name string
		ok   bool
		do   func(w *world, leaver, heir *agent)
	}{
		{"told", true, func(w *world, leaver, heir *agent) { w.hand(leaver, heir, 100) }},
		{"not told", false, func(*world, *agent, *agent) {}},
		{"told in part", false, func(w *world, leaver, heir *agent) { w.hand(leaver, heir, 1) }},
		{"told in another view", false, func(w *world, leaver, heir *agent) {
			w.start(2)
			heir.look()
			w.hand(leaver, heir, 100)
		}},
		{"a view between", false, func(w *world, leaver, heir *agent) {
			w.hand(leaver, heir, 100)
			w.start(2)
			heir.look()
		}},
		{"told long ago", false, func(w *world, leaver, heir *agent) {
			w.hand(leaver, heir, 100)
			w.run(w.now + 11*time.Second)
		}},
		{"told without full knowledge", false, func(w *world, leaver, heir *agent) {
			w.hand(leaver, heir, 100)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1, 3, Config{First: true})
			leaver, heir := w.agents[0], w.agents[1]
			w.run(time.Minute)
			var point, other uint64 // point has a holder, other has none
			for leaver.view.Owner(point) != leaver.id || leaver.view.Heir(point) != heir.id {
				point++
			}
			other = point + 1
			for leaver.view.Owner(other) != leaver.id || leaver.view.Heir(other) != heir.id {
				other++
			}
			for i := range 100 {
				leaver.peer.Ready(point, time.Second, leaver.clock())
				leaver.peer.Calls(leaver.clock())
				if leaver.try(time.Second, point) {
					break
				}
				if i == 99 {
					t.Fatal("not granted")
				}
			}
			leaver.peer.grantor.record(other, leaver.peer.clock).free = leaver.peer.clock + 4*time.Second
			if c.name == "told without full knowledge" {
				leaver.peer.grantor.doubt(leaver.peer.clock)
			}
			leaver.peer.Retire(leaver.clock())
			c.do(w, leaver, heir)
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
				if h := heir.peer.grantor.points[point]; h == nil || h.holder != leaver.id {
					t.Errorf("the point that is held: %+v", h)
				}
			}
		})
	}
}

// TestStay: an agent that cancels its retirement grants its points again, but only when its
// transfers do not count any more.
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
		t.Fatal("a retired agent has granted a lease")
	}
	g.Stay(now)
	began := now
	for !ready() {
		if now = now.Add(250 * time.Millisecond); now.Sub(began) > time.Minute {
			t.Fatal("it grants nothing after Stay")
		}
	}
	if took := now.Sub(began); took < 16*time.Second {
		t.Errorf("it grants again after %v", took)
	}
	g.Quit(now)
	if g.Stay(now); ready() {
		t.Error("Stay has cancelled a Quit")
	}
}

// hand delivers leaver's transfer to heir, with at most most points.
func (w *world) hand(leaver, heir *agent, most int) {
	b := &Batch{From: leaver.id, To: heir.id, Stamp: 1}
	leaver.peer.grantor.transfer(heir.id, b, leaver.peer.clock)
	if b.Transfer == nil {
		return
	}
	b.Transfer.Points = b.Transfer.Points[:min(most, len(b.Transfer.Points))]
	heir.peer.tick(heir.clock())
	heir.peer.grantor.receiveTransfer(leaver.id, b.Transfer, heir.peer.clock)
}
