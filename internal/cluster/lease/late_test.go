package lease

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// pair returns a view of two agents, and a point that the first one grants.
func pair() (v *picture, point uint64) {
	v = &picture{members: []AgentID{1, 2}}
	for v.Owner(point) != 1 {
		point++
	}
	return v, point
}

// opened returns a Peer with a view, which knows that no other agent has a lease of its points.
func opened(self AgentID, v View, now time.Time) *Peer {
	p := New(self, Config{}, now)
	p.Look(v, now)
	p.grantor.changes = nil
	return p
}

// serve passes a call to a Peer, and returns the answer.
func serve(t testing.TB, p *Peer, b *Batch, now time.Time) *Batch {
	t.Helper()
	ans := must.Get(p.Serve(b, now))(t)
	return ans
}

// exchange makes the calls that from has for to, which both have contact. change changes the answers; nil: it does
// not.
func exchange(t testing.TB, now time.Time, from, to *Peer, change func(ans *Batch)) (calls []*Batch) {
	t.Helper()
	from.Contact(now, now)
	to.Contact(now, now)
	calls = from.Calls(now)
	for _, b := range calls {
		if b.To != to.self {
			t.Fatalf("call %+v", b)
		}
		ans := serve(t, to, b, now)
		if change != nil {
			change(ans)
		}
		must.Do(t, from.Answered(ans, now))
	}
	return calls
}

// TestGrantOfAnEarlierAsk: a new ask says that its sender has no lease. If a grant for an earlier
// ask arrives after it, the point may be another agent's. So the holder must not take that grant.
func TestGrantOfAnEarlierAsk(t *testing.T) {
	now := time.Unix(1e9, 0)
	v, point := pair()
	p := New(2, Config{}, now)
	p.Look(v, now)
	ask := func() uint64 {
		t.Helper()
		p.Contact(now, now)
		p.Ready(point, time.Second, now)
		for range 40 {
			now = now.Add(250 * time.Millisecond)
			p.Contact(now, now)
			if calls := p.Calls(now); len(calls) > 0 {
				if len(calls[0].Asks) != 1 {
					t.Fatalf("call %+v", calls[0])
				}
				p.Failed(calls[0], now) // whether it arrived or not
				return calls[0].Stamp
			}
		}
		t.Fatal("nothing is asked for")
		return 0
	}
	stamp := uint64(0)
	grant := func(serial, ask uint64) *Batch {
		t.Helper()
		stamp++
		return serve(t, p, &Batch{From: 1, To: 2, Stamp: stamp,
			Grants: []Grant{{Point: point, Serial: serial, Stamp: ask, Term: time.Hour}}}, now)
	}
	first := ask()
	second := ask()
	if first >= second {
		t.Fatalf("asked at %d and at %d", first, second)
	}
	if ans := grant(7, first); len(ans.Gives) != 1 || ans.Gives[0].Serial != 7 {
		t.Errorf("the answer to a late grant: %+v", ans)
	}
	if ok, _ := p.Ready(point, time.Second, now); ok {
		t.Fatal("a late grant was taken")
	}
	if ans := grant(8, second); len(ans.Gives) != 0 {
		t.Errorf("the answer to the grant: %+v", ans)
	}
	if ok, _ := p.Ready(point, time.Second, now); !ok {
		t.Error("the grant was not taken")
	}
}

// TestHolderComesBack: another grantor has confirmed a holder's lease meanwhile. The first grantor
// must not grant the point to another agent, even if its own grant was long ago.
func TestHolderComesBack(t *testing.T) {
	now := time.Unix(1e9, 0)
	v, point := pair()
	g := opened(1, v, now)
	stamp := uint64(0)
	ask := func(a Ask) *Batch {
		t.Helper()
		stamp++
		g.Contact(now, now)
		return serve(t, g, &Batch{From: 2, To: 1, Stamp: stamp, Asks: []Ask{a}}, now)
	}
	if ans := ask(Ask{Point: point, Quiet: time.Second, Urgent: true}); len(ans.Grants) != 1 {
		t.Fatalf("not granted: %+v", ans)
	}
	now = now.Add(30 * time.Second) // longer than its term without contact
	g.Calls(now)
	g.Contact(now, now)
	g.Ready(point, time.Second, now) // it wants the point itself
	for range 20 {
		now = now.Add(time.Second)
		g.Contact(now, now)
		g.Calls(now)
	}
	ans := ask(Ask{Point: point, Quiet: time.Second, Urgent: true, Holding: true})
	if len(ans.Grants) != 1 {
		t.Fatalf("not confirmed: %+v", ans)
	}
	if ok, _ := g.Ready(point, time.Second, now); ok {
		t.Error("the grantor has the point, too")
	}
}

// TestGrantWhileClaiming: an agent claims a lease that another grantor has confirmed. An old grant
// of the point's present grantor arrives. The agent must not return the lease in its answer.
func TestGrantWhileClaiming(t *testing.T) {
	now := time.Unix(1e9, 0)
	v, point := pair()
	p := opened(2, &picture{members: []AgentID{2}}, now)
	p.Ready(point, time.Second, now)
	p.Calls(now)
	if ok, _ := p.Ready(point, time.Second, now); !ok {
		t.Fatal("not granted by itself")
	}
	now = now.Add(time.Second)
	p.Look(v, now)
	p.Contact(now, now)
	ans := serve(t, p, &Batch{From: 1, To: 2, Stamp: 1,
		Grants: []Grant{{Point: point, Serial: 7, Stamp: 0, Term: time.Hour}}}, now)
	if len(ans.Gives) > 0 {
		t.Errorf("given back: %+v", ans.Gives)
	}
	calls := p.Calls(now)
	if len(calls) != 1 || len(calls[0].Gives) > 0 || len(calls[0].Asks) != 1 || !calls[0].Asks[0].Holding {
		t.Fatalf("calls %+v", calls)
	}
	p.Contact(now, now)
	must.Do(t, p.Answered(&Batch{From: 1, To: 2, Stamp: calls[0].Stamp, Answer: true,
		Grants: []Grant{{Point: point, Serial: 7, Stamp: calls[0].Stamp, Term: time.Hour}}}, now))
	if ok, _ := p.Ready(point, time.Second, now); !ok {
		t.Error("its claim is confirmed, and it does not have the point")
	}
}
