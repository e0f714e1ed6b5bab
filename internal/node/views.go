package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
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

// Hosts implements operate.Viewer.
func (o local) Hosts(ctx context.Context, q *pb.HostsRequest) (*pb.HostsResponse, error) {
	after, err := operate.ReadPlace(q.After)
	if err != nil {
		return nil, err
	}
	query := crawl.HostQuery{Search: q.Search, By: hostOrders[q.By], Limit: int(q.Limit)}
	if after != nil {
		query.After = &crawl.HostMark{Value: after.Value, Host: after.Host}
		query.AfterToo = o.Name() > after.Agent
	}
	rows, matches, err := o.a.crawler.Hosts(ctx, query)
	if err != nil {
		return nil, err
	}
	r := &pb.HostsResponse{Matches: matches}
	for _, h := range rows {
		r.Hosts = append(r.Hosts, &pb.Host{Host: h.Host, State: h.State, Queued: h.Queued, Pages: h.Pages, Urls: h.URLs,
			Errors: h.Errors, Denied: h.Denied, Bytes: h.Bytes, LatencyS: h.Latency.Seconds(), Blocked: h.Blocked})
	}
	return r, nil
}

// eventWait bounds the wait for an event, so that another agent's call ends in time.
const eventWait = 5 * time.Second

// Events implements operate.Viewer.
func (o local) Events(ctx context.Context, q *pb.EventsPageRequest) (*pb.EventsPage, error) {
	events, run := o.a.parts.Events, o.a.history.run
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

// Log implements operate.Viewer.
func (o local) Log(ctx context.Context, q *pb.LogRequest) (*pb.LogResponse, error) {
	wanted, err := operate.LogFilter(q)
	if err != nil {
		return nil, err
	}
	name := o.a.dir("logs", "crawl.log")
	f, err := o.a.fs.OpenFile(name, os.O_RDONLY, 0)
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
			r.Lines = append(r.Lines, &pb.LogLine{Time: timestamppb.New(l.Time), Code: int32(l.Code), Size: l.Size,
				Url: l.URL, Hops: l.Hops, Via: l.Via, Mime: l.MIME, TookS: l.Took.Seconds(), Notes: l.Notes})
		}
		return len(r.Lines) < int(q.Limit) && ctx.Err() == nil
	})
	slices.Reverse(r.Lines)
	return r, err
}

// hostOf returns the host of a URL in the log, which may be a DNS look-up of Heritrix.
func hostOf(u string) string {
	if host, ok := strings.CutPrefix(u, "dns:"); ok {
		return host
	}
	if u, err := url.Parse(u); err == nil {
		return u.Hostname()
	}
	return ""
}

// backwards passes the complete lines of the first size bytes of r to fn, the last one first, until fn returns false.
// It reads at most about most bytes.
func backwards(r io.ReaderAt, size, most int64, fn func(line string) bool) error {
	var rest []byte // the beginning of the line that the piece before has cut
	first := true   // what follows the last newline is an incomplete line
	for end, piece := size, int64(64<<10); end > 0 && size-end < most; end -= min(piece, end) {
		b := make([]byte, min(piece, end))
		if _, err := r.ReadAt(b, end-int64(len(b))); err != nil && err != io.EOF {
			return fmt.Errorf("log: %w", err)
		}
		b = append(b, rest...)
		for {
			i := bytes.LastIndexByte(b, '\n')
			if i < 0 {
				break
			}
			if line := b[i+1:]; !first && len(line) > 0 && !fn(string(line)) {
				return nil
			}
			b, first = b[:i], false
		}
		rest = b
		if end <= piece && !first && len(rest) > 0 {
			fn(string(rest))
		}
	}
	return nil
}

// arcsMost bounds the arcs of a picture: the circle is looked at in so many places.
const arcsMost = 720

// Shares implements operate.Viewer.
func (o local) Shares() *pb.SharesResponse {
	c := o.a.membership
	if c == nil {
		return &pb.SharesResponse{}
	}
	r := &pb.SharesResponse{Partition: c.cfg.Partition}
	view := c.owners()
	if view == nil {
		return r
	}
	agents := view.Agents()
	for _, a := range agents {
		share := &pb.Share{Agent: a.Name, Capacity: a.Capacity}
		if c.sites == nil && !c.cfg.byPages() {
			for p := range view.Ranges(a.Name) {
				share.Share += float64(p.Last-p.First) / (1 << 63) / 2
			}
		}
		r.Agents = append(r.Agents, share)
	}
	if c.sites == nil && !c.cfg.byPages() {
		r.Arcs = arcs(view, agents)
	}
	return r
}

// arcs returns which agent owns which part of the circle, as far as arcsMost places show it.
func arcs(view placement.Placement, agents []placement.Owner) (list []*pb.Arc) {
	owner := make([]string, arcsMost)
	const step = ^uint64(0)/arcsMost + 1
	for _, a := range agents {
		for p := range view.Ranges(a.Name) {
			for i := int((p.First + step/2 - 1) / step); i < arcsMost; i++ {
				if at := uint64(i)*step + step/2; at > p.Last {
					break
				} else if at >= p.First {
					owner[i] = a.Name
				}
			}
		}
	}
	for i, name := range owner {
		if n := len(list); n > 0 && list[n-1].Agent == name {
			list[n-1].To = float64(i+1) / arcsMost
			continue
		}
		list = append(list, &pb.Arc{Agent: name, From: float64(i) / arcsMost, To: float64(i+1) / arcsMost})
	}
	return list
}
