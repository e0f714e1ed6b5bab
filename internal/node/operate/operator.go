package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// Local is this agent. Its parts are safe for concurrent use, and their errors are for people.
type Local struct {
	Agent
	HostCommands
	Seeds
	Viewer
	Archive
	Scoping
	Queues
	Apps
}

// An Agent tells of itself, and changes its run.
type Agent interface {
	// Name is empty if the crawl has one agent.
	Name() string
	Status() *pb.AgentStatus
	// Note writes a command that an operator has given to this agent to the events. by is who has given it. Orders have
	// events of their own.
	Note(verb, about, by, why string)
	// Checkpoint makes the state of the crawl durable now.
	Checkpoint(ctx context.Context) (string, error)
	// Stop ends the run as a signal does.
	Stop(ctx context.Context) (string, error)
	// Leave hands all hosts to the other agents, and ends the run.
	Leave(ctx context.Context) (string, error)
	// Heard returns what another agent has told of its counts last; nil: nothing.
	Heard(agent string) *pb.Totals
	// CanRateDomain returns an error if the crawl cannot limit the requests to single domains.
	CanRateDomain() error
}

// HostCommands are about one host of this agent. The error is an ErrHost if the name is wrong, and an ErrElsewhere if
// another agent crawls the host. The texts are for people.
type HostCommands interface {
	// Explain returns why a host, and with a URL why that URL of it, is not being crawled now, and when it will be.
	Explain(ctx context.Context, host, url string) (string, error)
	// Waiting returns how many links of a host wait, and which blocks hold for it although no order is about exactly
	// this host.
	Waiting(ctx context.Context, host string) (string, error)
	// Drop finishes the links of a host.
	Drop(ctx context.Context, host string) (string, error)
}

// Others are the other agents. Safe for concurrent use.
type Others interface {
	// Names returns the names of the agents that are present, without this one.
	Names() []string
	// Ask passes a request on, whose method is a name of a call. The response is that of the agent's Local.Answer.
	Ask(ctx context.Context, agent, method string, request []byte) (response []byte, err error)
}

// Orders is the cluster's set of orders. Safe for concurrent use.
type Orders interface {
	// Give adds orders, all or none. When it returns nil, they are durable at this agent, and in force there. told has
	// an error for each other agent, nil if the agent has the orders.
	Give(ctx context.Context, list ...orders.Order) (given []orders.Order, told map[string]error, err error)
	// Standing returns the orders that stand, Past all that are known. Both are in the order of time.
	Standing() []orders.Order
	Past() []orders.Order
}

// ErrHost reports a string that is not a host name.
var ErrHost = errors.New("not a host name")

// ErrElsewhere reports a command for a host that another agent crawls. Nothing has changed.
var ErrElsewhere = errors.New("this agent has changed nothing")

// patience bounds a call to one agent.
const patience = 10 * time.Second

// An Operator serves the calls of operators. It implements pb.OperatorHandler.
type Operator struct {
	agent  *Local
	agents agents
	orders Orders
}

// New returns an Operator. others is nil if the crawl has one agent.
func New(agent *Local, others Others, orders Orders) *Operator {
	return &Operator{agent: agent, agents: agents{agent, others}, orders: orders}
}

// problem returns the error of a call.
func problem(code connect.Code, format string, args ...any) error {
	return connect.NewError(code, fmt.Errorf(format, args...))
}

func (o *Operator) Status(ctx context.Context, q *pb.StatusRequest) (*pb.StatusResponse, error) {
	names, err := o.agents.chosen(q.Agent)
	if err != nil {
		return nil, err
	}
	r := &pb.StatusResponse{Totals: &pb.Totals{}, Agents: make([]*pb.AgentStatus, len(names))}
	o.agents.each(ctx, names, func(ctx context.Context, i int, name string) {
		s := new(pb.AgentStatus)
		if err := o.agents.ask(ctx, name, "Status", &pb.StatusRequest{}, s); err != nil {
			s = &pb.AgentStatus{Agent: name, State: "silent", WaitsFor: err.Error(), Totals: o.agent.Heard(name)}
		}
		r.Agents[i] = s
	})
	for _, s := range r.Agents {
		add(r.Totals, s.Totals)
		if q.Agent == "" {
			r.Absent = append(r.Absent, s.Absent...)
		}
	}
	if q.Agent == "" {
		r.Gone = mergeGone(r.Agents)
	}
	for _, s := range r.Agents {
		s.Gone = nil
	}
	counted := slices.Clone(names)
	for _, g := range r.Gone {
		if g.Totals != nil {
			addGone(r.Totals, g.Totals)
			counted = append(counted, g.Agent)
		}
	}
	slices.Sort(r.Absent)
	r.Absent = slices.DeleteFunc(slices.Compact(r.Absent), func(name string) bool {
		return slices.Contains(counted, name)
	})
	return r, nil
}

