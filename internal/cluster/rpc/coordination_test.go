package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// aFollow is a Follow with a value in each field.
func aFollow() Follow {
	return Follow{From: 7, Wait: time.Second, Stamp: 1 << 60, Report: Report{
		Capacity: 2, Addr: "h.example:1", State: 2, Term: 3, Hosts: 1 << 40, URLs: 1 << 50,
		Heard:    map[string]time.Duration{"a2": 0, "a3": 12345 * time.Millisecond},
		Settings: map[string]string{"partition": "sites"},
	}}
}

// TestCoordination: requests to a coordinator and its answers arrive unchanged, with and without keys.
func TestCoordination(t *testing.T) {
	keys := bundles(t, "a1", "c1", "c2")
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
			ours, theirs, other := keys["a1"], keys["c1"], keys["c2"]
			if !secure {
				ours, theirs, other = nil, nil, nil
			}
			me := caller("a1")
			var mu sync.Mutex
			var got []any
			note := func(from Caller, v any) {
				mu.Lock()
				defer mu.Unlock()
				if from != me {
					t.Errorf("from %+v, want %+v", from, me)
				}
				got = append(got, v)
			}
			answers := []HostAnswer{{State: HostDead, After: time.Minute}, {State: HostAssigned}, {State: HostComing},
				{State: HostDead, After: time.Millisecond}}
			followed := Followed{Entries: []byte("entries"), Last: 9, Term: 8, Member: true, Crawl: theCrawl, Stamp: 5}
			l, s := coordinate(t, theirs, Coordination{
				Discover: func(_ context.Context, from Caller, d Discovery) ([]HostAnswer, error) {
					note(from, d)
					return answers, nil
				},
				Follow: func(_ context.Context, from Caller, f Follow) (Followed, error) {
					note(from, f)
					return followed, nil
				},
				Finish: func(_ context.Context, from Caller, f Finish) error { note(from, f); return nil },
				Status: func(_ context.Context, from Caller) ([]byte, error) { return []byte(from.Name), nil },
				Forget: func(_ context.Context, from Caller, agent string) error {
					if from.Name != "c2" || agent != "a7" {
						t.Errorf("%s forgets %s", from.Name, agent)
					}
					return nil
				},
			})
			client1 := client(t, ours, me, nil)
			c, ctx := client1.Coordinator(l.Addr()), t.Context()
			discovery := Discovery{[]string{"a.example", "b.example", "[2001:db8::1]", "d.example"}, true}
			if as, err := c.Discover(ctx, discovery); err != nil || !slices.Equal(as, answers) {
				t.Errorf("Discover = %v, %v", as, err)
			}
			if f, err := c.Follow(ctx, aFollow()); err != nil || !cmp.Equal(f, followed) {
				t.Errorf("Follow = %+v, %v", f, err)
			}
			finish := Finish{Term: 8, Number: 9}
			if err := c.Finish(ctx, finish); err != nil {
				t.Error(err)
			}
			if b, err := c.Status(ctx); err != nil || string(b) != "a1" {
				t.Errorf("Status = %q, %v", b, err)
			}
			// A tool with a coordinator's keys, which belongs to no crawl.
			tool := client(t, other, Caller{Name: "c2"}, nil)
			if b, err := tool.Coordinator(l.Addr()).Status(ctx); err != nil || string(b) != "c2" {
				t.Errorf("Status = %q, %v", b, err)
			}
			if err := tool.Coordinator(l.Addr()).Forget(ctx, "a7"); err != nil {
				t.Error(err)
			}
			roles := uint64(0)
			if secure {
				roles = 1
				if err := c.Forget(ctx, "a7"); !errors.Is(err, ErrRejected) {
					t.Errorf("an agent forgets another one: %v", err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff([]any{discovery, aFollow(), finish}, got); diff != "" {
				t.Error(diff)
			}
			counts := s.Counts()
			for call := range calls {
				want := uint64(0)
				if call.answerer() == coordinatorRole {
					want = 1
				}
				if call == CallStatus {
					want = 2
				}
				if n := counts.Calls[call.String()]; n != want || counts.Errors[call.String()] != 0 {
					t.Errorf("%s was counted %d times, %d errors", call, n, counts.Errors[call.String()])
				}
			}
			for kind, n := range counts.Refused {
				if n != 0 && (kind != "role" || n != roles) {
					t.Errorf("%d refused as %s", n, kind)
				}
			}
			client1.Forget(l.Addr())
			if _, err := client1.Coordinator(l.Addr()).Status(ctx); err != nil {
				t.Errorf("Status after Forget: %v", err)
			}
		})
	}
}

