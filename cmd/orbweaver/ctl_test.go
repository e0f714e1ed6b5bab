package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A canned operator answers every call with the same, and keeps the last request.
type canned struct {
	pb.UnimplementedOperatorHandler
	answers  []*pb.Answer
	status   *pb.StatusResponse
	orders   []*pb.Order
	err      error
	asked    string
	statuses atomic.Int32 // requests of the status
	// handlerOf returns what answers; nil: the canned answers do.
	handlerOf func() pb.OperatorHandler
}

func (c *canned) took(call string, q proto.Message) error {
	text := strings.Join(strings.Fields(prototext.MarshalOptions{}.Format(q)), " ") // its spaces vary
	c.asked = strings.TrimSpace(call + " " + text)
	return c.err
}

func (c *canned) order() *pb.Order {
	if len(c.orders) == 0 {
		return nil
	}
	return c.orders[0]
}

func (c *canned) Status(_ context.Context, q *pb.StatusRequest) (*pb.StatusResponse, error) {
	c.statuses.Add(1)
	return c.status, c.took("Status", q)
}

func (c *canned) Explain(_ context.Context, q *pb.ExplainRequest) (*pb.ExplainResponse, error) {
	return &pb.ExplainResponse{Answers: c.answers}, c.took("Explain", q)
}

func (c *canned) Pause(_ context.Context, q *pb.PauseRequest) (*pb.PauseResponse, error) {
	return &pb.PauseResponse{Order: c.order(), Answers: c.answers}, c.took("Pause", q)
}

func (c *canned) Resume(_ context.Context, q *pb.ResumeRequest) (*pb.ResumeResponse, error) {
	return &pb.ResumeResponse{Order: c.order(), Answers: c.answers}, c.took("Resume", q)
}

func (c *canned) Block(_ context.Context, q *pb.BlockRequest) (*pb.BlockResponse, error) {
	return &pb.BlockResponse{Order: c.order(), Answers: c.answers}, c.took("Block", q)
}

func (c *canned) Unblock(_ context.Context, q *pb.UnblockRequest) (*pb.UnblockResponse, error) {
	return &pb.UnblockResponse{Order: c.order(), Answers: c.answers}, c.took("Unblock", q)
}

func (c *canned) Drop(_ context.Context, q *pb.DropRequest) (*pb.DropResponse, error) {
	return &pb.DropResponse{Answers: c.answers}, c.took("Drop", q)
}

func (c *canned) Checkpoint(_ context.Context, q *pb.CheckpointRequest) (*pb.CheckpointResponse, error) {
	return &pb.CheckpointResponse{Answers: c.answers}, c.took("Checkpoint", q)
}

func (c *canned) Stop(_ context.Context, q *pb.StopRequest) (*pb.StopResponse, error) {
	return &pb.StopResponse{Answers: c.answers}, c.took("Stop", q)
}

func (c *canned) Leave(_ context.Context, q *pb.LeaveRequest) (*pb.LeaveResponse, error) {
	return &pb.LeaveResponse{Answers: c.answers}, c.took("Leave", q)
}

func (c *canned) Orders(_ context.Context, q *pb.OrdersRequest) (*pb.OrdersResponse, error) {
	return &pb.OrdersResponse{Orders: c.orders}, c.took("Orders", q)
}

func (c *canned) TakeBack(_ context.Context, q *pb.TakeBackRequest) (*pb.TakeBackResponse, error) {
	return &pb.TakeBackResponse{Order: c.order(), Answers: c.answers}, c.took("TakeBack", q)
}

func (c *canned) Delay(_ context.Context, q *pb.DelayRequest) (*pb.DelayResponse, error) {
	return &pb.DelayResponse{Order: c.order(), Answers: c.answers}, c.took("Delay", q)
}

func (c *canned) Rate(_ context.Context, q *pb.RateRequest) (*pb.RateResponse, error) {
	return &pb.RateResponse{Order: c.order(), Answers: c.answers}, c.took("Rate", q)
}

func (c *canned) RateDomain(_ context.Context, q *pb.RateDomainRequest) (*pb.RateResponse, error) {
	return &pb.RateResponse{Order: c.order(), Answers: c.answers}, c.took("RateDomain", q)
}

