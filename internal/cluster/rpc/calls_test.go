package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
)

// TestCalls: requests and answers arrive unchanged, with and without keys.
func TestCalls(t *testing.T) {
	withKeys(t, []string{"a1", "a2", "c1", "c2"}, func(t *testing.T, keys map[string]*rpc.Keys) {
		me, tool := caller("a1"), rpc.Caller{Name: "c2"} // a tool with a coordinator's keys belongs to no crawl
		var mu sync.Mutex
		var now sample
		var asked any
		var from rpc.Caller
		al, agent, cl, coordinator := processes(t, keys, func(call string, by rpc.Caller, ask any) (any, error) {
			mu.Lock()
			defer mu.Unlock()
			if asked, from = ask, by; call != now.call {
				t.Errorf("%s arrives as %s", now.call, call)
			}
			return now.answer, nil
		})
		ours, theirs := client(t, keys["a1"], me, nil), client(t, keys["c2"], tool, nil)
		check := func(c *rpc.Client, is rpc.Caller, e sample, l *rpc.Listener) {
			t.Helper()
			mu.Lock()
			now, asked, from = e, nil, rpc.Caller{}
			mu.Unlock()
			answer, err := e.calls(t.Context(), c, l)
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(e.answer, answer, protocmp.Transform()); diff != "" || err != nil {
				t.Errorf("%s: %v, the answer (-want +got):\n%s", e.call, err, diff)
			}
			if diff := cmp.Diff(any(e.ask), asked, protocmp.Transform()); diff != "" || from != is {
				t.Errorf("%s of %v, the request (-want +got):\n%s", e.call, from, diff)
			}
		}
		want := map[string]uint64{"Status": 1}
		for _, e := range samples {
			c, is, l := ours, me, al
			if toCoordinator(e.call) {
				l = cl
			}
			if e.call == "Forget" {
				c, is = theirs, tool
			}
			want[e.call]++
			check(c, is, e, l)
			if e.call == "Status" {
				check(theirs, tool, e, l)
			}
		}
		counts, others, mine := agent.Counts(), coordinator.Counts(), ours.Counts()
		for call := range counts.Calls {
			n := counts.Calls[call] + others.Calls[call]
			if n != want[call] || counts.Errors[call]+others.Errors[call] != 0 { // Pages is a stream
				t.Errorf("%s was counted %d times, want %d, %d errors", call, n, want[call], counts.Errors[call])
			}
			// Both sides count the bodies of the same answers.
			if !toCoordinator(call) && (mine.Answers[call] != counts.Bodies[call] || counts.Answers[call] != 0) {
				t.Errorf("%s: %d bytes of answers received, %d sent", call, mine.Answers[call], counts.Bodies[call])
			}
		}
		for reason, n := range counts.Refused {
			if n+others.Refused[reason] != 0 {
				t.Errorf("%d refused as %s", n+others.Refused[reason], reason)
			}
		}
		if mine.Bodies["Ship"] == 0 || mine.Answers["Known"] == 0 || mine.Sent == 0 || mine.Calls["Push"] != 1 ||
			counts.Bodies["Lease"] == 0 || counts.Received == 0 {
			t.Errorf("counts %+v, %+v", mine, counts)
		}
		now = of(rpc.CallStatus)
		ours.Forget(cl.Addr())
		if err := ask(t.Context(), ours.Coordinator(cl.Addr()), rpc.CallStatus); err != nil {
			t.Errorf("Status after Forget: %v", err)
		}
	})
}

