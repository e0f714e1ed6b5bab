package rpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
)

// TestStrangers: without a key of the cluster, no call reaches a handler and nothing can be read.
func TestStrangers(t *testing.T) {
	keys, others := bundles(t, "a1", "a2"), bundles(t, "a1", "a2")
	reached := func(context.Context, Caller, Links) error { t.Error("a stranger reached a handler"); return nil }
	l, s := serve(t, keys["a2"], Handlers{Push: reached})
	batch := links("http://a.example/")

	t.Run("another authority", func(t *testing.T) {
		if err := client(t, others["a1"], caller("a1"), nil).Peer("a2", l.Addr()).
			Push(t.Context(), batch); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Push: %v", err)
		}
		if conn, err := DialGossip(t.Context(), others["a1"], nil, l.Addr(), ""); err == nil {
			conn.Close()
			t.Error("a stream of gossip was opened")
		}
	})
	// A client that does not check the server's certificate fails at its first read.
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
			if err == nil { // with TLS 1.3 the client learns of the refusal at its first read
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
			// Go tells a caller that speaks HTTP to use https. An alert is two octets.
			if len(answer) > 128 || bytes.Contains(answer, []byte("orbweaver")) {
				t.Errorf("read %q", answer)
			}
		})
	}
	t.Run("the answering side, too", func(t *testing.T) {
		fake, _ := serve(t, others["a2"], Handlers{Push: reached})
		if err := client(t, keys["a1"], caller("a1"), nil).Peer("a2", fake.Addr()).
			Push(t.Context(), batch); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Push: %v", err)
		}
	})
	t.Run("another agent's name", func(t *testing.T) {
		if err := client(t, keys["a1"], caller("a1"), nil).Peer("a3", l.Addr()).
			Push(t.Context(), batch); !errors.Is(err, ErrUnreachable) ||
			!strings.Contains(err.Error(), `agent "a2", not "a3"`) {
			t.Errorf("Push: %v", err)
		}
		if err := client(t, keys["a1"], caller("a3"), nil).Peer("a2", l.Addr()).
			Push(t.Context(), batch); !errors.Is(err, ErrRejected) {
			t.Errorf("Push under another's name: %v", err)
		}
	})
	t.Run("another crawl", func(t *testing.T) {
		me := caller("a1")
		me.Crawl = ID{4}
		r := (*Refusal)(nil)
		if err := client(t, keys["a1"], me, nil).Peer("a2", l.Addr()).
			Push(t.Context(), batch); !errors.As(err, &r) || r.Reason != "crawl" {
			t.Errorf("Push: %v", err)
		}
	})
	got := s.Counts().Refused
	if got["stranger"] < 9 || got["identity"] != 1 || got["other-crawl"] != 1 || got["malformed"] != 0 {
		t.Errorf("refused %v", got)
	}
}

// TestPlainStaysHere: without keys the agent talks only to this machine.
func TestPlainStaysHere(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:7470"} {
		if l, err := Listen(System, addr, nil); !errors.Is(err, ErrPlain) {
			t.Errorf("Listen(%s): %v", addr, err)
			if err == nil {
				l.Close()
			}
		}
	}
	for _, addr := range []string{"", "localhost:1", "127.0.0.1", ":7470"} {
		if err := CheckListen(addr, nil); err == nil {
			t.Errorf("CheckListen(%q) returned no error", addr)
		}
	}
	far := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		there.Close()
		return farConn{here}, nil
	}
	if _, err := client(t, nil, caller("a1"), far).Peer("a2", "192.0.2.1:1").
		Pulse(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "orbweaver cluster keys") {
		t.Errorf("a plain call left the machine: %v", err)
	}
	if _, err := DialGossip(t.Context(), nil, far, "192.0.2.1:1", ""); !errors.Is(err, ErrPlain) {
		t.Errorf("plain gossip left the machine: %v", err)
	}
}

type farConn struct{ net.Conn }

