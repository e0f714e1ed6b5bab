package rpc_test

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A sample is a call, with a request and an answer of it, and no checks.
type sample struct {
	call        string
	ask, answer proto.Message
	of          rpc.Call
	serve       func(s *rpc.Server, do handler)
	send        func(ctx context.Context, p *rpc.Peer, q proto.Message) (proto.Message, error)
}

// sampleOf returns the sample of a call with one request.
func sampleOf[Req, Res any](call rpc.Call, ask *Req, answer *Res) sample {
	m := rpc.Method[Req, Res]{Call: call}
	return sample{call.String(), any(ask).(proto.Message), any(answer).(proto.Message), call,
		func(s *rpc.Server, do handler) {
			m.Serve(s, func(_ context.Context, from rpc.Caller, q *Req) (*Res, error) {
				r, err := do(call.String(), from, q)
				if r == nil {
					r = new(Res)
				}
				return r.(*Res), err
			})
		},
		func(ctx context.Context, p *rpc.Peer, q proto.Message) (proto.Message, error) {
			r, err := m.Ask(ctx, p, any(q).(*Req))
			if err != nil {
				return nil, err
			}
			return any(r).(proto.Message), nil
		}}
}

// samples has each call but Pages, which is a stream.
var samples = []sample{
	sampleOf(rpc.CallHello, &pb.HelloRequest{Agent: &pb.Agent{Name: "a1", Boot: 3},
		Settings: map[string]string{"a": "b"}},
		&pb.HelloResponse{Crawl: theCrawl[:], Agents: []*pb.Agent{{Name: "a3"}, {Name: "a4"}}}),
	sampleOf(rpc.CallPush, &pb.PushRequest{Count: 1, Links: []byte("a link")}, &pb.PushResponse{}),
	sampleOf(rpc.CallKnown, &pb.KnownRequest{Fingerprints: []byte("of nine URLs")}, &pb.KnownResponse{Known: []byte{6,
		1}}),
	sampleOf(rpc.CallShip, &pb.ShipRequest{Seq: 77, Count: 2, Records: []byte("records")}, &pb.ShipResponse{Seq: 77}),
	sampleOf(rpc.CallClaim, &pb.ClaimRequest{View: 1<<63 + 5, Hosts: []string{"a.example"}},
		&pb.ClaimResponse{Verdicts: []byte{1}}),
	sampleOf(rpc.CallHand, &pb.HandRequest{Count: 3, Records: []byte("of hosts")}, &pb.HandResponse{}),
	sampleOf(rpc.CallLease, &pb.LeaseRequest{Batch: []byte("may I?")}, &pb.LeaseResponse{Batch: []byte("yes")}),
	sampleOf(rpc.CallPulse, &pb.PulseRequest{View: 4}, &pb.PulseResponse{View: 5, Activity: 6, Idle: true}),
	sampleOf(rpc.CallEnd, &pb.EndRequest{View: 1, Reason: "finished"}, &pb.EndResponse{Agreed: true}),
	sampleOf(rpc.CallBudget, &pb.BudgetRequest{Seq: 3, Used: 4, Known: map[string]uint64{"a3": 0}},
		&pb.BudgetResponse{Held: 14}),
	sampleOf(rpc.CallShare, &pb.ShareRequest{Seq: 3, Held: 0.125}, &pb.ShareResponse{Share: 0.25, Bits: 1e6}),
	sampleOf(rpc.CallContents, &pb.ContentsRequest{Contents: []*pb.Content{{Archived: true}}},
		&pb.ContentsResponse{Answers: []*pb.ContentAnswer{{Claimed: true}}}),
	sampleOf(rpc.CallRecall, &pb.RecallRequest{Count: 1, Links: []byte("a link")},
		&pb.RecallResponse{Answers: []*pb.RecallAnswer{{State: []byte("state")}}}),
	sampleOf(rpc.CallOrders, &pb.OrdersRequest{Orders: [][]byte{{0}}}, &pb.OrdersResponse{More: true}),
	sampleOf(rpc.CallOperate, &pb.OperateRequest{Method: "Pause"},
		&pb.OperateResponse{Error: "no such host: ä.example"}),
	sampleOf(rpc.CallDiscover, &pb.DiscoverRequest{Hosts: []string{"a.example"}},
		&pb.DiscoverResponse{States: []byte{1}}),
	sampleOf(rpc.CallFollow, &pb.FollowRequest{From: 7, WaitMs: 1000}, &pb.FollowResponse{Entries: []byte("entries"),
		Last: 9}),
	sampleOf(rpc.CallFinish, &pb.FinishRequest{Term: 8, Number: 9}, &pb.FinishResponse{}),
	sampleOf(rpc.CallStatus, &pb.StatusRequest{}, &pb.StatusResponse{Status: []byte("leading")}),
	sampleOf(rpc.CallForget, &pb.ForgetRequest{Agent: "a7"}, &pb.ForgetResponse{}),
}