func add(sum, t *pb.Totals) {
	sum.Pages += t.GetPages()
	sum.Fetched += t.GetFetched()
	sum.Bytes += t.GetBytes()
	sum.UrlsQueued += t.GetUrlsQueued()
	sum.UrlsUnique += t.GetUrlsUnique()
	sum.PagesPerS += t.GetPagesPerS()
	sum.OpenRequests += t.GetOpenRequests()
	sum.Errors += t.GetErrors()
}

func (o *Operator) Explain(ctx context.Context, q *pb.ExplainRequest) (*pb.Answers, error) {
	if q.Url == "" && strings.Contains(q.Host, "://") { // field 1 may have a URL, too
		q = &pb.ExplainRequest{Url: q.Host}
	}
	if q.Url != "" {
		host, err := input.Host(q.Url)
		if err != nil {
			return nil, problem(connect.CodeInvalidArgument, "%v", err)
		}
		q = &pb.ExplainRequest{Host: host, Url: q.Url}
	}
	if _, wide, _ := input.Wide(q.Host); wide {
		return nil, problem(connect.CodeInvalidArgument, "explain is for one host or URL; \"orbweaver ctl hosts\" "+
			"lists the hosts")
	}
	answers, err := o.agents.ofHost(ctx, "Explain", q.Host, q)
	return &pb.Answers{Answers: answers}, err
}

// note writes a command to the events of this agent. about may be any text of the caller: Note cleans it.
func (o *Operator) note(ctx context.Context, verb, about, why string) {
	o.agent.Note(verb, about, orders.Caller(ctx), strings.TrimSpace(why))
}

// checkWhy refuses a reason that is no line of text, or that would show other texts in a wrong order.
func checkWhy(why string) error {
	bad := func(r rune) bool {
		return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
	}
	switch {
	case len(why) > orders.MaxText:
		return problem(connect.CodeInvalidArgument, "a reason of %d bytes; give at most %d", len(why), orders.MaxText)
	case !utf8.ValidString(why) || strings.ContainsFunc(why, bad):
		return problem(connect.CodeInvalidArgument, "the reason %.80q has control characters, or is not UTF-8; give "+
			"one line of text", why)
	}
	return nil
}

func (o *Operator) Drop(ctx context.Context, q *pb.DropRequest) (*pb.Answers, error) {
	if _, wide, err := input.Wide(q.Host); wide || err != nil {
		return nil, problem(connect.CodeInvalidArgument, "a drop is for one host; give its name")
	}
	if err := checkWhy(q.Why); err != nil {
		return nil, err
	}
	o.note(ctx, "drop", q.Host, q.Why)
	answers, err := o.agents.ofHost(ctx, "Drop", q.Host, q)
	return &pb.Answers{Answers: answers}, err
}

func (o *Operator) Checkpoint(ctx context.Context, q *pb.AgentRequest) (*pb.Answers, error) {
	names, err := o.agents.chosen(q.Agent)
	if err != nil {
		return nil, err
	}
	if err := checkWhy(q.Why); err != nil {
		return nil, err
	}
	o.note(ctx, "checkpoint", q.Agent, q.Why)
	return &pb.Answers{Answers: o.agents.answers(ctx, names, "Checkpoint", &pb.AgentRequest{})}, nil
}

// Stop implements pb.OperatorHandler. This agent stops last, because it passes the others' answers on.
func (o *Operator) Stop(ctx context.Context, q *pb.AgentRequest) (*pb.Answers, error) {
	names, err := o.agents.chosen(q.Agent)
	if err != nil {
		return nil, err
	}
	if err := checkWhy(q.Why); err != nil {
		return nil, err
	}
	o.note(ctx, "stop", q.Agent, q.Why)
	own := o.agent.Name()
	answers := o.agents.answers(ctx, without(names, own), "Stop", &pb.AgentRequest{})
	if slices.Contains(names, own) {
		answers = append(answers, o.agents.answers(ctx, []string{own}, "Stop", &pb.AgentRequest{})...)
	}
	return &pb.Answers{Answers: answers}, nil
}

func (o *Operator) Leave(ctx context.Context, q *pb.AgentRequest) (*pb.Answers, error) {
	name := q.Agent
	if name == "" {
		name = o.agent.Name()
	}
	names, err := o.agents.chosen(name)
	if err != nil {
		return nil, err
	}
	if err := checkWhy(q.Why); err != nil {
		return nil, err
	}
	o.note(ctx, "leave", name, q.Why)
	answers := o.agents.answers(ctx, names, "Leave", &pb.AgentRequest{})
	if text := answers[0].Error; text != "" {
		return nil, problem(connect.CodeUnavailable, "%s", text)
	}
	return &pb.Answers{Answers: answers}, nil
}
