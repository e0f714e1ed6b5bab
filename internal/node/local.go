package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
)

// local is this agent, for its Operator.
type local struct{ a *Agent }

// openOperator makes the Operator, which also answers for this agent when other agents pass commands on.
func (a *Agent) openOperator() error {
	var err error
	if a.NotBlocked, err = a.orders.Open(a.crawler, a.rates, a.cfg.Unblock); err != nil {
		return err
	}
	if err := errors.Join(a.openHistory(), a.openListings()); err != nil {
		return err
	}
	var others operate.Others
	if a.membership != nil {
		others = crawlAgents{a.membership}
	}
	a.archiveKeys = newArchiveKeys()
	l := local{a}
	a.local = &operate.Local{Agent: l, HostCommands: l, Seeds: l, Viewer: l, Archive: l, Scoping: l, Queues: l, Apps: l}
	a.operator = operate.New(a.local, others, a.orders)
	return nil
}

// Name implements operate.Agent.
func (o local) Name() string {
	if c := o.a.membership; c != nil {
		return c.members.Self.Name
	}
	return ""
}

// Status implements operate.Agent.
func (o local) Status() *pb.AgentStatus {
	s := &pb.AgentStatus{Agent: o.Name(), State: "crawling"}
	if c := o.a.membership; c != nil {
		s.Address, s.Absent = c.members.Self.Addr, c.gone()
	}
	s.Rate, s.DomainRates = rateState(o.a.rates, o.a.now()), o.a.orders.Paces.States()
	s.Applications = o.ApplicationStates()
	status := o.a.status()
	switch st := status.(type) {
	case Waiting:
		s.State, s.WaitsFor = "waiting", st.For
	case *crawl.Status:
		s.WaitsFor = st.WaitsFor
		if st.Stop != "" {
			s.State = "stopping"
		} else if st.Leaving != "" {
			s.State = "leaving"
		} else if st.Paused {
			s.State = "paused"
		}
		s.Totals = &pb.Totals{Pages: st.Pages, Fetched: st.Fetched, Bytes: st.Bytes, UrlsQueued: st.Queued,
			UrlsUnique: st.Unique, PagesPerS: st.PagesPerS, OpenRequests: int64(st.Open)}
		for _, n := range st.Errors {
			s.Totals.Errors += n
		}
	}
	if st, ok := status.(*crawl.Status); ok {
		status = Status{st, o.a.sizes(st)}
	}
	detail := new(structpb.Struct)
	if b, err := json.Marshal(status); err == nil && protojson.Unmarshal(b, detail) == nil {
		s.Status = detail
	}
	return s
}

// Waiting implements operate.HostCommands.
func (o local) Waiting(ctx context.Context, host string) (string, error) {
	return o.order(ctx, host, func(ctx context.Context, host string) (string, error) {
		text, blocks, err := o.a.crawler.Waiting(ctx, host)
		if len(blocks) > 0 && !operate.IsBlocked(o.a.orders.Standing(), host) { // others hold
			text += "; still blocked by " + operate.List(blocks)
		}
		return text, err
	})
}

// Drop implements operate.HostCommands.
func (o local) Drop(ctx context.Context, host string) (string, error) {
	return o.order(ctx, host, o.a.crawler.Drop)
}

// order carries out a command for a host.
func (o local) order(ctx context.Context, host string,
	fn func(ctx context.Context, host string) (string, error)) (string, error) {
	return o.a.ofHost(func(ctx context.Context, host string) (string, error) {
		text, err := fn(ctx, host)
		if _, ok := errors.AsType[*crawl.ElsewhereError](err); ok {
			err = fmt.Errorf("%w: %w", operate.ErrElsewhere, err)
		}
		return text, err
	})(ctx, host)
}

