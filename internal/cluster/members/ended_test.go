package members_test

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/testmembers"
)

// agent returns an agent whose instance begins with a byte.
func agent(name string, instance byte, state gossip.State) gossip.Agent {
	return gossip.Agent{Name: name, Instance: [16]byte{instance, 0, 0, 0xff}, Boot: 1, Capacity: 2, State: state}
}

func ended(instance byte, left bool) gossip.Ending {
	return gossip.Ending{Life: gossip.Life{Instance: agent("", instance, 0).Instance, Boot: 1}, Left: left}
}

// An archive is kept if its agent is there or has ended in order. It is lost if its agent has gone without a word, or
// if another one has its name, unless it has left for good.
func TestFateOf(t *testing.T) {
	const archive = "a-010000ff"
	here, replaced := agent("a", 1, gossip.Up), agent("a", 2, gossip.Up)
	there := func(a ...gossip.Agent) *gossip.View { return &gossip.View{Agents: a} }
	gone := func(e gossip.Ending, a ...gossip.Agent) *gossip.View {
		return &gossip.View{Agents: a, Ended: []gossip.Ending{e}}
	}
	for name, c := range map[string]struct {
		view *gossip.View
		want members.Fate
	}{
		"no view":           {nil, members.Unknown},
		"there":             {there(here), members.Kept},
		"leaving":           {there(agent("a", 1, gossip.Leaving)), members.Kept},
		"about to join":     {there(agent("a", 1, gossip.Joining)), members.Unknown},
		"never heard of":    {there(agent("b", 1, gossip.Up)), members.Unknown},
		"gone without word": {&gossip.View{Lost: []gossip.Agent{here}}, members.Lost},
		"another one lost":  {&gossip.View{Lost: []gossip.Agent{replaced}}, members.Unknown},
		"stopped":           {gone(ended(1, false)), members.Kept},
		"left":              {gone(ended(1, true)), members.Kept},
		"replaced":          {there(replaced), members.Lost},
		"stopped, replaced": {gone(ended(1, false), replaced), members.Lost},
		"left, replaced":    {gone(ended(1, true), replaced), members.Kept},
	} {
		if got := members.FateOf(c.view, archive); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if name, instance := members.SplitArchive("a-b-010000ff"); name != "a-b" || instance != "010000ff" {
		t.Errorf("the archive of %q, %q", name, instance)
	}
}

// What is durable of the endings is told again after a restart. What no agent has written is not.
func TestEndingsAreKept(t *testing.T) {
	view := &gossip.View{Ended: []gossip.Ending{ended(1, false), ended(2, true)}}
	durable := members.EndingsIn(view)
	var e members.Endings
	e.Kept(maps.Clone(durable))
	if again := members.EndingsIn(&gossip.View{Ended: e.Gossip()}); len(durable) != 2 || !maps.Equal(again, durable) {
		t.Errorf("%v, want %v", again, durable)
	}
	stopped, left := rpc.ID(agent("", 1, 0).Instance), rpc.ID(agent("", 2, 0).Instance)
	if !members.HasLeft(view, left) || members.HasLeft(view, stopped) || members.HasLeft(nil, left) {
		t.Error("an agent that was stopped has left, or one that has left has not")
	}
	e.Kept(map[string]members.Ending{"not hexadecimal": {Boot: 1}, "": {}, "0102": {}})
	if es := e.Gossip(); len(es) > 0 || (*members.Endings)(nil).Gossip() != nil {
		t.Errorf("%v of damaged records", es)
	}
}

// Only agents that are up own hosts.
func TestUp(t *testing.T) {
	v := &gossip.View{Agents: []gossip.Agent{agent("a", 1, gossip.Joining), agent("b", 2, gossip.Up),
		agent("c", 3, gossip.Leaving), agent("d", 4, gossip.Gone)}}
	if up := members.Up(v); len(up) != 1 || up[0] != (placement.Owner{Name: "b", Capacity: 2}) {
		t.Errorf("%v", up)
	}
}

// Agents are found by the view of their gossip, or else in the roster. One that says that it leaves for good hears that
// it is kept when that is durable, and only by its present start.
func TestMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testmembers.Open(t, "a", "b")
		m := c.Agents[0].Members
		if (&members.Members{}).Crawl() != (rpc.ID{}) || m.Caller().Crawl != (rpc.ID{1}) {
			t.Errorf("the crawl is %v before it is known, and %v then", (&members.Members{}).Crawl(), m.Caller().Crawl)
		}
		c.Begin()
		b, known := m.Agent("b")
		if p, err := m.Peer("b"); err != nil || p.Name() != "b" || !known || b != c.Agents[1].Members.View().Agents[1] {
			t.Errorf("agent b is %+v, %v", b, err)
		}
		if _, err := m.Peer("x"); err == nil {
			t.Error("an agent that is not there can be called")
		}
		m.Roster = roster{"x"}
		if x, ok := m.Agent("x"); !ok || x.Name != "x" {
			t.Errorf("the roster has %+v", x)
		}
		if _, ok := m.Agent("y"); ok {
			t.Error("an agent is there that is on no list")
		}
		var e members.Endings
		from := c.Agents[1].Members.Caller()
		old := from
		old.Boot--
		for range 2 {
			for _, caller := range []rpc.Caller{from, old} {
				if err := e.Left(m.Gossip(), caller); !errors.Is(err, rpc.ErrAgain) {
					t.Errorf("start %d: before it is durable: %v", caller.Boot, err)
				}
			}
		}
		if !members.HasLeft(m.View(), from.Instance) {
			t.Error("the view does not say that b leaves")
		}
		e.Kept(members.EndingsIn(m.View()))
		if err := e.Left(m.Gossip(), from); err != nil || !errors.Is(e.Left(m.Gossip(), old), rpc.ErrAgain) {
			t.Errorf("when it is durable: %v", err)
		}
	})
}

// A roster has one agent.
type roster struct{ name string }

func (r roster) Agent(name string) (gossip.Agent, bool) {
	return gossip.Agent{Name: r.name}, name == r.name
}
