package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/sentence"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/report"
)

// A Viewer shows what an agent knows. Its methods change nothing.
type Viewer interface {
	// Hosts returns the hosts of this agent, at most Limit.
	Hosts(ctx context.Context, q *pb.HostsRequest) (*pb.HostsResponse, error)
	// Events returns the events of this agent. It may block until the next one.
	Events(ctx context.Context, q *pb.EventsPageRequest) (*pb.EventsPage, error)
	// Log returns the last lines of the agent's crawl.log, at most Limit.
	Log(ctx context.Context, q *pb.LogRequest) (*pb.LogResponse, error)
	// History returns the agent's counts of the last hours, at most Points.
	History(q *pb.HistoryRequest) *pb.HistorySeries
	// Shares returns how the hosts are divided, as this agent sees it.
	Shares() *pb.SharesResponse
	// Blacklist returns the entries of the agent's blacklist, at most Limit.
	Blacklist(ctx context.Context, q *pb.BlacklistsRequest) (*pb.Blacklist, error)
}

const (
	mostRows      = 1000 // of a response
	usualRows     = 20
	mostPoints    = 3000
	usualPoints   = 240
	mostEvents    = 500
	agentsAgain   = time.Second // between two looks at which agents are present
	mostSearch    = 255
	mostEventName = 100
)

// rows returns the number of rows of a response.
func rows(limit int32) (int32, error) {
	if limit < 0 || limit > mostRows {
		return 0, problem(connect.CodeInvalidArgument, "limit %d: give 1 to %d, or 0 for %d", limit, mostRows,
			usualRows)
	}
	return cmp.Or(limit, usualRows), nil
}

// answerView answers a question of another agent, or this agent's own part of one. known is false if it is no question
// of a Viewer.
func (l *Local) answerView(ctx context.Context, method string, request []byte) (b []byte, known bool, err error) {
	reply := func(q proto.Message, do func() (proto.Message, error)) ([]byte, bool, error) {
		if err := decode(method, request, q); err != nil {
			return nil, true, err
		}
		m, err := do()
		if err != nil {
			return nil, true, err
		}
		b, err := proto.Marshal(m)
		return b, true, err
	}
	switch method {
	case "Hosts":
		q := new(pb.HostsRequest)
		return reply(q, func() (proto.Message, error) { return l.Hosts(ctx, q) })
	case "Events":
		q := new(pb.EventsPageRequest)
		return reply(q, func() (proto.Message, error) { return l.Events(ctx, q) })
	case "Log":
		q := new(pb.LogRequest)
		return reply(q, func() (proto.Message, error) { return l.Log(ctx, q) })
	case "Captures":
		q := new(pb.CapturesRequest)
		return reply(q, func() (proto.Message, error) { return l.Captures(ctx, q) })
	case "Record":
		q := new(pb.RecordRequest)
		return reply(q, func() (proto.Message, error) { return l.Record(ctx, q) })
	case "History":
		q := new(pb.HistoryRequest)
		return reply(q, func() (proto.Message, error) { return l.History(q), nil })
	case "Blacklists":
		q := new(pb.BlacklistsRequest)
		return reply(q, func() (proto.Message, error) { return l.Blacklist(ctx, q) })
	}
	return nil, false, nil
}

// asked puts a question to agents. It returns the answers of those that answer, by agent, and the others.
func asked[T any, M interface {
	*T
	proto.Message
}](ctx context.Context, ag agents, names []string, method string, q proto.Message) (
	got map[string]M, silent []*pb.Answer,
) {
	answers, errs := make([]M, len(names)), make([]error, len(names))
	ag.each(ctx, names, func(ctx context.Context, i int, name string) {
		answers[i] = new(T)
		errs[i] = ag.ask(ctx, name, method, q, answers[i])
	})
	got = map[string]M{}
	for i, name := range names {
		if errs[i] != nil {
			silent = append(silent, &pb.Answer{Agent: name, Error: errs[i].Error(), Code: codeSilent})
			continue
		}
		got[name] = answers[i]
	}
	return got, silent
}

// unanswered is the error of a question that no agent has answered.
func unanswered(silent []*pb.Answer) error {
	return problem(connect.CodeUnavailable, "%s", silent[0].Error)
}