// Note implements operate.Agent.
func (o local) Note(verb, about, by, why string) {
	const most = 2000 // bytes of a name
	about, why = about[:min(len(about), most)], why[:min(len(why), most)]
	o.a.parts.Events.Write("command", report.F("verb", verb), report.F("about", report.OneLine(about)),
		report.F("by", by), report.F("why", why))
}

// Checkpoint implements operate.Agent.
func (o local) Checkpoint(ctx context.Context) (string, error) { return o.a.crawler.Checkpoint(ctx) }

// Stop implements operate.Agent.
func (o local) Stop(ctx context.Context) (string, error) {
	err := o.a.crawler.Halt(ctx, crawl.ByOperator)
	if errors.Is(err, crawl.ErrNotRunning) {
		if w, ok := o.a.waiting(); ok {
			return "", fmt.Errorf("the crawl has not started: the agent waits for %s; stop its process", w.For)
		}
		return "stops already", nil
	}
	return "stops; \"orbweaver crawl --resume\" continues", err
}

// CheckApplication implements operate.Apps.
func (o local) CheckApplication(d operate.Application) error { return o.a.orders.CheckApplication(d) }

// Blacklist implements operate.Viewer.
func (o local) Blacklist(ctx context.Context, q *pb.BlacklistsRequest) (*pb.Blacklist, error) {
	return o.a.orders.Blacklist(ctx, q)
}

// CanRateDomain implements operate.Agent. If each agent may contact each host, a lease of each host keeps its pauses.
// Without a delay of domains, no lease covers all hosts of one.
func (o local) CanRateDomain() error {
	if a := o.a; a.cluster != nil && a.byPages() && a.cfg.Frontier.SiteDelay <= 0 {
		return errors.New("if agents divide pages and not hosts, the rate of a domain needs a --site-delay")
	}
	return nil
}

// Leave implements operate.Agent.
func (o local) Leave(ctx context.Context) (string, error) { return o.a.Leave(ctx) }

// byPages reports whether pages alone are divided among the agents.
func (a *Agent) byPages() bool { return a.cfg.Cluster != nil && a.cfg.Cluster.byPages() }

// crawlAgents are the other agents, for an Operator.
type crawlAgents struct{ c *membership }

// Names implements operate.Others. An agent that leaves is named until it has ended: it still has its archive, and the
// pages that applications have to collect.
func (o crawlAgents) Names() (names []string) {
	m := o.c.members.Gossip()
	if m == nil {
		return nil
	}
	for _, a := range m.View().Agents {
		if (a.State == gossip.Up || a.State == gossip.Leaving) && a.Name != o.c.members.Self.Name {
			names = append(names, a.Name)
		}
	}
	return names
}

// Ask implements operate.Others.
func (o crawlAgents) Ask(ctx context.Context, agent, method string, request []byte) ([]byte, error) {
	p, err := o.c.members.Peer(agent)
	if err != nil {
		return nil, err
	}
	answer, err := p.Operate(ctx, rpc.Operation{Method: method, Request: request})
	switch {
	case err != nil:
		return nil, fmt.Errorf("agent %s does not answer: %w", agent, err)
	case answer.Error != "":
		return nil, errors.New(answer.Error)
	}
	return answer.Response, nil
}

// operated carries out what the Operator of another agent has passed on.
func (c *membership) operated(ctx context.Context, from rpc.Caller, o rpc.Operation) (rpc.OperationAnswer, error) {
	answer := c.a.local.Answer
	switch {
	case o.Method == captureMethod:
		answer = func(_ context.Context, _ string, request []byte) ([]byte, error) { return c.captured(request) }
	case o.Method == leftMethod && c.copies != nil && c.members.Gossip() != nil:
		return rpc.OperationAnswer{}, c.copies.endings.left(c.members.Gossip(), from)
	}
	response, err := answer(ctx, o.Method, o.Request)
	if err != nil {
		return rpc.OperationAnswer{Error: err.Error()}, nil
	}
	return rpc.OperationAnswer{Response: response}, nil
}
