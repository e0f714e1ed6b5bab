package operate

import (
	"context"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// Apps are the applications of this agent. Safe for concurrent use. Errors are for people.
type Apps interface {
	// CheckApplication returns the error of a scope or of patterns.
	CheckApplication(a verbs.Application) error
	// PlanFeed tells what is to be done with each of the URLs, in their order. It changes nothing.
	PlanFeed(urls []string) []SeedPlan
	// TakeFeed accepts URLs for an application, and tells what has become of each, in their order. They are durable
	// when it returns.
	TakeFeed(ctx context.Context, q *pb.TakeFeed) ([]*pb.Seed, error)
	// ListPages returns the next pages of this agent, without bodies.
	ListPages(ctx context.Context, q *pb.ListPages) (*pb.ListedPages, error)
	// ListBodies returns parts of archived bodies. It returns at least the first one.
	ListBodies(ctx context.Context, q *pb.ListBodies) (*pb.ListedBodies, error)
	// AcknowledgePages marks pages as done. They are durably so when it returns.
	AcknowledgePages(ctx context.Context, q *pb.AcknowledgePages) error
	// ApplicationStates returns the counts of all applications.
	ApplicationStates() []*pb.NamedState
}

// feedMost bounds the URLs of one call, and maxPriority their priority.
const (
	feedMost    = 1000
	maxPriority = 15
)

// SetApplication implements pb.OperatorHandler. It checks everything before it gives an order.
func (o *Operator) SetApplication(ctx context.Context, q *pb.SetApplicationRequest) (*pb.SetApplicationResponse,
	error) {
	if err := verbs.CheckApplicationName(q.Name); err != nil {
		return nil, problem(connect.CodeInvalidArgument, "%v", err)
	}
	standing := o.orders.Standing()
	was, isNew := verbs.NewApplication(q.Name), true
	apps := verbs.ApplicationOrders(standing)
	if i := slices.IndexFunc(apps, func(a verbs.Application) bool { return a.Name == q.Name }); i >= 0 {
		was, isNew = apps[i], false
	} else if len(apps) >= applications.Max {
		return nil, problem(connect.CodeFailedPrecondition, "there are %d applications already: remove one", len(apps))
	}
	if q.Share != nil {
		if err := verbs.CheckShare(*q.Share); err != nil {
			return nil, problem(connect.CodeInvalidArgument, "%v", err)
		}
	}
	a := changed(was, q)
	a.Error = ""
	if err := a.Check(); err != nil {
		return nil, problem(connect.CodeInvalidArgument, "%v", err)
	}
	if err := o.agent.CheckApplication(a); err != nil {
		return nil, problem(connect.CodeInvalidArgument, "%v", err)
	}
	r := &pb.SetApplicationResponse{}
	rules := a.Rules()
	var list []orders.Order
	for _, rule := range rules {
		if !verbs.IsStanding(standing, verbs.VerbAppRule, rule) {
			list = append(list, orders.Order{Verb: verbs.VerbAppRule, About: rule, Why: q.Why})
		}
	}
	for _, s := range standing {
		if name, _, _ := strings.Cut(s.About, " "); s.Verb == verbs.VerbAppRule && name == a.Name &&
			!slices.Contains(rules, s.About) {
			list = append(list, orders.Order{Verb: verbs.VerbAppRule, About: s.About, Why: q.Why, Off: true})
		}
	}
	if isNew || len(list) > 0 || a.Value() != was.Value() {
		list = append(list, orders.Order{Verb: verbs.VerbApp, About: a.Name, Value: a.Value(), Why: q.Why})
		given, answers, err := o.giveAll(ctx, list, "")
		if err != nil {
			return nil, err
		}
		a.Order, r.Told = given[len(given)-1], answers
	}
	r.Application = a.Wire()
	return r, nil
}

func (o *Operator) Applications(ctx context.Context, _ *pb.ApplicationsRequest) (*pb.ApplicationsResponse, error) {
	r := &pb.ApplicationsResponse{}
	apps := verbs.ApplicationOrders(o.orders.Standing())
	if len(apps) == 0 {
		return r, nil
	}
	got, silent := asked[pb.ApplicationStates](ctx, o.agents, o.agents.names(), "ApplicationStates",
		&pb.ApplicationsRequest{})
	for _, a := range apps {
		w := a.Wire()
		w.State = new(pb.ApplicationState)
		for agent, states := range got {
			for _, s := range states.States {
				if s.Application == a.Name && s.State != nil {
					s.State.Agent = agent
					w.Agents = append(w.Agents, s.State)
					verbs.AddState(w.State, s.State)
				}
			}
		}
		for _, s := range silent {
			w.Agents = append(w.Agents, &pb.ApplicationState{Agent: s.Agent, Error: s.Error})
		}
		slices.SortFunc(w.Agents, byName)
		r.Applications = append(r.Applications, w)
	}
	return r, nil
}

// Feed implements pb.OperatorHandler. The owner of a host accepts its URLs, or this agent if the owner does not answer.
func (o *Operator) Feed(ctx context.Context, q *pb.FeedRequest) (*pb.FeedResponse, error) {
	a, err := o.inForce(q.Application)
	if err != nil {
		return nil, err
	}
	switch n := len(q.Urls); {
	case n == 0:
		return nil, problem(connect.CodeInvalidArgument, "no URLs: give at least one")
	case n > feedMost:
		return nil, problem(connect.CodeInvalidArgument, "%d URLs: give at most %d in one call", n, feedMost)
	}
	for _, u := range q.Urls {
		if u.Priority < 0 || u.Priority > maxPriority {
			return nil, problem(connect.CodeInvalidArgument, "priority %d of %.200s: give 0 to %d", u.Priority, u.Url,
				maxPriority)
		}
	}
	seeds, err := o.feed(ctx, a.Name, q.Urls)
	return &pb.FeedResponse{Urls: seeds}, err
}

// feed gives URLs to an application.
func (o *Operator) feed(ctx context.Context, name string, urls []*pb.FeedURL) ([]*pb.Seed, error) {
	seeds, texts := make([]*pb.Seed, len(urls)), make([]string, len(urls))
	for i, u := range urls {
		seeds[i], texts[i] = &pb.Seed{Url: u.Url}, u.Url
	}
	plans := o.agent.PlanFeed(texts)
	return seeds, o.hand(ctx, plans, seeds, func(ctx context.Context, agent string, at []int) ([]*pb.Seed, error) {
		q := &pb.TakeFeed{Application: name}
		for _, i := range at {
			q.Urls = append(q.Urls, urls[i])
		}
		var answer pb.FeedResponse
		err := o.agents.ask(ctx, agent, "TakeFeed", q, &answer)
		return answer.Urls, err
	})
}

// answerApplication is Answer for the calls about applications.
func (l *Local) answerApplication(ctx context.Context, method string, request []byte) ([]byte, error) {
	answer := func(q proto.Message, do func() (proto.Message, error)) ([]byte, error) {
		if err := decode(method, request, q); err != nil {
			return nil, err
		}
		m, err := do()
		if err != nil {
			return nil, err
		}
		return proto.Marshal(m)
	}
	switch method {
	case "TakeFeed":
		q := new(pb.TakeFeed)
		return answer(q, func() (proto.Message, error) {
			seeds, err := l.TakeFeed(ctx, q)
			return &pb.FeedResponse{Urls: seeds}, err
		})
	case "ListPages":
		q := new(pb.ListPages)
		return answer(q, func() (proto.Message, error) { return l.ListPages(ctx, q) })
	case "ListBodies":
		q := new(pb.ListBodies)
		return answer(q, func() (proto.Message, error) { return l.ListBodies(ctx, q) })
	case "AcknowledgePages":
		q := new(pb.AcknowledgePages)
		return answer(q, func() (proto.Message, error) {
			return &pb.AcknowledgeResponse{}, l.AcknowledgePages(ctx, q)
		})
	case "ApplicationStates":
		return answer(new(pb.ApplicationsRequest), func() (proto.Message, error) {
			return &pb.ApplicationStates{States: l.ApplicationStates()}, nil
		})
	}
	return nil, ErrMethod
}