// of returns the sample of a call.
func of(call rpc.Call) sample {
	for _, s := range samples {
		if s.of == call {
			return s
		}
	}
	panic(call)
}

// toCoordinator reports whether a coordinator answers the call.
func toCoordinator(call string) bool {
	for c := rpc.CallDiscover; c <= rpc.CallForget; c++ {
		if call == c.String() {
			return true
		}
	}
	return false
}

// calls makes the call at the agent or the coordinator at l.
func (s sample) calls(ctx context.Context, c *rpc.Client, l *rpc.Listener) (proto.Message, error) {
	if toCoordinator(s.call) {
		return s.send(ctx, c.Coordinator(l.Addr()), s.ask)
	}
	return s.send(ctx, c.Peer("a2", l.Addr()), s.ask)
}

// ask makes a call with the request of its sample.
func ask(ctx context.Context, p *rpc.Peer, call rpc.Call) error {
	_, err := of(call).send(ctx, p, of(call).ask)
	return err
}

// hello makes the call Hello at an address, to an agent of any name.
func hello(t testing.TB, c *rpc.Client, addr string) error {
	p := c.Unnamed(addr)
	defer p.Close()
	return ask(t.Context(), p, rpc.CallHello)
}

// agent runs an agent that answers each call with do, until the test ends. With nil it answers none.
func agent(t testing.TB, network rpc.Network, addr string, keys *rpc.Keys, do handler) (*rpc.Listener, *rpc.Server) {
	t.Helper()
	return process(t, network, addr, keys, rpc.Listen, do)
}

// coordinator runs a coordinator like agent.
func coordinator(t testing.TB, network rpc.Network, addr string, keys *rpc.Keys, do handler) (*rpc.Listener,
	*rpc.Server) {
	t.Helper()
	return process(t, network, addr, keys, rpc.ListenCoordinator, do)
}

func process(t testing.TB, network rpc.Network, addr string, keys *rpc.Keys,
	listen func(rpc.Network, string, *rpc.Keys) (*rpc.Listener, error), do handler) (*rpc.Listener, *rpc.Server) {
	t.Helper()
	l := must.Get(listen(network, addr, keys))(t)
	s := rpc.NewServer(l, rpc.ServerConfig{Crawl: func() rpc.ID { return theCrawl }, MemoryBytes: 1,
		Admitted: func(c rpc.Caller) bool { return c.Name != unknown }})
	for _, c := range samples {
		if do != nil {
			c.serve(s, do)
		}
	}
	run(t, l, s)
	return l, s
}

// agents runs an agent and a coordinator on this machine.
func processes(t testing.TB, keys map[string]*rpc.Keys, do handler) (al *rpc.Listener, as *rpc.Server,
	cl *rpc.Listener, cs *rpc.Server) {
	t.Helper()
	al, as = agent(t, rpc.System, "127.0.0.1:0", keys["a2"], do)
	cl, cs = coordinator(t, rpc.System, "127.0.0.1:0", keys["c1"], do)
	return al, as, cl, cs
}
