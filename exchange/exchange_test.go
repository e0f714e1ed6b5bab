package exchange

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/exchange/pb"
	"github.com/orbweaver/orbweaver/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var theCrawl = ID{1, 2, 3}

// bundles are keys of one new cluster.
func bundles(t *testing.T, names ...string) map[string]*Keys {
	t.Helper()
	mem := disk.NewMem()
	a, err := OpenAuthority(mem, "keys", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*Keys{}
	for _, name := range names {
		dir, err := a.Issue(name)
		if err != nil {
			t.Fatal(err)
		}
		if out[name], err = LoadKeys(mem, dir); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// serve runs an agent's server until the test ends.
func serve(t *testing.T, keys *Keys, h Handlers) (*Listener, *Server) {
	t.Helper()
	l, err := Listen("127.0.0.1:0", keys)
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(l, ServerConfig{
		Handlers: h, Crawl: func() ID { return theCrawl }, Admitted: func(c Caller) bool { return c.Name != unknown },
	})
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
	return l, s
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
		l.Data = weburl.Link{URL: weburl.MustParse(u), Via: "http://via.example/", Hops: "L", Seed: "via.example"}.AppendTo(l.Data)
	}
	return l
}

func sequence[T any](values ...T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// TestCalls: what is sent arrives, and what is answered comes back, with keys
// and without.
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
			pulse := Pulse{View: 5, Activity: 6, Pages: 7, Idle: true, Stopped: true}
			l, s := serve(t, k2, Handlers{
				Hello: func(_ context.Context, from Caller, h Hello) (Welcome, error) { note(from, h); return welcome, nil },
				Push:  func(_ context.Context, from Caller, l Links) error { note(from, l); return nil },
				Ship:  func(_ context.Context, from Caller, r Records) error { note(from, r); return nil },
				Claim: func(_ context.Context, from Caller, h Claim) ([]Verdict, error) {
					note(from, h)
					return []Verdict{Unknown, Coming, Again}, nil
				},
				Hand: func(_ context.Context, from Caller, parts iter.Seq2[Part, error]) (int, error) {
					n := 0
					for p, err := range parts {
						if err != nil {
							return 0, err
						}
						note(from, p)
						if p.Kind == PartGone {
							n++
						}
					}
					return n, nil
				},
				Lease: func(_ context.Context, from Caller, b []byte) ([]byte, error) {
					note(from, b)
					return []byte("yes"), nil
				},
				Pulse: func(_ context.Context, from Caller, v uint64) (Pulse, error) { note(from, v); return pulse, nil },
				End:   func(_ context.Context, from Caller, e End) (bool, error) { note(from, e); return true, nil },
				Budget: func(_ context.Context, from Caller, b Budget) (Grant, error) {
					note(from, b)
					return Grant{b.Held + b.Want - 1, true, b.Known}, nil
				},
				Contents: func(_ context.Context, from Caller, cs []Content) ([]ContentAnswer, error) {
					note(from, cs)
					return []ContentAnswer{{}, {First: ContentPage{URL: "http://a.example/first", Date: cs[0].Page.Date}}, {Claimed: true}}, nil
				},
			})
			c := client(t, k1, me, nil)
			p := c.Peer("a2", l.Addr())
			ctx := t.Context()
			hello := Hello{Agent: Agent{Name: "a1", Instance: me.Instance, Boot: me.Boot, Capacity: 2, Addr: "h.example:1", State: 1}, Settings: map[string]string{"partition": "ring"}}
			push := links("http://a.example/1", "http://b.example/2?q")
			push.Hops = 2
			ship := Records{Seq: 77, Count: 2, Data: []byte("records")}
			claim := Claim{View: 1<<63 + 5, Hosts: []string{"a.example", "xn--bcher-kva.example", "[2001:db8::1]"}}
			parts := []Part{
				{Host: "a.example", Kind: PartLinks, Count: 1, Data: links("http://a.example/x").Data},
				{Host: "a.example", Kind: PartKeys, Count: 2, Data: bytes.Repeat([]byte{5}, 17)},
				{Host: "a.example", Kind: PartState, Data: []byte("clock")},
				{Host: "a.example", Kind: PartGone},
			}
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
			if err := p.Ship(ctx, ship); err != nil {
				t.Error(err)
			}
			if vs, err := p.Claim(ctx, claim); err != nil || !slices.Equal(vs, []Verdict{Unknown, Coming, Again}) {
				t.Errorf("Claim = %v, %v", vs, err)
			}
			if n, err := p.Hand(ctx, sequence(parts...)); err != nil || n != 1 {
				t.Errorf("Hand = %v, %v", n, err)
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
			want := []any{hello, hello, push, ship, claim, parts[0], parts[1], parts[2], parts[3], []byte("may I?"), uint64(4), end, budget, contents}
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
				if n != want || counts.Errors[name] != 0 {
					t.Errorf("%s was counted %d times, %d errors", name, n, counts.Errors[name])
				}
			}
			for kind, n := range counts.Refused {
				if n != 0 {
					t.Errorf("%d refused as %s", n, kind)
				}
			}
			if ours := c.Counts(); ours.Sent == 0 || counts.Received == 0 || ours.Calls["Push"] != 1 {
				t.Errorf("client counts %+v", ours)
			}
		})
	}
}

