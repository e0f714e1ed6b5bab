package coordinator_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// aFollow has a value in each field.
var aFollow = coordinator.Follow{From: 7, Wait: time.Second, Stamp: 1 << 60,
	Group: [16]byte{9}, Report: coordinator.Report{
		Capacity: 2, Addr: "h.example:1", State: assignment.Leaving, Term: 3, Hosts: 1 << 40, URLs: 1 << 50,
		Heard:    map[string]time.Duration{"a2": 0, "a3": 12345 * time.Millisecond},
		Settings: map[string]string{"partition": "sites"},
	}}

var aFollowed = coordinator.Followed{Entries: []byte("entries"), Last: 9, Term: 8, Member: true, Crawl: [16]byte{7},
	Stamp: 5, Group: [16]byte{1, 2}}

// TestWire: a Follow arrives as it was sent.
func TestWire(t *testing.T) {
	if err := coordinator.FollowCall.Request(aFollow.Wire()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(aFollow, coordinator.FollowOf(aFollow.Wire())); diff != "" {
		t.Errorf("-sent +got:\n%s", diff)
	}
	if err := coordinator.FollowCall.Response(aFollow.Wire(), aFollowed.Wire()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(aFollowed, coordinator.FollowedOf(aFollowed.Wire())); diff != "" {
		t.Errorf("-sent +got:\n%s", diff)
	}
	most := coordinator.Follow{Report: coordinator.Report{Heard: map[string]time.Duration{"a2": -1,
		"a3": math.MaxInt64}}}
	if h := most.Wire().Report.HeardMs; h["a2"] != 0 || h["a3"] != math.MaxUint32 {
		t.Errorf("durations beyond their bounds: %v", h)
	}
	got := coordinator.Discovered([]coordinator.HostAnswer{{State: coordinator.HostDead, After: time.Hour * 48},
		{State: coordinator.HostAssigned}, {State: coordinator.HostComing}, {State: coordinator.HostDead, After: -1}})
	want := &pb.DiscoverResponse{States: []byte{3, 1, 2, 3}, AfterMs: []uint32{24 * 60 * 60 * 1000, 0}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestHostile: messages beyond their bounds are refused, and those at their bounds are not.
func TestHostile(t *testing.T) {
	check := func(name string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	malformed, large := rpc.ErrMalformed, rpc.ErrTooLarge
	hosts := func(n int, host string) *pb.DiscoverRequest {
		return &pb.DiscoverRequest{Hosts: slices.Repeat([]string{host}, n)}
	}
	discover := coordinator.DiscoverCall.Request
	check("most hosts", discover(hosts(coordinator.MaxDiscover, "a.example")), nil)
	check("no hosts", discover(hosts(0, "")), malformed)
	check("hosts that are none", discover(hosts(1, "a.example\n")), malformed)
	check("too many hosts", discover(hosts(coordinator.MaxDiscover+1, "a.example")), malformed)

	answer := func(states []byte, after ...uint32) error {
		return coordinator.DiscoverCall.Response(hosts(2, "a.example"), &pb.DiscoverResponse{States: states,
			AfterMs: after})
	}
	const day = 24 * 60 * 60 * 1000
	check("dead for long", answer([]byte{3, 1}, day), nil)
	check("dead for too long", answer([]byte{3, 1}, day+1), malformed)
	check("one answer", answer([]byte{1}), malformed)
	check("three answers", answer([]byte{1, 1, 1}), malformed)
	check("no state", answer([]byte{1, 0}), malformed)
	check("another state", answer([]byte{1, 4}), malformed)
	check("dead without a time", answer([]byte{3, 3}, 1), malformed)
	check("a time too many", answer([]byte{1, 3}, 1, 2), malformed)

	follow := func(change func(q *pb.FollowRequest)) error {
		q := proto.CloneOf(aFollow.Wire())
		change(q)
		return coordinator.FollowCall.Request(q)
	}
	many := map[string]uint32{}
	for i := range 4096 {
		many[fmt.Sprint("a", i)] = math.MaxUint32
	}
	long := strings.Repeat("a", 256)
	check("at the bounds", follow(func(q *pb.FollowRequest) {
		q.From, q.WaitMs, q.Report.State, q.Report.HeardMs = 1, 1000, 255, many
		q.Report.Settings = map[string]string{long: long}
	}), nil)
	many["more"] = 0
	for name, change := range map[string]func(q *pb.FollowRequest){
		"no number":        func(q *pb.FollowRequest) { q.From = 0 },
		"too long":         func(q *pb.FollowRequest) { q.WaitMs = 1001 },
		"no report":        func(q *pb.FollowRequest) { q.Report = nil },
		"no capacity":      func(q *pb.FollowRequest) { q.Report.Capacity = 0 },
		"no number at all": func(q *pb.FollowRequest) { q.Report.Capacity = math.NaN() },
		"no address":       func(q *pb.FollowRequest) { q.Report.Address = "a" },
		"no state":         func(q *pb.FollowRequest) { q.Report.State = 256 },
		"too many heard":   func(q *pb.FollowRequest) { q.Report.HeardMs = many },
		"no name":          func(q *pb.FollowRequest) { q.Report.HeardMs["A"] = 1 },
		"long":             func(q *pb.FollowRequest) { q.Report.Settings[long+"a"] = "" },
	} {
		check(name, follow(change), malformed)
	}

	followed := func(change func(r *pb.FollowResponse)) error {
		r := aFollowed.Wire()
		change(r)
		return coordinator.FollowCall.Response(&pb.FollowRequest{From: 7}, r)
	}
	check("full", followed(func(r *pb.FollowResponse) { r.Entries = make([]byte, rpc.MaxData) }), nil)
	check("nothing new", followed(func(r *pb.FollowResponse) { r.Entries, r.Last, r.Term = nil, 6, 6 }), nil)
	check("too full", followed(func(r *pb.FollowResponse) { r.Entries = make([]byte, rpc.MaxData+1) }), large)
	check("a late term", followed(func(r *pb.FollowResponse) { r.Term = 10 }), malformed)
	check("old entries", followed(func(r *pb.FollowResponse) { r.Last, r.Term = 6, 6 }), malformed)
	check("half a crawl", followed(func(r *pb.FollowResponse) { r.Crawl = r.Crawl[:8] }), malformed)

	status := func(n int) error {
		return coordinator.StatusCall.Response(nil, &pb.StatusResponse{Status: make([]byte, n)})
	}
	check("a long status", status(rpc.MaxData), nil)
	check("a longer status", status(rpc.MaxData+1), large)
	check("an agent", coordinator.ForgetCall.Request(&pb.ForgetRequest{Agent: "a1"}), nil)
	check("no agent", coordinator.ForgetCall.Request(&pb.ForgetRequest{}), malformed)
}

// FuzzFollow: any request is refused, or says a Follow within its bounds, which is the same when it is sent again.
func FuzzFollow(f *testing.F) {
	b := must.Get(proto.Marshal(aFollow.Wire()))(f)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		q := new(pb.FollowRequest)
		if proto.Unmarshal(b, q) != nil || coordinator.FollowCall.Request(q) != nil {
			return
		}
		got := coordinator.FollowOf(q)
		r := got.Report
		if got.From == 0 || got.Wait < 0 || got.Wait > rpc.MaxFollow || !(r.Capacity > 0) || len(r.Heard) > 4096 {
			t.Fatalf("%+v", got)
		}
		for name, d := range r.Heard {
			if rpc.CheckName(name) != nil || d < 0 {
				t.Fatalf("%q was heard %s ago", name, d)
			}
		}
		if diff := cmp.Diff(got, coordinator.FollowOf(got.Wire()), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("-got +again:\n%s", diff)
		}
	})
}

// FuzzDiscovered: any response is refused, or has an answer for each host, which is the same when it is sent again.
func FuzzDiscovered(f *testing.F) {
	f.Add([]byte{3, 1, 2, 3}, uint32(60_000), uint32(1))
	f.Fuzz(func(t *testing.T, states []byte, one, two uint32) {
		r := &pb.DiscoverResponse{States: states, AfterMs: []uint32{one, two}}
		if coordinator.DiscoverCall.Response(&pb.DiscoverRequest{Hosts: make([]string, 4)}, r) != nil {
			return
		}
		as := coordinator.AnswersOf(r)
		for _, a := range as {
			if a.After < 0 || a.After > 24*time.Hour || a.After > 0 && a.State != coordinator.HostDead {
				t.Fatalf("%+v", as)
			}
		}
		if diff := cmp.Diff(r, coordinator.Discovered(as), protocmp.Transform()); len(as) != 4 || diff != "" {
			t.Fatalf("%d answers, -got +again:\n%s", len(as), diff)
		}
	})
}
