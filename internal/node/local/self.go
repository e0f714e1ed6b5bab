package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gone"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
)

// Self tells of the agent, and changes its run. It implements operate.Agent.
type Self struct {
	Agent   string // its name; "": the crawl has one agent
	NoPaces bool   // the crawl cannot limit the requests to single domains
	Crawl   RunningCrawl
	Apps    *Applications
	Events  *report.Events
	Rates   Rates
	Paces   Paces
	Clock   clock.Clock
	Run     Run
}

// A RunningCrawl can be saved and ended.
type RunningCrawl interface {
	Checkpoint(ctx context.Context) (string, error)
	Halt(ctx context.Context, why crawl.Stop) error
}

func (o *Self) Name() string { return o.Agent }

func (o *Self) Status() *pb.AgentStatus {
	s := &pb.AgentStatus{Agent: o.Agent, State: "crawling", Applications: o.Apps.ApplicationStates()}
	if c := o.Run.Cluster(); c != nil {
		s.Address, s.Instance, s.Absent = c.Address(), c.Instance(), c.Absent()
		for _, a := range c.Gone() {
			s.Gone = append(s.Gone, goneAgent(a))
		}
	}
	s.Rate, s.DomainRates = rateState(o.Rates, o.Clock.Now()), o.Paces.States()
	status := stateOf(o.Run)
	switch st := status.(type) {
	case Waiting:
		s.State, s.WaitsFor = "waiting", st.For
	case *crawl.Status:
		s.WaitsFor = st.WaitsFor
		if st.Stop != "" {
			s.State = "stopping"
		} else if st.Cluster.Leaving != "" {
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
	s.Status = detail(status)
	if st, ok := status.(*crawl.Status); ok && s.Status != nil {
		maps.Copy(s.Status.Fields, detail(st.Cluster).GetFields())
		maps.Copy(s.Status.Fields, detail(map[string]any{"sizes": o.Run.Sizes(st)}).GetFields())
	}
	return s
}

func (o *Self) Heard(agent string) *pb.Totals {
	if c := o.Run.Cluster(); c != nil {
		return totalsOf(c.Heard(agent))
	}
	return nil
}

// totalsOf returns counts that an agent has told; nil: none.
func totalsOf(c *gone.Counts) *pb.Totals {
	if c == nil {
		return nil
	}
	return &pb.Totals{Pages: c.Pages, Fetched: c.Fetched, Bytes: c.Bytes, UrlsQueued: c.Queued, UrlsUnique: c.Unique,
		Errors: c.Errors}
}

func goneAgent(a gone.Agent) *pb.GoneAgent {
	g := &pb.GoneAgent{Agent: a.Name, Instance: a.Instance, Boot: a.Boot, State: string(a.State),
		Since: timestamppb.New(a.Since), Reason: a.Reason, Why: whyGone(a), Totals: totalsOf(a.Counts)}
	if !a.At.IsZero() {
		g.AsOf = timestamppb.New(a.At)
	}
	return g
}

// goneReasons are the reasons for which an agent goes, in words.
var goneReasons = map[string]string{
	string(crawl.Finished): "its crawl finished", string(crawl.OnlyBlocked): "only blocked links were left",
	string(crawl.Signal): "a signal stopped it", string(crawl.ByOperator): "an operator stopped it",
	string(crawl.OutputClosed): "the reader of its output closed it", string(crawl.PageLimit): "page limit reached",
	string(crawl.SizeLimit): "size limit reached", string(crawl.TimeLimit): "time limit reached",
	string(crawl.DiskLow): "disk low: the disk was nearly full",
	string(crawl.ByPages): "its program stopped it",
	string(crawl.Left):    "it handed its hosts to the others", gone.DiskFull: "disk full",
	gone.Failed: "an error of its machine",
}

// whyGone says in words why an agent has gone.
func whyGone(a gone.Agent) string {
	switch why := goneReasons[a.Reason]; {
	case why != "":
		return why
	case a.State == gone.Lost:
		return "killed or unreachable"
	case a.State == gone.Left:
		return goneReasons[string(crawl.Left)]
	}
	return "it ended in order"
}

// detail returns the JSON fields of a value; nil if it has none.
func detail(of any) *structpb.Struct {
	fields := new(structpb.Struct)
	if b, err := json.Marshal(of); err != nil || protojson.Unmarshal(b, fields) != nil {
		return nil
	}
	return fields
}

func (o *Self) Note(verb, about, by, why string) {
	const most = 2000 // bytes of a name
	about, why = about[:min(len(about), most)], why[:min(len(why), most)]
	o.Events.Write("command", report.F("verb", verb), report.F("about", report.OneLine(about)),
		report.F("by", by), report.F("why", why))
}

func (o *Self) Checkpoint(ctx context.Context) (string, error) { return o.Crawl.Checkpoint(ctx) }

func (o *Self) Stop(ctx context.Context) (string, error) {
	err := o.Crawl.Halt(ctx, crawl.ByOperator)
	if errors.Is(err, crawl.ErrNotRunning) {
		if w, ok := o.Run.Waits(); ok {
			return "", fmt.Errorf("the crawl has not started: the agent waits for %s; stop its process", w.For)
		}
		return "stops already", nil
	}
	return "stops; resume the crawl to continue", err
}

func (o *Self) Leave(ctx context.Context) (string, error) { return o.Run.Leave(ctx) }

// CanRateDomain implements operate.Agent. If each agent may contact each host, a lease of each host keeps its pauses.
// Without a delay of domains, no lease covers all hosts of one.
func (o *Self) CanRateDomain() error {
	if o.NoPaces {
		return errors.New("if agents divide pages and not hosts, the rate of a domain needs a site-delay")
	}
	return nil
}
