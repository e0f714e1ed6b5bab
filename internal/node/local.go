package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
)

// local is this agent, for its Operator.
type local struct{ a *Agent }

// openOperator makes the Operator, which also answers for this agent when other agents pass commands on.
func (a *Agent) openOperator() error {
	if err := errors.Join(a.openBlacklist(), a.openOrders(), a.openHistory(), a.openListings()); err != nil {
		return err
	}
	var others operate.Others
	if a.membership != nil {
		others = crawlAgents{a.membership}
	}
	a.archiveKeys = newArchiveKeys()
	l := local{a}
	a.local = &operate.Local{Agent: l, HostCommands: l, Seeds: l, Viewer: l, Archive: l, Scoping: l, Queues: l, Apps: l}
	a.operator = operate.New(a.local, others, a.standing)
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
	s.Rate, s.Applications, s.DomainRates = rateState(o.a.rates, o.a.now()), o.ApplicationStates(), o.a.domainRates()
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
		if len(blocks) > 0 && !operate.IsBlocked(o.a.standing.Standing(), host) { // others hold
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

// Leave implements operate.Agent.
func (o local) Leave(ctx context.Context) (string, error) { return o.a.Leave(ctx) }

// byPages reports whether pages alone are divided among the agents.
func (a *Agent) byPages() bool { return a.cfg.Cluster != nil && a.cfg.Cluster.byPages() }