// handler serves c to callers with the token x.
func (c *canned) handler() http.Handler {
	mux := http.NewServeMux()
	var operator pb.OperatorHandler = c
	if c.handlerOf != nil {
		operator = c.handlerOf()
	}
	mux.Handle(pb.NewOperatorHandler(operator))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer x" {
			http.Error(w, "no valid token: send the one in state/api.json", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// serveAPI starts a server that is the API of the crawl in the directory that it returns.
func serveAPI(t *testing.T, h http.Handler, token string) (dir string) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	dir = t.TempDir()
	writeAPI(t, dir, node.APIAccess{Addr: server.Listener.Addr().String(), Token: token})
	return dir
}

func writeAPI(t *testing.T, dir string, access node.APIAccess) {
	t.Helper()
	b, err := json.Marshal(access)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, node.APIFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// running makes the crawl in dir one that runs.
func running(t *testing.T, dir string) {
	t.Helper()
	lock, err := disk.Lock(disk.OS, filepath.Join(dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
}

// ctl runs a command of ctl. In its output, DIR is the directory.
func ctl(dir string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(append([]string{"ctl", "--dir", dir}, args...), &out, &errs)
	return code, strings.ReplaceAll(out.String(), dir, "DIR"), strings.ReplaceAll(errs.String(), dir, "DIR")
}

func TestCtl(t *testing.T) {
	at := timestamppb.New(time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC))
	pause := &pb.Order{Id: "a1-3", At: at, Agent: "a1", By: "x", Why: "a complaint", Verb: "pause", Stands: true}
	wide := []*pb.Order{{Id: "a1-4", Verb: "block", About: "*.example.org", Stands: true}}
	one := []*pb.Answer{{Text: "a.example: blocked, 1 link waits\n"}}
	three := []*pb.Answer{{Agent: "a1", Text: "first"}, {Agent: "a2", Text: "second\n  more\n"}, {Agent: "a3"}}
	partly := []*pb.Answer{{Agent: "a1", Text: "first"}, {Agent: "a2", Error: "no\nanswer", Code: "silent"}}
	early := []*pb.Answer{{Agent: "a1", Text: "done", WaitsFor: "1 more agent"}}
	refused := connect.NewError(connect.CodeNotFound, errors.New("no order \"x\" stands"))
	for _, c := range []struct {
		args           string
		answer         *canned
		asked          string
		code           int
		stdout, stderr string
	}{
		{args: "block http://A.Example:80/x --why because", answer: &canned{answers: one},
			asked: `Block host:"a.example" why:"because"`, stdout: "a.example: blocked, 1 link waits\n"},
		{args: "unblock a.example", answer: &canned{answers: one}, asked: `Unblock host:"a.example"`,
			stdout: "a.example: blocked, 1 link waits\n"},
		{args: "block a.example", answer: &canned{answers: partly}, asked: `Block host:"a.example"`,
			stdout: "agent a1:\nfirst\na2 does not know it yet, and is told as soon as it answers: no\\nanswer\n"},
		{args: "drop a.example --why w", answer: &canned{answers: one}, asked: `Drop host:"a.example" why:"w"`,
			stdout: "a.example: blocked, 1 link waits\n"},
		{args: "explain a.example", answer: &canned{answers: three}, asked: `Explain host:"a.example"`,
			stdout: "agent a1:\nfirst\nagent a2:\nsecond\n  more\nagent a3:\n"},
		{args: "explain a.example", answer: &canned{answers: partly}, asked: `Explain host:"a.example"`, code: 1,
			stdout: "agent a1:\nfirst\n", stderr: "orbweaver: agent a2 answers: no\\nanswer\n"},
		{args: "explain a.example", answer: &canned{answers: partly[1:]}, asked: `Explain host:"a.example"`, code: 1,
			stderr: "orbweaver: agent a2 answers: no\\nanswer\n"},
		{args: "explain a.example", answer: &canned{}, asked: `Explain host:"a.example"`, code: 1,
			stderr: "orbweaver: the crawl answers: no agent has carried out the command; try again\n"},
		{args: "block a.example", answer: &canned{err: refused}, asked: `Block host:"a.example"`, code: 1,
			stderr: "orbweaver: the crawl answers: no order \"x\" stands\n"},
		{args: "block a.example", answer: &canned{err: connect.NewError(connect.CodeUnavailable, errors.New(""))},
			asked: `Block host:"a.example"`, code: 1, stderr: "orbweaver: the crawl answers: unavailable\n"},
		{args: "pause", answer: &canned{answers: []*pb.Answer{{Text: "paused"}}, orders: []*pb.Order{pause}},
			asked:  "Pause",
			stdout: "paused; the crawl begins no request until \"orbweaver ctl --dir DIR resume\"\n"},
		{args: "pause --why w", answer: &canned{answers: three, orders: []*pb.Order{pause}}, asked: `Pause why:"w"`,
			stdout: "paused; a1, a2 and a3 begin no request until \"orbweaver ctl --dir DIR resume\"\n"},
		{args: "pause", answer: &canned{answers: partly, orders: []*pb.Order{pause}}, asked: "Pause",
			stdout: "paused; a1 begins no request until \"orbweaver ctl --dir DIR resume\"\n" +
				"a2 does not know it yet, and is told as soon as it answers: no\\nanswer\n"},
		{args: "pause", answer: &canned{answers: early, orders: []*pb.Order{pause}}, asked: "Pause",
			stdout: "paused; a1 begins no request until \"orbweaver ctl --dir DIR resume\"\n" +
				"the agent waits for 1 more agent; other agents are told when they join\n"},
		{args: "block a.example", answer: &canned{answers: early}, asked: `Block host:"a.example"`,
			stdout: "agent a1:\ndone\nthe agent waits for 1 more agent; other agents are told when they join\n"},
		{args: "resume --why w", answer: &canned{answers: three[:2], orders: []*pb.Order{pause}},
			asked: `Resume why:"w"`, stdout: "resumed; a1 and a2 begin requests again\n"},
		{args: "checkpoint --agent a1", answer: &canned{answers: one}, asked: `Checkpoint agent:"a1"`,
			stdout: "a.example: blocked, 1 link waits\n"},
		{args: "stop --agent a1 --why w", answer: &canned{answers: one}, asked: `Stop agent:"a1" why:"w"`,
			stdout: "a.example: blocked, 1 link waits\n"},
		{args: "stop", answer: &canned{answers: three[:2]}, asked: "Stop",
			stdout: "agent a1:\nfirst\nagent a2:\nsecond\n  more\n"},
		{args: "leave", answer: &canned{answers: one}, asked: "Leave", stdout: "a.example: blocked, 1 link waits\n"},
		{args: "leave --agent a2", answer: &canned{answers: one}, asked: `Leave agent:"a2"`,
			stdout: "a.example: blocked, 1 link waits\n"},
		{args: "rate 40 --why w", answer: &canned{answers: three, orders: []*pb.Order{{Id: "a1-5", Verb: "rate",
			Value: "40/s"}}}, asked: `Rate rate:"40/s" why:"w"`, stdout: "rate 40/s; a1, a2 and a3 obey\n"},
		{args: "rate none", answer: &canned{answers: partly, orders: []*pb.Order{{Id: "a1-5", Verb: "rate",
			Value: "none"}}}, asked: `Rate rate:"none"`, stdout: "rate none; a1 obeys\n" +
			"a2 does not know it yet, and is told as soon as it answers: no\\nanswer\n"},
		{args: "take-back a1-3 --why w", answer: &canned{answers: three, orders: []*pb.Order{pause}},
			asked:  `TakeBack id:"a1-3" why:"w"`,
			stdout: "taken back: pause; a1, a2 and a3 do not obey order a1-3 any more\n"},
		{args: "take-back x", answer: &canned{err: refused}, asked: `TakeBack id:"x"`, code: 1,
			stderr: "orbweaver: the crawl answers: no order \"x\" stands\n"},
		{args: "orders", answer: &canned{}, asked: "Orders", stdout: "No order stands.\n"},
		{args: "orders --past", answer: &canned{}, asked: "Orders past:true", stdout: "No order was given.\n"},
		{args: "orders", answer: &canned{orders: []*pb.Order{pause}}, asked: "Orders", stdout: "" +
			"ID    WHEN              BY  ORDER\n" +
			"a1-3  2026-03-04 05:06  x   pause everything\n" +
			"  a complaint\n"},
		{args: "orders --past", asked: "Orders past:true", answer: &canned{orders: []*pb.Order{
			{Id: "a1-3", At: at, Agent: "a1", By: "alice@ws", Verb: "pause", Why: "a complaint"},
			{Id: "a10-4", At: at, Agent: "a10", By: "bob", Verb: "pause", Off: true},
			{Id: "a1-5", Agent: "a1", Verb: "delay", Value: "9s", About: "www.example.org", Stands: true},
		}}, stdout: "" +
			"ID     WHEN              BY        STANDS  ORDER\n" +
			"a1-3   2026-03-04 05:06  alice@ws  no      pause everything\n" +
			"  a complaint\n" +
			"a10-4  2026-03-04 05:06  bob       no      pause off everything\n" +
			"a1-5   -                 -         yes     delay 9s www.example.org\n"},
		{args: "orders", asked: "Orders", answer: &canned{orders: []*pb.Order{
			{Id: "a1-6", Agent: "a1", Verb: "app-rule", About: "news exclude /print/", Stands: true},
			{Id: "a1-7", Agent: "a1", Verb: "app", About: "news", Stands: true, Value: `{"share":2,"scope":"domain",` +
				`"depth":3,"strategy":"follow","pages":true,"made":"ABC"}`},
			{Id: "a1-8", Agent: "a1", Verb: "app", About: "new", Stands: true, Value: "{}"},
		}}, stdout: "" +
			"ID    WHEN  BY  ORDER\n" +
			"a1-6  -     -   app-rule news exclude /print/\n" +
			"a1-7  -     -   app news: share 2, strategy follow, scope domain, depth 3, pages are kept\n" +
			"a1-8  -     -   app {} new\n"},
		{args: "orders --json", answer: &canned{orders: []*pb.Order{pause}}, asked: "Orders", stdout: `{
  "orders": [
    {
      "id": "a1-3",
      "at": "2026-03-04T05:06:07.000008Z",
      "agent": "a1",
      "by": "x",
      "why": "a complaint",
      "verb": "pause",
      "about": "",
      "value": "",
      "off": false,
      "stands": true
    }
  ]
}
`},
		{args: "block *.example.org", asked: `Block host:"*.example.org"`,
			answer: &canned{answers: partly, orders: wide},
			stdout: "*.example.org: blocked; a1 obeys\n" +
				"a2 does not know it yet, and is told as soon as it answers: no\\nanswer\n"},
		{args: "unblock 192.0.2.0/24", asked: `Unblock host:"192.0.2.0/24"`,
			answer: &canned{answers: three, orders: wide},
			stdout: "*.example.org: blocked; a1, a2 and a3 obey\n"},
		{args: "health", answer: &canned{}, stdout: "ok\n"},
	} {
		dir := serveAPI(t, c.answer.handler(), "x")
		code, stdout, stderr := ctl(dir, strings.Fields(c.args)...)
		if code != c.code || stdout != c.stdout || stderr != c.stderr || c.answer.asked != c.asked {
			t.Errorf("ctl %s: exit code %d, want %d\nasked %q, want %q\nstdout %q\n  want %q\nstderr %q\n  want %q",
				c.args, code, c.code, c.answer.asked, c.asked, stdout, c.stdout, stderr, c.stderr)
		}
	}
}

// The table and the JSON of the status.
func TestCtlStatus(t *testing.T) {
	counts, err := structpb.NewStruct(map[string]any{"type": "status", "pages": 12345678,
		"blocked_hosts": []any{"a.example"}})
	if err != nil {
		t.Fatal(err)
	}
	totals := &pb.Totals{Pages: 12345678, Fetched: 12400000, Bytes: 98765432109, UrlsQueued: 1234, UrlsUnique: 22345678,
		PagesPerS: 123.456, OpenRequests: 64, Errors: 3}
	alone := &pb.StatusResponse{Totals: totals, Agents: []*pb.AgentStatus{
		{State: "crawling", Totals: totals, Status: counts}}}
	several := &pb.StatusResponse{Totals: totals, Absent: []string{"a3", "a4"}, Agents: []*pb.AgentStatus{
		{Agent: "a1", Address: "192.0.2.1:7470", State: "crawling", Totals: totals},
		{Agent: "a2", State: "waiting", WaitsFor: "2 agents"},
		{Agent: "archive-10", State: "silent", WaitsFor: "agent archive-10 does not answer: timeout"},
	}}
	for _, c := range []struct {
		args, asked string
		status      *pb.StatusResponse
		want        string
	}{
		{"status", "Status", alone, "" +
			"STATE          PAGES  PAGES/S  RECEIVED  QUEUED       KNOWN  OPEN  ERRORS  WAITS FOR\n" +
			"crawling  12,345,678    123.5     99 GB   1,234  22,345,678    64       3\n"},
		{"status --agent a1", `Status agent:"a1"`, several, "" +
			"AGENT       STATE          PAGES  PAGES/S  RECEIVED  QUEUED       KNOWN  OPEN  ERRORS  WAITS FOR\n" +
			"a1          crawling  12,345,678    123.5     99 GB   1,234  22,345,678    64       3\n" +
			"a2          waiting            -        -         -       -           -     -       -  2 agents\n" +
			"archive-10  silent             -        -         -       -           -     -       -  agent archive-10 " +
			"does not answer: timeout\n" +
			"total                 12,345,678    123.5     99 GB   1,234  22,345,678    64       3\n" +
			"not counted: a3 and a4, which left, stopped or were lost\n"},
		{"status --json", "Status", alone, `{
  "agents": [
    {
      "agent": "",
      "address": "",
      "state": "crawling",
      "waits_for": "",
      "totals": {
        "pages": "12345678",
        "fetched": "12400000",
        "bytes": "98765432109",
        "urls_queued": "1234",
        "urls_unique": "22345678",
        "pages_per_s": 123.456,
        "open_requests": "64",
        "errors": "3"
      },
      "status": {
        "blocked_hosts": [
          "a.example"
        ],
        "pages": 12345678,
        "type": "status"
      },
      "applications": [],
      "domain_rates": [],
      "absent": []
    }
  ],
  "totals": {
    "pages": "12345678",
    "fetched": "12400000",
    "bytes": "98765432109",
    "urls_queued": "1234",
    "urls_unique": "22345678",
    "pages_per_s": 123.456,
    "open_requests": "64",
    "errors": "3"
  },
  "absent": []
}
`},
	} {
		api := &canned{status: c.status}
		code, stdout, stderr := ctl(serveAPI(t, api.handler(), "x"), strings.Fields(c.args)...)
		if code != 0 || stdout != c.want || stderr != "" || api.asked != c.asked {
			t.Errorf("ctl %s: exit code %d, %s\nasked %q, want %q\n%s\nwant\n%s", c.args, code, stderr, api.asked,
				c.asked, stdout, c.want)
		}
	}
}

// The errors of a server that is no crawl, of one of another version, and of one with another token.
func TestCtlRefused(t *testing.T) {
	for name, c := range map[string]struct {
		h      http.Handler
		token  string
		stderr string
	}{
		"token":   {(&canned{}).handler(), "y", "the crawl answers: no valid token: send the one in state/api.json"},
		"version": {http.NotFoundHandler(), "x", "the crawl answers: it does not know this command; use the orbweaver"},
		"page": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }), "x",
			`invalid content-type: "text/plain; charset=utf-8"`},
		"empty": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), "x",
			"the crawl answers: 503 Service Unavailable"},
		"elsewhere": {http.RedirectHandler("http://192.0.2.1/", http.StatusTemporaryRedirect), "x",
			"the crawl answers: 307 Temporary Redirect"},
	} {
		dir := serveAPI(t, c.h, c.token)
		running(t, dir)
		code, stdout, stderr := ctl(dir, "pause")
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, "orbweaver: ") ||
			!strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit code %d, %q, %q", name, code, stdout, stderr)
		}
	}
}

