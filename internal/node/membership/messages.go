package membership

import (
	"cmp"
	"math"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// HelloCall asks whether the caller may join the cluster. Its settings must be those of all agents. The answer has the
// crawl, how long it has been running (clocks of two machines are never compared), and the agents of a running crawl.
// If there are none, the answering agent does not know that the crawl has begun.
var HelloCall = rpc.Method[pb.HelloRequest, pb.HelloResponse]{Call: rpc.CallHello, Request: checkHello,
	Response: func(_ *pb.HelloRequest, r *pb.HelloResponse) error { return checkWelcome(r) }}

// maxAgents bounds the agents in an answer.
const maxAgents = 4096

func checkHello(q *pb.HelloRequest) error {
	return cmp.Or(checkAgent(q.Agent), rpc.CheckSettings(q.Settings))
}

func checkWelcome(r *pb.HelloResponse) error {
	if err := checkAgent(r.Agent); err != nil {
		return err
	}
	switch {
	case len(r.Crawl) != len(rpc.ID{}):
		return rpc.Malformedf("id of %d octets", len(r.Crawl))
	case r.ElapsedMs > uint64(math.MaxInt64/time.Millisecond):
		return rpc.Malformedf("elapsed %d ms", r.ElapsedMs)
	case len(r.Agents) > maxAgents:
		return rpc.Malformedf("%d agents", len(r.Agents))
	}
	for _, a := range r.Agents {
		if err := checkAgent(a); err != nil {
			return err
		}
	}
	return nil
}

func checkAgent(a *pb.Agent) error {
	if a == nil {
		return rpc.Malformedf("no agent")
	}
	if err := rpc.CheckName(a.Name); err != nil {
		return rpc.Malformedf("%v", err)
	}
	switch {
	case len(a.Instance) != len(rpc.ID{}):
		return rpc.Malformedf("id of %d octets", len(a.Instance))
	case a.State > math.MaxUint8:
		return rpc.Malformedf("state %d", a.State)
	}
	return cmp.Or(rpc.CheckCapacity(a.Capacity), rpc.CheckAddress(a.Address))
}

// wire returns the message about an agent.
func wire(a gossip.Agent) *pb.Agent {
	return &pb.Agent{Name: a.Name, Instance: a.Instance[:], Boot: a.Boot, Capacity: a.Capacity, Address: a.Addr,
		State: uint32(a.State)}
}

// agentOf returns the agent that a checked message is about.
func agentOf(a *pb.Agent) gossip.Agent {
	return gossip.Agent{Name: a.Name, Instance: [16]byte(a.Instance), Boot: a.Boot, Capacity: a.Capacity,
		Addr: a.Address, State: gossip.State(a.State)}
}
