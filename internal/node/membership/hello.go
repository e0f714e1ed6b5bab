package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

func wire(a gossip.Agent) rpc.Agent {
	return rpc.Agent{Name: a.Name, Instance: a.Instance, Boot: a.Boot, Capacity: a.Capacity, Addr: a.Addr,
		State: uint8(a.State)}
}

func (j *joining) greeting() rpc.Hello {
	return rpc.Hello{Agent: wire(j.members.Self), Settings: j.terms()}
}

// copied returns the refusal of an agent whose crawl directory is a copy of a living agent's.
func copied(a gossip.Agent) error {
	return &rpc.Refusal{Reason: "copy",
		Text: fmt.Sprintf("agent %q is running already, at %s, from this crawl directory or a copy of it", a.Name,
			a.Addr)}
}

// hello answers an agent that asks whether it may join.
func (j *joining) hello(ctx context.Context, from rpc.Caller, h rpc.Hello) (rpc.Welcome, error) {
	var none rpc.Welcome
	m, id := j.members.Gossip(), j.members.Crawl()
	if h.Agent.Name == j.members.Self.Name && h.Agent.Instance == j.members.Self.Instance {
		if h.Agent.Boot == j.members.Self.Boot && h.Agent.Addr == j.members.Self.Addr {
			return none, &rpc.Refusal{Reason: "self", Text: gossip.ErrSelf.Error()}
		}
		return none, copied(j.members.Self)
	}
	switch {
	case id == (rpc.ID{}) || m == nil && !j.begun.Load():
		return none, &rpc.Refusal{Reason: notYet, Text: "this agent has not begun to crawl; ask again later"}
	case m == nil:
		return none, rpc.ErrAgain // this agent has not joined itself
	}
	if from.Crawl != (rpc.ID{}) && from.Crawl != id {
		return none, &rpc.Refusal{Reason: "crawl",
			Text: fmt.Sprintf("the directory of agent %q holds another crawl; choose another --dir, or delete "+
				"that crawl with --overwrite", h.Agent.Name)}
	}
	if err := cmp.Or(j.differ(h), j.otherStart(h)); err != nil {
		return none, err
	}
	if was, ok := m.View().Agent(h.Agent.Name); ok && was.Instance == h.Agent.Instance &&
		was.Addr != h.Agent.Addr && j.lives(ctx, was) {
		return none, copied(was)
	}
	agents := []placement.Owner{{Name: h.Agent.Name, Capacity: h.Agent.Capacity}}
	for _, a := range m.View().Agents {
		if a.Name != h.Agent.Name {
			agents = append(agents, placement.Owner{Name: a.Name, Capacity: a.Capacity})
		}
	}
	if err := j.cfg.checkAgents(agents); err != nil {
		return none, &rpc.Refusal{Reason: "placement", Text: err.Error()}
	}
	err := m.Admit(gossip.Agent{Name: h.Agent.Name, Instance: h.Agent.Instance, Boot: h.Agent.Boot,
		Capacity: h.Agent.Capacity, Addr: h.Agent.Addr}, j.Clock.Now())
	switch {
	case errors.Is(err, gossip.ErrSelf):
		return none, &rpc.Refusal{Reason: "self", Text: err.Error()}
	case j.untenanted(ctx, err):
		return none, &rpc.Refusal{Reason: nameHeld, Text: err.Error() + ", and that agent does not answer"}
	case err != nil:
		return none, &rpc.Refusal{Reason: "name", Text: err.Error()}
	}
	if err := j.admissions.welcome(h.Agent, h.Settings[agentsSetting] == begunAlready, j.Clock.Now()); err != nil {
		return none, err
	}
	elapsed := j.age.Running(j.Clock.Now())
	if j.paused != nil {
		elapsed = max(elapsed-j.paused.PausedFor(), 0)
	}
	return rpc.Welcome{Agent: wire(j.members.Self), Crawl: id, Elapsed: elapsed, Agents: j.crawling()}, nil
}

// ask asks the agent at an address whether this agent may join.
func (j *joining) ask(ctx context.Context, addr string) (rpc.Welcome, error) {
	w, err := j.members.Client.Hello(ctx, addr, j.greeting())
	if err == nil {
		if len(w.Agents) > 0 {
			j.age.Since(w.Elapsed, j.Clock.Now())
			j.late.Store(true)
		}
	}
	var refusal *rpc.Refusal
	switch {
	case errors.As(err, &refusal) && refusal.Reason == "self":
		return w, gossip.ErrSelf
	case errors.As(err, &refusal) && (refusal.Reason == nameHeld || refusal.Reason == notYet):
		return w, err // a temporary error
	case errors.As(err, &refusal):
		return w, fmt.Errorf("%w: %w", gossip.ErrRefused, err)
	}
	return w, err
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