func (o *Operator) Hosts(ctx context.Context, q *pb.HostsRequest) (*pb.HostsResponse, error) {
	limit, err := rows(q.Limit)
	if err != nil {
		return nil, err
	}
	if len(q.Search) > mostSearch {
		return nil, problem(connect.CodeInvalidArgument, "search: a host's name has at most %d bytes", mostSearch)
	}
	if pb.HostOrder_name[int32(q.By)] == "" {
		return nil, problem(connect.CodeInvalidArgument, "by %d: there is no such order", q.By)
	}
	after, err := ReadPlace(q.After)
	if err != nil {
		return nil, problem(connect.CodeInvalidArgument, "after: %v", err)
	}
	// One more than asked for tells whether there is a next page.
	want := &pb.HostsRequest{Search: q.Search, By: q.By, Limit: limit + 1, After: q.After}
	got, silent := asked[pb.HostsResponse](ctx, o.agents, o.agents.names(), "Hosts", want)
	if len(got) == 0 {
		return nil, unanswered(silent)
	}
	r, more := &pb.HostsResponse{Silent: silent}, 0
	for name, a := range got {
		r.Matches += a.Matches
		more += len(a.Hosts)
		for _, h := range a.Hosts {
			h.Agent = name
			if after == nil || placeOf(h, q.By).Compare(*after) > 0 { // otherwise there could be pages without end
				r.Hosts = append(r.Hosts, h)
			}
		}
	}
	slices.SortFunc(r.Hosts, func(a, b *pb.Host) int { return placeOf(a, q.By).Compare(placeOf(b, q.By)) })
	r.Hosts = r.Hosts[:min(len(r.Hosts), int(limit))]
	if n := len(r.Hosts); more > n && n > 0 {
		r.Next = placeOf(r.Hosts[n-1], q.By).String()
	}
	return r, nil
}

// A Place is where a host stands in a list: by a count, the largest first, then by name, then by agent.
type Place struct {
	Value       int64
	Host, Agent string
}

func placeOf(h *pb.Host, by pb.HostOrder) Place {
	return Place{HostValue(h, by), h.Host, h.Agent}
}

// HostValue returns the count of a host by which an order sorts.
func HostValue(h *pb.Host, by pb.HostOrder) int64 {
	switch by {
	case pb.HostOrder_HOST_ORDER_ERRORS:
		return h.Errors
	case pb.HostOrder_HOST_ORDER_BYTES:
		return h.Bytes
	case pb.HostOrder_HOST_ORDER_LATENCY:
		return int64(h.LatencyS*1e6 + 0.5)
	case pb.HostOrder_HOST_ORDER_PAGES:
		return h.Pages
	case pb.HostOrder_HOST_ORDER_NAME:
		return 0
	}
	return h.Queued
}

// Compare orders places.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(q.Value, p.Value), strings.Compare(p.Host, q.Host), strings.Compare(p.Agent, q.Agent))
}

// String returns the form that ReadPlace reads.
func (p Place) String() string { return strconv.FormatInt(p.Value, 10) + " " + p.Host + " " + p.Agent }

// ReadPlace reads a place. Nil stands for the empty string.
func ReadPlace(s string) (*Place, error) {
	if s == "" {
		return nil, nil
	}
	value, rest, _ := strings.Cut(s, " ")
	host, agent, ok := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(value, 10, 64)
	if !ok || err != nil {
		return nil, fmt.Errorf("%.80q is not the end of a page; give next of the page before", s)
	}
	return &Place{n, host, agent}, nil
}

func (o *Operator) Log(ctx context.Context, q *pb.LogRequest) (*pb.LogResponse, error) {
	limit, err := rows(q.Limit)
	if err != nil {
		return nil, err
	}
	if _, err := report.LogFilter(q.Host, q.Status); err != nil {
		return nil, problem(connect.CodeInvalidArgument, "%v", err)
	}
	names, err := o.agents.chosen(q.Agent)
	if err != nil {
		return nil, err
	}
	want := &pb.LogRequest{Host: q.Host, Status: q.Status, Limit: limit}
	got, silent := asked[pb.LogResponse](ctx, o.agents, names, "Log", want)
	if len(got) == 0 {
		return nil, unanswered(silent)
	}
	r := &pb.LogResponse{Silent: silent}
	for name, a := range got {
		for _, l := range a.Lines {
			l.Agent = name
			r.Lines = append(r.Lines, l)
		}
	}
	slices.SortStableFunc(r.Lines, func(a, b *pb.LogLine) int {
		return cmp.Or(a.Ts.AsTime().Compare(b.Ts.AsTime()), strings.Compare(a.Agent, b.Agent))
	})
	r.Lines = r.Lines[max(len(r.Lines)-int(limit), 0):]
	return r, nil
}