// TestErrors: an error means on this side what it means on that.
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
			return err != nil && !errors.Is(err, ErrAgain) && !errors.Is(err, ErrRejected) && !errors.Is(err, ErrUnreachable) && strings.Contains(err.Error(), broken.Error())
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
		if _, err := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr()).Pulse(t.Context(), 1); !errors.Is(err, ErrAgain) {
			t.Errorf("Pulse: %v", err)
		}
	})
	t.Run("nobody", func(t *testing.T) {
		l, err := Listen("127.0.0.1:0", nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, err := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr()).Pulse(t.Context(), 1); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Pulse: %v", err)
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		inside := make(chan struct{})
		l, _ := serve(t, nil, Handlers{Push: func(ctx context.Context, _ Caller, _ Links) error {
			close(inside)
			<-ctx.Done()
			return ctx.Err()
		}})
		c := client(t, nil, caller("a1"), nil)
		go func() {
			<-inside
			c.Forget("a2")
		}()
		if err := c.Peer("a2", l.Addr()).Push(t.Context(), links("http://a.example/")); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Push: %v", err)
		}
	})
}

// TestStrangers: without a key of the cluster nothing gets through and nothing
// can be read, whatever is tried.
func TestStrangers(t *testing.T) {
	keys, others := bundles(t, "a1", "a2"), bundles(t, "a1", "a2")
	reached := func(context.Context, Caller, Links) error { t.Error("a stranger reached a handler"); return nil }
	l, s := serve(t, keys["a2"], Handlers{Push: reached})
	batch := links("http://a.example/")

	t.Run("another authority", func(t *testing.T) {
		if err := client(t, others["a1"], caller("a1"), nil).Peer("a2", l.Addr()).Push(t.Context(), batch); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Push: %v", err)
		}
		if conn, err := DialGossip(t.Context(), others["a1"], nil, l.Addr(), ""); err == nil {
			conn.Close()
			t.Error("a stream of gossip was opened")
		}
	})
	// Who does not care whose certificate it is gets as far as the first read.
	for name, cfg := range map[string]*tls.Config{
		"no certificate": {InsecureSkipVerify: true, NextProtos: []string{protoCalls}},
		"wrong certificate": {InsecureSkipVerify: true, NextProtos: []string{protoCalls},
			Certificates: []tls.Certificate{others["a1"].cert}},
		"old TLS": {InsecureSkipVerify: true, NextProtos: []string{protoCalls}, MaxVersion: tls.VersionTLS12,
			Certificates: []tls.Certificate{keys["a1"].cert}},
		"gossip without certificate": {InsecureSkipVerify: true, NextProtos: []string{protoGossip}},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := tls.Dial("tcp", l.Addr(), cfg)
			if err == nil { // TLS 1.3: the client learns of the refusal by its first read
				conn.SetDeadline(time.Now().Add(10 * time.Second))
				var b [64]byte
				var n int
				n, err = conn.Read(b[:])
				conn.Close()
				if n > 0 {
					t.Errorf("read %q", b[:n])
				}
			}
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got in: %v", err)
			}
		})
	}
	for name, text := range map[string]string{
		"plain HTTP":    "POST /orbweaver.exchange.v1.Exchange/Push HTTP/1.1\r\nHost: a\r\n\r\n",
		"plain HTTP/2":  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"plain gossip":  string([]byte{gossipMark, 1, 2, 3}),
		"other rubbish": "\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", l.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			conn.(*net.TCPConn).CloseWrite()
			answer, _ := io.ReadAll(conn)
			// Go tells a caller who speaks HTTP to use https; an alert is two octets.
			if len(answer) > 128 || bytes.Contains(answer, []byte("orbweaver")) {
				t.Errorf("read %q", answer)
			}
		})
	}
	t.Run("the answering side, too", func(t *testing.T) {
		fake, _ := serve(t, others["a2"], Handlers{Push: reached})
		if err := client(t, keys["a1"], caller("a1"), nil).Peer("a2", fake.Addr()).Push(t.Context(), batch); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Push: %v", err)
		}
	})
	t.Run("another agent's name", func(t *testing.T) {
		if err := client(t, keys["a1"], caller("a1"), nil).Peer("a3", l.Addr()).Push(t.Context(), batch); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), `agent "a2", not "a3"`) {
			t.Errorf("Push: %v", err)
		}
		if err := client(t, keys["a1"], caller("a3"), nil).Peer("a2", l.Addr()).Push(t.Context(), batch); !errors.Is(err, ErrRejected) {
			t.Errorf("Push under another's name: %v", err)
		}
	})
	t.Run("another crawl", func(t *testing.T) {
		me := caller("a1")
		me.Crawl = ID{4}
		r := (*Refusal)(nil)
		if err := client(t, keys["a1"], me, nil).Peer("a2", l.Addr()).Push(t.Context(), batch); !errors.As(err, &r) || r.Reason != "crawl" {
			t.Errorf("Push: %v", err)
		}
	})
	got := s.Counts().Refused
	if got["stranger"] < 9 || got["identity"] != 1 || got["other-crawl"] != 1 || got["malformed"] != 0 {
		t.Errorf("refused %v", got)
	}
}