func (farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

// post sends a body as a call, without the checks of our client.
func post(t *testing.T, l *Listener, call, contentType, encoding string, body []byte, header string) (int, string) {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	service := pb.ExchangeName
	if l.role == coordinatorRole {
		service = pb.CoordinationName
	}
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+l.Addr()+"/"+service+"/"+call,
		bytes.NewReader(body))
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

// TestHostileMessages: each message is refused before a handler gets it, and is counted by its
// reason.
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
	wide := func() []byte { // with a window of 64 MiB
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
		{"a name that is none", "Push", "application/proto", "", strings.Replace(who, "a1", "../a1", 1),
			good, 401, "identity"},
		{"no such call", "Fetch", "application/proto", "", who, good, 404, "malformed"},
		{"JSON", "Push", "application/json", "", who, []byte(`{}`), 404, "malformed"},
		{"gRPC", "Push", "application/grpc", "", who, good, 404, "malformed"},
		{"no protobuf", "Push", "application/proto", "", who, []byte("\xff\xff\xff"), 400, "malformed"},
		{"cut", "Push", "application/proto", "", who, good[:len(good)-1], 400, "malformed"},
		{"no links", "Push", "application/proto", "", who, nil, 400, "malformed"},
		{"fewer links than said", "Push", "application/proto", "", who,
			encoded(t, &pb.PushRequest{Count: 2, Links: links("http://a.example/").Data}), 400, "malformed"},
		{"a link that is none", "Push", "application/proto", "", who,
			encoded(t, &pb.PushRequest{Count: 1, Links: []byte("\x00\x07file://\x00\x00\x00")}), 400, "malformed"},
		{"too many hops", "Push", "application/proto", "", who,
			encoded(t, &pb.PushRequest{Count: 1, Hops: MaxHops + 1, Links: links("http://a.example/").Data}), 400,
			"malformed"},
		{"records without octets", "Ship", "application/proto", "", who,
			encoded(t, &pb.ShipRequest{Count: 5}), 400, "malformed"},
		{"no hosts", "Claim", "application/proto", "", who, nil, 400, "malformed"},
		{"hosts that are none", "Claim", "application/proto", "", who,
			encoded(t, &pb.ClaimRequest{Hosts: []string{"a.example/../"}}), 400, "malformed"},
		{"hosts in another spelling", "Claim", "application/proto", "", who,
			encoded(t, &pb.ClaimRequest{Hosts: []string{"A.example"}}), 400, "malformed"},
		{"too many hosts", "Claim", "application/proto", "", who,
			encoded(t, &pb.ClaimRequest{Hosts: slices.Repeat([]string{"a.example"}, MaxClaim+1)}), 400, "malformed"},
		{"hello of another", "Hello", "application/proto", "", who,
			encoded(t, helloToWire(Hello{Agent: Agent{Name: "a9", Capacity: 1, Addr: "a:1"}})), 400, "malformed"},
		{"no capacity", "Hello", "application/proto", "", who,
			encoded(t, helloToWire(Hello{Agent: Agent{Name: "a1", Instance: caller("a1").Instance, Boot: 3,
				Addr: "a:1"}})), 400, "malformed"},
		{"more pages than held", "Budget", "application/proto", "", who,
			encoded(t, &pb.BudgetRequest{Used: 2, Held: 1}), 400, "malformed"},
		{"pages of nobody", "Budget", "application/proto", "", who,
			encoded(t, &pb.BudgetRequest{Known: map[string]uint64{"": 1}}), 400, "malformed"},
		{"more than the whole rate", "Share", "application/proto", "", who,
			encoded(t, &pb.ShareRequest{Held: 1.5}), 400, "malformed"},
		{"a share that is no number", "Share", "application/proto", "", who,
			encoded(t, &pb.ShareRequest{Want: math.NaN()}), 400, "malformed"},
		{"a share for a day", "Share", "application/proto", "", who,
			encoded(t, &pb.ShareRequest{LeftMs: 86400_000}), 400, "malformed"},
		{"no contents", "Contents", "application/proto", "", who, nil, 400, "malformed"},
		{"half a digest", "Contents", "application/proto", "", who,
			encoded(t, &pb.ContentsRequest{Contents: []*pb.Content{{Digest: make([]byte, 10),
				Page: &pb.ContentPage{Url: "http://a.example/"}}}}), 400, "malformed"},
		{"a content of no page", "Contents", "application/proto", "", who,
			encoded(t, &pb.ContentsRequest{Contents: []*pb.Content{{Digest: make([]byte, 20)}}}), 400, "malformed"},
		{"a page that is none", "Contents", "application/proto", "", who,
			encoded(t, &pb.ContentsRequest{Contents: []*pb.Content{{Digest: make([]byte, 20),
				Page: &pb.ContentPage{Url: "http://a.example/\r\nWARC-Type: x"}}}}), 400, "malformed"},
		{"a page out of time", "Contents", "application/proto", "", who,
			encoded(t, &pb.ContentsRequest{Contents: []*pb.Content{{Digest: make([]byte, 20),
				Page: &pb.ContentPage{Url: "http://a.example/", DateMs: 1 << 62}}}}), 400, "malformed"},
		{"too many contents", "Contents", "application/proto", "", who,
			encoded(t, &pb.ContentsRequest{Contents: slices.Repeat([]*pb.Content{{Digest: make([]byte, 20),
				Page: &pb.ContentPage{Url: "http://a.example/"}}}, MaxContents+1)}), 429, "too-large"},
		{"a copy of nothing", "Copy", "application/proto", "", who, nil, 400, "malformed"},
		{"a part past the end of a file", "Copy", "application/proto", "", who,
			encoded(t, &pb.CopyRequest{Kind: uint32(CopyPart), Offset: 1, Data: []byte("x"),
				File: &pb.CopyFile{Name: "a.warc.gz", Size: 1, Digest: make([]byte, 32)}}), 400, "malformed"},
		{"too many pages to look up", "Copy", "application/proto", "", who,
			encoded(t, &pb.CopyRequest{Kind: uint32(CopyPages), Agent: "a1", Instance: make([]byte, 16),
				Pages: make([]byte, 16*(MaxPages+1))}), 429, "too-large"},
		{"no links to recall", "Recall", "application/proto", "", who, nil, 400, "malformed"},
		{"too many links to recall", "Recall", "application/proto", "", who,
			encoded(t, &pb.RecallRequest{Count: MaxRecall + 1,
				Links: bytes.Repeat(links("http://a.example/").Data, MaxRecall+1)}), 400, "malformed"},
		{"fewer links to recall than said", "Recall", "application/proto", "", who,
			encoded(t, &pb.RecallRequest{Count: 2, Links: links("http://a.example/").Data}), 400, "malformed"},
		{"half a digest of orders", "Orders", "application/proto", "", who,
			encoded(t, &pb.OrdersRequest{Digest: make([]byte, 16)}), 400, "malformed"},
		{"an empty order", "Orders", "application/proto", "", who,
			encoded(t, ordersToWire(Orders{Orders: [][]byte{{1}, {}}})), 400, "malformed"},
		{"a large order", "Orders", "application/proto", "", who,
			encoded(t, ordersToWire(Orders{Orders: [][]byte{make([]byte, MaxOrder+1)}})), 429, "too-large"},
		{"too many orders", "Orders", "application/proto", "", who,
			encoded(t, ordersToWire(Orders{Orders: slices.Repeat([][]byte{{1}}, MaxOrders+1)})), 429, "too-large"},
		{"too large orders", "Orders", "application/proto", "", who,
			encoded(t, ordersToWire(Orders{
				Orders: slices.Repeat([][]byte{make([]byte, MaxOrder)}, MaxData/MaxOrder+1)})), 429, "too-large"},
		{"no method", "Operate", "application/proto", "", who, nil, 400, "malformed"},
		{"a method that is none", "Operate", "application/proto", "", who,
			encoded(t, &pb.OperateRequest{Method: "Pause/"}), 400, "malformed"},
		{"a long method", "Operate", "application/proto", "", who,
			encoded(t, &pb.OperateRequest{Method: strings.Repeat("P", MaxMethod+1)}), 400, "malformed"},
		{"too large a request", "Operate", "application/proto", "", who,
			encoded(t, &pb.OperateRequest{Method: "Pause", Request: make([]byte, MaxData+1)}), 429, "too-large"},
		{"a long reason", "End", "application/proto", "", who,
			encoded(t, &pb.EndRequest{Reason: strings.Repeat("x", maxReason+1)}), 400, "malformed"},
		{"too large", "Lease", "application/proto", "", who,
			encoded(t, &pb.LeaseRequest{Batch: make([]byte, maxMessage)}), 429, "too-large"},
		{"too large a batch", "Lease", "application/proto", "", who,
			encoded(t, &pb.LeaseRequest{Batch: make([]byte, MaxData+1)}), 429, "too-large"},
		{"a bomb", "Lease", "application/proto", "zstd", who, bomb(64), 429, "too-large"},
		{"many bombs", "Lease", "application/proto", "zstd", who, frames, 429, "too-large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, s := serve(t, nil, Handlers{
				Hello: func(context.Context, Caller, Hello) (Welcome, error) {
					t.Error("reached")
					return Welcome{}, nil
				},
				Push:  func(context.Context, Caller, Links) error { t.Error("reached"); return nil },
				Ship:  func(context.Context, Caller, Records) error { t.Error("reached"); return nil },
				Claim: func(context.Context, Caller, Claim) ([]Verdict, error) { t.Error("reached"); return nil, nil },
				Lease: func(context.Context, Caller, []byte) ([]byte, error) { t.Error("reached"); return nil, nil },
				End:   func(context.Context, Caller, End) (bool, error) { t.Error("reached"); return false, nil },
				Budget: func(context.Context, Caller, Budget) (Grant, error) {
					t.Error("reached")
					return Grant{}, nil
				},
				Share: func(context.Context, Caller, ShareAsk) (ShareGrant, error) {
					t.Error("reached")
					return ShareGrant{}, nil
				},
				Recall: func(context.Context, Caller, Recall) ([]RecallAnswer, error) {
					t.Error("reached")
					return nil, nil
				},
				Contents: func(context.Context, Caller, []Content) ([]ContentAnswer, error) {
					t.Error("reached")
					return nil, nil
				},
				Orders: func(context.Context, Caller, Orders) (OrdersAnswer, error) {
					t.Error("reached")
					return OrdersAnswer{}, nil
				},
				Operate: func(context.Context, Caller, Operation) (OperationAnswer, error) {
					t.Error("reached")
					return OperationAnswer{}, nil
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
		l, _ := serve(t, nil, Handlers{Push: func(context.Context, Caller, Links) error {
			t.Error("reached")
			return nil
		}})
		if status, text := post(t, l, "Push", "application/proto", "gzip", good, who); status == 200 {
			t.Errorf("gzip was accepted: %s", text)
		}
		if status, text := post(t, l, "Push", "application/proto", "zstd", good, who); status == 200 {
			t.Errorf("an uncompressed body was accepted: %s", text)
		}
		if status, text := post(t, l, "Lease", "application/proto", "zstd", wide(), who); status == 200 {
			t.Errorf("a window of 64 MiB was accepted: %s", text)
		}
	})
}
