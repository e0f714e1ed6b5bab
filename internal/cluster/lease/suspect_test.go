package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// busyAt makes an agent try for one point all the time.
func (w *world) busyAt(place int, point uint64) {
	if a := w.agents[place]; a != nil && !a.stopped && a.view != nil {
		a.try(100*time.Millisecond, point)
		a.peer.Freed()
	}
	w.after(200*time.Millisecond, func() { w.busyAt(place, point) })
}

// TestSuspectKeepsItsTurn: the others take an agent for dead for some seconds, and it does not
// notice. It must not wait longer for a point than without that, and others must not wait longer
// for its points.
func TestSuspectKeepsItsTurn(t *testing.T) {
	step := time.Duration(testtier.Rounds(12, 3)) * time.Second
	for _, suspect := range []int{0, 1} {
		for at := 21 * time.Second; at < 150*time.Second; at += step {
			t.Run(fmt.Sprintf("%d at %v", suspect, at), func(t *testing.T) {
				w := newWorld(t, uint64(at), 3, Config{})
				grantor := w.agents[2]
				var point uint64
				for grantor.view.Owner(point) != grantor.id {
					point++
				}
				w.busyAt(0, point)
				w.run(20 * time.Second)
				w.busyAt(1, point)
				w.run(at)
				w.suspect(w.agents[suspect], 4*time.Second)
				w.run(at + 20*time.Second)
				for range 4 {
					clear(w.judged(point).byPlace)
					w.run(w.now + 3*Turn(w.quiet(point), false))
					if by := w.judged(point).byPlace; by[0] == 0 || by[1] == 0 {
						t.Fatalf("at %v: an agent had no turn: %v", w.now, by)
					}
				}
			})
		}
	}
}

// TestUnheardIsAskedAgain: an ask without an answer must be repeated, also if the view changes
// meanwhile and the point keeps its grantor.
func TestUnheardIsAskedAgain(t *testing.T) {
	start := time.Unix(1e9, 0)
	p := New(1, Config{}, start)
	views := []*picture{{members: []AgentID{1, 2}}, {members: []AgentID{1, 2, 3}}}
	var point uint64
	for views[0].Owner(point) != 2 || views[1].Owner(point) != 2 {
		point++
	}
	p.Look(views[0], start)
	asks := func(from, to time.Duration) (last *Batch) {
		for d := from; d < to; d += 250 * time.Millisecond {
			now := start.Add(d)
			p.Contact(now, now)
			p.Ready(point, time.Second, now)
			for _, b := range p.Calls(now) {
				if len(b.Asks) > 0 {
					return b
				}
			}
		}
		return nil
	}
	b := asks(0, 5*time.Second)
	if b == nil {
		t.Fatal("no ask")
	}
	p.Failed(b, start.Add(5*time.Second)) // the receiver had another view
	p.Look(views[1], start.Add(5*time.Second))
	if asks(5*time.Second, 20*time.Second) == nil {
		t.Error("no second ask")
	}
}
