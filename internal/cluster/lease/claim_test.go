package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestClaimOfAnotherView: an agent claims a lease from a grantor that does not have the agent's view
// yet. The grantor refuses. The agent must keep the lease, and claim it again.
func TestClaimOfAnotherView(t *testing.T) {
	now := time.Unix(1e9, 0)
	after, point := pair() // agent 1 grants point
	before := &picture{members: []AgentID{1, 2, 3}}
	for after.Owner(point) != 1 || before.Owner(point) != 3 {
		point++
	}
	holder, grantor, former := opened(2, before, now), opened(1, before, now), opened(3, before, now)
	claim := func(to *Peer) {
		t.Helper()
		now = now.Add(250 * time.Millisecond)
		exchange(t, now, holder, to, nil)
	}
	holder.Ready(point, time.Second, now)
	claim(former)
	if !holder.Begin(now, point) {
		t.Fatal("not granted")
	}
	holder.Look(after, now)
	for range 8 { // less than Config.Settle
		claim(grantor)
		if len(holder.Lost(now)) > 0 {
			t.Fatal("a refusal from another view cuts off the visit")
		}
	}
	grantor.Look(after, now)
	for range 32 { // more than Config.Term
		claim(grantor)
	}
	if len(holder.Lost(now)) > 0 {
		t.Error("not confirmed by the grantor in the same view")
	}
}

// TestNotesAreToldAgain: a call with the notes of a pause is lost. The holder tells the pause with the next call, so
// that it outlives the holder.
func TestNotesAreToldAgain(t *testing.T) {
	now := time.Unix(1e9, 0)
	view, point := pair() // agent 1 grants point
	holder, grantor := opened(2, view, now), opened(1, view, now)
	tell := func(lost bool) (told bool) {
		t.Helper()
		now = now.Add(250 * time.Millisecond)
		var calls []*Batch
		if lost {
			holder.Contact(now, now)
			calls = holder.Calls(now)
		} else {
			calls = exchange(t, now, holder, grantor, nil)
		}
		for _, b := range calls {
			told = told || slices.ContainsFunc(b.Asks, func(a Ask) bool { return len(a.Notes) > 0 })
			if lost {
				holder.Failed(b, now)
			}
		}
		return told
	}
	holder.Ready(point, time.Second, now)
	tell(false)
	if !holder.Begin(now, point) {
		t.Fatal("not granted")
	}
	holder.Keep(point, Note{Key: 7, Slow: 1, Pause: time.Minute}, now)
	holder.Used(point, now, time.Second, true, now)
	for i := 0; !tell(true); i++ {
		if i == 20 {
			t.Fatal("the pause is not told")
		}
	}
	told := false
	for range 20 {
		told = tell(false) || told
	}
	if !told {
		t.Error("the pause is not told again within 5 s")
	}
}

// TestNoVisitIsCutOff: agents come and leave in good order, and every message arrives. So no agent
// may lose a lease while it uses it, even if the agents' views differ for a while.
func TestNoVisitIsCutOff(t *testing.T) {
	seeds(t, testtier.Rounds(2, 6), func(t *testing.T, seed uint64) {
		w := newWorld(t, seed, 4, Config{})
		for i := range w.agents {
			w.work(i, 12)
		}
		var leave func()
		leave = func() {
			w.after(5*time.Second+w.within(10*time.Second), leave)
			for _, a := range w.agents {
				if a == nil || w.troubled[a.id] {
					return
				}
			}
			a := w.agents[w.rand.IntN(len(w.agents))]
			w.part(a, false)
			w.after(15*time.Second+w.within(10*time.Second), func() { w.again(a.place, a) })
		}
		w.after(10*time.Second, leave)
		w.run(10 * time.Minute)
		if w.cut > 0 {
			t.Errorf("%d of %d pages were cut off", w.cut, w.pages)
		}
	})
}
