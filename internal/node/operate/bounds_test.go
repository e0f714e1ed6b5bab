package operate

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Another agent's requests have the bounds of operators' calls.
func TestBoundsOfMembers(t *testing.T) {
	w := newTown("a1", "a2")
	search, pattern := strings.Repeat("x", mostSearch+1), strings.Repeat("x", orders.MaxAbout+1)
	urls, parts := make([]string, seedsMost+1), make([]*pb.BodyPart, pagesMost+1)
	for i := range parts {
		parts[i] = &pb.BodyPart{}
	}
	for want, c := range map[string]struct {
		method string
		q      proto.Message
	}{
		"Hosts: limit -1: 0 to 1001 are possible":             {"Hosts", &pb.HostsRequest{Limit: -1}},
		"Hosts: limit 1002: 0 to 1001 are possible":           {"Hosts", &pb.HostsRequest{Limit: 1002}},
		"Hosts: search 256: 0 to 255 are possible":            {"Hosts", &pb.HostsRequest{Search: search}},
		"Events: last -5: 0 to 500 are possible":              {"Events", &pb.EventsPageRequest{Last: -5}},
		"Log: limit 2147483647: 0 to 1000 are possible":       {"Log", &pb.LogRequest{Limit: math.MaxInt32}},
		"Captures: limit -1: 0 to 1001 are possible":          {"Captures", &pb.CapturesRequest{Limit: -1}},
		"Record: most -1: 0 to 524288 are possible":           {"Record", &pb.RecordRequest{Most: -1}},
		"Record: offset -1: 0 to 92233720":                    {"Record", &pb.RecordRequest{Offset: -1}},
		"History: points -1: 0 to 3000 are possible":          {"History", &pb.HistoryRequest{Points: -1}},
		"Blacklists: limit -2: 0 to 1000 are possible":        {"Blacklists", &pb.BlacklistsRequest{Limit: -2}},
		"TakeSeeds: urls 1001: 0 to 1000 are possible":        {"TakeSeeds", &pb.AddSeedsRequest{Urls: urls}},
		"ListQueue: pattern 2001: 0 to 2000 are possible":     {"ListQueue", &pb.ListQueue{Pattern: pattern}},
		"ListQueue: limit 1001: 0 to 1000 are possible":       {"ListQueue", &pb.ListQueue{Limit: 1001}},
		"ListPages: wait_ms 10001: 0 to 10000 are possible":   {"ListPages", &pb.ListPages{WaitMs: 10001}},
		"ListBodies: parts 1001: 0 to 1000 are possible":      {"ListBodies", &pb.ListBodies{Parts: parts}},
		"ListQueue: from -9223372036854775808: 0 to 92233720": {"ListQueue", &pb.ListQueue{From: math.MinInt64}},
		"AcknowledgePages: position -1: 0 to 92233720":        {"AcknowledgePages", &pb.AcknowledgePages{Position: -1}},
	} {
		b, err := proto.Marshal(c.q)
		must.Do(t, err)
		_, err = w.members["a1"].agent.Answer(t.Context(), c.method, b)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A caller may make its own tokens.
func TestTokensOfCallers(t *testing.T) {
	one, three := newTown(""), newTown("a1", "a2", "a3")
	twice := token(&pb.QueuePosition{Agents: []*pb.QueueAgent{{Name: "a1"}, {Name: "a1"}}})
	foreign := token(&pb.QueuePosition{Agents: []*pb.QueueAgent{{Name: "x"}}})
	var many pb.QueuePosition
	for i := range 380_000 {
		many.Agents = append(many.Agents, &pb.QueueAgent{Name: fmt.Sprint(i)})
	}
	before := token(&pb.QueuePosition{Agents: []*pb.QueueAgent{{Name: "a1", Listing: 7, From: -1}}})
	x := strings.Repeat("x", orders.MaxAbout+1)
	long := token(&pb.QueuePosition{Agents: []*pb.QueueAgent{{Name: "a1"}}, Pattern: x})
	wrong := token(&pb.QueuePosition{Agents: []*pb.QueueAgent{{Name: "a1"}}, Pattern: "("})
	empty := base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("\n\x00", 30_000)))
	one.run(t, `
		ExcludePreview pattern:"x" token:"%s" -> = agents:{agent:"x" error:"no agent \"x\": this crawl has one agent"}
		Queue token:"%[1]s" -> = agents:{agent:"x" error:"no agent \"x\": this crawl has one agent"}`, foreign)
	for name, text := range map[string]string{"twice": twice, "many": token(&many), "before": before, "long": long,
		"wrong": wrong, "empty": empty} {
		t.Run(name, func(t *testing.T) {
			for _, call := range []func() error{
				func() error {
					_, err := three.members["a1"].Queue(t.Context(), &pb.QueueRequest{Token: text})
					return err
				},
				func() error {
					q := &pb.ExcludePreviewRequest{Pattern: "x", Token: text}
					_, err := three.members["a1"].ExcludePreview(t.Context(), q)
					return err
				},
			} {
				if err := call(); connect.CodeOf(err) != connect.CodeInvalidArgument || len(err.Error()) > 500 {
					t.Errorf("%v", err)
				}
			}
		})
	}
	three.run(t, `a1 SetApplication name:"app" pages:true`)
	made := verbs.ApplicationOrders(three.set.Standing())[0].Made
	same := &pb.AgentPosition{Agent: "a2", Log: "log", Position: 3}
	for _, p := range []*pb.PagesPosition{
		{Application: "app", Made: made, Agents: []*pb.AgentPosition{same, same}},
		{Application: "app", Made: made, Agents: []*pb.AgentPosition{{Agent: strings.Repeat("x", 100_000)}}},
	} {
		three.run(t, `a1 Pages application:"app" after:"%s" -> ! invalid_argument damaged
			a1 Acknowledge application:"app" token:"%[1]s" -> ! invalid_argument damaged`, token(p))
	}
	three.run(t, `a1 Queue pattern:"%s" -> ! invalid_argument a pattern of 2001 bytes: give at most 2000
		a1 ExcludePreview pattern:"%[1]s" -> ! invalid_argument a pattern of 2001 bytes`, x)
}

// A panic in the work of a call becomes one of its own goroutine, where the server recovers.
func TestCallsPanicAlone(t *testing.T) {
	w := newTown("a1", "a2")
	w.run(t, `a1 SetApplication name:"app" pages:true`)
	o := New(resident{w, "a1"}.local(), mad{neighbours{w, "a1"}}, book{w, "a1"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for name, call := range map[string]func(){
		"Status": func() { _, _ = o.Status(ctx, &pb.StatusRequest{}) },
		"Pages":  func() { _, _ = o.Pages(ctx, &pb.PagesRequest{Application: "app"}) },
		"Events": func() {
			e := &eventStream{o: o, q: &pb.EventsRequest{Follow: true}, send: func(*pb.Event) error { return nil }}
			_ = e.follow(ctx)
		},
	} {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, "madness") || !strings.Contains(v, "mad.Ask") {
					t.Errorf("%s: the panic is %s", name, v)
				}
			}()
			call()
		}()
	}
}

// A mad agent panics when another one is asked.
type mad struct{ neighbours }

func (mad) Ask(context.Context, string, string, []byte) ([]byte, error) { panic("madness") }
