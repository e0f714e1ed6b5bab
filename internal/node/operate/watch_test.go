package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// A liar's answers begin anew on each page. The captures of an endless agent always go on, and there are none.
const liar, endless = "liar", "endless"

// Each resident knows hosts NAME-0.example to NAME-4.example, with 0 to 4 links, and has answered one for each.
func (r resident) Hosts(_ context.Context, q *pb.HostsRequest) (*pb.HostsResponse, error) {
	after, err := ReadPlace(q.After)
	if err != nil {
		return nil, err
	}
	var all []*pb.Host
	a := new(pb.HostsResponse)
	for i := range int64(5) {
		h := &pb.Host{Host: fmt.Sprintf("%s-%d.example", r.name, i), Queued: i, Errors: 9 - i}
		if strings.Contains(h.Host, q.Search) {
			a.Matches++
			if p := placeOf(h, q.By); after == nil || (Place{p.Value, p.Host, r.name}).Compare(*after) > 0 {
				all = append(all, h)
			}
		}
	}
	if r.name == liar {
		a.Hosts = []*pb.Host{{Host: "first.example", Queued: 99}}
		return a, nil
	}
	slices.SortFunc(all, func(x, y *pb.Host) int { return placeOf(x, q.By).Compare(placeOf(y, q.By)) })
	a.Hosts = all[:min(int(q.Limit), len(all))]
	return a, nil
}

