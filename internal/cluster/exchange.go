package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/known"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An Exchange calls other agents. Safe for concurrent use.
type Exchange interface {
	// Push sends links to an agent. It returns nil when they are durable there. After an error the crawl pushes the
	// links again, so an agent may get links twice. The links are valid until Push returns.
	Push(ctx context.Context, agent string, q *pb.PushRequest) error
	// Claim asks an agent for hosts, by the asker's View. The answer has a verdict for each, such as claimComing.
	Claim(ctx context.Context, agent string, q *pb.ClaimRequest) (*pb.ClaimResponse, error)
	// Hand sends an agent encodings of handoff.Records, at most handoff.MaxBatch bytes. It returns nil when they are
	// durable there.
	Hand(ctx context.Context, agent string, q *pb.HandRequest) error
	// Recall asks an agent what its strategy knows of URLs, given by links. If Accept is true, the agent owns the URLs,
	// and accepts those that it does not know. There is an answer for each.
	Recall(ctx context.Context, agent string, q *pb.RecallRequest) (*pb.RecallResponse, error)
	// Boot returns the number of an agent's last start. It grows with each start, and is 0 if the agent is gone.
	Boot(agent string) uint64
	// Identity returns a name that identifies an agent and its crawl directory. It is the same as the identity of the
	// agent as a caller, and empty if the agent is gone.
	Identity(agent string) string
}

// Calls is the Exchange of an agent with the agents of its cluster.
type Calls struct {
	Members *members.Members
	Durable *known.Durable // of this agent
	pushed  atomic.Uint64
}

// NewCalls returns the Calls of an agent, whose Durable is empty.
func NewCalls(m *members.Members) *Calls { return &Calls{Members: m, Durable: known.New(m)} }

// Pushed returns how many links the other agents have got from this one.
func (c *Calls) Pushed() uint64 { return c.pushed.Load() }

// askFrom is the smallest batch for which the question takes fewer bytes than it saves.
const askFrom = 4

// Push implements Exchange. It leaves out links that the agent says to have.
func (c *Calls) Push(ctx context.Context, agent string, q *pb.PushRequest) error {
	p, err := c.Members.Peer(agent)
	if err != nil {
		return err
	}
	if q.Count >= askFrom && q.Hops == 0 {
		if q, err = c.unknown(ctx, p, q); err != nil || q.Count == 0 {
			return err
		}
	}
	if _, err = PushCall.Ask(ctx, p, q); err == nil {
		c.pushed.Add(uint64(q.Count))
	}
	return err
}

// unknown returns those of the links that the agent does not know.
func (c *Calls) unknown(ctx context.Context, to *rpc.Peer, q *pb.PushRequest) (*pb.PushRequest, error) {
	ends, keys := make([]int, 0, q.Count), make([]link.Key, 0, q.Count)
	for at := 0; at < len(q.Links); {
		l, n, err := link.Peek(q.Links[at:])
		if err != nil {
			return nil, fmt.Errorf("link to send: %w", err)
		}
		at += n
		ends, keys = append(ends, at), append(keys, l.Key())
	}
	known, err := c.Durable.Ask(ctx, to, keys)
	if err != nil {
		return nil, err
	}
	left, from := new(pb.PushRequest), 0
	for i, end := range ends {
		if !known[i] {
			left.Links = append(left.Links, q.Links[from:end]...)
			left.Count++
		}
		from = end
	}
	return left, nil
}

func (c *Calls) Claim(ctx context.Context, agent string, q *pb.ClaimRequest) (*pb.ClaimResponse, error) {
	p, err := c.Members.Peer(agent)
	if err != nil {
		return nil, err
	}
	return ClaimCall.Ask(ctx, p, q)
}

func (c *Calls) Hand(ctx context.Context, agent string, q *pb.HandRequest) error {
	p, err := c.Members.Peer(agent)
	if err != nil {
		return err
	}
	_, err = HandCall.Ask(ctx, p, q)
	return err
}

func (c *Calls) Recall(ctx context.Context, agent string, q *pb.RecallRequest) (*pb.RecallResponse, error) {
	p, err := c.Members.Peer(agent)
	if err != nil {
		return nil, err
	}
	return RecallCall.Ask(ctx, p, q)
}

func (c *Calls) Boot(agent string) uint64 {
	a, _ := c.Members.Agent(agent)
	return a.Boot
}

func (c *Calls) Identity(agent string) string {
	a, ok := c.Members.Agent(agent)
	if !ok {
		return ""
	}
	return identityOf(rpc.Caller{Name: a.Name, Instance: a.Instance})
}

// identityOf returns the Exchange.Identity of a caller.
func identityOf(c rpc.Caller) string { return c.Name + " " + c.Instance.String() }

// Serve makes a server answer the calls of other agents, before it runs.
func (cl *Clustered) Serve(s *rpc.Server) {
	PushCall.Serve(s, again(cl.links.answer))
	ClaimCall.Serve(s, again(cl.tenants.answerClaim))
	HandCall.Serve(s, again(cl.tenants.answerHand))
	RecallCall.Serve(s, again(cl.recalls.answer))
	if cl.Durable != nil {
		known.Call.Serve(s, cl.Durable.Answer)
	}
	if cl.PageBox != nil {
		boundary.Serve(s, cl.exports)
	}
}

// again answers rpc.ErrAgain while the crawl does not run.
func again[Req, Res any](do rpc.Handler[Req, Res]) rpc.Handler[Req, Res] {
	return func(ctx context.Context, from rpc.Caller, q *Req) (*Res, error) {
		r, err := do(ctx, from, q)
		if errors.Is(err, run.ErrNotRunning) {
			return nil, rpc.ErrAgain
		}
		return r, err
	}
}

// decodeLinks returns links that another agent has sent.
func decodeLinks(encoded []byte, count uint32) ([]link.Link, error) {
	links := make([]link.Link, 0, count)
	for rest := encoded; len(rest) > 0; {
		l, n, err := link.Decode(rest)
		if err != nil {
			return nil, err
		}
		links, rest = append(links, l), rest[n:]
	}
	return links, nil
}
