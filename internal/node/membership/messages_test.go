package membership

import (
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func anAgent() *pb.Agent {
	return wire(gossip.Agent{Name: "a1", Instance: rpc.ID{9}, Boot: 3, Capacity: 2, Addr: "h.example:1", State: 1})
}

// hostileAgents are agents that no message may have.
func hostileAgents() []*pb.Agent {
	as := []*pb.Agent{nil, {}}
	for _, change := range []func(a *pb.Agent){
		func(a *pb.Agent) { a.Name = "A1" }, func(a *pb.Agent) { a.Instance = a.Instance[:8] },
		func(a *pb.Agent) { a.Capacity = 0 }, func(a *pb.Agent) { a.Capacity = math.NaN() },
		func(a *pb.Agent) { a.Capacity = 2e6 }, func(a *pb.Agent) { a.Address = "h.example" },
		func(a *pb.Agent) { a.Address = ":1" }, func(a *pb.Agent) { a.Address = "h.example:0" },
		func(a *pb.Agent) { a.Address = strings.Repeat("h", 254) + ":1" }, func(a *pb.Agent) { a.State = 256 },
	} {
		a := anAgent()
		change(a)
		as = append(as, a)
	}
	return as
}

// TestHostile: messages beyond their bounds are malformed, and those at their bounds are not.
func TestHostile(t *testing.T) {
	check := func(m proto.Message, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%.100v: %v, want %v", m, err, want)
		}
	}
	long := strings.Repeat("s", 256)
	many := map[string]string{long: long}
	for i := range 63 {
		many[fmt.Sprint(i)] = ""
	}
	hello := func(a *pb.Agent, settings map[string]string, want error) {
		t.Helper()
		q := &pb.HelloRequest{Agent: a, Settings: settings}
		check(q, HelloCall.Request(q), want)
	}
	hello(anAgent(), many, nil)
	hello(anAgent(), map[string]string{long + "s": ""}, rpc.ErrMalformed)
	hello(anAgent(), map[string]string{"": long + "s"}, rpc.ErrMalformed)
	many["one more"] = ""
	hello(anAgent(), many, rpc.ErrMalformed)
	welcome := func(change func(r *pb.HelloResponse), want error) {
		t.Helper()
		r := &pb.HelloResponse{Agent: anAgent(), Crawl: make([]byte, 16), Agents: []*pb.Agent{anAgent()}}
		change(r)
		check(r, HelloCall.Response(nil, r), want)
	}
	agents := func(n int) []*pb.Agent { return slices.Repeat([]*pb.Agent{anAgent()}, n) }
	welcome(func(r *pb.HelloResponse) { r.ElapsedMs, r.Agents = math.MaxInt64/1_000_000, agents(4096) }, nil)
	welcome(func(r *pb.HelloResponse) { r.Agents = nil }, nil)
	welcome(func(r *pb.HelloResponse) { r.ElapsedMs = math.MaxInt64/1_000_000 + 1 }, rpc.ErrMalformed)
	welcome(func(r *pb.HelloResponse) { r.Agents = agents(4097) }, rpc.ErrMalformed)
	welcome(func(r *pb.HelloResponse) { r.Crawl = r.Crawl[:8] }, rpc.ErrMalformed)
	for _, a := range hostileAgents() {
		hello(a, nil, rpc.ErrMalformed)
		welcome(func(r *pb.HelloResponse) { r.Agent = a }, rpc.ErrMalformed)
		welcome(func(r *pb.HelloResponse) { r.Agents = append(r.Agents, a) }, rpc.ErrMalformed)
	}
}

// TestHelloForAnother: an agent says hello for itself alone.
func TestHelloForAnother(t *testing.T) {
	c := memberOf(t, newLoop(), "a1")
	for what, change := range map[string]func(from *rpc.Caller){
		"another name":     func(from *rpc.Caller) { from.Name = "a9" },
		"another instance": func(from *rpc.Caller) { from.Instance[0]++ },
		"an earlier start": func(from *rpc.Caller) { from.Boot-- },
	} {
		from := c.Members.Caller()
		change(&from)
		if _, err := c.joining.hello(t.Context(), from, c.joining.greeting()); !errors.Is(err, rpc.ErrMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDiffer(t *testing.T) {
	ours := map[string]string{"partition": "rendezvous", "replicas": "2"}
	for _, c := range []struct {
		theirs map[string]string
		want   string
	}{
		{map[string]string{"partition": "rendezvous", "replicas": "2"}, ""},
		{map[string]string{"partition": "rendezvous", "replicas": "2", agentsSetting: "7"}, ""},
		{map[string]string{"partition": "hash", "replicas": "2"},
			`agent "a1" has partition "hash", the cluster has "rendezvous"`},
		{map[string]string{"partition": "rendezvous"}, `agent "a1" has replicas "", the cluster has "2"`},
		{map[string]string{"partition": "rendezvous", "replicas": "2", "new": "x"},
			`agent "a1" has new "x", the cluster does not know it`},
	} {
		j := &joining{settings: ours}
		err := j.differ("a1", c.theirs)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %v, want %q", c.theirs, err, c.want)
		}
	}
}

// FuzzHello: any message is refused, or it is within its bounds.
func FuzzHello(f *testing.F) {
	encoded := func(m proto.Message) []byte {
		b := must.Get(proto.Marshal(m))(f)
		return b
	}
	f.Add(encoded(&pb.HelloRequest{Agent: anAgent(), Settings: map[string]string{"partition": "rendezvous"}}),
		encoded(&pb.HelloResponse{Agent: anAgent(), Crawl: make([]byte, 16), ElapsedMs: 90_000,
			Agents: []*pb.Agent{anAgent()}}))
	isAgent := func(a *pb.Agent) bool {
		_, _, err := net.SplitHostPort(a.Address)
		return rpc.CheckName(a.Name) == nil && err == nil && len(a.Address) <= 255 && a.Capacity > 0 &&
			a.Capacity <= 1e6 && proto.Equal(a, wire(agentOf(a)))
	}
	f.Fuzz(func(t *testing.T, request, response []byte) {
		q, r := new(pb.HelloRequest), new(pb.HelloResponse)
		if proto.Unmarshal(request, q) == nil && HelloCall.Request(q) == nil {
			q.Agent.ProtoReflect().SetUnknown(nil)
			if !isAgent(q.Agent) || len(q.Settings) > 64 {
				t.Errorf("%v is let through", q)
			}
			for k, v := range q.Settings {
				if len(k) > 256 || len(v) > 256 {
					t.Errorf("%v is let through", q)
				}
			}
		}
		if proto.Unmarshal(response, r) == nil && HelloCall.Response(q, r) == nil {
			for _, a := range append(r.Agents, r.Agent) {
				if a.ProtoReflect().SetUnknown(nil); !isAgent(a) {
					t.Errorf("%v is let through", r)
				}
			}
		}
	})
}
