package rpc_test

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestLasting: agents that cannot connect are told why, and that the error lasts. The error for an
// absent agent does not last.
func TestLasting(t *testing.T) {
	ours, theirs := bundles(t, "a1", "a2"), bundles(t, "a2")
	keyed, _ := agent(t, rpc.System, "127.0.0.1:0", ours["a1"], nil)
	bare, _ := agent(t, rpc.System, "127.0.0.1:0", nil, nil)
	for _, c := range []struct {
		what string
		keys *rpc.Keys
		addr string
		want error
		last bool
	}{
		{"another authority's keys", theirs["a2"], keyed.Addr(), rpc.ErrStranger, true},
		{"none, of an agent with keys", nil, keyed.Addr(), rpc.ErrKeysThere, true},
		{"keys, of an agent without", ours["a2"], bare.Addr(), rpc.ErrKeysHere, true},
		{"no answer", nil, says(t, ""), rpc.ErrHungUp, false},
		{"no answer, with keys", ours["a2"], says(t, ""), rpc.ErrHungUp, false},
		{"no agent there", nil, "127.0.0.1:1", rpc.ErrUnreachable, false},
		{"not ready", ours["a2"], keyed.Addr(), rpc.ErrAgain, false},
	} {
		err := hello(t, client(t, c.keys, caller("a2"), nil), c.addr)
		if !errors.Is(err, c.want) || (rpc.Lasting(err) != nil) != c.last {
			t.Errorf("%s: lasting %v: %v", c.what, rpc.Lasting(err), err)
		}
	}
}

// says sends a text on every connection. If the text is empty, it closes the connection instead.
func says(t *testing.T, text string) (addr string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			if io.WriteString(conn, text); text == "" {
				conn.Close()
			}
		}
	}()
	return l.Addr().String()
}

// TestForeign: an agent that calls another program hears what answers.
func TestForeign(t *testing.T) {
	keys := bundles(t, "a2")["a2"]
	web := func(secure, two bool, handler http.HandlerFunc) string {
		s := httptest.NewUnstartedServer(handler)
		s.Config.ErrorLog, s.EnableHTTP2 = log.New(io.Discard, "", 0), two
		if secure {
			s.StartTLS()
		} else {
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetHTTP1(!two)
			s.Config.Protocols.SetUnencryptedHTTP2(two)
			s.Start()
		}
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	grpc := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/grpc") }
	for _, c := range []struct {
		what, addr  string
		bare, keyed string // what answers, without and with keys; empty: unknown
	}{
		{"web", web(false, false, http.NotFound), "a web server", "a web server"},
		{"web by HTTP/2", web(false, true, http.NotFound), "an HTTP/2 server", ""},
		{"gRPC", web(false, true, grpc), "an HTTP/2 server", ""},
		{"web by TLS", web(true, false, http.NotFound), "", "a TLS server"},
		{"web by TLS and HTTP/2", web(true, true, http.NotFound), "", "a TLS server"},
		{"SSH", says(t, "SSH-2.0-X\r\n"), "an SSH server", "an SSH server"},
		{"mail", says(t, "220 a\x1b\r\n"), `a program that says "220 a\x1b"`, `a program that says "220 a\x1b"`},
		{"alert", says(t, "\x15\x03\x03\x00\x02\x02\x46"), "a TLS server", "a TLS server"},
	} {
		for _, k := range []*rpc.Keys{nil, keys} {
			want := c.bare
			if k != nil {
				want = c.keyed
			}
			err := hello(t, client(t, k, caller("a2"), nil), c.addr)
			got := ""
			if foreign, ok := rpc.Lasting(err).(*rpc.ForeignError); ok {
				got = foreign.Program
			}
			if err == nil || got != want {
				t.Errorf("%s, keys %v: got %q, want %q: %v", c.what, k != nil, got, want, err)
			}
		}
	}
}
