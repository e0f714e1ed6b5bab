package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// An order is one that a story gave to an agent: to stop (Stop) or to leave (Leave).
type order struct {
	kind    Kind
	a       *actor
	run     *process
	at      time.Time
	refused error // the agent's answer; guarded by the story's stage
	alone   bool  // at some time since then, no other agent could take the hosts; guarded by the story's stage
}

const (
	// handingOver is how long an agent may take to hand its hosts to others. If the crawl ends before, the agent may
	// end as the others do.
	handingOver = lateBefore + 5*time.Second
	// stopsWithin is how long an agent may take to stop. It begins no visit after the order, and ends those under way
	// within drains.
	stopsWithin, drains = 30 * time.Second, 3 * time.Second
)

// order notes an order to an actor that runs. The caller holds stage.
func (s *story) order(kind Kind, a *actor) *order {
	o := &order{kind: kind, a: a, run: a.run, at: time.Now(), alone: s.without(a)}
	s.orders = append(s.orders, o)
	s.running.Go(func() {
		for o.kind == Leave && !o.run.ended() {
			time.Sleep(100 * time.Millisecond)
			s.stage.Lock()
			o.alone = o.alone || s.without(a)
			s.stage.Unlock()
		}
	})
	return o
}

// without reports whether an actor may be without any agent that can take its hosts: the others are down, leave,
// started a moment ago, cannot be heard, or end because their disk fails. An agent that finished the crawl before could
// take them. The caller holds stage.
func (s *story) without(a *actor) bool {
	return !slices.ContainsFunc(s.actors, func(o *actor) bool {
		apart := func(e separation) bool { return e.covers(a.number, o.number, time.Now()) }
		known := o.starts == 1 && !o.newcomer || o.run != nil && time.Since(o.run.began) > restartTime
		over := o.run != nil && o.run.ended() && !o.run.killed && o.run.result.Stop == crawl.Finished
		able := o.lives() && !o.fails() || over
		return o != a && able && !o.leaving && known && !slices.ContainsFunc(s.apart, apart)
	})
}

// fails reports whether the disk of an actor that lives has failed a moment ago, so that the agent ends.
func (a *actor) fails() bool {
	at := time.Duration(a.run.failed.Load())
	return at > 0 && time.Since(start)-at < stopsWithin
}

// answered notes the agent's answer to an order.
func (o *order) answered(err error) {
	o.a.s.stage.Lock()
	defer o.a.s.stage.Unlock()
	o.refused = err
}

// tellsLeaving notes a mistake if an agent that has agreed to leave does not say so as long as it runs. It may stay if
// no other agent can take its hosts.
func (o *order) tellsLeaving(agent *node.Agent) {
	for time.Sleep(time.Second); !o.run.ended(); time.Sleep(10 * time.Second) {
		r, err := agent.Operator().Status(context.Background(), &pb.StatusRequest{Agent: o.a.name})
		if err != nil || o.run.ended() {
			return
		}
		a := r.Agents[0]
		told := a.State == "leaving" && a.WaitsFor != "" || a.State == "stopping"
		o.a.s.stage.Lock()
		if !told && !o.alone {
			o.a.s.silent = append(o.a.s.silent, fmt.Sprintf("%s leaves, and its state is %s, waiting for %q", o.a.name,
				a.State, a.WaitsFor))
		}
		o.a.s.stage.Unlock()
	}
}

// disobeyed returns what is wrong with the ends of agents that had an order. If a fault killed an agent meanwhile, or
// its disk failed, its end shows nothing.
func (s *story) disobeyed() (wrong []string) {
	s.stage.Lock()
	defer s.stage.Unlock()
	for _, o := range s.orders {
		if !o.run.ended() || o.run.killed || o.run.err != nil {
			continue
		}
		if text := o.judge(o.run.at.Sub(o.at), s.endedFor(o), s.judge); text != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s at %s: %s", o.a.name, o.kind, o.at.Sub(start), text))
		}
	}
	return wrong
}

// endedFor reports whether the crawl ended for another agent soon after an order.
func (s *story) endedFor(o *order) bool {
	return slices.ContainsFunc(s.actors, func(a *actor) bool {
		p := a.run
		return p != nil && p != o.run && p.ended() && !p.killed && p.result.Stop == crawl.Finished &&
			!p.at.After(o.at.Add(handingOver))
	})
}

// judge returns what is wrong with an agent's end, took after the order. over says whether the crawl had ended soon
// after the order, for another agent.
func (o *order) judge(took time.Duration, over bool, j *judge) string {
	stop := o.run.result.Stop
	// It may not know the others yet.
	joining := (o.a.starts > 1 || o.a.newcomer) && o.at.Sub(o.run.began) < restartTime
	switch {
	case o.kind == Leave && o.refused != nil && !o.alone && !over && !joining:
		return fmt.Sprintf("refused although others could take its hosts: %v", o.refused)
	case o.kind == Leave && o.refused == nil && !o.alone && !over && stop == crawl.Finished:
		return "it finished although others could take its hosts"
	case o.kind == Stop && !slices.Contains([]crawl.Stop{crawl.Signal, crawl.Finished, crawl.Left}, stop):
		return "it ended with the reason " + string(stop)
	case o.kind == Stop && took > stopsWithin:
		return fmt.Sprintf("it ended %s later", took)
	case o.kind == Stop && j.between(o.a.number, o.at.Add(drains), o.run.at) > 0:
		return "it fetched pages afterwards"
	}
	return ""
}

// between returns how many pages an agent has fetched in a time.
func (j *judge) between(agent int, from, to time.Time) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, fs := range j.pages {
		for _, f := range fs {
			if (excuse{agent, from, to}).covers(f.agent, f.at) {
				n++
			}
		}
	}
	return n
}