// Agents' texts cannot control the terminal, imitate lines, or fill it.
func TestCtlForeignText(t *testing.T) {
	text := strings.ToValidUTF8(evil, "") + "\norbweaver: all is well\t"
	long := text + strings.Repeat("ä", 1<<17)
	order := &pb.Order{Id: long, Agent: long, By: long, Why: long, Verb: long, About: long, Value: long}
	api := &canned{
		answers: []*pb.Answer{{Agent: long, Error: long}, {Agent: long, Error: long}},
		orders:  []*pb.Order{order},
		status: &pb.StatusResponse{Agents: []*pb.AgentStatus{
			{Agent: long, State: long, WaitsFor: long, Address: text}}},
	}
	dir := serveAPI(t, api.handler(), "x")
	check := func(most int, args ...string) {
		t.Helper()
		_, stdout, stderr := ctl(dir, args...)
		for _, s := range []string{stdout, stderr} {
			if err := harmless(s); err != nil {
				t.Errorf("%q: %v", args, err)
			}
			if strings.Contains(s, "\norbweaver: all is well") {
				t.Errorf("%q: foreign text stands as a line of its own:\n%.1000s", args, s)
			}
		}
		if n := utf8.RuneCountInString(stdout + stderr); n > most {
			t.Errorf("%q prints %d characters", args, n)
		}
		if !strings.Contains(stdout+stderr, `\u001b[31mred`) {
			t.Errorf("%q prints %.1000s", args, stdout+stderr)
		}
	}
	for _, args := range []string{"status", "explain a.example", "pause", "resume", "stop", "orders --past",
		"take-back x"} {
		check(20<<10, strings.Fields(args)...)
	}
	check(1<<20, "status", "--json")
	check(2<<20, "orders", "--json")
	api.answers = []*pb.Answer{{Text: strings.ToValidUTF8(evil, "") + strings.Repeat("ä", 2<<20)}}
	check(textMost+1000, "block", "a.example")
	api.err = connect.NewError(connect.CodeUnavailable, errors.New(text+strings.Repeat("ä", 1<<17)))
	check(5<<10, "block", "a.example")
}