// TestPlainStaysHere: without keys no other machine is spoken with.
func TestPlainStaysHere(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:7470"} {
		if l, err := Listen(addr, nil); !errors.Is(err, ErrPlain) {
			t.Errorf("Listen(%s): %v", addr, err)
			if err == nil {
				l.Close()
			}
		}
	}
	for _, addr := range []string{"", "localhost:1", "127.0.0.1", ":7470"} {
		if err := CheckListen(addr, nil); err == nil {
			t.Errorf("CheckListen(%q) is content", addr)
		}
	}
	far := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		there.Close()
		return farConn{here}, nil
	}
	if _, err := client(t, nil, caller("a1"), far).Peer("a2", "192.0.2.1:1").Pulse(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "orbweaver cluster keys") {
		t.Errorf("a plain call left the machine: %v", err)
	}
	if _, err := DialGossip(t.Context(), nil, far, "192.0.2.1:1", ""); !errors.Is(err, ErrPlain) {
		t.Errorf("plain gossip left the machine: %v", err)
	}
}

type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// post sends a body as a call, without our client's good manners.
func post(t *testing.T, l *Listener, call, contentType, encoding string, body []byte, header string) (int, string) {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+l.Addr()+"/"+pb.ExchangeName+"/"+call, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	req.Header.Set(callerHeader, header)
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHostileMessages: each is refused before a handler sees it, and counted as
// what it is.
func TestHostileMessages(t *testing.T) {
	good := encoded(t, linksToWire(links("http://a.example/")))
	bomb := func(n int) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(window))
		if err != nil {
			t.Fatal(err)
		}
		zero := make([]byte, 1<<20)
		for range n {
			w.Write(zero)
		}
		w.Close()
		return b.Bytes()
	}
	wide := func() []byte { // a window of 64 MiB
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20), zstd.WithSingleSegment(false))
		if err != nil {
			t.Fatal(err)
		}
		w.Write(make([]byte, 65<<20))
		w.Close()
		return b.Bytes()
	}
	frames := bytes.Repeat(bomb(1), 1000) // a gigabyte in a few kilobytes
	who := caller("a1").header()
	for _, c := range []struct {
		name, call, contentType, encoding, who string
		body                                   []byte
		status                                 int
		refused                                string
	}{
		{"nobody", "Push", "application/proto", "", "", good, 401, "identity"},
		{"half a caller", "Push", "application/proto", "", "a1 00 1", good, 401, "identity"},
		{"a name that is none", "Push", "application/proto", "", strings.Replace(who, "a1", "../a1", 1), good, 401, "identity"},
		{"no such call", "Fetch", "application/proto", "", who, good, 404, "malformed"},
		{"JSON", "Push", "application/json", "", who, []byte(`{}`), 404, "malformed"},
		{"gRPC", "Push", "application/grpc", "", who, good, 404, "malformed"},
		{"no protobuf", "Push", "application/proto", "", who, []byte("\xff\xff\xff"), 400, "malformed"},
		{"cut", "Push", "application/proto", "", who, good[:len(good)-1], 400, "malformed"},
		{"no links", "Push", "application/proto", "", who, nil, 400, "malformed"},
		{"fewer links than said", "Push", "application/proto", "", who, encoded(t, &pb.PushRequest{Count: 2, Links: links("http://a.example/").Data}), 400, "malformed"},
		{"a link that is none", "Push", "application/proto", "", who, encoded(t, &pb.PushRequest{Count: 1, Links: []byte("\x00\x07file://\x00\x00\x00")}), 400, "malformed"},
		{"too many hops", "Push", "application/proto", "", who, encoded(t, &pb.PushRequest{Count: 1, Hops: MaxHops + 1, Links: links("http://a.example/").Data}), 400, "malformed"},
		{"records without octets", "Ship", "application/proto", "", who, encoded(t, &pb.ShipRequest{Count: 5}), 400, "malformed"},
		{"no hosts", "Claim", "application/proto", "", who, nil, 400, "malformed"},
		{"hosts that are none", "Claim", "application/proto", "", who, encoded(t, &pb.ClaimRequest{Hosts: []string{"a.example/../"}}), 400, "malformed"},
		{"hosts in another spelling", "Claim", "application/proto", "", who, encoded(t, &pb.ClaimRequest{Hosts: []string{"A.example"}}), 400, "malformed"},
		{"too many hosts", "Claim", "application/proto", "", who, encoded(t, &pb.ClaimRequest{Hosts: slices.Repeat([]string{"a.example"}, MaxClaim+1)}), 400, "malformed"},
		{"hello of another", "Hello", "application/proto", "", who, encoded(t, helloToWire(Hello{Agent: Agent{Name: "a9", Capacity: 1, Addr: "a:1"}})), 400, "malformed"},
		{"no capacity", "Hello", "application/proto", "", who, encoded(t, helloToWire(Hello{Agent: Agent{Name: "a1", Instance: caller("a1").Instance, Boot: 3, Addr: "a:1"}})), 400, "malformed"},
		{"more pages than held", "Budget", "application/proto", "", who, encoded(t, &pb.BudgetRequest{Used: 2, Held: 1}), 400, "malformed"},
		{"pages of nobody", "Budget", "application/proto", "", who, encoded(t, &pb.BudgetRequest{Known: map[string]uint64{"": 1}}), 400, "malformed"},
		{"no contents", "Contents", "application/proto", "", who, nil, 400, "malformed"},
		{"half a digest", "Contents", "application/proto", "", who, encoded(t, &pb.ContentsRequest{Contents: []*pb.Content{{Digest: make([]byte, 10), Page: &pb.ContentPage{Url: "http://a.example/"}}}}), 400, "malformed"},
		{"a content of no page", "Contents", "application/proto", "", who, encoded(t, &pb.ContentsRequest{Contents: []*pb.Content{{Digest: make([]byte, 20)}}}), 400, "malformed"},
		{"a page that is none", "Contents", "application/proto", "", who, encoded(t, &pb.ContentsRequest{Contents: []*pb.Content{{Digest: make([]byte, 20), Page: &pb.ContentPage{Url: "http://a.example/\r\nWARC-Type: x"}}}}), 400, "malformed"},
		{"a page out of time", "Contents", "application/proto", "", who, encoded(t, &pb.ContentsRequest{Contents: []*pb.Content{{Digest: make([]byte, 20), Page: &pb.ContentPage{Url: "http://a.example/", DateMs: 1 << 62}}}}), 400, "malformed"},
		{"too many contents", "Contents", "application/proto", "", who, encoded(t, &pb.ContentsRequest{Contents: slices.Repeat([]*pb.Content{{Digest: make([]byte, 20), Page: &pb.ContentPage{Url: "http://a.example/"}}}, MaxContents+1)}), 429, "too-large"},
		{"a long reason", "End", "application/proto", "", who, encoded(t, &pb.EndRequest{Reason: strings.Repeat("x", maxReason+1)}), 400, "malformed"},
		{"too large", "Lease", "application/proto", "", who, encoded(t, &pb.LeaseRequest{Batch: make([]byte, maxMessage)}), 429, "too-large"},
		{"too large a batch", "Lease", "application/proto", "", who, encoded(t, &pb.LeaseRequest{Batch: make([]byte, MaxData+1)}), 429, "too-large"},
		{"a bomb", "Lease", "application/proto", "zstd", who, bomb(64), 429, "too-large"},
		{"many bombs", "Lease", "application/proto", "zstd", who, frames, 429, "too-large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s := serve(t, nil, Handlers{
				Hello:  func(context.Context, Caller, Hello) (Welcome, error) { t.Error("reached"); return Welcome{}, nil },
				Push:   func(context.Context, Caller, Links) error { t.Error("reached"); return nil },
				Ship:   func(context.Context, Caller, Records) error { t.Error("reached"); return nil },
				Claim:  func(context.Context, Caller, Claim) ([]Verdict, error) { t.Error("reached"); return nil, nil },
				Lease:  func(context.Context, Caller, []byte) ([]byte, error) { t.Error("reached"); return nil, nil },
				End:    func(context.Context, Caller, End) (bool, error) { t.Error("reached"); return false, nil },
				Budget: func(context.Context, Caller, Budget) (Grant, error) { t.Error("reached"); return Grant{}, nil },
				Contents: func(context.Context, Caller, []Content) ([]ContentAnswer, error) {
					t.Error("reached")
					return nil, nil
				},
			})
			status, text := post(t, l, c.call, c.contentType, c.encoding, c.body, c.who)
			if status != c.status {
				t.Errorf("status %d, want %d: %s", status, c.status, text)
			}
			for kind, n := range s.Counts().Refused {
				want := uint64(0)
				if kind == c.refused {
					want = 1
				}
				if n != want {
					t.Errorf("%d refused as %s, want %d", n, kind, want)
				}
			}
		})
	}
	t.Run("other encodings", func(t *testing.T) {
		l, _ := serve(t, nil, Handlers{Push: func(context.Context, Caller, Links) error { t.Error("reached"); return nil }})
		if status, text := post(t, l, "Push", "application/proto", "gzip", good, who); status == 200 {
			t.Errorf("gzip is taken: %s", text)
		}
		if status, text := post(t, l, "Push", "application/proto", "zstd", good, who); status == 200 {
			t.Errorf("what is not compressed is taken: %s", text)
		}
		if status, text := post(t, l, "Lease", "application/proto", "zstd", wide(), who); status == 200 {
			t.Errorf("a window of 64 MiB is taken: %s", text)
		}
	})
	t.Run("a part that is none, in a stream", func(t *testing.T) {
		l, s := serve(t, nil, Handlers{Hand: func(_ context.Context, _ Caller, parts iter.Seq2[Part, error]) (n int, err error) {
			for _, err := range parts {
				if err != nil {
					return n, err
				}
				n++
			}
			return n, nil
		}})
		for i, bad := range []Part{
			{Host: "a.example", Kind: PartKeys, Count: 2, Data: make([]byte, 16)},
			{Host: "a.example", Kind: PartLinks, Count: 1, Data: links("http://b.example/").Data},
			{Host: "", Kind: PartGone},
			{Host: "a.example", Kind: 9},
			{Host: "a.example", Kind: PartGone, Data: []byte("x")},
		} {
			good := Part{Host: "a.example", Kind: PartState}
			if _, err := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr()).Hand(t.Context(), sequence(good, bad, good)); !errors.Is(err, ErrRejected) {
				t.Errorf("part %d: %v", i, err)
			}
			if n := s.Counts().Refused["malformed"]; n != uint64(i+1) {
				t.Errorf("part %d: %d refused", i, n)
			}
		}
	})
}

