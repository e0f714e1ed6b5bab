package rpc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// refuses checks that a connection opens a session that brings nothing.
func refuses(t *testing.T, what, addr string, cfg *tls.Config) {
	t.Helper()
	cfg.InsecureSkipVerify = true
	conn, err := tls.Dial("tcp", addr, cfg)
	if err == nil { // with TLS 1.3 the client learns of the refusal at its first read
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		var n int
		if n, err = conn.Read(make([]byte, 64)); n > 0 {
			t.Errorf("%s: read %d octets", what, n)
		}
		conn.Close()
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s got in: %v", what, err)
	}
}

// TestStrangers: without a key of the cluster, no call reaches a handler and nothing can be read.
func TestStrangers(t *testing.T) {
	keys, others := bundles(t, "a1", "a2"), bundles(t, "a1", "a2")
	reached := func(string, rpc.Caller, any) (any, error) {
		t.Error("a stranger reached a handler")
		return nil, nil
	}
	l, s := agent(t, rpc.System, "127.0.0.1:0", keys["a2"], reached)
	push := func(k *rpc.Keys, as rpc.Caller, to, addr string) error {
		return ask(t.Context(), client(t, k, as, nil).Peer(to, addr), rpc.CallPush)
	}
	if err := push(others["a1"], caller("a1"), "a2", l.Addr()); !errors.Is(err, rpc.ErrUnreachable) {
		t.Errorf("Push with the keys of another authority: %v", err)
	}
	if conn, err := rpc.DialGossip(t.Context(), others["a1"], nil, l.Addr(), ""); err == nil {
		conn.Close()
		t.Error("a stream of gossip was opened with the keys of another authority")
	}
	calls, mine := []string{"h2"}, []tls.Certificate{*keys["a1"].Certificate()}
	for what, cfg := range map[string]*tls.Config{
		"no certificate":             {NextProtos: calls},
		"wrong certificate":          {NextProtos: calls, Certificates: []tls.Certificate{*others["a1"].Certificate()}},
		"old TLS":                    {NextProtos: calls, Certificates: mine, MaxVersion: tls.VersionTLS12},
		"gossip without certificate": {NextProtos: []string{"orb-gossip1"}},
	} {
		refuses(t, what, l.Addr(), cfg)
	}
	for what, text := range map[string]string{
		"plain HTTP":    "POST /orbweaver.exchange.v1.Exchange/Push HTTP/1.1\r\nHost: a\r\n\r\n",
		"plain HTTP/2":  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"plain gossip":  "\xf6\x01\x02\x03",
		"other rubbish": "\x00\x00\x00",
	} {
		conn := must.Get(net.Dial("tcp", l.Addr()))(t)
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		must.Get(io.WriteString(conn, text))(t)
		conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		conn.Close()
		// Go tells a caller that speaks HTTP to use https. An alert is two octets.
		if len(answer) > 128 || bytes.Contains(answer, []byte("orbweaver")) {
			t.Errorf("%s: read %q", what, answer)
		}
	}
	fake, _ := agent(t, rpc.System, "127.0.0.1:0", others["a2"], reached)
	if err := push(keys["a1"], caller("a1"), "a2", fake.Addr()); !errors.Is(err, rpc.ErrUnreachable) {
		t.Errorf("Push to an agent of another authority: %v", err)
	}
	if err := push(keys["a1"], caller("a1"), "a3", l.Addr()); !errors.Is(err, rpc.ErrUnreachable) ||
		!strings.Contains(err.Error(), `agent "a2", not "a3"`) {
		t.Errorf("Push to another agent: %v", err)
	}
	if err := push(keys["a1"], caller("a3"), "a2", l.Addr()); !errors.Is(err, rpc.ErrRejected) {
		t.Errorf("Push under another's name: %v", err)
	}
	if got := s.Counts().Refused; got["stranger"] < 9 || got["identity"] != 1 || got["malformed"] != 0 {
		t.Errorf("refused %v", got)
	}
}

// TestPlainStaysHere: without keys the agent talks only to this machine.
func TestPlainStaysHere(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", "192.0.2.1:7470"} {
		if l, err := rpc.Listen(rpc.System, addr, nil); !errors.Is(err, rpc.ErrPlain) {
			t.Errorf("Listen(%s): %v", addr, err)
			if err == nil {
				l.Close()
			}
		}
	}
	for _, addr := range []string{"", "localhost:1", "127.0.0.1", ":7470"} {
		if err := rpc.CheckListen(addr, nil); err == nil {
			t.Errorf("CheckListen(%q) returned no error", addr)
		}
	}
	if err := ask(t.Context(), client(t, nil, caller("a1"), far).Peer("a2", "192.0.2.1:1"),
		rpc.CallPulse); err == nil || !strings.Contains(err.Error(), "orbweaver cluster keys") {
		t.Errorf("a plain call left the machine: %v", err)
	}
}

