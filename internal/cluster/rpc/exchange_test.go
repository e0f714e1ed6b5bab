package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var theCrawl = ID{1, 2, 3}

// bundles makes keys of one new cluster. Names of coordinators begin with c.
func bundles(t *testing.T, names ...string) map[string]*Keys {
	t.Helper()
	mem := testdisk.NewMem()
	a, err := OpenAuthority(mem, "keys", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*Keys{}
	for _, name := range names {
		issue := a.Issue
		if strings.HasPrefix(name, "c") {
			issue = a.IssueCoordinator
		}
		dir, err := issue(name)
		if err != nil {
			t.Fatal(err)
		}
		if out[name], err = LoadKeys(mem, dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// serve runs an agent's server until the test ends.
func serve(t *testing.T, keys *Keys, h Handlers) (*Listener, *Server) {
	t.Helper()
	l, err := Listen(System, "127.0.0.1:0", keys)
	if err != nil {
		t.Fatal(err)
	}
	return l, run(t, l, ServerConfig{Handlers: h})
}

// coordinate runs a coordinator's server until the test ends.
func coordinate(t *testing.T, keys *Keys, h Coordination) (*Listener, *Server) {
	t.Helper()
	l, err := ListenCoordinator(System, "127.0.0.1:0", keys)
	if err != nil {
		t.Fatal(err)
	}
	return l, run(t, l, ServerConfig{Coordination: h})
}

func run(t *testing.T, l *Listener, cfg ServerConfig) *Server {
	cfg.Crawl, cfg.Admitted = func() ID { return theCrawl }, func(c Caller) bool { return c.Name != unknown }
	s := NewServer(l, cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		l.Close()
	})
	return s
}

// unknown is the name of an agent that has not been admitted.
const unknown = "unknown"

func caller(name string) Caller {
	return Caller{Name: name, Instance: ID{9, byte(len(name))}, Boot: 3, Crawl: theCrawl}
}

func client(t *testing.T, keys *Keys, self Caller, dial Dialer) *Client {
	t.Helper()
	c := NewClient(ClientConfig{Keys: keys, Self: func() Caller { return self }, Dial: dial, Seed: 1})
	t.Cleanup(func() { c.Close() })
	return c
}

func links(urls ...string) Links {
	l := Links{Count: len(urls)}
	for _, u := range urls {
		l.Data = weburl.Link{URL: weburl.MustParse(u), Via: "http://via.example/", Hops: "L",
			Seed: "via.example"}.AppendTo(l.Data)
	}
	return l
}

// TestCalls: requests and answers arrive unchanged, with and without keys.
func TestCalls(t *testing.T) {
	keys := bundles(t, "a1", "a2")
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
			k1, k2 := keys["a1"], keys["a2"]
			if !secure {
				k1, k2 = nil, nil
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
			welcome := Welcome{
				Agent: Agent{Name: "a2", Instance: ID{7}, Boot: 2, Capacity: 1.5, Addr: "127.0.0.1:7", State: 2},
				Crawl: theCrawl, Elapsed: 90 * time.Second,
				Agents: []Agent{{Name: "a3", Instance: ID{8}, Boot: 1, Capacity: 2, Addr: "[::1]:8"}},
			}
			pulse := Pulse{View: 5, Activity: 6, Pages: 7, Idle: true, Stopped: true, Lost: true}
			recalled := []RecallAnswer{{Verdict: RecallLater},
				{RecallKnown, links("http://b.example/").Data, []byte("state")}}
			ordersAnswer := OrdersAnswer{Orders: [][]byte{{1}, []byte("order")}, Digest: [32]byte{4, 31: 5}, More: true}
			shared := ShareGrant{Share: 0.25, Agents: 4, Requests: 40, Bits: 1e6}
			operated := OperationAnswer{Response: []byte("done"), Error: "no such host: ä.example", Code: "not-found"}
			l, s := serve(t, k2, Handlers{
				Hello: func(_ context.Context, from Caller, h Hello) (Welcome, error) {
					note(from, h)
					return welcome, nil
				},
				Push: func(_ context.Context, from Caller, l Links) error { note(from, l); return nil },
				Known: func(_ context.Context, from Caller, fs []Fingerprint) ([]bool, error) {
					note(from, fs)
					return []bool{false, true, true, false, false, false, false, true, true}, nil
				},
				Ship: func(_ context.Context, from Caller, r Records) error { note(from, r); return nil },
				Claim: func(_ context.Context, from Caller, h Claim) ([]Verdict, error) {
					note(from, h)
					return []Verdict{Unknown, Coming, Again}, nil
				},
				Hand: func(_ context.Context, from Caller, r Records) error { note(from, r); return nil },
				Lease: func(_ context.Context, from Caller, b []byte) ([]byte, error) {
					note(from, b)
					return []byte("yes"), nil
				},
				Pulse: func(_ context.Context, from Caller, v uint64) (Pulse, error) {
					note(from, v)
					return pulse, nil
				},
				End: func(_ context.Context, from Caller, e End) (bool, error) { note(from, e); return true, nil },
				Budget: func(_ context.Context, from Caller, b Budget) (Grant, error) {
					note(from, b)
					return Grant{b.Held + b.Want - 1, true, b.Known}, nil
				},
				Share: func(_ context.Context, from Caller, a ShareAsk) (ShareGrant, error) {
					note(from, a)
					return shared, nil
				},
				Copy: func(_ context.Context, from Caller, c Copy) (CopyAnswer, error) {
					note(from, c)
					return CopyAnswer{Files: []CopyFile{c.File}, Have: 93}, nil
				},
				Recall: func(_ context.Context, from Caller, r Recall) ([]RecallAnswer, error) {
					note(from, r)
					return recalled, nil
				},
				Orders: func(_ context.Context, from Caller, o Orders) (OrdersAnswer, error) {
					note(from, o)
					return ordersAnswer, nil
				},
				Operate: func(_ context.Context, from Caller, o Operation) (OperationAnswer, error) {
					note(from, o)
					return operated, nil
				},
				Contents: func(_ context.Context, from Caller, cs []Content) ([]ContentAnswer, error) {
					note(from, cs)
					return []ContentAnswer{{}, {First: ContentPage{URL: "http://a.example/first",
						Date: cs[0].Page.Date}}, {Claimed: true}}, nil
				},
			})
			c := client(t, k1, me, nil)
			p := c.Peer("a2", l.Addr())
			ctx := t.Context()
			hello := Hello{Agent: Agent{Name: "a1", Instance: me.Instance, Boot: me.Boot, Capacity: 2,
				Addr: "h.example:1", State: 1}, Settings: map[string]string{"partition": "rendezvous"}}
			push := links("http://a.example/1", "http://b.example/2?q")
			push.Hops = 2
			ship := Records{Seq: 77, Count: 2, Data: []byte("records")}
			claim := Claim{View: 1<<63 + 5, Hosts: []string{"a.example", "xn--bcher-kva.example", "[2001:db8::1]"}}
			hand := Records{Count: 3, Data: []byte("of hosts")}
			end := End{View: 1, Activity: 2, Reason: "finished"}

			v, err := p.Hello(ctx, hello)
			if err != nil || !cmp.Equal(v, welcome) {
				t.Errorf("Hello = %+v, %v", v, err)
			}
			if v, err := c.Hello(ctx, l.Addr(), hello); err != nil || !cmp.Equal(v, welcome) {
				t.Errorf("Hello to an address = %+v, %v", v, err)
			}
			if err := p.Push(ctx, push); err != nil {
				t.Error(err)
			}
			fs := []Fingerprint{0, 1, 1<<48 - 1, 0x123456789abc, 4, 5, 6, 7, 8}
			known := []bool{false, true, true, false, false, false, false, true, true}
			if got, err := p.Known(ctx, fs); err != nil || !slices.Equal(got, known) {
				t.Errorf("Known = %v, %v", got, err)
			}
			if err := p.Ship(ctx, ship); err != nil {
				t.Error(err)
			}
			if vs, err := p.Claim(ctx, claim); err != nil || !slices.Equal(vs, []Verdict{Unknown, Coming, Again}) {
				t.Errorf("Claim = %v, %v", vs, err)
			}
			if err := p.Hand(ctx, hand); err != nil {
				t.Error(err)
			}
			if b, err := p.Lease(ctx, []byte("may I?")); err != nil || string(b) != "yes" {
				t.Errorf("Lease = %q, %v", b, err)
			}
			if v, err := p.Pulse(ctx, 4); err != nil || v != pulse {
				t.Errorf("Pulse = %+v, %v", v, err)
			}
			if ok, err := p.End(ctx, end); err != nil || !ok {
				t.Errorf("End = %v, %v", ok, err)
			}
			budget := Budget{Seq: 3, Used: 4, Held: 5, Want: 10, Known: map[string]int64{"a1": 5, "a3": 0}}
			if g, err := p.Budget(ctx, budget); err != nil || !cmp.Equal(g, Grant{14, true, budget.Known}) {
				t.Errorf("Budget = %v, %v", g, err)
			}
			share := ShareAsk{Seq: 3, Held: 0.125, Left: 1500 * time.Millisecond, Want: 1}
			if g, err := p.Share(ctx, share); err != nil || g != shared {
				t.Errorf("Share = %+v, %v", g, err)
			}
			at := time.UnixMilli(1700000000123).UTC()
			contents := []Content{
				{Digest: [20]byte{1, 2}, Page: ContentPage{"http://a.example/", at}},
				{Digest: [20]byte{3}, Page: ContentPage{"http://b.example/?q", at.Add(time.Hour)}},
				{Digest: [20]byte{4}, Page: ContentPage{"http://c.example/", at}, Archived: true},
			}
			answers := []ContentAnswer{{}, {First: ContentPage{"http://a.example/first", at}}, {Claimed: true}}
			if as, err := p.Contents(ctx, contents); err != nil || !slices.Equal(as, answers) {
				t.Errorf("Contents = %v, %v", as, err)
			}
			recall := Recall{Links: links("http://a.example/", "http://b.example/"), Accept: true}
			if as, err := p.Recall(ctx, recall); err != nil || !cmp.Equal(as, recalled, cmpopts.EquateEmpty()) {
				t.Errorf("Recall = %v, %v", as, err)
			}
			part := Copy{Kind: CopyPart, File: CopyFile{"a-1.warc.gz", 100, [32]byte{1}}, Offset: 90, Data: []byte("x")}
			if a, err := p.Copy(ctx, part); err != nil || a.Have != 93 ||
				!slices.Equal(a.Files, []CopyFile{part.File}) {
				t.Errorf("Copy = %v, %v", a, err)
			}
			orders := Orders{Orders: [][]byte{[]byte("pause"), {0}}, Digest: [32]byte{1, 31: 2}}
			if a, err := p.Orders(ctx, orders); err != nil || !cmp.Equal(a, ordersAnswer) {
				t.Errorf("Orders = %v, %v", a, err)
			}
			operation := Operation{Method: "BlockHost", Request: []byte("a.example")}
			if a, err := p.Operate(ctx, operation); err != nil || !cmp.Equal(a, operated) {
				t.Errorf("Operate = %v, %v", a, err)
			}
			want := []any{hello, hello, push, fs, ship, claim, hand, []byte("may I?"),
				uint64(4), end, budget, share, contents, recall, part, orders, operation}
			mu.Lock()
			defer mu.Unlock()
			// An absent field is nil.
			equal := cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) })
			if diff := cmp.Diff(want, got, equal); diff != "" {
				t.Error(diff)
			}
			counts := s.Counts()
			for name, n := range counts.Calls {
				want := uint64(1)
				if name == "Hello" {
					want = 2
				}
				if slices.Contains(callNames[CallPages:], name) { // for Pages see TestPages
					want = 0
				}
				if n != want || counts.Errors[name] != 0 {
					t.Errorf("%s was counted %d times, %d errors", name, n, counts.Errors[name])
				}
			}
			for kind, n := range counts.Refused {
				if n != 0 {
					t.Errorf("%d refused as %s", n, kind)
				}
			}
			if ours := c.Counts(); ours.Links != 2 || ours.Keys != 9 || ours.Bodies["Ship"] == 0 ||
				counts.Bodies["Lease"] == 0 || ours.Bodies["Known"] != 6*9+2 {
				t.Errorf("counts %+v, %+v", ours, counts)
			}
			for name, n := range c.Counts().Answers { // both count the bodies of the same answers
				if n != counts.Bodies[name] || counts.Answers[name] != 0 {
					t.Errorf("%s: %d bytes of answers were received, %d sent", name, n, counts.Bodies[name])
				}
			}
			if ours := c.Counts(); ours.Answers["Known"] == 0 || ours.Sent == 0 || counts.Received == 0 ||
				ours.Calls["Push"] != 1 {
				t.Errorf("client counts %+v", ours)
			}
		})
	}
}