// TestHandBreaksOff: what its sender did not send to its end is never taken for
// whole by the receiver.
func TestHandBreaksOff(t *testing.T) {
	saw := make(chan error, 1)
	l, _ := serve(t, nil, Handlers{Hand: func(_ context.Context, _ Caller, parts iter.Seq2[Part, error]) (int, error) {
		for _, err := range parts {
			if err != nil {
				saw <- err
				return 0, err
			}
		}
		saw <- nil
		return 1, nil
	}})
	mine := errors.New("my disk is gone")
	_, err := client(t, nil, caller("a1"), nil).Peer("a2", l.Addr()).Hand(t.Context(), func(yield func(Part, error) bool) {
		if yield(Part{Host: "a.example", Kind: PartState, Data: []byte("x")}, nil) {
			yield(Part{}, mine)
		}
	})
	if !errors.Is(err, mine) {
		t.Errorf("Hand: %v", err)
	}
	if err := <-saw; err == nil {
		t.Error("the receiver saw an end")
	}
}

// TestBusy: more than so many bulk calls are told to come back, and quick ones
// still get through.
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

// TestCompressed: links cost a fraction of their octets on the wire.
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

// cutConn breaks after so many octets, in either direction.
type cutConn struct {
	net.Conn
	mu   sync.Mutex
	left int
}

