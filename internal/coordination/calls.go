package coordination

import (
	"context"
	"encoding/json"
	"errors"
	"net"

	"github.com/orbweaver/orbweaver/internal/cluster/consensus"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// admitted reports whether a caller is an agent of the roster.
func (c *Coordinator) admitted(from rpc.Caller) bool {
	r := c.machine.Roster()
	m, ok := r.Member(from.Name)
	return ok && m.Instance == from.Instance
}

// answer keeps from other processes the address that a coordinator without others has in its log.
func (c *Coordinator) answer(err error) error {
	if n, ok := errors.AsType[*rpc.NotLeader](err); ok && n.Leader == alone {
		return new(rpc.NotLeader)
	}
	return err
}

// serve answers the calls to a coordinator.
func (c *Coordinator) serve() {
	coordinator.DiscoverCall.Serve(c.server, c.discover)
	coordinator.FollowCall.Serve(c.server, c.follow)
	coordinator.FinishCall.Serve(c.server, c.finish)
	coordinator.StatusCall.Serve(c.server, c.status)
	coordinator.ForgetCall.Serve(c.server, c.forget)
}

func (c *Coordinator) discover(ctx context.Context, from rpc.Caller, q *pb.DiscoverRequest) (*pb.DiscoverResponse,
	error) {
	as, err := c.logic.Discover(ctx, from, q.Hosts, coordinator.HowOf(q))
	if err != nil {
		return nil, c.answer(err)
	}
	return coordinator.Discovered(as), nil
}

func (c *Coordinator) follow(ctx context.Context, from rpc.Caller, q *pb.FollowRequest) (*pb.FollowResponse, error) {
	f, err := c.logic.Follow(ctx, from, coordinator.FollowOf(q))
	if err != nil {
		return nil, c.answer(err)
	}
	return f.Wire(), nil
}

func (c *Coordinator) finish(ctx context.Context, from rpc.Caller, q *pb.FinishRequest) (*pb.FinishResponse, error) {
	return new(pb.FinishResponse), c.answer(c.logic.Finish(ctx, from, q.Term, q.Number))
}

func (c *Coordinator) status(context.Context, rpc.Caller, *pb.StatusRequest) (*pb.StatusResponse, error) {
	b, err := json.Marshal(c.Status())
	return &pb.StatusResponse{Status: b}, err
}

// forget takes an agent off the roster at a person's word.
func (c *Coordinator) forget(ctx context.Context, from rpc.Caller, q *pb.ForgetRequest) (*pb.ForgetResponse, error) {
	err := c.logic.Forget(ctx, q.Agent)
	if err == nil {
		c.events.Event("agent-forgotten", "agent", q.Agent, "by", from.Name)
	}
	return new(pb.ForgetResponse), c.answer(err)
}

// A raftNetwork is the consensus.Network of a coordinator.
type raftNetwork struct {
	net.Listener
	c *Coordinator
}

func (n raftNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return rpc.DialRaft(ctx, n.c.keys, n.c.cfg.Network.Dial, addr, "")
}

// A replicated machine is the consensus.Machine of a coordinator.
type replicated struct{ *coordinator.Machine }

func (r replicated) Snapshot() (consensus.Snapshot, error) {
	s, err := r.Machine.Snapshot()
	if err != nil {
		return nil, err // not a nil Snapshot in an interface
	}
	return s, nil
}