// TestCoordinationErrors: a coordinator's errors have the same meaning on both sides, and the calls of each kind of
// caller are let in or not.
func TestCoordinationErrors(t *testing.T) {
	var fail error
	l, s := coordinate(t, nil, Coordination{
		Discover: func(context.Context, Caller, Discovery) ([]HostAnswer, error) { return nil, fail },
		Follow:   func(context.Context, Caller, Follow) (Followed, error) { return Followed{Crawl: theCrawl}, fail },
	})
	ctx := t.Context()
	discover := func(as Caller) error {
		_, err := client(t, nil, as, nil).Coordinator(l.Addr()).Discover(ctx, Discovery{Hosts: []string{"a.example"}})
		return err
	}
	follow := func(as Caller) error {
		_, err := client(t, nil, as, nil).Coordinator(l.Addr()).Follow(ctx, Follow{From: 1, Report: aFollow().Report})
		return err
	}
	for _, leader := range []string{"", "192.0.2.1:7480", "c.example:1"} {
		fail = fmt.Errorf("discover: %w", &NotLeader{leader})
		if not, ok := errors.AsType[*NotLeader](discover(caller("a1"))); !ok || not.Leader != leader {
			t.Errorf("the leader is %v, want %q", not, leader)
		}
	}
	fail = &NotLeader{"no port"}
	if err := discover(caller("a1")); err == nil || errors.As(err, new(*NotLeader)) {
		t.Errorf("a leader without an address: %v", err)
	}
	fail = &Refusal{"settings", "other settings"}
	if r, ok := errors.AsType[*Refusal](follow(caller("a1"))); !ok || *r != (Refusal{"settings", "other settings"}) {
		t.Errorf("refused with %v", r)
	}
	fail = nil
	stranger, other, fresh := caller(unknown), caller("a1"), caller("a1")
	other.Crawl, fresh.Crawl = ID{4}, ID{}
	for _, who := range []Caller{caller("a1"), stranger, fresh} {
		if err := follow(who); err != nil {
			t.Errorf("Follow of %+v: %v", who, err)
		}
	}
	if r, ok := errors.AsType[*Refusal](follow(other)); !ok || r.Reason != "crawl" ||
		!strings.Contains(r.Text, "the coordinator's directory") {
		t.Errorf("Follow of another crawl: %v", r)
	}
	if err := discover(stranger); !errors.Is(err, ErrAgain) {
		t.Errorf("Discover of an agent that is not admitted: %v", err)
	}
	for _, who := range []Caller{other, fresh} {
		if r, ok := errors.AsType[*Refusal](discover(who)); !ok || r.Reason != "crawl" {
			t.Errorf("Discover of another crawl: %v", r)
		}
	}
	c := client(t, nil, caller("a1"), nil).Coordinator(l.Addr())
	if _, err := c.Status(ctx); !errors.Is(err, ErrAgain) {
		t.Errorf("no handler: %v", err)
	}
	if err := c.Finish(ctx, Finish{}); !errors.Is(err, ErrAgain) {
		t.Errorf("no handler: %v", err)
	}
	if got := s.Counts().Refused; got["not-admitted"] != 1 || got["other-crawl"] != 3 {
		t.Errorf("refused %v", got)
	}
}

