package coordination

import (
	"context"
	"errors"
	"net"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/consensus"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// admitted reports whether a caller is an agent of the roster.
func (c *Coordinator) admitted(from rpc.Caller) bool {
	r := c.machine.Roster()
	m, ok := r.Member(from.Name)
	return ok && m.Instance == from.Instance
}

func callerOf(from rpc.Caller) coordinator.Caller {
	return coordinator.Caller{Name: from.Name, Instance: from.Instance, Boot: from.Boot, Crawl: from.Crawl}
}

// answer turns an error of package coordinator into that of package rpc.
func (c *Coordinator) answer(err error) error {
	if n, ok := errors.AsType[*coordinator.NotLeader](err); ok {
		if n.Leader == alone {
			return &rpc.NotLeader{}
		}
		return &rpc.NotLeader{Leader: n.Leader}
	}
	if r, ok := errors.AsType[*coordinator.Refusal](err); ok {
		return &rpc.Refusal{Reason: r.Kind, Text: r.Text}
	}
	if errors.Is(err, coordinator.ErrAgain) {
		return rpc.ErrAgain
	}
	return err
}

func (c *Coordinator) discover(ctx context.Context, from rpc.Caller, d rpc.Discovery) ([]rpc.HostAnswer, error) {
	as, err := c.logic.Discover(ctx, callerOf(from), d.Hosts, d.Unchecked)
	if err != nil {
		return nil, c.answer(err)
	}
	answers := make([]rpc.HostAnswer, len(as))
	for i, a := range as {
		answers[i] = rpc.HostAnswer{State: rpc.HostState(a.State), After: a.After}
	}
	return answers, nil
}

func (c *Coordinator) follow(ctx context.Context, from rpc.Caller, f rpc.Follow) (rpc.Followed, error) {
	r := f.Report
	a, err := c.logic.Follow(ctx, callerOf(from), coordinator.Follow{
		From: f.From, Wait: f.Wait, Stamp: f.Stamp,
		Report: coordinator.Report{Capacity: r.Capacity, Addr: r.Addr, State: assignment.State(r.State), Term: r.Term,
			Hosts: r.Hosts, URLs: r.URLs, Heard: r.Heard, Settings: r.Settings}})
	if err != nil {
		return rpc.Followed{}, c.answer(err)
	}
	return rpc.Followed{Entries: a.Entries, Last: a.Last, Term: a.Term, Member: a.Member, Crawl: a.Crawl,
		Stamp: a.Stamp}, nil
}

func (c *Coordinator) finish(ctx context.Context, from rpc.Caller, f rpc.Finish) error {
	return c.answer(c.logic.Finish(ctx, callerOf(from), f.Term, f.Number))
}

// forget takes an agent off the roster at a person's word.
func (c *Coordinator) forget(ctx context.Context, from rpc.Caller, agent string) error {
	err := c.logic.Forget(ctx, agent)
	if err == nil {
		c.events.add("agent-forgotten", "agent", agent, "by", from.Name)
	}
	return c.answer(err)
}

// A raftNetwork is the consensus.Network of a coordinator.
type raftNetwork struct {
	net.Listener
	c *Coordinator
}

// Dial implements consensus.Network.
func (n raftNetwork) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return rpc.DialRaft(ctx, n.c.keys, n.c.cfg.Network.Dial, addr, "")
}

// A replicated machine is the consensus.Machine of a coordinator.
type replicated struct{ *coordinator.Machine }

// Snapshot implements consensus.Machine.
func (r replicated) Snapshot() (consensus.Snapshot, error) {
	s, err := r.Machine.Snapshot()
	if err != nil {
		return nil, err // not a nil Snapshot in an interface
	}
	return s, nil
}