// With TLS, ctl accepts exactly the certificate that the crawl directory names.
func TestCtlTLS(t *testing.T) {
	api := &canned{answers: []*pb.Answer{{Text: "leaves"}}}
	server := httptest.NewUnstartedServer(api.handler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // ctl breaks a handshake off
	server.StartTLS()
	defer server.Close()
	dir := t.TempDir()
	access := node.APIAccess{Addr: server.Listener.Addr().String(), Token: "x", Cert: server.Certificate().Raw}
	writeAPI(t, dir, access)
	if code, stdout, stderr := ctl(dir, "leave"); code != 0 || stdout != "leaves\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	if code, stdout, stderr := ctl(dir, "health"); code != 0 || stdout != "ok\n" {
		t.Errorf("health: exit code %d, %q, %q", code, stdout, stderr)
	}
	running(t, dir)
	access.Cert = bytes.Clone(access.Cert)
	access.Cert[len(access.Cert)-1] ^= 1
	writeAPI(t, dir, access)
	api.asked = ""
	code, _, stderr := ctl(dir, "leave")
	if code != 1 || !strings.Contains(stderr, "it has another certificate than state/api.json says") ||
		api.asked != "" {
		t.Errorf("another certificate: exit code %d, %q, asked %q", code, stderr, api.asked)
	}
	for addr, want := range map[string]string{"0.0.0.0:7480": "127.0.0.1:7480", "[::]:7480": "127.0.0.1:7480",
		"192.0.2.1:7480": "192.0.2.1:7480", "[::1]:1": "[::1]:1"} {
		if got := here(addr); got != want {
			t.Errorf("here(%s) = %s, want %s", addr, got, want)
		}
	}
}