// compressed returns n MiB of zeros, compressed with a window.
func compressed(t *testing.T, n, window int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := must.Get(zstd.NewWriter(&b, zstd.WithWindowSize(window), zstd.WithSingleSegment(false)))(t)
	for range n {
		w.Write(make([]byte, 1<<20))
	}
	w.Close()
	return b.Bytes()
}

// TestHostileMessages: each message is refused before a handler gets it, and is counted by its reason.
func TestHostileMessages(t *testing.T) {
	const malformed, large = "malformed", "too-large"
	push := encoded(t, &pb.PushRequest{Count: 1, Links: []byte("a link")})
	me := who(caller("a1"))
	cases := []struct {
		name, call string
		body       proto.Message
		refused    string
	}{
		{"a large message", "Push", &pb.PushRequest{Links: make([]byte, rpc.MaxData+64<<10)}, large},
		{"too large", "Discover", &pb.DiscoverRequest{Hosts: []string{strings.Repeat("a", 2<<20)}}, large},
	}
	reached := func(call string, _ rpc.Caller, ask any) (any, error) {
		t.Errorf("%s is reached with %v", call, ask)
		return nil, nil
	}
	al, as := agent(t, rpc.System, "127.0.0.1:0", nil, reached)
	cl, cs := coordinator(t, rpc.System, "127.0.0.1:0", nil, reached)
	tr := plain(t)
	refused := func(name, reason string, status int, r raw) {
		t.Helper()
		l, s := al, as
		if toCoordinator(r.call) {
			l, s = cl, cs
		}
		before := s.Counts().Refused
		got, text, err := post(t, tr, l, r)
		if got != status || err != nil {
			t.Errorf("%s, %s: status %d, want %d: %s, %v", r.call, name, got, status, text, err)
		}
		for is, n := range s.Counts().Refused {
			if n -= before[is]; (n == 1) != (is == reason) || n > 1 {
				t.Errorf("%s, %s: %d refused as %s", r.call, name, n, is)
			}
		}
	}
	for _, c := range cases {
		status := 400
		if c.refused == large {
			status = 429
		}
		refused(c.name, c.refused, status, raw{call: c.call, who: me, body: encoded(t, c.body)})
	}
	refused("nobody", "identity", 401, raw{call: "Push", body: push})
	refused("nobody", "identity", 401, raw{call: "Discover"})
	refused("half a caller", "identity", 401, raw{call: "Push", who: "a1 00 1", body: push})
	refused("no name", "identity", 401, raw{call: "Push", who: strings.Replace(me, "a1", "../a1", 1), body: push})
	refused("no such call", malformed, 404, raw{call: "Fetch", who: me, body: push})
	refused("JSON", malformed, 404, raw{call: "Push", who: me, kind: "application/json", body: push})
	refused("gRPC", malformed, 404, raw{call: "Push", who: me, kind: "application/grpc", body: push})
	refused("no protobuf", malformed, 400, raw{call: "Push", who: me, body: []byte("\xff\xff\xff")})
	refused("cut", malformed, 400, raw{call: "Push", who: me, body: push[:len(push)-1]})
	refused("a bomb", large, 429, raw{call: "Push", who: me, encoding: "zstd", body: compressed(t, 64, 1<<20)})
	refused("many bombs", large, 429, raw{call: "Push", who: me, encoding: "zstd", // a gigabyte in a few kilobytes
		body: bytes.Repeat(compressed(t, 1, 1<<20), 1000)})
	for what, r := range map[string]raw{
		"gzip":                 {call: "Push", encoding: "gzip", body: push},
		"an uncompressed body": {call: "Push", encoding: "zstd", body: push},
		"a window of 64 MiB":   {call: "Push", encoding: "zstd", body: compressed(t, 65, 64<<20)},
	} {
		r.who = me
		if status, text, err := post(t, tr, al, r); status == http.StatusOK || err != nil {
			t.Errorf("%s was accepted: %s, %v", what, text, err)
		}
	}
}
