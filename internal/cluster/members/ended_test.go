package members_test

import (
	"maps"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
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