func (c *cutConn) spend(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left -= n; c.left < 0 {
		c.Conn.Close()
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if cut := c.spend(n); cut != nil {
		return 0, cut
	}
	return n, err
}

func (c *cutConn) Write(b []byte) (int, error) {
	if err := c.spend(len(b)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// TestAtLeastOnce: over connections that break at any octet, everything that is
// repeated until it is acknowledged arrives, and nothing else does.
func TestAtLeastOnce(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	keys := bundles(t, "a1", "a2")
	var mu sync.Mutex
	arrived := map[string]int{}
	l, s := serve(t, keys["a2"], Handlers{Push: func(_ context.Context, _ Caller, l Links) error {
		mu.Lock()
		defer mu.Unlock()
		for rest := l.Data; len(rest) > 0; {
			link, n, err := weburl.DecodeLink(rest)
			if err != nil {
				return err
			}
			arrived[link.URL.String()]++
			rest = rest[n:]
		}
		return nil
	}})
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		return &cutConn{Conn: conn, left: 2500 + rng.IntN(6000)}, nil
	}
	p := client(t, keys["a1"], caller("a1"), dial).Peer("a2", l.Addr())
	want := map[string]bool{}
	failures := 0
	for i := range 60 {
		var urls []string
		for j := range 1 + i%7 {
			u := fmt.Sprintf("http://h%d.example/%d/%d", i%5, i, j)
			urls = append(urls, u)
			want[u] = true
		}
		for {
			err := p.Push(t.Context(), links(urls...))
			if err == nil {
				break
			}
			if !errors.Is(err, ErrUnreachable) {
				t.Fatalf("Push: %v", err)
			}
			failures++
			if failures%5 == 0 { // a test has no patience
				p.bulk.leave1()
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for u := range want {
		if arrived[u] == 0 {
			t.Errorf("%s did not arrive", u)
		}
	}
	for u := range arrived {
		if !want[u] {
			t.Errorf("%s was not sent", u)
		}
	}
	if failures == 0 {
		t.Error("nothing broke")
	}
	t.Logf("%d failures; refused: %v", failures, maps.Collect(maps.All(s.Counts().Refused)))
}

// leave1 forgets the failures of a lane.
func (l *lane) leave1() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures, l.until = 0, time.Time{}
}

// TestGossipShares the port: streams and packets of gossip beside calls.
func TestGossip(t *testing.T) {
	keys := bundles(t, "a1", "a2")
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("secure=%v", secure), func(t *testing.T) {
			k1, k2 := keys["a1"], keys["a2"]
			if !secure {
				k1, k2 = nil, nil
			}
			l, _ := serve(t, k2, Handlers{Pulse: func(context.Context, Caller, uint64) (Pulse, error) { return Pulse{}, nil }})
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
	ours := map[string]string{"partition": "ring", "replicas": "2"}
	for _, c := range []struct {
		theirs map[string]string
		want   string
	}{
		{map[string]string{"partition": "ring", "replicas": "2"}, ""},
		{map[string]string{"partition": "hash", "replicas": "2"}, `agent "a1" has partition "hash", the cluster has "ring"`},
		{map[string]string{"partition": "ring"}, `agent "a1" has replicas "", the cluster has "2"`},
		{map[string]string{"partition": "ring", "replicas": "2", "new": "x"}, `agent "a1" has new "x", the cluster does not know it`},
	} {
		err := Hello{Agent: Agent{Name: "a1"}, Settings: c.theirs}.Differ(ours)
		if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.HasPrefix(got, c.want) {
			t.Errorf("%v: %v, want %q", c.theirs, err, c.want)
		}
	}
}

var _ connect.HTTPClient = (*Peer)(nil)