// TestErrors: an error has the same meaning on both sides.
func TestErrors(t *testing.T) {
	broken := errors.New("the disk is on fire")
	for _, c := range []struct {
		name string
		err  error
		is   func(error) bool
	}{
		{"again", fmt.Errorf("view 3: %w", ErrAgain), func(err error) bool { return errors.Is(err, ErrAgain) }},
		{"refusal", &Refusal{"name", `the name "a1" is in use`}, func(err error) bool {
			r := (*Refusal)(nil)
			return errors.As(err, &r) && r.Reason == "name" && r.Text == `the name "a1" is in use`
		}},
		{"malformed", malformed("x"), func(err error) bool { return errors.Is(err, ErrRejected) }},
		{"broken", broken, func(err error) bool {
			return err != nil && !errors.Is(err, ErrAgain) && !errors.Is(err, ErrRejected) &&
				!errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), broken.Error())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s := serve(t, nil, Handlers{Push: func(context.Context, Caller, Links) error { return c.err }})
			err := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr()).Push(t.Context(), links("http://a.example/"))
			if !c.is(err) {
				t.Errorf("Push: %v", err)
			}
			if n := s.Counts().Errors["Push"]; n != 1 {
				t.Errorf("%d errors counted", n)
			}
		})
	}
	t.Run("no handler", func(t *testing.T) {
		l, _ := serve(t, nil, Handlers{})
		if _, err := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr()).
			Pulse(t.Context(), 1); !errors.Is(err, ErrAgain) {
			t.Errorf("Pulse: %v", err)
		}
	})
	t.Run("no agent", func(t *testing.T) {
		l, err := Listen(System, "127.0.0.1:0", nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr()).
			Pulse(t.Context(), 1); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Pulse: %v", err)
		}
	})
}