// TestHostileCoordination: each message to a coordinator is refused before a handler gets it, and is counted by its
// reason.
func TestHostileCoordination(t *testing.T) {
	who := caller("a1").header()
	follow := func(change func(*pb.FollowRequest)) []byte {
		w := followToWire(aFollow())
		change(w)
		return encoded(t, w)
	}
	many := map[string]uint32{}
	for i := range maxAgents + 1 {
		many[fmt.Sprint("a", i)] = 1
	}
	discover := func(hosts ...string) []byte { return encoded(t, &pb.DiscoverRequest{Hosts: hosts}) }
	for _, c := range []struct {
		name, call, who string
		body            []byte
		status          int
		refused         string
	}{
		{"nobody", "Discover", "", discover("a.example"), 401, "identity"},
		{"no protobuf", "Follow", who, []byte("\xff\xff\xff"), 400, "malformed"},
		{"no hosts", "Discover", who, nil, 400, "malformed"},
		{"hosts that are none", "Discover", who, discover("a.example\n"), 400, "malformed"},
		{"too many hosts", "Discover", who, discover(slices.Repeat([]string{"a.example"}, MaxDiscover+1)...), 400,
			"malformed"},
		{"too large", "Discover", who, discover(strings.Repeat("a", maxMessage)), 429, "too-large"},
		{"no number", "Follow", who, follow(func(w *pb.FollowRequest) { w.From = 0 }), 400, "malformed"},
		{"too long", "Follow", who, follow(func(w *pb.FollowRequest) { w.WaitMs = 1001 }), 400, "malformed"},
		{"no report", "Follow", who, follow(func(w *pb.FollowRequest) { w.Report = nil }), 400, "malformed"},
		{"no capacity", "Follow", who, follow(func(w *pb.FollowRequest) { w.Report.Capacity = 0 }), 400, "malformed"},
		{"no address", "Follow", who, follow(func(w *pb.FollowRequest) { w.Report.Address = "a" }), 400, "malformed"},
		{"no state", "Follow", who, follow(func(w *pb.FollowRequest) { w.Report.State = 256 }), 400, "malformed"},
		{"too many heard", "Follow", who, follow(func(w *pb.FollowRequest) { w.Report.HeardMs = many }), 400,
			"malformed"},
		{"a name that is none", "Follow", who, follow(func(w *pb.FollowRequest) { w.Report.HeardMs["A"] = 1 }), 400,
			"malformed"},
		{"a long setting", "Follow", who, follow(func(w *pb.FollowRequest) {
			w.Report.Settings["a"] = strings.Repeat("b", maxSetting+1)
		}), 400, "malformed"},
		{"no agent", "Forget", who, nil, 400, "malformed"},
		{"no such call", "Push", who, nil, 404, "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			reached := func() error { t.Error("reached"); return nil }
			l, s := coordinate(t, nil, Coordination{
				Discover: func(context.Context, Caller, Discovery) ([]HostAnswer, error) { return nil, reached() },
				Follow:   func(context.Context, Caller, Follow) (Followed, error) { return Followed{}, reached() },
			})
			if status, text := post(t, l, c.call, "application/proto", "", c.body, c.who); status != c.status {
				t.Errorf("status %d, want %d: %s", status, c.status, text)
			}
			for kind, n := range s.Counts().Refused {
				if (kind == c.refused) != (n == 1) || n > 1 {
					t.Errorf("%d refused as %s", n, kind)
				}
			}
		})
	}
}

// TestManyFollow: more agents than there are places for quick calls wait in Follow, and other calls succeed. A caller
// with too many Follows keeps no other caller out.
func TestManyFollow(t *testing.T) {
	came, block := make(chan struct{}), make(chan struct{})
	l, s := coordinate(t, nil, Coordination{
		Follow: func(context.Context, Caller, Follow) (Followed, error) {
			came <- struct{}{}
			<-block
			return Followed{}, nil
		},
		Status: func(context.Context, Caller) ([]byte, error) { return nil, nil },
	})
	var wg sync.WaitGroup
	follow := func(c *Client) {
		wg.Go(func() {
			if _, err := c.Coordinator(l.Addr()).Follow(t.Context(), aFollow()); err != nil {
				t.Error(err)
			}
		})
	}
	agents := servedQuick + 1
	for i := range agents { // at once: none waits longer than a Client does
		follow(client(t, nil, caller(fmt.Sprint("a", i)), nil))
	}
	for range agents {
		<-came
	}
	greedy := 2 * askedFollows
	for range greedy {
		follow(client(t, nil, caller("greedy"), nil))
		<-came
	}
	if _, err := client(t, nil, caller("greedy"), nil).Coordinator(l.Addr()).
		Follow(t.Context(), aFollow()); !errors.Is(err, ErrUnreachable) {
		t.Errorf("one more Follow of the greedy agent: %v", err)
	}
	if _, err := client(t, nil, caller("late"), nil).Coordinator(l.Addr()).Status(t.Context()); err != nil {
		t.Errorf("Status: %v", err)
	}
	follow(client(t, nil, caller("late"), nil))
	<-came
	close(block)
	wg.Wait()
	if n := s.Counts().Refused["busy"]; n != 1 {
		t.Errorf("%d refused as busy", n)
	}
	if len(s.shares.n) != 0 || len(s.follows) != 0 {
		t.Errorf("%v calls are still counted", s.shares.n)
	}
}

// loopback returns this machine's address on a network in memory.
func loopback(rule simnet.Rule) *simnet.Machine {
	n := simnet.New(1)
	n.Follow(rule)
	return n.Machine(1, netip.MustParseAddr("127.0.0.1"))
}

