package sim

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// orderLag is how long visits that had begun before an order may make requests against it.
const orderLag = 5 * time.Second

// orderAt lets an operator call an agent, in the background. If awaited is set, story.answered tells the end.
func (s *story) orderAt(a *actor, awaited bool, call func(*operate.Operator)) {
	p := a.run
	s.pending.Add(1)
	s.running.Go(func() {
		defer s.pending.Add(-1)
		if awaited {
			defer func() { s.answered <- struct{}{} }()
		}
		if agent := p.open(); agent != nil {
			call(agent.Operator())
		} else {
			s.log("%s has not opened, and cannot be given orders", a.name)
		}
	})
}

// obey gives an order at an agent, and calls back for agents that live, after d, until the order is taken back. In
// between, apart from orderLag, holds is true: the judge holds all agents to the order.
func (s *story) obey(o *operate.Operator, a *actor, q *pb.GiveRequest, d time.Duration, holds *bool,
	back func(*operate.Operator) error) {
	q.Why = "story"
	r, err := o.Give(context.Background(), q)
	s.log("%s is given the order to %s: %v %v", a.name, q.Verb, r, err)
	if err != nil {
		return
	}
	time.Sleep(orderLag)
	s.judge.set(holds, true)
	time.Sleep(d)
	s.judge.set(holds, false)
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, a := range s.actors {
			if o := s.operator(a); o != nil {
				err := back(o)
				if s.log("%s takes the order to %s back: %v", a.name, q.Verb, err); err == nil {
					return
				}
			}
		}
	}
}

// operator returns the operator's service at an agent; nil if the agent does not live, or has not started.
func (s *story) operator(a *actor) *operate.Operator {
	s.stage.Lock()
	lives, p := a.lives(), a.run
	s.stage.Unlock()
	if !lives {
		return nil
	}
	if agent := p.open(); agent != nil && agent.Status() != nil {
		return agent.Operator()
	}
	return nil
}

// set changes what the judge holds the agents to.
func (j *judge) set(holds *bool, is bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	*holds = is
}