// redraw fits what it draws.
func TestRedraw(t *testing.T) {
	for _, c := range []struct {
		text        string
		cols, lines int
		want        string
	}{
		{"a\nbb\n", 80, 24, "\x1b[Ha\x1b[K\nbb\x1b[K\n\x1b[J"},
		{"abcdef\n\x1b[2J\n", 5, 24, "\x1b[Habc…\x1b[K\n\\u0…\x1b[K\n\x1b[J"},
		{"1\n2\n3\n4\n", 80, 4, "\x1b[H1\x1b[K\n2\x1b[K\n…\x1b[K\n\x1b[J"},
		{"1\n2\n", 0, 0, "\x1b[H…\x1b[K\n\x1b[J"},
	} {
		if got := redraw(c.text, c.cols, c.lines); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

// watch shows the status every 2 s until it is interrupted, or until the crawl has ended.
func TestWatch(t *testing.T) {
	failure := errors.New("no answer")
	for _, c := range []struct {
		name      string
		fail      int // the look that fails
		over      bool
		interrupt time.Duration
		shows     int
		ended     bool
		err       error
		took      time.Duration
	}{
		{name: "interrupted", interrupt: 5 * time.Second, shows: 3, took: 5 * time.Second},
		{name: "ended", fail: 4, over: true, shows: 3, ended: true, took: 6 * time.Second},
		{name: "failed", fail: 4, shows: 3, err: failure, took: 6 * time.Second},
		{name: "was never there", fail: 1, over: true, err: failure},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.interrupt > 0 {
				time.AfterFunc(c.interrupt, cancel)
			}
			looks, shows, begin := 0, 0, time.Now()
			ended, err := watch(ctx, watchEvery, func(context.Context) (string, error) {
				if looks++; looks == c.fail {
					return "", failure
				}
				return "x", nil
			}, func(string) error { shows++; return nil }, func() bool { return c.over })
			if took := time.Since(begin); ended != c.ended || err != c.err || shows != c.shows || took != c.took {
				t.Errorf("%s: ended %t, %v, shown %d times, after %s", c.name, ended, err, shows, took)
			}
		})
	}
}