// TestBusy: bulk calls above the limit are told to come back, and quick calls still succeed.
func TestBusy(t *testing.T) {
	block := make(chan struct{})
	var inside sync.WaitGroup
	inside.Add(servedBulk)
	l, s := serve(t, nil, Handlers{
		Push: func(ctx context.Context, _ Caller, _ Links) error {
			inside.Done()
			<-block
			return nil
		},
		Pulse: func(context.Context, Caller, uint64) (Pulse, error) { return Pulse{Idle: true}, nil },
	})
	var wg sync.WaitGroup
	for i := range servedBulk / askedBulk {
		p := client(t, nil, caller(strings.Repeat("a", i+1)), nil).Peer("b", l.Addr())
		for range askedBulk {
			wg.Go(func() {
				if err := p.Push(t.Context(), links("http://a.example/")); err != nil {
					t.Error(err)
				}
			})
		}
	}
	inside.Wait()
	p := client(t, nil, caller("late"), nil).Peer("b", l.Addr())
	if err := p.Push(t.Context(), links("http://a.example/")); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Push to a busy agent: %v", err)
	}
	if v, err := p.Pulse(t.Context(), 1); err != nil || !v.Idle {
		t.Errorf("Pulse of a busy agent: %v, %v", v, err)
	}
	if n := s.Counts().Refused["busy"]; n != 1 {
		t.Errorf("%d refused as busy", n)
	}
	close(block)
	wg.Wait()
}

