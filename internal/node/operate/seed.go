package operate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// Seeds are the seeds of this agent. Safe for concurrent use.
type Seeds interface {
	// PlanSeeds tells what is to be done with each of the URLs, in their order. It changes nothing.
	PlanSeeds(urls []string) []SeedPlan
	// TakeSeeds accepts seeds, and tells what has become of each, in their order. They are durable when it returns.
	TakeSeeds(ctx context.Context, urls []string) ([]*pb.Seed, error)
}

// A SeedPlan is what is to be done with a URL that is to be a seed.
type SeedPlan struct {
	URL     string // canonical
	Refused string // why it cannot be a seed, for people; empty: it can
	Widens  bool   // the scope must be extended by it
	Agent   string // which accepts it; empty: this one
}

const (
	// seedsMost bounds the URLs of one call.
	seedsMost = 1000
	// seedOrders bounds the orders with seeds that stand, so that other orders always have room.
	seedOrders = 500
)

// AddSeeds implements pb.OperatorHandler. First the orders extend the scope at all agents. Then each seed is accepted
// by its owner, or by this agent if the owner does not answer.
func (o *Operator) AddSeeds(ctx context.Context, q *pb.AddSeedsRequest) (*pb.AddSeedsResponse, error) {
	switch n := len(q.Urls); {
	case n == 0:
		return nil, problem(connect.CodeInvalidArgument, "no URLs: give at least one")
	case n > seedsMost:
		return nil, problem(connect.CodeInvalidArgument, "%d URLs: give at most %d in one call", n, seedsMost)
	}
	if err := checkWhy(q.Why); err != nil {
		return nil, err
	}
	plans := o.agent.PlanSeeds(q.Urls)
	r := &pb.AddSeedsResponse{Seeds: make([]*pb.Seed, len(plans))}
	var widening []string
	any := false
	for i, p := range plans {
		r.Seeds[i] = &pb.Seed{Url: q.Urls[i]}
		any = any || p.Refused == ""
		if p.Widens && p.Refused == "" {
			widening = append(widening, p.URL)
		}
	}
	if any {
		o.note(ctx, "seed", fmt.Sprintf("%s (%d URLs)", q.Urls[0], len(q.Urls)), q.Why)
		if err := o.widen(ctx, widening, q.Why, r); err != nil {
			return nil, err
		}
	}
	return r, o.hand(ctx, plans, r.Seeds, func(ctx context.Context, agent string, at []int) ([]*pb.Seed, error) {
		var ask pb.AddSeedsRequest
		for _, i := range at {
			ask.Urls = append(ask.Urls, q.Urls[i])
		}
		var answer pb.AddSeedsResponse
		err := o.agents.ask(ctx, agent, "TakeSeeds", &ask, &answer)
		return answer.Seeds, err
	})
}

// hand lets the agent of each URL accept it, or this agent if that agent does not answer. take asks an agent to accept
// the URLs with these indices. seeds gets what has become of each URL. The error says that this agent has failed.
func (o *Operator) hand(ctx context.Context, plans []SeedPlan, seeds []*pb.Seed,
	take func(ctx context.Context, agent string, at []int) ([]*pb.Seed, error)) error {
	byAgent := map[string][]int{}
	for i, p := range plans {
		if p.Refused != "" {
			seeds[i].Result, seeds[i].Text = "refused", p.Refused
			continue
		}
		byAgent[p.Agent] = append(byAgent[p.Agent], i)
	}
	takenBy := func(ctx context.Context, agent string, at []int) error {
		answer, err := take(ctx, agent, at)
		if err == nil && len(answer) != len(at) {
			err = fmt.Errorf("agent %s tells of %d URLs, not of %d; it has another version", agent, len(answer),
				len(at))
		}
		if err != nil {
			return err
		}
		for n, i := range at {
			seeds[i].Result, seeds[i].Agent = answer[n].Result, agent
			if answer[n].Text != "" {
				seeds[i].Text = answer[n].Text
			}
		}
		return nil
	}
	local := byAgent[""]
	delete(byAgent, "")
	names := slices.Sorted(maps.Keys(byAgent))
	kept := make([][]int, len(names)) // of agents that do not answer
	o.agents.each(ctx, names, func(ctx context.Context, i int, name string) {
		if err := takenBy(ctx, name, byAgent[name]); err != nil {
			kept[i] = byAgent[name]
			for _, n := range kept[i] {
				seeds[n].Text = fmt.Sprintf("%s owns the host, and gets the URL when it answers: %v", name, err)
			}
		}
	})
	local = slices.Concat(append(kept, local)...)
	if len(local) == 0 {
		return nil
	}
	slices.Sort(local)
	if err := takenBy(ctx, o.agent.Name(), local); err != nil {
		return problem(connect.CodeUnavailable, "%v", err)
	}
	return nil
}

// widen gives the orders that extend the scope by these URLs.
func (o *Operator) widen(ctx context.Context, urls []string, why string, r *pb.AddSeedsResponse) error {
	var abouts []string
	for _, u := range urls {
		if n := len(abouts); n > 0 && len(abouts[n-1])+1+len(u) <= orders.MaxAbout {
			abouts[n-1] += " " + u
		} else {
			abouts = append(abouts, u)
		}
	}
	standing := 0
	for _, s := range o.orders.Standing() {
		if s.Verb == verbs.VerbSeed {
			standing++
		}
	}
	if standing+len(abouts) > seedOrders {
		return problem(connect.CodeFailedPrecondition, "%d orders extend the scope by seeds, and %d would be added: "+
			"at most %d can stand. Stop the crawl, and give the seeds to each agent when you resume it",
			standing, len(abouts), seedOrders)
	}
	if len(abouts) == 0 {
		return nil
	}
	var list []orders.Order
	for _, about := range abouts {
		list = append(list, orders.Order{Verb: verbs.VerbSeed, About: about, Why: why})
	}
	given, answers, err := o.giveAll(ctx, list, "")
	if err != nil {
		return err
	}
	r.Orders, r.Told = ids(given), answers
	return nil
}

// ids returns the identities of orders.
func ids(given []orders.Order) (all []string) {
	for _, o := range given {
		all = append(all, o.ID())
	}
	return all
}
