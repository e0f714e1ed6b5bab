package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// recoveryDefault is how many agents are asked what they know of a host.
const recoveryDefault = 2

// settle records which agents own the hosts from now on.
func (c *membership) settle(owners placement.Placement) {
	if old := c.owners(); old != nil {
		c.placed.Store(old.Next(owners))
		return
	}
	// Agents that wait for each other begin together, with the same view. An agent came later if it
	// finds more agents, or if it was told that the crawl has begun.
	first := c.self.Boot == 1 && !c.late.Load() && len(owners.Agents()) == max(c.cfg.Agents, 1)
	c.placed.Store(placement.NewView(owners, c.self.Name, placement.Begin{First: first, Before: c.self.Boot > 1}))
}

// crawling returns the agents of a crawl that has begun, or none if this agent does not know that
// it has begun. An agent knows it if it has crawled itself, in this run or an earlier one, or if it
// was told when it joined. So every agent that joins later is told, whichever agent it joins
// through.
func (c *membership) crawling() (agents []rpc.Agent) {
	if !c.begun.Load() && !c.late.Load() {
		return nil
	}
	for _, a := range c.member.Load().View().Agents {
		agents = append(agents, wire(a))
	}
	return agents
}

// Tenure implements cluster.Placement.
func (c *membership) Tenure(host string) (owner string, mine bool, since uint64) {
	owners, key := c.owners(), weburl.HostKey(host)
	if owners == nil {
		return "", false, 0
	}
	if owner, mine = c.ready(owners.Owner(key).Name, key); mine {
		since = uint64(owners.Tenure(key).Since)
	}
	return owner, mine, since
}

// View implements cluster.Placement.
func (c *membership) View() uint64 { return c.saw.Load() }

// Had implements cluster.Placement.
func (c *membership) Had(host string) (ever, began bool) {
	owners := c.owners()
	if owners == nil {
		return false, false
	}
	t := owners.Tenure(weburl.HostKey(host))
	return t.Ever || c.copies.took(), t.Began
}

// Inheriting implements cluster.Placement.
func (c *membership) Inheriting() bool { return !c.copies.settled() }

// Before implements cluster.Placement. It returns the agents that are leaving, then those that are back
// and not up yet, then all others. The others are in the host's order: first the agent that would
// own the host if this one were absent, and so on.
func (c *membership) Before(host string) (agents []string, enough int) {
	enough = c.cfg.Recovery
	if enough <= 0 {
		enough = recoveryDefault
	}
	for _, a := range c.member.Load().View().Agents {
		back := a.State == gossip.Joining && a.Boot > 1
		if (a.State == gossip.Leaving || back) && a.Name != c.self.Name {
			agents = append(agents, a.Name)
			enough++
		}
	}
	return append(agents, c.owners().Others(weburl.HostKey(host))...), enough
}

// Identity implements cluster.Exchange.
func (c *membership) Identity(agent string) string {
	a, ok := c.member.Load().View().Agent(agent)
	if !ok {
		return ""
	}
	return identityOf(a.Name, a.Instance)
}

func identityOf(name string, instance rpc.ID) string { return name + " " + instance.String() }

// peer returns another agent of the current view.
func (c *membership) peer(agent string) (*rpc.Peer, error) {
	to, ok := c.member.Load().View().Agent(agent)
	if !ok {
		return nil, fmt.Errorf("agent %q is gone", agent)
	}
	return c.client.Peer(to.Name, to.Addr), nil
}

var verdicts = map[rpc.Verdict]cluster.Verdict{
	rpc.Unknown: cluster.Nothing, rpc.Coming: cluster.Coming,
	rpc.Again: cluster.Again, rpc.Never: cluster.Stranger,
}

// Claim implements cluster.Exchange.
func (c *membership) Claim(ctx context.Context, agent string, view uint64, hosts []string) ([]cluster.Verdict, error) {
	p, err := c.peer(agent)
	if err != nil {
		return nil, err
	}
	vs, err := p.Claim(ctx, rpc.Claim{View: view, Hosts: hosts})
	if err != nil {
		return nil, err
	}
	out := make([]cluster.Verdict, len(vs))
	for i, v := range vs {
		out[i] = verdicts[v]
	}
	return out, nil
}