// TestCompressed: compression reduces links to a fraction of their octets.
func TestCompressed(t *testing.T) {
	var urls []string
	for i := range 2000 {
		urls = append(urls, fmt.Sprintf("http://www%d.example/archive/2026/%d/index.html", i%50, i*7919))
	}
	l, s := serve(t, nil, Handlers{Push: func(context.Context, Caller, Links) error { return nil }})
	batch := links(urls...)
	if err := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr()).Push(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	got := s.Counts().Received
	t.Logf("%d links of %d octets took %d on the wire", batch.Count, len(batch.Data), got)
	if got > uint64(len(batch.Data))/3 {
		t.Errorf("not compressed")
	}
}

// TestGossip: streams and packets of gossip share the port with calls.
func TestGossip(t *testing.T) {
	keys := bundles(t, "a1", "a2")
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
			k1, k2 := keys["a1"], keys["a2"]
			if !secure {
				k1, k2 = nil, nil
			}
			l, _ := serve(t, k2, Handlers{Pulse: func(context.Context, Caller, uint64) (Pulse, error) {
				return Pulse{}, nil
			}})
			var wg sync.WaitGroup
			defer wg.Wait()
			wg.Go(func() {
				conn, err := l.Gossip().Accept()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				var b [5]byte
				if secure {
					io.ReadFull(conn, b[:])
				} else if io.ReadFull(conn, b[:]); true {
					_ = b
				}
				conn.Write(bytes.ToUpper(b[:]))
			})
			conn, err := DialGossip(t.Context(), k1, nil, l.Addr(), "a2")
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, "hello")
			got, err := io.ReadAll(conn)
			if err != nil || string(got) != "HELLO" {
				t.Errorf("read %q, %v", got, err)
			}
			if _, err := client(t, k1, caller("a1"), nil).Peer("a2", l.Addr()).Pulse(t.Context(), 1); err != nil {
				t.Error(err)
			}
			out, err := net.Dial("udp", l.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			io.WriteString(out, "packet")
			b := make([]byte, 64)
			l.Packets().SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, _, err := l.Packets().ReadFrom(b); err != nil || string(b[:n]) != "packet" {
				t.Errorf("packet %q, %v", b[:n], err)
			}
			if secure {
				if _, err := DialGossip(t.Context(), k1, nil, l.Addr(), "a9"); err == nil {
					t.Error("gossip with the wrong agent")
				}
			}
		})
	}
}

func TestDiffer(t *testing.T) {
	ours := map[string]string{"partition": "rendezvous", "replicas": "2"}
	for _, c := range []struct {
		theirs map[string]string
		want   string
	}{
		{map[string]string{"partition": "rendezvous", "replicas": "2"}, ""},
		{map[string]string{"partition": "hash", "replicas": "2"},
			`agent "a1" has partition "hash", the cluster has "rendezvous"`},
		{map[string]string{"partition": "rendezvous"}, `agent "a1" has replicas "", the cluster has "2"`},
		{map[string]string{"partition": "rendezvous", "replicas": "2", "new": "x"},
			`agent "a1" has new "x", the cluster does not know it`},
	} {
		err := Hello{Agent: Agent{Name: "a1"}, Settings: c.theirs}.Differ(ours)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %v, want %q", c.theirs, err, c.want)
		}
	}
}

var _ connect.HTTPClient = (*Peer)(nil)