func (r resident) Events(ctx context.Context, q *pb.EventsPageRequest) (*pb.EventsPage, error) {
	r.w.mu.Lock()
	list := r.w.events[r.name]
	r.w.mu.Unlock()
	from := q.From
	if q.Run == "" {
		from = uint64(max(len(list)-int(q.Last), 0))
	}
	if int(from) == len(list) && q.Wait {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	p := &pb.EventsPage{Run: "1", Next: uint64(len(list))}
	for i, name := range list[from:] {
		at := int64(from) + int64(i)
		ev := &pb.Event{Event: name, Time: timestamppb.New(time.Unix(at, 0))}
		if id, shared := strings.CutPrefix(name, "order "); shared {
			ev.Event = "order"
			ev.Fields = &structpb.Struct{Fields: map[string]*structpb.Value{}}
			for field, text := range map[string]string{"id": id, "by": "alice@ws", "verb": "block",
				"about": "a.example", "agent": r.name} {
				ev.Fields.Fields[field] = structpb.NewStringValue(text)
			}
		}
		p.Events = append(p.Events, ev)
	}
	return p, nil
}

func (r resident) Log(_ context.Context, q *pb.LogRequest) (*pb.LogResponse, error) {
	a := new(pb.LogResponse)
	for i := range int(q.Limit) {
		a.Lines = append(a.Lines, &pb.LogLine{Ts: timestamppb.New(time.Unix(int64(i), 0)), Url: q.Host + q.Status})
	}
	return a, nil
}

func (r resident) ArchiveKey() string { return "key" }

// Captures has captures in the order of their lines: "r" and the agent's number, then a number.
func (r resident) Captures(_ context.Context, q *pb.CapturesRequest) (*pb.CapturesResponse, error) {
	a := new(pb.CapturesResponse)
	if r.name == liar {
		a.Captures, a.Next = []*pb.Capture{{Line: []byte("00")}, {Line: []byte("00")}}, []byte("0")
		return a, nil
	}
	if r.name == endless {
		a.Next = slices.Concat(q.After, []byte{0})
		return a, nil
	}
	for i := range 5 {
		line := fmt.Sprintf("%d %s", i, r.Name())
		if line > string(q.After) && len(a.Captures) < int(q.Limit) {
			a.Captures = append(a.Captures, &pb.Capture{Url: q.Url, Line: []byte(line)})
		}
	}
	if r.Name() == "a2" && len(a.Captures) > 1 { // its answer was too long
		a.Captures = a.Captures[:1]
		a.Next = a.Captures[0].Line
	}
	return a, nil
}

func (r resident) Record(_ context.Context, q *pb.RecordRequest) (*pb.RecordResponse, error) {
	return &pb.RecordResponse{BodyFile: r.Name() + " " + q.File}, nil
}

func (r resident) History(q *pb.HistoryRequest) *pb.HistorySeries {
	return &pb.HistorySeries{Samples: []*pb.HistorySample{{UnixS: int64(q.Points)}}}
}

func (r resident) Shares() *pb.SharesResponse { return &pb.SharesResponse{Partition: r.name} }

func (r resident) Blacklist(_ context.Context, q *pb.BlacklistsRequest) (*pb.Blacklist, error) {
	if r.name == "c" {
		return new(pb.Blacklist), nil // it has none
	}
	return &pb.Blacklist{File: q.Search, Entries: int64(q.Limit)}, nil
}

func names(hosts []*pb.Host) (all []string) {
	for _, h := range hosts {
		all = append(all, h.Agent+":"+strings.TrimSuffix(h.Host, ".example"))
	}
	return all
}

// Pages of hosts follow each other without a gap, whichever agents the hosts belong to.
func TestHosts(t *testing.T) {
	w := newTown("a", "b")
	for limit := int32(1); limit <= 11; limit++ {
		for by, want := range map[pb.HostOrder]string{
			pb.HostOrder_HOST_ORDER_QUEUE:  "a:a-4 b:b-4 a:a-3 b:b-3 a:a-2 b:b-2 a:a-1 b:b-1 a:a-0 b:b-0",
			pb.HostOrder_HOST_ORDER_ERRORS: "a:a-0 b:b-0 a:a-1 b:b-1 a:a-2 b:b-2 a:a-3 b:b-3 a:a-4 b:b-4",
			pb.HostOrder_HOST_ORDER_NAME:   "a:a-0 a:a-1 a:a-2 a:a-3 a:a-4 b:b-0 b:b-1 b:b-2 b:b-3 b:b-4",
		} {
			var got []string
			q := &pb.HostsRequest{By: by, Limit: limit}
			for more := true; more; {
				r, err := w.members["b"].Hosts(t.Context(), q)
				if err != nil || r.Matches != 10 || len(r.Hosts) > int(limit) {
					t.Fatal(r, err)
				}
				got = append(got, names(r.Hosts)...)
				q.After, more = r.Next, r.Next != ""
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%d a page, %s: %v, want %s", limit, by, got, want)
			}
		}
	}
	w.run(t, `
		a Hosts search:"b-3" -> = hosts:{host:"b-3.example" agent:"b" queued:3 errors:6} matches:1
		a Hosts limit:-1 -> ! invalid_argument
		a Hosts limit:1001 -> ! invalid_argument
		a Hosts after:"x" -> ! invalid_argument
		a Hosts by:99 -> ! invalid_argument
		a Hosts search:"%s" -> ! invalid_argument`, strings.Repeat("x", 256))
}

// An agent that does not answer is named, and the others' answers stand.
func TestViewsOfSilentAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a", "b")
		w.silent["b"] = true
		const silent = `silent:{agent:"b" error:"agent b does not answer: context deadline exceeded" code:"silent"}`
		w.run(t, `
			a Hosts limit:2 -> = hosts:{host:"a-4.example" agent:"a" queued:4 errors:5} hosts:{host:"a-3.example" agent:"a" queued:3 errors:6} next:"3 a-3.example a" matches:5 %s
			a Log limit:2 -> = lines:{agent:"a" ts:{}} lines:{agent:"a" ts:{seconds:1}} %[1]s
			a History -> = agents:{agent:"a" samples:{unix_s:%d}}`, silent, usualPoints)
	})
}

// Each agent with a blacklist shows its own.
func TestBlacklists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a", "b", "c", "d")
		w.silent["d"] = true
		w.run(t, `
			c Blacklists search:"x"
			-> agents:{agent:"a" file:"x" entries:%d} agents:{agent:"b" file:"x" entries:%[1]d} silent:{agent:"d"
			a Blacklists limit:-1 -> ! invalid_argument
			a Blacklists limit:1001 -> ! invalid_argument
			a Blacklists search:"%s" -> ! invalid_argument`, usualRows, strings.Repeat("x", 256))
	})
}

