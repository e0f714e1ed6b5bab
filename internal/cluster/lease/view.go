package lease

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// A clusterView is a View of the leases, made of a view of gossip. It is immutable.
type clusterView struct {
	owners placement.Placement
	ids    map[string]AgentID       // of the agents that grant leases, by name
	agents map[AgentID]gossip.Agent // including agents that are leaving
	fresh  map[AgentID]bool         // agents that were joining until this view
	over   map[AgentID]bool
	silent map[AgentID]time.Duration // agents that left: for how long this one had not heard from them
	gap    bool                      // an agent of an earlier run is missing
	digest uint64
	few    bool // few agents grant all points, because any agent may want any of them
}

func (v *clusterView) Owner(point uint64) AgentID {
	if v.few {
		point = FewGrantors(point)
	}
	return v.ids[v.owners.Owner(point).Name]
}

func (v *clusterView) Digest() uint64       { return v.digest }
func (v *clusterView) Has(a AgentID) bool   { _, ok := v.agents[a]; return ok }
func (v *clusterView) Len() int             { return len(v.agents) }
func (v *clusterView) Agents() []AgentID    { return slices.Sorted(maps.Keys(v.agents)) }
func (v *clusterView) Fresh(a AgentID) bool { return v.fresh[a] }
func (v *clusterView) Over(a AgentID) bool  { return v.over[a] }
func (v *clusterView) Missing() bool        { return v.gap }

func (v *clusterView) Silent(a AgentID) time.Duration { return v.silent[a] }

// agentID identifies one start of an agent. It is never 0.
func agentID(instance rpc.ID, boot uint64) AgentID {
	b := binary.BigEndian.AppendUint64(instance[:len(instance):len(instance)], boot)
	return AgentID(max(xxhash.Sum64(b), 1))
}

// newClusterView returns the part of v that leases need, or nil if no agent crawls. An agent grants
// the leases of the points that it would own as hosts.
func newClusterView(v *gossip.View, placer Placer, few bool) (*clusterView, error) {
	up := members.Up(v)
	if len(up) == 0 {
		return nil, nil
	}
	owners, err := placer.Place(up)
	if err != nil {
		return nil, err
	}
	l := &clusterView{
		owners: owners, ids: map[string]AgentID{}, agents: map[AgentID]gossip.Agent{}, few: few,
	}
	var said []byte
	for _, a := range v.Agents {
		if a.State != gossip.Up && a.State != gossip.Leaving {
			continue
		}
		id := agentID(a.Instance, a.Boot)
		l.agents[id] = a
		if a.State == gossip.Up {
			l.ids[a.Name] = id
		}
		said = fmt.Appendf(said, "%q %x %v %v\n", a.Name, uint64(id), a.Capacity, a.State)
	}
	l.digest = xxhash.Sum64(said)
	return l, nil
}

// follow sets over, silent and gap from agents that are not in v: known are those of earlier views,
// before those of earlier runs.
func (v *clusterView) follow(m *gossip.View, silent func(gossip.Agent) time.Duration,
	known map[AgentID]gossip.Agent, before map[string]string) {
	v.over, v.silent = map[AgentID]bool{}, map[AgentID]time.Duration{}
	for id, a := range known {
		if _, there := v.agents[id]; there {
			continue
		}
		if v.silent[id] = silent(a); isOver(m, a) {
			v.over[id] = true
		}
	}
	for name := range before {
		if _, there := m.Agent(name); !there {
			v.gap = true
		}
	}
}

// mostLost is how long a list of lost agents must be before isOver no longer trusts it to be
// complete.
const mostLost = 1000

// isOver reports whether an agent that no longer crawls has said so, or has restarted. Only one
// process can have its crawl directory, so a restart ends the earlier process. An agent closes its
// connections before it says that it is gone.
func isOver(m *gossip.View, a gossip.Agent) bool {
	for _, b := range m.Agents {
		if b.Instance == a.Instance {
			return b.Boot > a.Boot || b.Boot == a.Boot && b.State == gossip.Gone
		}
	}
	lost := slices.ContainsFunc(m.Lost, func(b gossip.Agent) bool { return b.Instance == a.Instance })
	return !lost && len(m.Lost) < mostLost
}

// same reports whether two views are equal for leases.
func (v *clusterView) same(o *clusterView) bool {
	if v == nil || len(v.agents) != len(o.agents) || !slices.Equal(v.owners.Agents(), o.owners.Agents()) {
		return false
	}
	for id, a := range v.agents {
		if b, ok := o.agents[id]; !ok || a.Addr != b.Addr || a.State != b.State {
			return false
		}
	}
	return true
}