// TestSlowCallers: a member whose requests do not arrive keeps no other member out, and loses its places after a while.
func TestSlowCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // last: the connections end
		network := loopback(func(int, int) simnet.Path { return simnet.Path{} })
		l, err := ListenCoordinator(network, "127.0.0.1:7480", nil)
		if err != nil {
			t.Fatal(err)
		}
		s := run(t, l, ServerConfig{Coordination: Coordination{
			Discover: func(_ context.Context, _ Caller, d Discovery) ([]HostAnswer, error) {
				return []HostAnswer{{State: HostComing}}, nil
			},
		}})
		slow := &http.Transport{Protocols: new(http.Protocols), DialContext: network.Dial}
		slow.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(slow.CloseIdleConnections)
		var wg sync.WaitGroup
		for range askedBulk {
			wg.Go(func() {
				body, more := io.Pipe()
				t.Cleanup(func() { more.Close() })
				r, err := http.NewRequest("POST", "http://"+l.Addr()+"/"+pb.CoordinationName+"/Discover", body)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Content-Type", "application/proto")
				r.Header.Set(callerHeader, caller("slow").header())
				began := time.Now()
				res, err := slow.RoundTrip(r)
				if err == nil {
					res.Body.Close()
				}
				took := time.Since(began)
				if err == nil && res.StatusCode == http.StatusOK || took > stall+time.Second {
					t.Errorf("a slow call: %v, %v after %v", res, err, took)
				}
			})
		}
		time.Sleep(time.Millisecond) // the calls arrive
		discover := func(name string) error {
			_, err := client(t, nil, caller(name), network.Dial).Coordinator(l.Addr()).
				Discover(t.Context(), Discovery{Hosts: []string{"a.example"}})
			return err
		}
		if err := discover("slow"); !errors.Is(err, ErrUnreachable) {
			t.Errorf("one more call of the slow agent: %v", err)
		}
		began := time.Now()
		if err := discover("a2"); err != nil || time.Since(began) > 0 {
			t.Errorf("the call of another agent: %v after %v", err, time.Since(began))
		}
		wg.Wait()
		if err := discover("slow"); err != nil {
			t.Errorf("the slow agent's next call: %v", err)
		}
		if n := s.Counts().Refused["busy"]; n != 1 {
			t.Errorf("%d refused as busy", n)
		}
	})
}

// TestFollowTime: Follow ends after 3 s without an answer. An answer that has begun may take longer on a slow line.
func TestFollowTime(t *testing.T) {
	entries := make([]byte, MaxData)
	rng := testseed.Rand(t)
	for i := range entries {
		entries[i] = byte(rng.Uint32())
	}
	for _, silent := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			t.Cleanup(func() { time.Sleep(time.Minute) }) // last: the port sends what it has
			network := loopback(func(int, int) simnet.Path { return simnet.Path{Rate: 64 << 10} })
			l, err := ListenCoordinator(network, "127.0.0.1:7480", nil)
			if err != nil {
				t.Fatal(err)
			}
			run(t, l, ServerConfig{Coordination: Coordination{
				Follow: func(ctx context.Context, _ Caller, f Follow) (Followed, error) {
					wait := f.Wait
					if silent {
						wait = time.Hour
					}
					select {
					case <-time.After(wait):
					case <-ctx.Done():
					}
					return Followed{Entries: entries, Last: f.From, Crawl: theCrawl}, ctx.Err()
				},
			}})
			began := time.Now()
			out, err := client(t, nil, caller("a1"), network.Dial).Coordinator(l.Addr()).Follow(t.Context(), aFollow())
			took := time.Since(began)
			switch {
			case silent && (!errors.Is(err, ErrUnreachable) || took != followSilence):
				t.Errorf("a silent coordinator: %v after %v", err, took)
			case !silent && (err != nil || !bytes.Equal(out.Entries, entries) || took < 16*time.Second):
				t.Errorf("a slow line: %d octets, %v, after %v", len(out.Entries), err, took)
			}
		})
	}
}