// claim answers the claim of another agent.
func (c *membership) claim(ctx context.Context, from rpc.Caller, q rpc.Claim) ([]rpc.Verdict, error) {
	if c.owners() == nil {
		return nil, rpc.ErrAgain
	}
	vs, err := c.a.cluster.Claimed(ctx, from.Name, identityOf(from.Name, from.Instance), q.View, q.Hosts)
	if err != nil {
		return nil, again(err)
	}
	out := make([]rpc.Verdict, len(vs))
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
	if errors.Is(err, crawl.ErrNotRunning) || errors.Is(err, cluster.ErrNotHeir) {
		return rpc.ErrAgain
	}
	return err
}

// Hand implements cluster.Exchange.
func (c *membership) Hand(ctx context.Context, agent string, parts iter.Seq[cluster.Part]) error {
	p, err := c.peer(agent)
	if err != nil {
		return err
	}
	_, err = p.Hand(ctx, func(yield func(rpc.Part, error) bool) {
		for part := range parts {
			out := rpc.Part{Host: part.Host}
			switch {
			case part.Last:
				out.Kind = rpc.PartGone
			case part.Clock != nil:
				out.Kind, out.Data = rpc.PartState, appendClock(nil, *part.Clock)
			default:
				out.Kind, out.Count, out.Data = rpc.PartKeys, len(part.Keys.Paths), []byte{byte(part.Keys.Width)}
				for _, p := range part.Keys.Paths {
					out.Data = binary.BigEndian.AppendUint64(out.Data, p)
				}
			}
			if !yield(out, nil) {
				return
			}
		}
	})
	return err
}

// handed receives the handoff of another agent.
func (c *membership) handed(ctx context.Context, from rpc.Caller, parts iter.Seq2[rpc.Part, error]) (int, error) {
	n, err := c.a.cluster.Handed(ctx, from.Name, func(yield func(cluster.Part, error) bool) {
		for p, err := range parts {
			out := cluster.Part{Host: p.Host}
			if err == nil {
				switch p.Kind {
				case rpc.PartGone:
					out.Last = true
				case rpc.PartState:
					out.Clock, err = decodeClock(p.Data)
				case rpc.PartKeys:
					out.Keys, err = decodePaths(p.Data)
				default:
					err = fmt.Errorf("%w: part %d", rpc.ErrMalformed, p.Kind)
				}
			}
			if !yield(out, err) || err != nil {
				return
			}
		}
	})
	return n, again(err)
}

func decodePaths(b []byte) (l keyset.List, err error) {
	l.Width = uint(b[0]) // package rpc has checked that there is a byte
	for b = b[1:]; len(b) > 0; b = b[8:] {
		p := binary.BigEndian.Uint64(b)
		if p>>l.Width != 0 { // at width 64 the shift leaves 0
			return l, fmt.Errorf("%w: a key of more than %d bits", rpc.ErrMalformed, l.Width)
		}
		l.Paths = append(l.Paths, p)
	}
	if !keyset.ValidWidth(l.Width) {
		return l, fmt.Errorf("%w: keys of %d bits", rpc.ErrMalformed, l.Width)
	}
	return l, nil
}

// appendClock encodes a clock: 1 byte pauses, 1 byte that is 1 if the host is blocked, and three
// uvarints of milliseconds, rounded up: delay, quiet time and last pause.
func appendClock(dst []byte, k cluster.Clock) []byte {
	blocked := byte(0)
	if k.Blocked {
		blocked = 1
	}
	dst = append(dst, k.Slow, blocked)
	for _, d := range [...]time.Duration{k.Delay, k.Quiet, k.SlowFor} {
		dst = binary.AppendUvarint(dst, uint64((max(d, 0)+time.Millisecond-1)/time.Millisecond))
	}
	return dst
}

// clockMost is the longest time that is accepted in another agent's clock.
const clockMost = 366 * 24 * time.Hour

func decodeClock(b []byte) (*cluster.Clock, error) {
	bad := fmt.Errorf("%w: clock %x", rpc.ErrMalformed, b[:min(len(b), 64)])
	if len(b) < 2 || b[0] > 64 || b[1] > 1 {
		return nil, bad
	}
	k := &cluster.Clock{Slow: b[0], Blocked: b[1] == 1}
	b = b[2:]
	for _, d := range []*time.Duration{&k.Delay, &k.Quiet, &k.SlowFor} {
		ms, n := binary.Uvarint(b)
		if n <= 0 || ms > uint64(clockMost/time.Millisecond) {
			return nil, bad
		}
		*d, b = time.Duration(ms)*time.Millisecond, b[n:]
	}
	if len(b) > 0 {
		return nil, bad
	}
	return k, nil
}
