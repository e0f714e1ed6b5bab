package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// greeting is the question of this agent.
func (j *joining) greeting() *pb.HelloRequest {
	return &pb.HelloRequest{Agent: wire(j.members.Self), Settings: j.terms()}
}

// copied returns the refusal of an agent whose crawl directory is a copy of a living agent's.
func copied(a gossip.Agent) error {
	return &rpc.Refusal{Reason: "copy",
		Text: fmt.Sprintf("agent %q is running already, at %s, from this crawl directory or a copy of it", a.Name,
			a.Addr)}
}

// hello answers an agent that asks whether it may join.
func (j *joining) hello(ctx context.Context, from rpc.Caller, q *pb.HelloRequest) (*pb.HelloResponse, error) {
	them := agentOf(q.Agent)
	if them.Name != from.Name || them.Instance != from.Instance || them.Boot != from.Boot {
		return nil, rpc.Malformedf("caller %q says hello for %q", from.Name, them.Name)
	}
	m, id := j.members.Gossip(), j.members.Crawl()
	if them.Name == j.members.Self.Name && them.Instance == j.members.Self.Instance {
		if them.Boot == j.members.Self.Boot && them.Addr == j.members.Self.Addr {
			return nil, &rpc.Refusal{Reason: "self", Text: gossip.ErrSelf.Error()}
		}
		return nil, copied(j.members.Self)
	}
	switch {
	case id == (rpc.ID{}) || m == nil && !j.begun.Load():
		return nil, &rpc.Refusal{Reason: notYet, Text: "this agent has not begun to crawl; ask again later"}
	case m == nil:
		return nil, rpc.ErrAgain // this agent has not joined itself
	}
	if from.Crawl != (rpc.ID{}) && from.Crawl != id {
		return nil, &rpc.Refusal{Reason: "crawl",
			Text: fmt.Sprintf("the directory of agent %q holds another crawl; choose another directory, or "+
				"delete that crawl", them.Name)}
	}
	if err := cmp.Or(j.differ(them.Name, q.Settings), j.otherStart(them.Name, q.Settings)); err != nil {
		return nil, err
	}
	if was, ok := m.View().Agent(them.Name); ok && was.Instance == them.Instance &&
		was.Addr != them.Addr && j.lives(ctx, was) {
		return nil, copied(was)
	}
	agents := []placement.Owner{{Name: them.Name, Capacity: them.Capacity}}
	for _, a := range m.View().Agents {
		if a.Name != them.Name {
			agents = append(agents, placement.Owner{Name: a.Name, Capacity: a.Capacity})
		}
	}
	if err := j.cfg.checkAgents(agents); err != nil {
		return nil, &rpc.Refusal{Reason: "placement", Text: err.Error()}
	}
	them.State = 0
	err := m.Admit(them, j.Clock.Now())
	switch {
	case errors.Is(err, gossip.ErrSelf):
		return nil, &rpc.Refusal{Reason: "self", Text: err.Error()}
	case j.untenanted(ctx, err):
		return nil, &rpc.Refusal{Reason: nameHeld, Text: err.Error() + ", and that agent does not answer"}
	case err != nil:
		return nil, &rpc.Refusal{Reason: "name", Text: err.Error()}
	}
	if err := j.admissions.welcome(them, q.Settings[agentsSetting] == begunAlready, j.Clock.Now()); err != nil {
		return nil, err
	}
	elapsed := j.age.Running(j.Clock.Now())
	if j.paused != nil {
		elapsed = max(elapsed-j.paused.PausedFor(), 0)
	}
	return &pb.HelloResponse{Agent: wire(j.members.Self), Crawl: id[:],
		ElapsedMs: uint64(max(elapsed, 0).Milliseconds()), Agents: j.crawling()}, nil
}

// greet asks the agent at an address, of any name, whether this agent may join. Its certificate proves the identity in
// the answer.
func (j *joining) greet(ctx context.Context, addr string) (*pb.HelloResponse, error) {
	p := j.members.Client.Unnamed(addr)
	defer p.Close()
	return HelloCall.Ask(ctx, p, j.greeting())
}

// ask is greet, and notes what the answer says of a crawl that has begun. It returns the identity of the crawl.
func (j *joining) ask(ctx context.Context, addr string) (crawl rpc.ID, err error) {
	w, err := j.greet(ctx, addr)
	if err == nil {
		if len(w.Agents) > 0 {
			j.age.Since(time.Duration(w.ElapsedMs)*time.Millisecond, j.Clock.Now())
			j.late.Store(true)
		}
		return rpc.ID(w.Crawl), nil
	}
	refusal, ok := errors.AsType[*rpc.Refusal](err)
	switch {
	case !ok || refusal.Reason == nameHeld || refusal.Reason == notYet:
		return crawl, err // a temporary error
	case refusal.Reason == "self":
		return crawl, gossip.ErrSelf
	}
	return crawl, fmt.Errorf("%w: %w", gossip.ErrRefused, err)
}

// crawling returns the agents of a crawl that has begun, or none if this agent does not know that
// it has begun. An agent knows it if it has crawled itself, in this run or an earlier one, or if it
// was told when it joined. So every agent that joins later is told, whichever agent it joins
// through.
func (j *joining) crawling() (agents []*pb.Agent) {
	if !j.begun.Load() && !j.late.Load() {
		return nil
	}
	for _, a := range j.members.View().Agents {
		agents = append(agents, wire(a))
	}
	return agents
}
