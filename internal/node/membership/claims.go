package membership

import (
	"context"
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
)

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
func (c *Membership) Identity(agent string) string {
	a, ok := c.Members.Agent(agent)
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
func (c *Membership) Claim(ctx context.Context, agent string, view uint64, hosts []string) (
	[]cluster.ClaimAnswer, error) {
	p, err := c.Members.Peer(agent)
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
func (c *Membership) claim(ctx context.Context, from rpc.Caller, q rpc.Claim) ([]rpc.ClaimAnswer, error) {
	if c.Division.Owners() == nil {
		return nil, rpc.ErrAgain
	}
	vs, err := c.Cluster.Claimed(ctx, from.Name, identityOf(from.Name, from.Instance), q.View, q.Hosts)
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
func (c *Membership) Hand(ctx context.Context, agent string, records []byte, count int) error {
	p, err := c.Members.Peer(agent)
	if err != nil {
		return err
	}
	return p.Hand(ctx, rpc.Records{Count: count, Data: records})
}

// handed receives what another agent knows of hosts.
func (c *Membership) handed(ctx context.Context, from rpc.Caller, r rpc.Records) error {
	err := c.Cluster.Handed(ctx, from.Name, r.Data)
	if errors.Is(err, handoff.ErrRecord) {
		return fmt.Errorf("%w: %w", rpc.ErrMalformed, err)
	}
	return again(err)
}

// receive accepts the links that another agent pushes.
func (c *Membership) receive(ctx context.Context, _ rpc.Caller, l rpc.Links) error {
	links, err := decodeLinks(l)
	if err != nil {
		return err
	}
	err = c.Cluster.Receive(ctx, links, l.Hops)
	if errors.Is(err, crawl.ErrNotRunning) {
		return rpc.ErrAgain
	}
	return err
}