// History implements pb.OperatorHandler. Agents that do not answer are missing.
func (o *Operator) History(ctx context.Context, q *pb.HistoryRequest) (*pb.HistoryResponse, error) {
	if q.Points < 0 || q.Points > mostPoints || q.Minutes < 0 {
		return nil, problem(connect.CodeInvalidArgument, "points %d of %d minutes: give 0 to %d points, of 0 or more "+
			"minutes", q.Points, q.Minutes, mostPoints)
	}
	want := &pb.HistoryRequest{Minutes: q.Minutes, Points: cmp.Or(q.Points, usualPoints), Hours: q.Hours}
	got, silent := asked[pb.HistorySeries](ctx, o.agents, o.agents.names(), "History", want)
	if len(got) == 0 {
		return nil, unanswered(silent)
	}
	r := new(pb.HistoryResponse)
	for name, s := range got {
		s.Agent = name
		r.Agents = append(r.Agents, s)
	}
	slices.SortFunc(r.Agents, func(a, b *pb.HistorySeries) int { return strings.Compare(a.Agent, b.Agent) })
	return r, nil
}

func (o *Operator) Shares(context.Context, *pb.SharesRequest) (*pb.SharesResponse, error) {
	return o.agent.Shares(), nil
}

func (o *Operator) Blacklists(ctx context.Context, q *pb.BlacklistsRequest) (*pb.BlacklistsResponse, error) {
	limit, err := rows(q.Limit)
	if err != nil {
		return nil, err
	}
	if len(q.Search) > mostSearch {
		return nil, problem(connect.CodeInvalidArgument, "search: at most %d bytes", mostSearch)
	}
	want := &pb.BlacklistsRequest{Search: q.Search, Limit: limit}
	got, silent := asked[pb.Blacklist](ctx, o.agents, o.agents.names(), "Blacklists", want)
	if len(got) == 0 {
		return nil, unanswered(silent)
	}
	r := &pb.BlacklistsResponse{Silent: silent}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if b := got[name]; b.File != "" {
			b.Agent = name
			r.Agents = append(r.Agents, b)
		}
	}
	return r, nil
}

func (o *Operator) Events(ctx context.Context, q *pb.EventsRequest, stream *connect.ServerStream[pb.Event]) error {
	if q.Last < 0 || q.Last > mostEvents {
		return problem(connect.CodeInvalidArgument, "last %d: give 0 to %d", q.Last, mostEvents)
	}
	for _, name := range q.Names {
		if len(name) > mostEventName {
			return problem(connect.CodeInvalidArgument, "name %.40q…: no event has so long a name", name)
		}
	}
	e := &eventStream{o: o, q: q, send: stream.Send}
	if !q.Follow {
		return e.lastOnes(ctx)
	}
	if err := stream.Send(nil); err != nil { // the header, so that the caller knows that it is heard
		return err
	}
	return e.follow(ctx)
}

// An eventStream sends the events of all agents. What several agents tell of one thing becomes one event.
type eventStream struct {
	o    *Operator
	q    *pb.EventsRequest
	send func(*pb.Event) error

	mu   sync.Mutex // guards wait
	wait []*pb.Event

	held []*pb.Event          // of the flush before: the next one sends them
	told map[string]*pb.Event // events that several agents tell, by what makes them the same; of flush
}

const (
	// eventsLinger is how long the stream holds events back at least, to send those of all agents by time, each once.
	eventsLinger = time.Second
	// sameWithin is how long after an event of an agent others may tell the same.
	sameWithin = time.Minute
	// mostTold bounds the events that the stream remembers.
	mostTold = 4096
)

// take takes events of an agent.
func (e *eventStream) take(events []*pb.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wait = append(e.wait, events...)
}

// flush sends the events that were taken before the last flush, by time. So other agents have eventsLinger to tell the
// same. One caller at a time.
func (e *eventStream) flush() error {
	e.mu.Lock()
	next := e.wait
	e.wait = nil
	e.mu.Unlock()
	slices.SortStableFunc(next, func(a, b *pb.Event) int {
		return cmp.Or(a.Time.AsTime().Compare(b.Time.AsTime()), strings.Compare(a.Agent, b.Agent))
	})
	ready := e.held
	e.held = slices.DeleteFunc(next, e.isTold)
	for _, ev := range ready {
		if err := e.send(ev); err != nil {
			return err
		}
	}
	return nil
}

