package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/orbweaver/orbweaver/internal/clock"
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
	s.Address, s.Absent = o.Run.Cluster()
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
