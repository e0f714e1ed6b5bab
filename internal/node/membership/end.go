package membership

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/lost"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/cluster/termination"
)

// others is the termination.Others of an agent.
type others struct{ *members.Members }

func (o others) Pulse(ctx context.Context, to gossip.Agent, q *pb.PulseRequest) (*pb.PulseResponse, error) {
	return termination.PulseCall.Ask(ctx, o.To(to), q)
}

func (o others) End(ctx context.Context, to gossip.Agent, q *pb.EndRequest) (*pb.EndResponse, error) {
	return termination.EndCall.Ask(ctx, o.To(to), q)
}

// busy is the termination.Agent of an agent.
type busy struct {
	members  *members.Members
	division *Division
	joining  *joining
	refetch  *lost.Refetch
	sites    *follower.Follower
	agent    Agent
}

// Settled implements termination.Agent: this agent has applied the current view, has no takeover left to do, reads no
// list of a lost archive and waits for the owner of no host.
func (b busy) Settled() bool {
	v := b.members.View()
	return b.division.TakenOver(v) && b.refetch.Settled() && b.sites.Agrees(v)
}

func (b busy) Claimed() bool { return b.agent.Claimed() }

func (b busy) Missing() bool { return len(b.joining.gone()) > 0 }

func (b busy) Expected(v *gossip.View, now time.Time) bool {
	return b.joining.admissions.expected(v, now)
}

func (b busy) Hold(until time.Time) { b.joining.admissions.hold(until) }

func (b busy) Close() { b.joining.admissions.set(ended) }

func (b busy) Lost(v *gossip.View) bool { return b.refetch.Wanted(v) }

func (b busy) Refetch(v *gossip.View) bool { return b.refetch.Begin(v) }