// Without a terminal, ctl status --watch prints a table each time, and ends with the crawl.
func TestCtlWatch(t *testing.T) {
	api := &canned{status: &pb.StatusResponse{Agents: []*pb.AgentStatus{{State: "stopping", Totals: &pb.Totals{}}}}}
	dir := ""
	h := api.handler()
	dir = serveAPI(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api.statuses.Load() == 1 {
			os.Remove(filepath.Join(dir, node.APIFile)) // as a crawl that ends
			http.Error(w, "closed", http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	}), "x")
	table := "STATE     PAGES  PAGES/S  RECEIVED  QUEUED  KNOWN  OPEN  ERRORS  WAITS FOR\n" +
		"stopping      0      0.0       0 B       0      0     0       0\n"
	code, stdout, stderr := ctl(dir, "status", "--watch")
	if code != 0 || stdout != table || stderr != "orbweaver: the crawl in DIR has ended\n" {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
	var out bytes.Buffer
	show := screenOf(&out, false)
	if show("a\n") != nil || show("b\n") != nil || out.String() != "a\n\nb\n" {
		t.Errorf("got %q", out.String())
	}
}

// rude is a listener that closes its first connections, as an agent under a flood of
// connections does: some with a reset.
type rude struct {
	net.Listener
	left atomic.Int32
}

func (l *rude) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || l.left.Add(-1) < 0 {
			return conn, err
		}
		if l.left.Load()%2 == 0 {
			conn.(*net.TCPConn).SetLinger(0)
		}
		conn.Close()
	}
}

