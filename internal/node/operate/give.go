package operate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
)

// Give implements pb.OperatorHandler. It checks everything before it gives an order.
func (o *Operator) Give(ctx context.Context, q *pb.GiveRequest) (*pb.GiveResponse, error) {
	standing := o.orders.Standing()
	var list []orders.Order
	var texts []string
	oneHost := ""
	if len(q.Also) >= maxGiven {
		return nil, problem(connect.CodeInvalidArgument, "%d orders at once; give at most %d", len(q.Also)+1, maxGiven)
	}
	for _, g := range append([]*pb.GiveRequest{q}, q.Also...) {
		verb, order, err := ordered(g)
		if err == nil && g != q && len(g.Also) > 0 {
			err = errors.New("an order of the list also has a list also; leave it out")
		}
		if err != nil {
			return nil, problem(connect.CodeInvalidArgument, "%v", err)
		}
		if order.Why = q.Why; slices.Contains(list, order) {
			continue
		}
		if err := verb.Check(o.agent, slices.Concat(standing, list), order); err != nil {
			return nil, problem(connect.CodeFailedPrecondition, "%v", err)
		}
		list, texts = append(list, order), append(texts, verb.Describe(order, standing))
		if verb.OneHost(order.About) {
			oneHost = order.About
		}
	}
	r, err := o.give(ctx, list, verbs.List(texts))
	if err == nil && oneHost != "" && len(list) == 1 {
		r.Answers = o.concerned(ctx, oneHost, r.Answers)
	}
	return r, err
}

// maxGiven bounds the orders of one call, because each pattern is checked together with all others.
const maxGiven = 1000

// ordered returns the order that a request asks for, and its verb. The error is for people.
func ordered(q *pb.GiveRequest) (*verbs.Verb, orders.Order, error) {
	verb, err := verbs.Of(q.Verb)
	if err != nil {
		return nil, orders.Order{}, err
	}
	about, value := q.About, q.Value
	if q.Words != "" {
		about, value = verb.Read(q.Words)
	}
	order, err := verb.Order(about, value, q.Off)
	return verb, order, err
}

// give gives orders, with those that take back what they replace. text is the agents' answer.
func (o *Operator) give(ctx context.Context, list []orders.Order, text string) (*pb.GiveResponse, error) {
	standing := o.orders.Standing()
	for _, order := range list {
		list = append(list, verbs.Replaced(order, standing)...)
	}
	given, answers, err := o.giveAll(ctx, list, text)
	if err != nil {
		return nil, err
	}
	r := &pb.GiveResponse{Answers: answers}
	for _, order := range given {
		r.Also = append(r.Also, wire(order, !order.Off))
	}
	r.Order, r.Also = r.Also[0], r.Also[1:]
	return r, nil
}

func (o *Operator) TakeBack(ctx context.Context, q *pb.TakeBackRequest) (*pb.GiveResponse, error) {
	for _, s := range o.orders.Standing() {
		if s.ID() == q.Id {
			off := orders.Order{Verb: s.Verb, About: s.About, Why: q.Why, Off: true}
			return o.give(ctx, []orders.Order{off}, "taken back")
		}
	}
	return nil, problem(connect.CodeNotFound, "no order %.80q stands; \"orbweaver ctl orders\" lists those that "+
		"do", q.Id)
}

func (o *Operator) Orders(_ context.Context, q *pb.OrdersRequest) (*pb.OrdersResponse, error) {
	standing := o.orders.Standing()
	stands := map[string]bool{}
	for _, s := range standing {
		stands[s.ID()] = true
	}
	list := standing
	if q.Past {
		list = o.orders.Past()
	}
	r := new(pb.OrdersResponse)
	for _, s := range list {
		r.Orders = append(r.Orders, wire(s, stands[s.ID()]))
	}
	return r, nil
}

func (o *Operator) Verbs(context.Context, *pb.VerbsRequest) (*pb.VerbsResponse, error) {
	r := new(pb.VerbsResponse)
	for _, v := range verbs.All {
		r.Verbs = append(r.Verbs, &pb.Verb{Name: v.Name, Undo: v.Undo, Brief: v.Brief, Words: v.Words, About: v.About,
			Note: v.Note, Example: v.Example, Preview: v.Preview, Role: string(v.Role), UndoBrief: v.UndoBrief,
			Call: v.Call})
	}
	return r, nil
}

// wire returns an order as callers see it.
func wire(o orders.Order, stands bool) *pb.Order {
	return &pb.Order{Id: o.ID(), At: timestamppb.New(o.At), Agent: o.Agent, By: o.By, Why: o.Why, Verb: o.Verb,
		About: o.About, Value: o.Value, Off: o.Off, Stands: stands, Text: verbs.Text(o)}
}

// waitsFor says in words which other agents this one waits for before the crawl begins; "": it waits for none.
func (o *Operator) waitsFor() string {
	if o.agents.others == nil {
		return ""
	}
	if s := o.agent.Status(); s.State == "waiting" {
		return s.WaitsFor
	}
	return ""
}

// giveAll gives orders, all or none, in the name of the caller.
func (o *Operator) giveAll(ctx context.Context, list []orders.Order, text string) (given []orders.Order,
	answers []*pb.Answer, err error) {
	for i := range list {
		if err := checkWhy(list[i].Why); err != nil {
			return nil, nil, err
		}
		list[i].By, list[i].Why = orders.Caller(ctx), strings.TrimSpace(list[i].Why)
	}
	given, told, err := o.orders.Give(ctx, list...)
	if err != nil {
		if errors.Is(err, orders.ErrOrder) {
			return nil, nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		return nil, nil, connect.NewError(connect.CodeUnavailable, err)
	}
	names := o.agents.names()
	for name, err := range told {
		if err != nil && !slices.Contains(names, name) { // it counts as dead meanwhile, and is told when it is back
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		a := &pb.Answer{Agent: name, Text: text}
		err, known := told[name]
		if !known && name != o.agent.Name() {
			err = errors.New("it joins at this moment")
		}
		if err != nil {
			a.Text, a.Error, a.Code = "", err.Error(), codeSilent
		}
		if name == o.agent.Name() {
			a.WaitsFor = o.waitsFor()
		}
		answers = append(answers, a)
	}
	return given, answers, nil
}

// concerned returns the answers about an order of a host by the agents that may crawl the host, with the number of
// links that wait there, and those with an error. If no agent says that it crawls the host, it returns all answers.
func (o *Operator) concerned(ctx context.Context, host string, answers []*pb.Answer) []*pb.Answer {
	var names []string
	for _, a := range answers {
		if a.Error == "" {
			names = append(names, a.Agent)
		}
	}
	concerned := slices.DeleteFunc(slices.Clone(answers), func(a *pb.Answer) bool { return a.Error == "" })
	any := false
	for i, w := range o.agents.answers(ctx, names, "Waiting", &pb.DropRequest{Host: host}) {
		if w.Code == codeElsewhere {
			continue
		}
		a := answers[slices.IndexFunc(answers, func(a *pb.Answer) bool { return a.Agent == names[i] })]
		if w.Error == "" { // otherwise the crawl has not begun
			a.Text += ", " + w.Text
		}
		concerned, any = append(concerned, a), true
	}
	if !any {
		return answers
	}
	return concerned
}