// TestErrors: an error has the same meaning on both sides.
func TestErrors(t *testing.T) {
	var fail error
	al, agent, cl, coordinator := processes(t, nil, func(string, rpc.Caller, any) (any, error) { return nil, fail })
	push := func() error { return ask(t.Context(), peer(t, "a1", al), rpc.CallPush) }
	finish := func() error {
		return ask(t.Context(), client(t, nil, caller("a1"), nil).Coordinator(cl.Addr()), rpc.CallFinish)
	}
	refusal := func(err error) bool {
		r, ok := errors.AsType[*rpc.Refusal](err)
		return ok && *r == rpc.Refusal{Reason: "name", Text: `the name "a1" is in use`}
	}
	notLeader := func(want string) func(error) bool {
		return func(err error) bool {
			n, ok := errors.AsType[*rpc.NotLeader](err)
			return ok && n.Leader == want
		}
	}
	failed := func(err error) bool {
		return err != nil && strings.Contains(err.Error(), "the disk is on fire") && !errors.Is(err, rpc.ErrAgain) &&
			!errors.Is(err, rpc.ErrRejected) && !errors.Is(err, rpc.ErrUnreachable)
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	for _, c := range []struct {
		call func() error
		err  error
		is   func(error) bool
	}{
		{push, fmt.Errorf("view 3: %w", rpc.ErrAgain), is(rpc.ErrAgain)},
		{push, &rpc.Refusal{"name", `the name "a1" is in use`}, refusal},
		{push, fmt.Errorf("%w: x", rpc.ErrMalformed), is(rpc.ErrRejected)},
		{push, errors.New("the disk is on fire"), failed},
		{finish, &rpc.Refusal{"name", `the name "a1" is in use`}, refusal},
		{finish, fmt.Errorf("finish: %w", &rpc.NotLeader{}), notLeader("")},
		{finish, &rpc.NotLeader{"192.0.2.1:7480"}, notLeader("192.0.2.1:7480")},
		{finish, &rpc.NotLeader{"c.example:1"}, notLeader("c.example:1")},
		{finish, &rpc.NotLeader{"no port"}, func(err error) bool { return err != nil && !notLeader("no port")(err) }},
	} {
		before := agent.Counts().Errors["Push"] + coordinator.Counts().Errors["Finish"]
		if fail = c.err; !c.is(c.call()) {
			t.Errorf("%v arrives as %v", c.err, c.call())
		}
		if n := agent.Counts().Errors["Push"] + coordinator.Counts().Errors["Finish"] - before; n != 1 {
			t.Errorf("%v: %d errors counted", c.err, n)
		}
	}
	noAgent, _, noCoordinator, _ := processes(t, nil, nil)
	for _, e := range samples {
		l := noAgent
		if toCoordinator(e.call) {
			l = noCoordinator
		}
		if _, err := e.calls(t.Context(), client(t, nil, caller("a1"), nil), l); !errors.Is(err, rpc.ErrAgain) {
			t.Errorf("%s without a handler: %v", e.call, err)
		}
	}
	closed := must.Get(rpc.Listen(rpc.System, "127.0.0.1:0", nil))(t)
	closed.Close()
	if err := ask(t.Context(), peer(t, "a1", closed), rpc.CallPulse); !errors.Is(err, rpc.ErrUnreachable) {
		t.Errorf("Pulse of no agent: %v", err)
	}
}

// TestNotAdmitted: a caller that was not admitted may only call Hello, Follow, Status and Forget, and a caller of
// another crawl only Status and Forget. A caller of no crawl yet may call what one that was not admitted may. Each
// other call is counted. A caller that was not admitted is told to come back.
func TestNotAdmitted(t *testing.T) {
	withKeys(t, []string{"a1", unknown, "a2", "c1", "c2"}, func(t *testing.T, keys map[string]*rpc.Keys) {
		reached := &rpc.Refusal{"settings", "a handler was reached"}
		al, agent, cl, coordinator := processes(t, keys, func(string, rpc.Caller, any) (any, error) {
			return nil,
				reached
		})
		stranger, other, fresh := caller(unknown), caller("a1"), caller("a1")
		other.Crawl, fresh.Crawl = rpc.ID{4}, rpc.ID{}
		refused := map[string]uint64{}
		for _, e := range samples {
			for _, as := range []rpc.Caller{stranger, other, fresh} {
				k, l := keys[as.Name], al
				if toCoordinator(e.call) {
					l = cl
				}
				if e.call == "Forget" {
					k, as.Name = keys["c2"], "c2"
				}
				_, err := e.calls(t.Context(), client(t, k, as, nil), l)
				r, _ := errors.AsType[*rpc.Refusal](err)
				open := e.call == "Status" || e.call == "Forget" ||
					as.Crawl != other.Crawl && (e.call == "Hello" || e.call == "Follow")
				switch {
				case open:
					if r == nil || *r != *reached {
						t.Errorf("%s of %v: %v", e.call, as, err)
					}
				case as == stranger:
					if refused["not-admitted"]++; !errors.Is(err, rpc.ErrAgain) {
						t.Errorf("%s of an agent that is not admitted: %v", e.call, err)
					}
				default:
					if refused["other-crawl"]++; r == nil || r.Reason != "crawl" ||
						strings.Contains(r.Text, "the coordinator's directory") != toCoordinator(e.call) {
						t.Errorf("%s of an agent of crawl %s: %v", e.call, as.Crawl, err)
					}
				}
			}
		}
		for reason, n := range agent.Counts().Refused {
			if n += coordinator.Counts().Refused[reason]; n != refused[reason] {
				t.Errorf("%d refused as %s, want %d", n, reason, refused[reason])
			}
		}
	})
}

// TestBusy: calls above the limit of their kind are told to come back. Calls of another kind succeed: quick ones, and
// those of operators.
func TestBusy(t *testing.T) {
	const served, asked = 16, 4 // at once: by a server, of a client
	block := make(chan struct{})
	var pushes, orders, wg sync.WaitGroup
	pushes.Add(served)
	orders.Add(served)
	l, s := agent(t, rpc.System, "127.0.0.1:0", nil, func(call string, _ rpc.Caller, _ any) (any, error) {
		switch call {
		case "Push":
			pushes.Done()
			<-block
		case "Orders":
			orders.Done()
			<-block
		}
		return nil, nil
	})
	fill := func(call func(p *rpc.Peer) error) {
		for i := range served / asked {
			p := peer(t, strings.Repeat("a", i+1), l)
			for range asked {
				wg.Go(func() {
					if err := call(p); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
	p := peer(t, "late", l)
	push := func(p *rpc.Peer) error { return ask(t.Context(), p, rpc.CallPush) }
	operate := func() error { return ask(t.Context(), p, rpc.CallOperate) }
	pulse := func() error { return ask(t.Context(), p, rpc.CallPulse) }
	fill(push)
	pushes.Wait()
	if err := push(p); !errors.Is(err, rpc.ErrUnreachable) {
		t.Errorf("Push to a busy agent: %v", err)
	}
	if err := errors.Join(pulse(), operate()); err != nil {
		t.Error(err)
	}
	fill(func(p *rpc.Peer) error { return ask(t.Context(), p, rpc.CallOrders) })
	orders.Wait()
	if err := operate(); !errors.Is(err, rpc.ErrUnreachable) {
		t.Errorf("Operate at a busy agent: %v", err)
	}
	if err := pulse(); err != nil {
		t.Error(err)
	}
	if n := s.Counts().Refused["busy"]; n != 2 {
		t.Errorf("%d refused as busy, want 2", n)
	}
	close(block)
	wg.Wait()
}

// TestMemory: large calls of a kind are told to come back while others take the memory for them. They succeed later.
// Small calls of the kind, and large ones of other kinds, succeed meanwhile.
func TestMemory(t *testing.T) {
	large := make([]byte, rpc.MaxData)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // it never fails
	for i := range large {
		large[i] &= 15 // it is compressed to a half
	}
	block, served := make(chan struct{}), make(chan string, 10)
	l, s := agent(t, rpc.System, "127.0.0.1:0", nil, func(call string, _ rpc.Caller, ask any) (any, error) {
		if r, ok := ask.(*pb.ShipRequest); ok && r.Seq != 9 {
			served <- call
			<-block
		}
		return nil, nil
	})
	ship := func(name string, seq uint64, data []byte) error {
		_, err := of(rpc.CallShip).send(t.Context(), peer(t, name, l), &pb.ShipRequest{Seq: seq, Count: 1,
			Records: data})
		return err
	}
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		wg.Go(func() {
			if err := ship(name, 1, large); err != nil {
				t.Error(err)
			}
		})
	}
	for range 2 {
		<-served
	}
	if err := ship("c", 9, large); !errors.Is(err, rpc.ErrUnreachable) {
		t.Errorf("a third large Ship: %v", err)
	}
	p := peer(t, "d", l)
	_, hand := of(rpc.CallHand).send(t.Context(), p, &pb.HandRequest{Count: 1, Records: large})
	others := []error{ship("d", 9, []byte("small")), hand}
	for _, call := range []rpc.Call{rpc.CallPush, rpc.CallPulse, rpc.CallOrders} {
		others = append(others, ask(t.Context(), p, call))
	}
	if err := errors.Join(others...); err != nil {
		t.Errorf("small calls, and calls of other kinds: %v", err)
	}
	if n := s.Counts().Refused["busy"]; n != 1 {
		t.Errorf("%d refused as busy, want 1", n)
	}
	close(block)
	wg.Wait()
	if err := ship("c", 9, large); err != nil {
		t.Errorf("a large Ship later: %v", err)
	}
}

// TestPauses: after a failure no call to the process begins in a pause, which doubles up to 5 s, or 1 s for a
// coordinator. A success ends it. A call that its caller gives up counts as nothing. At most 16 calls run at once.
func TestPauses(t *testing.T) {
	for _, ofCoordinator := range []bool{false, true} {
		inMemory(t, func(t *testing.T, _ *simnet.Network, network *simnet.Machine) {
			var began []time.Time
			var fail error
			block := make(chan struct{})
			close(block)
			var mu sync.Mutex
			handle := func(string, rpc.Caller, any) (any, error) {
				mu.Lock()
				began = append(began, time.Now())
				err, wait := fail, block
				mu.Unlock()
				<-wait
				return nil, err
			}
			var call func(ctx context.Context) error
			most := 5 * time.Second
			if ofCoordinator {
				most = time.Second
				l, _ := coordinator(t, network, "127.0.0.1:7480", nil, handle)
				c := client(t, nil, caller("a1"), network.Dial).Coordinator(l.Addr())
				call = func(ctx context.Context) error { return ask(ctx, c, rpc.CallStatus) }
			} else {
				l, _ := agent(t, network, "127.0.0.1:7470", nil, handle)
				p := client(t, nil, caller("a1"), network.Dial).Peer("a2", l.Addr())
				call = func(ctx context.Context) error { return ask(ctx, p, rpc.CallPulse) }
			}
			// paused checks the pause after a number of failures in a row.
			paused := func(failures int) {
				t.Helper()
				n := len(began)
				last := time.Now()
				err := call(t.Context())
				longest := min(most, 100*time.Millisecond<<(failures-1))
				if took := began[n].Sub(last); (err == nil) != (fail == nil) || took < longest/2 || took > longest {
					t.Errorf("after %d failures, a call begins after %v: %v", failures, took, err)
				}
			}
			fail = errors.New("failed")
			if call(t.Context()) == nil {
				t.Error("the call does not fail")
			}
			for failures := 1; failures < 20; failures++ {
				paused(failures)
			}
			n := len(began)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || len(began) != n {
				t.Errorf("a call that is given up in a pause: %v, %d begin", err, len(began)-n)
			}
			fail = nil
			time.Sleep(most)
			for range 2 {
				if last := time.Now(); call(t.Context()) != nil || time.Since(last) != 0 {
					t.Errorf("after a success a call takes %v", time.Since(last))
				}
			}
			block, fail = make(chan struct{}), errors.New("failed")
			var wg sync.WaitGroup
			n = len(began)
			for range 16 {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if call(ctx) == nil {
						t.Error("a call without an answer succeeds")
					}
				})
			}
			synctest.Wait()
			ctx, cancel = context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			last := time.Now()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(last) != time.Second/2 ||
				len(began)-n != 16 {
				t.Errorf("%d calls run at once, want 16; one more: %v after %v", len(began)-n, err, time.Since(last))
			}
			wg.Wait()
			close(block)
			if last = time.Now(); call(t.Context()) == nil || time.Since(last) != 0 {
				t.Errorf("after calls that were given up, a call takes %v", time.Since(last))
			}
			paused(1)
		})
	}
}

// TestCompressed: compression reduces links to a fraction of their octets.
func TestCompressed(t *testing.T) {
	var urls []string
	for i := range 2000 {
		urls = append(urls, fmt.Sprintf("http://www%d.example/archive/2026/%d/index.html", i%50, i*7919))
	}
	l, s := agent(t, rpc.System, "127.0.0.1:0", nil, func(string, rpc.Caller, any) (any, error) { return nil, nil })
	batch := []byte(strings.Join(urls, "\x00L\x00http://via.example/\x00via.example\x00"))
	must.Get(of(rpc.CallPush).send(t.Context(), peer(t, "a1", l), &pb.PushRequest{Links: batch}))(t)
	if got := s.Counts().Received; got > uint64(len(batch))/3 {
		t.Errorf("%d links of %d octets took %d on the wire", len(urls), len(batch), got)
	}
}

// TestStreams: streams of gossip, or between coordinators, share the port with calls, and an agent's port also has
// packets.
func TestStreams(t *testing.T) {
	withKeys(t, []string{"a1", "a2", "c1", "c2"}, func(t *testing.T, keys map[string]*rpc.Keys) {
		handle := func(string, rpc.Caller, any) (any, error) { return nil, nil }
		al, _ := agent(t, rpc.System, "127.0.0.1:0", keys["a2"], handle)
		cl, _ := coordinator(t, rpc.System, "127.0.0.1:0", keys["c2"], handle)
		for _, c := range []struct {
			l    net.Listener
			addr string
			keys *rpc.Keys
			dial func(context.Context, *rpc.Keys, rpc.Dialer, string, string) (net.Conn, error)
			name string
		}{
			{al.Gossip(), al.Addr(), keys["a1"], rpc.DialGossip, "a2"},
			{cl.Raft(), cl.Addr(), keys["c1"], rpc.DialRaft, "c2"},
		} {
			var wg sync.WaitGroup
			wg.Go(func() {
				conn, err := c.l.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				var b [5]byte
				io.ReadFull(conn, b[:])
				conn.Write(bytes.ToUpper(b[:]))
			})
			conn := must.Get(c.dial(t.Context(), c.keys, nil, c.addr, c.name))(t)
			io.WriteString(conn, "hello")
			if got, err := io.ReadAll(conn); err != nil || string(got) != "HELLO" {
				t.Errorf("read %q, %v", got, err)
			}
			conn.Close()
			wg.Wait()
			if keys != nil {
				if _, err := c.dial(t.Context(), c.keys, nil, c.addr, "x9"); err == nil {
					t.Error("a stream to the wrong process")
				}
			} else if _, err := c.dial(t.Context(), nil, far, "192.0.2.1:1", ""); !errors.Is(err, rpc.ErrPlain) {
				t.Errorf("a plain stream left the machine: %v", err)
			}
			if c.l.Addr().String() != c.addr {
				t.Errorf("streams have the address %v, not %s", c.l.Addr(), c.addr)
			}
			a1 := client(t, keys["a1"], caller("a1"), nil)
			if err := errors.Join(ask(t.Context(), a1.Peer("a2", al.Addr()), rpc.CallPulse),
				ask(t.Context(), a1.Coordinator(cl.Addr()), rpc.CallStatus)); err != nil {
				t.Error(err)
			}
			c.l.Close()
			if _, err := c.l.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Accept after Close: %v", err)
			}
		}
		out := must.Get(net.Dial("udp", al.Addr()))(t)
		defer out.Close()
		io.WriteString(out, "packet")
		b := make([]byte, 64)
		al.Packets().SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, _, err := al.Packets().ReadFrom(b); err != nil || string(b[:n]) != "packet" {
			t.Errorf("packet %q, %v", b[:n], err)
		}
	})
}

// far connects to an address that is not on this machine.
func far(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	there.Close()
	return farConn{here}, nil
}

type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// TestForget: Forget ends a call that gets no answer, and the next call opens a connection.
func TestForget(t *testing.T) {
	came, gone, calls := make(chan struct{}), make(chan struct{}), 0
	l, _ := agent(t, rpc.System, "127.0.0.1:0", nil, func(string, rpc.Caller, any) (any, error) {
		if calls++; calls == 1 {
			close(came)
			<-gone
		}
		return nil, nil
	})
	c := client(t, nil, caller("a1"), nil)
	ended := make(chan error)
	go func() { ended <- ask(t.Context(), c.Peer("a2", l.Addr()), rpc.CallPulse) }()
	<-came
	c.Forget("a2")
	if err := <-ended; err == nil {
		t.Error("the call has no error")
	}
	close(gone)
	if err := ask(t.Context(), c.Peer("a2", l.Addr()), rpc.CallPulse); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "a1", "crawler-1", "crawler-1.example.org", "0"} {
		if err := rpc.CheckName(name); err != nil {
			t.Errorf("%v", err)
		}
	}
	for _, name := range []string{"", "A1", "-a", "a-", ".", "..", "a/b", "a b", "ä", "a\n", fmt.Sprintf("%064d", 0)} {
		if rpc.CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// TestLargest: messages with as much data as a feature may send arrive, in one piece or in many.
func TestLargest(t *testing.T) {
	const most = 4096 // pieces
	var answer any
	l, _ := agent(t, rpc.System, "127.0.0.1:0", nil, func(string, rpc.Caller, any) (any, error) { return answer, nil })
	p := peer(t, "a1", l)
	many := slices.Repeat([][]byte{[]byte(strings.Repeat("x", rpc.MaxData/most))}, most)
	answer = &pb.OrdersResponse{Orders: many, Digest: make([]byte, 32)}
	got, err := of(rpc.CallOrders).send(t.Context(), p, &pb.OrdersRequest{Orders: many, Digest: make([]byte, 32)})
	if err != nil || !proto.Equal(answer.(proto.Message), got) {
		t.Errorf("%d orders: %v", most, err)
	}
	answer = &pb.OperateResponse{Response: make([]byte, rpc.MaxData), Error: strings.Repeat("e", 16<<10)}
	q := &pb.OperateRequest{Method: strings.Repeat("M", 64), Request: make([]byte, rpc.MaxData)}
	got, err = of(rpc.CallOperate).send(t.Context(), p, q)
	if err != nil || !proto.Equal(answer.(proto.Message), got) {
		t.Errorf("%d octets: %v", rpc.MaxData, err)
	}
}
