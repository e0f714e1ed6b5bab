// Package members answers: who is in this agent's cluster now, and how is each of them called?
//
//	gossip -> View -> Agent -> Peer -> a call of package rpc
//
// Each feature of the cluster that calls other agents has the Members of its agent, and nothing else of it.
package members

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// Members are the agents of a cluster, as one of them sees them. The methods are safe for concurrent use; Self and
// Client are set before the first call.
type Members struct {
	Self   gossip.Agent // this agent
	Client *rpc.Client
	// Roster knows agents that gossip does not reach and calls may. Nil: there are none.
	Roster Roster

	crawl  atomic.Pointer[rpc.ID]
	member atomic.Pointer[gossip.Member]
}

// A Roster is another list of agents.
type Roster interface {
	// Agent returns an agent of the list.
	Agent(name string) (gossip.Agent, bool)
}

// Join sets the source of the views: this agent has joined the cluster.
func (m *Members) Join(g *gossip.Member) { m.member.Store(g) }

// Gossip returns what Join got. It is nil before: then there is no view.
func (m *Members) Gossip() *gossip.Member { return m.member.Load() }

// View returns the agents that are there now. Only for an agent that has joined.
func (m *Members) View() *gossip.View { return m.member.Load().View() }

// SetCrawl tells the identity of the cluster's crawl.
func (m *Members) SetCrawl(id rpc.ID) { m.crawl.Store(&id) }

// Crawl returns the identity of the cluster's crawl. It is zero until an agent has told it.
func (m *Members) Crawl() rpc.ID {
	if id := m.crawl.Load(); id != nil {
		return *id
	}
	return rpc.ID{}
}

// Caller returns this agent as the caller of others.
func (m *Members) Caller() rpc.Caller {
	return rpc.Caller{Name: m.Self.Name, Instance: m.Self.Instance, Boot: m.Self.Boot, Crawl: m.Crawl()}
}

// Agent returns an agent of the view, or one of the roster alone.
func (m *Members) Agent(name string) (gossip.Agent, bool) {
	if a, ok := m.View().Agent(name); ok || m.Roster == nil {
		return a, ok
	}
	return m.Roster.Agent(name)
}

// Peer returns what calls another agent.
func (m *Members) Peer(name string) (*rpc.Peer, error) {
	to, ok := m.Agent(name)
	if !ok {
		return nil, fmt.Errorf("agent %q is gone", name)
	}
	return m.To(to), nil
}

// To returns what calls an agent whose address is known.
func (m *Members) To(a gossip.Agent) *rpc.Peer { return m.Client.Peer(a.Name, a.Addr) }

// In returns the names of the agents that are in one of the states.
func (m *Members) In(states ...gossip.State) (names []string) {
	for _, a := range m.View().Agents {
		if slices.Contains(states, a.State) {
			names = append(names, a.Name)
		}
	}
	return names
}

// Up returns the agents of a view that own hosts.
func Up(v *gossip.View) (up []placement.Owner) {
	for _, a := range v.Agents {
		if a.State == gossip.Up {
			up = append(up, placement.Owner{Name: a.Name, Capacity: a.Capacity})
		}
	}
	return up
}
