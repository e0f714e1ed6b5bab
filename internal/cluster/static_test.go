package cluster

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// static is a Placement of hosts that never move.
type static struct {
	owner func(host string) (agent string, mine bool)
}

// onlySelf sees one agent, which owns all hosts.
var onlySelf = static{func(string) (string, bool) { return "self", true }}

func (s static) Owner(host string) (string, bool) { return s.owner(host) }

func (s static) Tenure(host string) (owner string, mine bool, since uint64) {
	owner, mine = s.owner(host)
	return owner, mine, 0
}

func (static) Before(string) ([]string, int)                       { return nil, 0 }
func (static) View() uint64                                        { return 1 }
func (static) Had(string) (ever, began bool)                       { return false, false }
func (static) Heirs() Heirs                                        { return nil }
func (static) Inheriting() bool                                    { return false }
func (static) Unheard(time.Time) time.Duration                     { return 0 }
func (static) Boot(string) uint64                                  { return 1 }
func (static) Identity(agent string) string                        { return identityOf(rpc.Caller{Name: agent}) }
func (static) Push(context.Context, string, *pb.PushRequest) error { return errLost }
func (static) Hand(context.Context, string, *pb.HandRequest) error { return errLost }
func (static) Recall(context.Context, string, *pb.RecallRequest) (*pb.RecallResponse, error) {
	return nil, errLost
}
func (static) Claim(context.Context, string, *pb.ClaimRequest) (*pb.ClaimResponse, error) {
	return nil, errLost
}