// TestRaft: streams of coordinators share the port with calls.
func TestRaft(t *testing.T) {
	keys := bundles(t, "c1", "c2", "a1")
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
			k1, k2, agent := keys["c1"], keys["c2"], keys["a1"]
			if !secure {
				k1, k2, agent = nil, nil, nil
			}
			l, _ := coordinate(t, k2, Coordination{
				Status: func(context.Context, Caller) ([]byte, error) { return nil, nil },
			})
			var wg sync.WaitGroup
			wg.Go(func() {
				accepted, err := l.Raft().Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer accepted.Close()
				var b [5]byte
				io.ReadFull(accepted, b[:])
				accepted.Write(bytes.ToUpper(b[:]))
			})
			conn, err := DialRaft(t.Context(), k1, nil, l.Addr(), "c2")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, "hello")
			var b [5]byte
			if _, err := io.ReadFull(conn, b[:]); err != nil || string(b[:]) != "HELLO" {
				t.Errorf("read %q, %v", b[:], err)
			}
			wg.Wait()
			if _, err := client(t, agent, caller("a1"), nil).Coordinator(l.Addr()).Status(t.Context()); err != nil {
				t.Error(err)
			}
			if l.Raft().Addr().String() != l.Addr() {
				t.Errorf("it listens on %v, not on %s", l.Raft().Addr(), l.Addr())
			}
			l.Raft().Close()
			if _, err := l.Raft().Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept after Close: %v", err)
			}
			if secure {
				if _, err := DialRaft(t.Context(), k1, nil, l.Addr(), "c9"); err == nil {
					t.Error("a stream to the wrong coordinator")
				}
			} else if _, err := DialRaft(t.Context(), nil, far, l.Addr(), ""); !errors.Is(err, ErrPlain) {
				t.Errorf("a plain stream left the machine: %v", err)
			}
		})
	}
}

// far connects to an address that is not on this machine.
func far(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	there.Close()
	return farConn{here}, nil
}

// FuzzCoordination: any message is refused or within its bounds, and survives being encoded again.
func FuzzCoordination(f *testing.F) {
	add := func(kind byte, m proto.Message) {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(kind, b)
	}
	add(0, followToWire(aFollow()))
	add(0, &pb.FollowRequest{From: 1, Report: &pb.Report{Capacity: 1, Address: "a:1"}})
	add(1, followedToWire(Followed{Entries: []byte("e"), Last: 9, Term: 8, Member: true, Crawl: theCrawl}))
	add(2, hostAnswersToWire([]HostAnswer{{HostDead, time.Minute}, {State: HostComing}}))
	add(3, &pb.DiscoverRequest{Hosts: []string{"a.example"}, Unchecked: true})
	f.Fuzz(func(t *testing.T, kind byte, b []byte) {
		read := func(m proto.Message) bool { return proto.Unmarshal(b, m) == nil }
		switch kind % 4 {
		case 0:
			var w pb.FollowRequest
			if !read(&w) {
				return
			}
			out, err := followFromWire(&w)
			if err != nil {
				return
			}
			r := out.Report
			if out.From == 0 || out.Wait < 0 || out.Wait > MaxFollow || len(r.Heard) > maxAgents ||
				!(r.Capacity > 0) || r.Capacity > maxCapacity || len(r.Addr) > maxAddress ||
				len(r.Settings) > maxSettings {
				t.Fatalf("%+v", out)
			}
			for name, d := range r.Heard {
				if CheckName(name) != nil || d < 0 {
					t.Fatalf("%q was heard before %v", name, d)
				}
			}
			if again, err := followFromWire(followToWire(out)); err != nil || !cmp.Equal(again, out) {
				t.Fatalf("%+v is %+v, %v", out, again, err)
			}
		case 1:
			var w pb.FollowResponse
			if !read(&w) {
				return
			}
			out, err := followedFromWire(&w, 5)
			if err != nil {
				return
			}
			if len(out.Entries) > MaxData || out.Term > out.Last || len(out.Entries) > 0 && out.Last < 5 {
				t.Fatalf("%+v", out)
			}
			if again, err := followedFromWire(followedToWire(out), 5); err != nil || !cmp.Equal(again, out) {
				t.Fatalf("%+v is %+v, %v", out, again, err)
			}
		case 2:
			var w pb.DiscoverResponse
			if !read(&w) {
				return
			}
			as, err := hostAnswersFromWire(&w, 2)
			if err != nil {
				return
			}
			for _, a := range as {
				if a.After < 0 || a.After > maxDead || a.After > 0 && a.State != HostDead {
					t.Fatalf("%+v", a)
				}
			}
			if again, err := hostAnswersFromWire(hostAnswersToWire(as), 2); err != nil || !slices.Equal(again, as) {
				t.Fatalf("%+v is %+v, %v", as, again, err)
			}
		case 3:
			var w pb.DiscoverRequest
			if read(&w) && checkHosts(w.Hosts) == nil && len(w.Hosts) > MaxDiscover {
				t.Fatalf("%d hosts", len(w.Hosts))
			}
		}
	})
}