// isTold gives an event its sentence. It reports whether another agent has told of the same thing: then that event gets
// this agent, unless it has been sent.
func (e *eventStream) isTold(ev *pb.Event) bool {
	fields := ev.Fields.AsMap()
	ev.Text = textOf(ev.Event, fields)
	key, shared := sentence.Shared(ev.Event, fields)
	if !shared || ev.Missed > 0 {
		return false
	}
	first := e.told[key]
	if first == nil || first.Agent == ev.Agent || slices.Contains(first.Agents, ev.Agent) ||
		ev.Time.AsTime().Sub(first.Time.AsTime()) > sameWithin {
		if len(e.told) >= mostTold || e.told == nil {
			e.told = map[string]*pb.Event{}
		}
		e.told[key] = ev
		return false
	}
	if len(first.Agents) == 0 {
		first.Agents = []string{first.Agent}
	}
	first.Agents = append(first.Agents, ev.Agent)
	slices.Sort(first.Agents)
	return true
}

// textOf returns an event as a sentence.
func textOf(event string, fields map[string]any) string {
	if event == "order" {
		word := func(name string) string { s, _ := fields[name].(string); return s }
		fields["what"] = verbs.Text(orders.Order{Verb: word("verb"), About: word("about"), Value: word("value")})
	}
	return sentence.Of(event, fields)
}

func (e *eventStream) wanted(ev *pb.Event) bool {
	return len(e.q.Names) == 0 || slices.Contains(e.q.Names, ev.Event)
}

// page asks an agent. Its events are those that are wanted.
func (e *eventStream) page(ctx context.Context, agent string, q *pb.EventsPageRequest) (*pb.EventsPage, error) {
	p := new(pb.EventsPage)
	if err := e.o.agents.ask(ctx, agent, "Events", q, p); err != nil {
		return nil, err
	}
	p.Events = slices.DeleteFunc(p.Events, func(ev *pb.Event) bool { return !e.wanted(ev) })
	for _, ev := range p.Events {
		ev.Agent = agent
	}
	return p, nil
}

// lastOnes sends the last events of all agents by time.
func (e *eventStream) lastOnes(ctx context.Context) error {
	e.o.agents.each(ctx, e.o.agents.names(), func(ctx context.Context, _ int, name string) {
		p, err := e.page(ctx, name, &pb.EventsPageRequest{Last: mostEvents})
		if err != nil {
			return // an agent without an answer has no events to show
		}
		e.take(p.Events[max(len(p.Events)-int(e.q.Last), 0):])
	})
	return cmp.Or(e.flush(), e.flush())
}

// follow sends the events of all agents, also of those that join later, until ctx is done or the caller has gone.
func (e *eventStream) follow(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	var all callGroup
	defer all.wait()
	defer fail(nil)
	var mu sync.Mutex // guards followed
	followed := map[string]bool{}
	all.run(func() {
		for clock.Pause(ctx, eventsLinger) {
			if err := e.flush(); err != nil {
				fail(err)
			}
		}
		_ = cmp.Or(e.flush(), e.flush()) // how the agent ends, if the caller still hears it
	})
	tick := time.NewTicker(agentsAgain)
	defer tick.Stop()
	for first := true; ; first = false {
		for _, name := range e.o.agents.names() {
			mu.Lock()
			was := followed[name]
			followed[name] = true
			mu.Unlock()
			if was {
				continue
			}
			last := mostEvents // of an agent that joins, all are new
			if first {
				last = int(e.q.Last)
			}
			all.run(func() {
				err := errors.New("the call has failed") // unless followOne returns
				defer func() {
					if err != nil {
						fail(err)
					}
				}()
				err = e.followOne(ctx, name, int32(last))
				mu.Lock()
				delete(followed, name)
				mu.Unlock()
			})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// followOne sends the events of one agent. It returns nil when the agent is not present any more.
func (e *eventStream) followOne(ctx context.Context, agent string, last int32) error {
	q := &pb.EventsPageRequest{Last: last}
	for ctx.Err() == nil && slices.Contains(e.o.agents.names(), agent) {
		p, err := e.page(ctx, agent, q)
		if err != nil {
			clock.Pause(ctx, agentsAgain)
			continue
		}
		q = &pb.EventsPageRequest{Run: p.Run, From: p.Next, Last: last, Wait: true}
		e.take(p.Events)
	}
	return ctx.Err()
}