func TestLog(t *testing.T) {
	w := newTown("a", "b")
	w.run(t, `
		a Log limit:3 host:"h" status:"4xx"
		-> = lines:{agent:"b" ts:{seconds:1} url:"h4xx"} lines:{agent:"a" ts:{seconds:2} url:"h4xx"} lines:{agent:"b" ts:{seconds:2} url:"h4xx"}
		a Log agent:"b" -> lines:{agent:"b" ts:{}} lines:{agent:"b"
		-> ts:{seconds:%d}}
		-> - agent:"a"
		a Log agent:"c" -> ! not_found
		a Log status:"x" -> ! invalid_argument
		a Log status:"6xx" -> ! invalid_argument
		a Log limit:-1 -> ! invalid_argument`, usualRows-1)
}

// listen follows events until ctx is done.
type listen struct {
	mu  sync.Mutex
	got []string
	all []*pb.Event
}

func (l *listen) send(e *pb.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, e.Agent+":"+e.Event)
	l.all = append(l.all, proto.CloneOf(e))
	return nil
}

// What several agents tell of one thing comes once, as a sentence, with the agents that have told it by then.
func TestEventsOnce(t *testing.T) {
	events := map[string][]string{"a": {"order 1", "order 2", "x"}, "b": {"order 1", "x", "order 2"}, "c": {"order 2"}}
	check := func(what string, l *listen, want ...string) {
		t.Helper()
		var got []string
		for _, e := range l.all {
			got = append(got, strings.Join(append([]string{e.Text}, e.Agents...), " "))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", what, got, want)
		}
	}
	one, two := "alice@ws gave the order 1: block a.example.", "alice@ws gave the order 2: block a.example."
	w := newTown("a", "b", "c")
	w.events = events
	var l listen
	e := &eventStream{o: w.members["a"], q: &pb.EventsRequest{Last: 9}, send: l.send}
	if err := e.lastOnes(t.Context()); err != nil {
		t.Error(err)
	}
	check("the last ones", &l, one+" a b", two+" a b c", "x", "x")
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a", "b", "c")
		w.events = map[string][]string{}
		var l listen
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			e := &eventStream{o: w.members["a"], q: &pb.EventsRequest{}, send: l.send}
			done <- e.follow(ctx)
		}()
		time.Sleep(3500 * time.Millisecond) // the agents are asked and events are sent at whole seconds
		add := func(agent string, names ...string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events[agent] = append(slices.Clone(w.events[agent]), names...)
		}
		add("a", "order 1")
		add("b", "order 1")
		time.Sleep(5 * time.Second)
		add("c", "order 1", "x") // too late to be named
		time.Sleep(5 * time.Second)
		cancel()
		<-done
		check("followed", &l, one+" a b", "x")
	})
}

// A follower gets the last events, then those of all agents as they come, also of an agent that joins.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown("a", "b")
		w.events = map[string][]string{"a": {"old", "last"}}
		add := func(agent, event string) {
			w.mu.Lock()
			w.events[agent] = append(slices.Clone(w.events[agent]), event)
			w.mu.Unlock()
			time.Sleep(3 * time.Second)
		}
		var l listen
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			e := &eventStream{o: w.members["a"], q: &pb.EventsRequest{Last: 1, Names: []string{"last", "x", "y"}},
				send: l.send}
			done <- e.follow(ctx)
		}()
		time.Sleep(3 * time.Second)
		add("b", "x")
		add("b", "unwanted")
		add("a", "y")
		cancel()
		if err := <-done; err != context.Canceled {
			t.Error(err)
		}
		if got := strings.Join(l.got, " "); got != "a:last b:x a:y" {
			t.Errorf("got %s", got)
		}
	})
	w := newTown("a", "b")
	w.events = map[string][]string{"a": {"0", "1", "2"}, "b": {"0", "1"}}
	var l listen
	e := &eventStream{o: w.members["b"], q: &pb.EventsRequest{Last: 2}, send: l.send}
	if err := e.lastOnes(t.Context()); err != nil || strings.Join(l.got, " ") != "b:0 a:1 b:1 a:2" {
		t.Error(l.got, err)
	}
	if err := w.members["a"].Events(t.Context(), &pb.EventsRequest{Last: 501}, nil); connect.CodeOf(err) !=
		connect.CodeInvalidArgument {
		t.Error(err)
	}
}
