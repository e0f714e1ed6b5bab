package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
)

// settle records which agents own the hosts from now on.
func (c *membership) settle(owners placement.Placement) {
	self := func(a placement.Owner) bool { return a.Name == c.members.Self.Name }
	c.takesPart.Store(slices.ContainsFunc(owners.Agents(), self))
	if old := c.owners(); old != nil {
		c.placed.Store(old.Next(owners))
		return
	}
	// Agents that wait for each other begin together, with the same view. An agent came later if it
	// finds more agents, or if it was told that the crawl has begun.
	first := c.members.Self.Boot == 1 && !c.joining.late.Load() && len(owners.Agents()) == max(c.cfg.Agents, 1)
	c.placed.Store(placement.NewView(owners, c.members.Self.Name, placement.Begin{First: first,
		Before: c.members.Self.Boot > 1}))
}

// crawling returns the agents of a crawl that has begun, or none if this agent does not know that
// it has begun. An agent knows it if it has crawled itself, in this run or an earlier one, or if it
// was told when it joined. So every agent that joins later is told, whichever agent it joins
// through.
func (j *joining) crawling() (agents []rpc.Agent) {
	if !j.begun.Load() && !j.late.Load() {
		return nil
	}
	for _, a := range j.members.View().Agents {
		agents = append(agents, wire(a))
	}
	return agents
}

// Identity implements cluster.Exchange.
func (c *membership) Identity(agent string) string {
	a, ok := c.members.Agent(agent)
	if !ok {
		return ""
	}
	return identityOf(a.Name, a.Instance)
}

func identityOf(name string, instance rpc.ID) string { return name + " " + instance.String() }

var verdicts = map[rpc.ClaimAnswer]cluster.ClaimAnswer{
	rpc.Unknown: cluster.Nothing, rpc.Coming: cluster.Coming,
	rpc.Again: cluster.Again, rpc.Never: cluster.Stranger,
}

// Claim implements cluster.Exchange.
func (c *membership) Claim(ctx context.Context, agent string, view uint64, hosts []string) (
	[]cluster.ClaimAnswer, error) {
	p, err := c.members.Peer(agent)
	if err != nil {
		return nil, err
	}
	vs, err := p.Claim(ctx, rpc.Claim{View: view, Hosts: hosts})
	if err != nil {
		return nil, err
	}
	out := make([]cluster.ClaimAnswer, len(vs))
	for i, v := range vs {
		out[i] = verdicts[v]
	}
	return out, nil
}

// claim answers the claim of another agent.
func (c *membership) claim(ctx context.Context, from rpc.Caller, q rpc.Claim) ([]rpc.ClaimAnswer, error) {
	if c.owners() == nil {
		return nil, rpc.ErrAgain
	}
	vs, err := c.cluster.Claimed(ctx, from.Name, identityOf(from.Name, from.Instance), q.View, q.Hosts)
	if err != nil {
		return nil, again(err)
	}
	out := make([]rpc.ClaimAnswer, len(vs))
	for i, v := range vs {
		switch v {
		case cluster.Nothing:
			out[i] = rpc.Unknown
		case cluster.Coming:
			out[i] = rpc.Coming
		case cluster.Stranger:
			out[i] = rpc.Never
		default:
			out[i] = rpc.Again
		}
	}
	return out, nil
}

// again returns the error that another agent gets for an error of the crawl.
func again(err error) error {
	if errors.Is(err, crawl.ErrNotRunning) {
		return rpc.ErrAgain
	}
	return err
}

// Hand implements cluster.Exchange.
func (c *membership) Hand(ctx context.Context, agent string, records []byte, count int) error {
	p, err := c.members.Peer(agent)
	if err != nil {
		return err
	}
	return p.Hand(ctx, rpc.Records{Count: count, Data: records})
}

// handed receives what another agent knows of hosts.
func (c *membership) handed(ctx context.Context, from rpc.Caller, r rpc.Records) error {
	err := c.cluster.Handed(ctx, from.Name, r.Data)
	if errors.Is(err, handoff.ErrRecord) {
		return fmt.Errorf("%w: %w", rpc.ErrMalformed, err)
	}
	return again(err)
}
