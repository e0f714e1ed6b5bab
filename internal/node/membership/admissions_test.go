package membership

import (
	"errors"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestAdmissions(t *testing.T) {
	now := time.Now()
	var g admissions
	a, b := rpc.ID{1}, rpc.ID{2}
	alone := &gossip.View{Agents: []gossip.Agent{{Name: "a0", Instance: rpc.ID{9}}}}
	both := &gossip.View{Agents: []gossip.Agent{{Name: "a0", Instance: rpc.ID{9}}, {Name: "a1", Instance: a}}}
	if g.expected(alone, now) {
		t.Error("an agent is expected before one was welcomed")
	}
	for _, id := range []rpc.ID{a, b} {
		must.Do(t, g.welcome(gossip.Agent{Instance: id}, false, now))
	}
	if !g.expected(alone, now) || !g.expected(both, now.Add(admissionTime)) {
		t.Error("a welcomed agent is not expected")
	}
	if g.expected(alone, now.Add(admissionTime+1)) {
		t.Error("an agent that does not come stays expected")
	}

	g.hold(now.Add(time.Second))
	for _, back := range []bool{false, true} {
		if err := g.welcome(gossip.Agent{Instance: a}, back, now); !errors.Is(err, rpc.ErrAgain) {
			t.Errorf("while it ends: %v", err)
		}
	}
	g.hold(time.Time{})
	g.set(ended)
	if refusal, ok := errors.AsType[*rpc.Refusal](g.welcome(gossip.Agent{Instance: a}, false, now)); !ok ||
		refusal.Reason != "over" {
		t.Error("a new agent is admitted after the end of the crawl")
	}
	if err := g.welcome(gossip.Agent{Instance: a}, true, now); !errors.Is(err, rpc.ErrAgain) {
		t.Errorf("an agent that comes back: %v", err)
	}
	if g.expected(alone, now) {
		t.Error("a refused agent is expected")
	}
	g.set(open)
	if err := g.welcome(gossip.Agent{Instance: a}, false, now); err != nil {
		t.Error(err)
	}
}

// TestWelcomed: the agent hears the start of an agent that it has welcomed, for
// admissionTime and under its own name alone. A later start of it may have been refused.
func TestWelcomed(t *testing.T) {
	var g admissions
	a, b, now := rpc.ID{1}, rpc.ID{2}, time.Now()
	must.Do(t, g.welcome(gossip.Agent{Name: "a1", Instance: a, Boot: 3}, false, now))
	for _, c := range []struct {
		from  rpc.Caller
		after time.Duration
		want  bool
	}{
		{rpc.Caller{Name: "a1", Instance: a, Boot: 3}, 0, true},
		{rpc.Caller{Name: "a1", Instance: a, Boot: 3}, admissionTime, true},
		{rpc.Caller{Name: "a1", Instance: a, Boot: 3}, admissionTime + 1, false},
		{rpc.Caller{Name: "a1", Instance: a, Boot: 4}, 0, false},
		{rpc.Caller{Name: "a2", Instance: a, Boot: 3}, 0, false},
		{rpc.Caller{Name: "a1", Instance: b, Boot: 3}, 0, false},
		{rpc.Caller{}, 0, false},
	} {
		if got := g.welcomed(c.from, now.Add(c.after)); got != c.want {
			t.Errorf("%+v after %v: welcomed %t, want %t", c.from, c.after, got, c.want)
		}
	}
	// Another agent that gives a1's instance as its own does not take its place.
	must.Do(t, g.welcome(gossip.Agent{Name: "a2", Instance: a}, false, now))
	if !g.welcomed(rpc.Caller{Name: "a1", Instance: a, Boot: 3}, now) {
		t.Error("a1 is no longer welcomed")
	}
}