func TestCtlInsists(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &rude{Listener: ln}
	l.left.Store(5)
	api := &canned{answers: []*pb.Answer{{Text: "leaves"}}}
	var asked atomic.Int32
	h := api.handler()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		h.ServeHTTP(w, r)
	})}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })

	dir := t.TempDir()
	writeAPI(t, dir, node.APIAccess{Addr: ln.Addr().String(), Token: "x"})
	code, stdout, stderr := ctl(dir, "leave", "--agent", "a2")
	if code != 0 || stdout != "leaves\n" || asked.Load() != 1 || api.asked != `Leave agent:"a2"` {
		t.Errorf("exit code %d, %q, %q, asked %d times, %q", code, stdout, stderr, asked.Load(), api.asked)
	}
	if l.left.Load() != -1 {
		t.Errorf("%d connections are left", l.left.Load())
	}
}

// The status says which limit of the rate holds, and which agents know another one.
func TestRateLines(t *testing.T) {
	agent := func(name, schedule, limit string) *pb.AgentStatus {
		return &pb.AgentStatus{Agent: name, Rate: &pb.RateState{Schedule: schedule, Limit: limit}}
	}
	domain := func(name, domain, schedule, limit string) *pb.AgentStatus {
		return &pb.AgentStatus{Agent: name, DomainRates: []*pb.DomainRate{{Domain: domain, Schedule: schedule,
			Limit: limit}}}
	}
	day := "40/s 8-18, else 300/s"
	for want, agents := range map[string][]*pb.AgentStatus{
		"":             {{Agent: "a1"}, {Agent: "a2"}},
		"rate: 40/s\n": {agent("a1", "40/s", "40/s"), {Agent: "a2", State: "silent"}},
		"rate: 300/s now, by 40/s 8-18, else 300/s\n": {agent("a1", day, "300/s"), agent("a2", day, "300/s")},
		"rate: 300/s now, by 40/s 8-18, else 300/s (a1, a3)\nrate: 40/s now, by 40/s 8-18, else 300/s (a2)\n": {
			agent("a1", day, "300/s"), agent("a2", day, "40/s"), agent("a3", day, "300/s")},
		"rate of a.example: 5/s (a1)\nrate of a.example: 1/s (a2)\n" +
			"rate of b.example: none now, by 1/s 8-9, else none\n": {
			domain("a1", "a.example", "5/s", "5/s"), domain("a2", "a.example", "1/s", "1/s"),
			domain("a2", "b.example", "1/s 8-9, else none", "none")},
	} {
		if got := rateLines(agents); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
