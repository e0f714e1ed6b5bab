package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// looks answers the calls for looking.
type looks struct {
	canned
	hosts  *pb.HostsResponse
	log    *pb.LogResponse
	events []*pb.Event
}

func (l *looks) Hosts(_ context.Context, q *pb.HostsRequest) (*pb.HostsResponse, error) {
	return l.hosts, l.took("Hosts", q)
}

func (l *looks) Log(_ context.Context, q *pb.LogRequest) (*pb.LogResponse, error) {
	return l.log, l.took("Log", q)
}

func (l *looks) Events(_ context.Context, q *pb.EventsRequest, s *connect.ServerStream[pb.Event]) error {
	for _, e := range l.events {
		if err := s.Send(e); err != nil {
			return err
		}
	}
	return l.took("Events", q)
}

func TestCtlLooks(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC))
	fields, err := structpb.NewStruct(map[string]any{"host": "a.example\x1b[2J>", "n": 3, "none": ""})
	if err != nil {
		t.Fatal(err)
	}
	l := &looks{
		hosts: &pb.HostsResponse{Matches: 1234, Next: "5 b.example a2",
			Silent: []*pb.Answer{{Agent: "a3", Error: "no"}},
			Hosts: []*pb.Host{
				{Host: "a.example", Agent: "a1", State: "ready", Queued: 1000, Pages: 2, Urls: 3, Errors: 4, Denied: 5,
					Bytes: 6000, LatencyS: 0.1234},
				{Host: "b.example", Agent: "a2", State: "finished", LatencyS: 0.0001}}},
		log: &pb.LogResponse{Lines: []*pb.LogLine{
			{Time: at, Code: 200, Size: 1000, Url: "http://a.example/\x1b", Mime: "text/html", TookS: 1.5},
			{Time: at, Code: -2, Size: -1, Url: "http://b.example/"}}},
		events: []*pb.Event{{Time: at, Agent: "a1", Event: "host-paused", Fields: fields, Missed: 2},
			{Time: at, Event: "x"}},
	}
	l.handlerOf = func() pb.OperatorHandler { return l }
	for _, c := range []struct{ args, asked, want string }{
		{"hosts", "Hosts by:HOST_ORDER_QUEUE limit:20", "" +
			"HOST       AGENT  STATE     QUEUED  PAGES  URLS  ERRORS  DENIED  RECEIVED  LATENCY\n" +
			"a.example  a1     ready      1,000      2     3       4       5    6.0 kB    123ms\n" +
			"b.example  a2     finished       0      0     0       0       0       0 B     <1ms\n" +
			"2 of 1,234; for more: --after \"5 b.example a2\"\n" +
			"a3 does not answer: no\n"},
		{"hosts --by latency -n 3 --after x ex", `Hosts search:"ex" by:HOST_ORDER_LATENCY limit:3 after:"x"`, ""},
		{"log --host *.example --status 4xx --agent a1 -n 7",
			`Log host:"*.example" status:"4xx" agent:"a1" limit:7`, "" +
				"TIME          CODE    SIZE  TOOK  TYPE       URL\n" +
				"05:06:07.008   200  1.0 kB  1.5s  text/html  http://a.example/\\u001b\n" +
				"05:06:07.008    -2       -    0s             http://b.example/\n"},
		{"events host-paused x -n 5", `Events names:"host-paused" names:"x" last:5`, "" +
			"2 events are missing\n" +
			`2026-03-04T05:06:07Z  a1  host-paused  host="a.example\u001b[2J>"  n=3` + "\n" +
			"2026-03-04T05:06:07Z  x\n"},
		{"events --json", "Events last:20", `{"agent":"a1","time":"2026-03-04T05:06:07.008Z","event":"host-paused",` +
			`"fields":{"host":"a.example\u001b[2J>","n":3,"none":""},"missed":"2"}` + "\n" +
			`{"time":"2026-03-04T05:06:07.008Z","event":"x"}` + "\n"},
	} {
		code, stdout, stderr := ctl(serveAPI(t, l.handler(), "x"), strings.Fields(c.args)...)
		if code != 0 || stderr != "" || l.asked != c.asked || c.want != "" && stdout != c.want {
			t.Errorf("ctl %s: exit code %d, %s\nasked %q, want %q\n%s\nwant\n%s", c.args, code, stderr, l.asked,
				c.asked, stdout, c.want)
		}
	}
	for _, args := range []string{"hosts -n 0", "log -n 0", "hosts --by x", "log --status x", "queue (",
		"queue --watch --token x", "queue --watch --export x", "scope --watch --depth 3", "scope --by x", "rate 0",
		"rate a.example 0/s"} {
		if code, _, _ := ctl(t.TempDir(), strings.Fields(args)...); code != 4 {
			t.Errorf("ctl %s: exit code %d", args, code)
		}
	}
}

func (l *looks) Shares(context.Context, *pb.SharesRequest) (*pb.SharesResponse, error) {
	return &pb.SharesResponse{Agents: []*pb.Share{{Agent: "a1"}, {Agent: "a2"}, {Agent: "b1"}}}, nil
}

// The shell completes hosts, orders and agents of the running crawl, for the commands of ctl alone.
func TestCompleteFromCrawl(t *testing.T) {
	l := &looks{canned: canned{orders: []*pb.Order{{Id: "a1-3"}, {Id: "a1-4"}, {Id: "a2-5"}}},
		hosts: &pb.HostsResponse{Hosts: []*pb.Host{{Host: "www.a.example"},
			{Host: "www.b.example", Agent: "a1"},
			{Host: "www.b.example", Agent: "a2"}, {Host: "b.www.example"}}}}
	l.handlerOf = func() pb.OperatorHandler { return l }
	dir := serveAPI(t, l.handler(), "x")
	for _, c := range []struct{ line, want string }{
		{"ctl --dir DIR explain www.", "none\nwww.a.example\nwww.b.example\n"},
		{"ctl --dir=DIR block www.b", "none\nwww.b.example\n"},
		{"ctl -o DIR log --host=www.a", "none\n--host=www.a.example\n"},
		{"ctl -o DIR log --host www.a", "none\nwww.a.example\n"},
		{"ctl --dir none explain www.", "none\n"},
		{"ctl --dir DIR hosts --by e", "none\nerrors\n"},
		{"check robots www.", "none\n"},
		{"ctl --dir DIR take-back a1", "none\na1-4\na1-3\n"},
		{"ctl --dir DIR leave --agent a", "none\na1\na2\n"},
		{"ctl --dir DIR log --agent=b", "none\n--agent=b1\n"},
		{"ctl --dir DIR app a", "none\n"},
	} {
		var out, errs bytes.Buffer
		words := strings.Fields(strings.ReplaceAll(c.line, "DIR", dir))
		code := run(append([]string{"__complete"}, words...), &out, &errs)
		if code != 0 || out.String() != c.want || errs.String() != "" {
			t.Errorf("%s: exit code %d, %q, want %q; %s", c.line, code, out.String(), c.want, errs.String())
		}
	}
}
