package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
)

var hostOrders = map[pb.HostOrder]crawl.HostOrder{
	pb.HostOrder_HOST_ORDER_ERRORS: crawl.ByErrors, pb.HostOrder_HOST_ORDER_BYTES: crawl.ByBytes,
	pb.HostOrder_HOST_ORDER_LATENCY: crawl.ByLatency, pb.HostOrder_HOST_ORDER_PAGES: crawl.ByPageCount,
	pb.HostOrder_HOST_ORDER_NAME: crawl.ByName,
}

// Views show what the agent knows. They implement operate.Viewer.
type Views struct {
	Blacklists
	*Division
	Agent    string // its name; "": the crawl has one agent
	Crawl    HostCrawl
	EventLog *report.Events
	Logs     *Logs
	Samples  *History

	run string // names the process, for followers of its events
}

// NewViews gives views a name of this process.
func NewViews(v Views) *Views {
	v.run = rand.Text()
	return &v
}

// Blacklists are what the agent does not visit by its own file.
type Blacklists interface {
	Blacklist(ctx context.Context, q *pb.BlacklistsRequest) (*pb.Blacklist, error)
}

// A HostCrawl has hosts.
type HostCrawl interface {
	Hosts(ctx context.Context, q crawl.HostQuery) (rows []crawl.HostRow, matches int64, err error)
}

func (v *Views) History(q *pb.HistoryRequest) *pb.HistorySeries { return v.Samples.series(q) }

func (v *Views) Hosts(ctx context.Context, q *pb.HostsRequest) (*pb.HostsResponse, error) {
	after, err := operate.ReadPlace(q.After)
	if err != nil {
		return nil, err
	}
	query := crawl.HostQuery{Search: q.Search, By: hostOrders[q.By], Limit: int(q.Limit)}
	if after != nil {
		query.After = &crawl.HostMark{Value: after.Value, Host: after.Host}
		query.AfterToo = v.Agent > after.Agent
	}
	rows, matches, err := v.Crawl.Hosts(ctx, query)
	if err != nil {
		return nil, err
	}
	r := &pb.HostsResponse{Matches: matches}
	for _, h := range rows {
		r.Hosts = append(r.Hosts, &pb.Host{Host: h.Host, State: h.State, Queued: h.Queued, Pages: h.Pages,
			UrlsFinished: h.URLs, Errors: h.Errors, RobotsDenied: h.Denied, Bytes: h.Bytes,
			LatencyS: h.Latency.Seconds(), Blocked: h.Blocked, LeastS: h.Least.Seconds()})
	}
	return r, nil
}

// eventWait bounds the wait for an event, so that another agent's call ends in time.
const eventWait = 5 * time.Second

func (v *Views) Events(ctx context.Context, q *pb.EventsPageRequest) (*pb.EventsPage, error) {
	events, run := v.EventLog, v.run
	from := q.From
	switch _, next, _ := events.Since(^uint64(0)); {
	case q.Run == "":
		from = next - min(uint64(max(q.Last, 0)), next)
	case q.Run != run: // the agent was restarted: all its events are new
		from = 0
	}
	list, next, more := events.Since(from)
	if q.Wait && len(list) == 0 {
		timer := time.NewTimer(eventWait)
		defer timer.Stop()
		select {
		case <-more:
		case <-timer.C:
		case <-ctx.Done():
		}
		list, next, _ = events.Since(from)
	}
	p := &pb.EventsPage{Run: run, Next: next}
	for _, line := range list {
		p.Events = append(p.Events, eventOf(line))
	}
	if missed := int64(next-min(from, next)) - int64(len(list)); missed > 0 && len(list) > 0 && q.Run != "" {
		p.Events[0].Missed = missed
	}
	return p, nil
}

// eventOf returns an event from its line.
func eventOf(line string) *pb.Event {
	var head struct {
		Time  time.Time `json:"time"`
		Event string    `json:"event"`
	}
	fields := new(structpb.Struct)
	if json.Unmarshal([]byte(line), &head) != nil || protojson.Unmarshal([]byte(line), fields) != nil {
		return &pb.Event{Event: "unreadable"}
	}
	for _, name := range []string{"type", "time", "event"} {
		delete(fields.Fields, name)
	}
	return &pb.Event{Time: timestamppb.New(head.Time), Event: head.Event, Fields: fields}
}

// logSearch bounds the bytes at the end of crawl.log that a search reads.
const logSearch = 16 << 20

func (v *Views) Log(ctx context.Context, q *pb.LogRequest) (*pb.LogResponse, error) {
	wanted, err := report.LogFilter(q.Host, q.Status)
	if err != nil {
		return nil, err
	}
	name := v.Logs.crawlLog()
	f, err := v.Logs.FS.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	r := new(pb.LogResponse)
	err = backwards(f, info.Size(), logSearch, func(line string) bool {
		if l, err := report.ReadLine(line); err == nil && wanted(hostOf(l.URL), l.Code) {
			r.Lines = append(r.Lines, &pb.LogLine{Ts: timestamppb.New(l.Time), Status: int32(l.Code), Size: l.Size,
				Url: l.URL, Hops: l.Hops, Via: l.Via, Mime: l.MIME, TookS: l.Took.Seconds(), Notes: l.Notes})
		}
		return len(r.Lines) < int(q.Limit) && ctx.Err() == nil
	})
	slices.Reverse(r.Lines)
	return r, err
}
