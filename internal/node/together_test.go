package node

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/lease"
)

// TestStarts checks an agent's answers to the question whether it begins with the others.
func TestStarts(t *testing.T) {
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer streams.Close()
	nobody := errors.New("nobody")
	open := func(boot uint64) *membership {
		self := gossip.Agent{Name: "a1", Capacity: 1, Addr: "127.0.0.1:7470", Instance: [16]byte{1}, Boot: boot}
		m, err := gossip.Open(gossip.Config{
			Self: self, Advertise: netip.MustParseAddrPort(self.Addr), Packets: packets, Streams: streams,
			Dial:  func(context.Context, string, string) (net.Conn, error) { return nil, nobody },
			Hello: func(context.Context, string) error { return nobody },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		c := &membership{self: self}
		if got := c.starts(1); got != togetherNotYet {
			t.Errorf("before it is a member: %d", got)
		}
		c.member.Store(m)
		return c
	}
	c := open(1)
	m := c.member.Load()
	if err := m.Announce(t.Context(), gossip.Up); err != nil {
		t.Fatal(err)
	}
	v := m.View()
	hash := agentsHash(v)
	if got := c.starts(hash); got != togetherNotYet {
		t.Errorf("before it has begun with any: %d", got)
	}
	if c.together(t.Context(), v) {
		t.Error("began alone, in a crawl that another agent started")
	}
	if got := c.starts(hash); got != togetherYes {
		t.Errorf("begun with these: %d", got)
	}
	if got := c.starts(hash + 1); got != togetherNo {
		t.Errorf("begun with others: %d", got)
	}
	c.start.founds()
	if got := c.starts(hash); got != togetherFounder {
		t.Errorf("begun with these, and it began the crawl: %d", got)
	}
	if !c.together(t.Context(), v) {
		t.Error("the agent that started the crawl does not begin it alone")
	}
	// It sees no agent up any more, not even itself.
	if err := m.Announce(t.Context(), gossip.Leaving); err != nil {
		t.Fatal(err)
	}
	if got := c.starts(hash); got != togetherNo {
		t.Errorf("begun with these, sees others: %d", got)
	}
	m.Announce(t.Context(), gossip.Up)
	if got := c.starts(hash); got != togetherFounder {
		t.Errorf("sees them again: %d", got)
	}

	c = open(2)
	c.member.Load().Announce(t.Context(), gossip.Up)
	c.start.founds()
	if v := c.member.Load().View(); c.together(t.Context(), v) || c.starts(agentsHash(v)) != togetherNo {
		t.Error("a second start counts as the first one")
	}
}

// Two views are equal for leases if each agent has the same start, the same address and the same
// place among those that own hosts.
func TestLeaseView(t *testing.T) {
	view := func(as ...gossip.Agent) *leaseView {
		v, err := newLeaseView(&gossip.View{Agents: as}, &Cluster{})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	agent := func(name string, boot uint64, s gossip.State) gossip.Agent {
		return gossip.Agent{Name: name, Capacity: 1, Instance: [16]byte{name[1]}, Boot: boot,
			Addr: "127.0.0.1:1", State: s}
	}
	a, b := agent("a1", 1, gossip.Up), agent("a2", 1, gossip.Up)
	if v := view(agent("a1", 1, gossip.Joining)); v != nil {
		t.Errorf("a view without an agent that is up: %+v", v)
	}
	two := view(a, b)
	for i, c := range []struct {
		v    *leaseView
		same bool
	}{
		{view(a, b), true}, {view(a, b, agent("a3", 1, gossip.Joining)), true}, {view(a), false},
		{view(a, agent("a2", 2, gossip.Up)), false}, {view(a, agent("a2", 1, gossip.Leaving)), false},
		{view(a, b, agent("a3", 1, gossip.Up)), false},
	} {
		if got := two.same(c.v); got != c.same {
			t.Errorf("view %d: same %v", i, got)
		}
	}
	leaving := view(a, agent("a2", 1, gossip.Leaving))
	id := leaseAgent(b.Instance, b.Boot)
	if !leaving.Has(id) || leaving.Len() != 2 || id == leaseAgent(b.Instance, 2) {
		t.Error("a leaving agent is not in the view")
	}
	granted := map[bool]int{}
	for p := range uint64(1000) {
		granted[two.Owner(p) == id]++
		if leaving.Owner(p) == id {
			t.Fatal("a leaving agent grants leases")
		}
	}
	if granted[true] < 300 || granted[false] < 300 {
		t.Errorf("of 1000 points one grants %d, the other %d", granted[true], granted[false])
	}
}

// An agent that is in no view any more is over if it has said that it is gone, or has restarted. A
// lost agent, or one whose name another instance has, may still run. A view is complete if it has
// all agents of earlier runs.
func TestLeaseViewFollows(t *testing.T) {
	agent := func(name string, instance byte, boot uint64, s gossip.State) gossip.Agent {
		return gossip.Agent{Name: name, Capacity: 1, Instance: [16]byte{instance}, Boot: boot,
			Addr: "127.0.0.1:1", State: s}
	}
	a, b := agent("a1", 1, 1, gossip.Up), agent("a2", 2, 3, gossip.Up)
	id := leaseAgent(b.Instance, b.Boot)
	for _, c := range []struct {
		name         string
		agents, lost []gossip.Agent
		over, gap    bool
	}{
		{"there", []gossip.Agent{a, b}, nil, false, false},
		{"lost", []gossip.Agent{a}, []gossip.Agent{b}, false, true},
		{"said that it goes", []gossip.Agent{a, agent("a2", 2, 3, gossip.Gone)}, nil, true, false},
		{"went in good order", []gossip.Agent{a}, nil, true, true},
		{"lives again", []gossip.Agent{a, agent("a2", 2, 4, gossip.Joining)}, nil, true, false},
		{"another in its place", []gossip.Agent{a, agent("a2", 9, 1, gossip.Up)}, []gossip.Agent{b}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &gossip.View{Agents: c.agents, Lost: c.lost}
			v, err := newLeaseView(m, &Cluster{})
			if err != nil {
				t.Fatal(err)
			}
			v.follow(m, map[lease.Agent]gossip.Agent{id: b}, map[string]string{"a2": b.Addr})
			if v.Over(id) != c.over || v.Missing() != c.gap {
				t.Errorf("over %v, missing %v; want %v, %v", v.Over(id), v.Missing(), c.over, c.gap)
			}
		})
	}
}
