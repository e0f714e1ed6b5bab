package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Hosts in the form that the URL parser gives them. A proxy must not be asked for those with ok
// false.
var proxyHosts = []struct {
	host string
	ok   bool
}{
	{"localhost", false}, {"LOCALHOST", false}, {"localhost.", false}, {"a.localhost", false},
	{"intranet", false}, {"intranet.", false}, {"printer.local", false}, {"printer.local.", false},
	{"metadata.google.internal", false}, {"router.home.arpa", false},
	{"127.0.0.1", false}, {"127.0.0.1.", false}, {"127.1", false}, {"2130706433", false}, {"0x7f000001", false},
	{"0177.0.0.1", false}, {"0x7f.1", false}, {"0", false}, {"169.254.169.254", false}, {"10.1", false},
	{"%31%32%37.1", false}, {"127。0。0。1", false}, {"ｌｏｃａｌｈｏｓｔ", false},
	{"[::1]", false}, {"[::]", false}, {"[::ffff:127.0.0.1]", false}, {"[::ffff:93.184.216.34]", false},
	{"[::127.0.0.1]", false}, {"[fd00::1]", false}, {"[fe80::1]", false}, {"[64:ff9b::7f00:1]", false},
	{"a.example", true}, {"A.Example.", true}, {"internal.example", true}, {"local.example", true},
	{"xlocal.example", true},
	{"mylocalhost.example", true}, {"93.184.216.34", true}, {"[2606:2800:220:1::1]", true}, {"b.xn--p1ai", true},
}

// proxyServer is an HTTP and SOCKS proxy. It sends each request to asked and connects to nothing.
func proxyServer(t *testing.T, asked chan<- string) string {
	return loopback(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		first, err := br.Peek(1)
		if err != nil {
			return
		}
		if first[0] == 5 { // SOCKS
			var host string
			asked <- "a SOCKS request"
			socksServer("127.0.0.1:1", &host)(&begun{c, br})
			return
		}
		req, err := readRequest(br)
		if err != nil {
			return
		}
		asked <- req
		io.WriteString(c, okReply)
	})
}

type begun struct {
	net.Conn
	br *bufio.Reader
}

func (p *begun) Read(b []byte) (int, error) { return p.br.Read(b) }

func TestProxyNames(t *testing.T) {
	asked := make(chan string, 1000)
	want := 0 // requests that the proxy should have received
	addr := proxyServer(t, asked)
	for _, scheme := range []string{"http://", "socks5h://me:pw@"} {
		cfg := shortTimes
		cfg.Proxy, cfg.IdleKeep = mustParseProxy(t, scheme+addr), -1
		guarded := mustNew(t, cfg)
		cfg.AllowPrivate = true
		free := mustNew(t, cfg)
		cfg.ConnectTo, cfg.AllowPrivate = []string{"b.example::localhost:"}, false
		named := mustNew(t, cfg)
		for _, c := range proxyHosts {
			for _, url := range []string{"http://" + c.host + "/", "https://" + c.host + "/"} {
				u := mustURL(t, url)
				r := mustFetch(t, guarded, Request{URL: u})
				check(t, r)
				if c.ok {
					want++
				}
				if refused := outcome(r) == "refused-address"; refused == c.ok {
					t.Errorf("%s by %s: got %s %v, want a refusal: %v", url, scheme, outcome(r), r.Failure, !c.ok)
				}
			}
			r := mustFetch(t, free, Request{URL: mustURL(t, "http://"+c.host+"/")})
			if outcome(r) == "refused-address" {
				t.Errorf("%s by %s with AllowPrivate: got %v, want no refusal", c.host, scheme, r.Failure)
			}
			want++
		}
		// A host that the operator names is permitted.
		if r := mustFetch(t, named, Request{URL: mustURL(t, "http://b.example/")}); outcome(r) == "refused-address" {
			t.Errorf("--connect-to localhost by %s: got %v, want no refusal", scheme, r.Failure)
		}
		want++
	}
	if len(asked) != want {
		t.Errorf("the proxy received %d requests, want %d", len(asked), want)
	}
	r := mustFetch(t, mustNew(t, Config{Proxy: mustParseProxy(t, "http://"+addr)}),
		Request{URL: mustURL(t, "http://intranet/")})
	if !errors.Is(r.Failure, ErrPrivateName) || !strings.Contains(r.Failure.Error(), "intranet") {
		t.Errorf("got %v, want ErrPrivateName with the name", r.Failure)
	}
}

// With socks5 the fetcher looks up names, by default with the system's resolver. That resolver
// returns IPv4 addresses in their IPv6-mapped form.
func TestSOCKSLooksUp(t *testing.T) {
	server := loopback(t, each(okReply))
	var asked string
	addr := loopback(t, socksServer(server, &asked))
	cfg := shortTimes
	cfg.Proxy = mustParseProxy(t, "socks5://me:pw@"+addr)
	cfg.AllowPrivate = true
	r := mustFetch(t, mustNew(t, cfg), Request{URL: mustURL(t, "http://localhost/")})
	if outcome(r) != "complete" || asked != "127.0.0.1:80" && asked != "[::1]:80" && asked != "::1:80" {
		t.Errorf("localhost: got %s %v, the proxy was asked for %q", outcome(r), r.Failure, asked)
	}
	addrs, err := systemLookup(context.Background(), "127.0.0.1")
	if err != nil || len(addrs) != 1 || addrs[0] != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("the system's resolver: got %v %v, want 127.0.0.1, not its mapped form", addrs, err)
	}
	cfg.AllowPrivate = false
	guarded := mustNew(t, cfg)
	if r := mustFetch(t, guarded, Request{URL: mustURL(t, "http://93.184.216.34/")}); outcome(r) != "complete" ||
		asked != "93.184.216.34:80" {
		t.Errorf("a public address: got %s %v, the proxy was asked for %q", outcome(r), r.Failure, asked)
	}
	// A kept connection through a proxy is probed like any other.
	if r := mustFetch(t, guarded, Request{URL: mustURL(t, "http://93.184.216.34/2")}); !r.Reused {
		t.Error("the connection was not kept")
	}
	guarded.idle.mu.Lock()
	c := guarded.idle.byHost["93.184.216.34"]
	guarded.idle.mu.Unlock()
	if c == nil || c.sock == nil {
		t.Error("a connection through SOCKS has no socket to probe")
	}
}

// With LoopbackOnly no other address is dialled, whether or not the operator names it.
func TestLoopbackOnly(t *testing.T) {
	local := netip.MustParseAddr("127.0.0.1")
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "here.example":
			return []netip.Addr{local}, nil
		case "mixed.example":
			return []netip.Addr{somewhere, local}, nil
		}
		return []netip.Addr{somewhere}, nil
	}
	cfg := Config{LoopbackOnly: true, AllowPrivate: true, Lookup: lookup, ConnectTo: []string{
		"to-public.example::93.184.216.34:", "to-name.example::away.example:", "to-private.example::10.0.0.1:",
		"to-here.example::127.0.0.1:8080", "to-port.example:::8080",
	}}
	f, n := piped(t, cfg, each(okReply))
	for _, c := range []struct {
		url  string
		addr netip.Addr
		dial string // empty: refused
	}{
		{"http://127.0.0.1/", netip.Addr{}, "127.0.0.1:80"},
		{"http://[::1]/", netip.Addr{}, "[::1]:80"},
		{"http://[::ffff:127.0.0.1]/", netip.Addr{}, "127.0.0.1:80"},
		{"http://here.example/", netip.Addr{}, "127.0.0.1:80"},
		{"http://mixed.example/", netip.Addr{}, "127.0.0.1:80"},
		{"http://away.example/", netip.Addr{}, ""},
		{"http://here.example/", somewhere, ""},
		{"http://93.184.216.34/", netip.Addr{}, ""},
		{"http://[2606:2800:220:1::1]/", netip.Addr{}, ""},
		{"http://[::ffff:93.184.216.34]/", netip.Addr{}, ""},
		{"http://10.0.0.1/", netip.Addr{}, ""},
		{"http://0/", netip.Addr{}, ""},
		{"http://to-public.example/", netip.Addr{}, ""},
		{"http://to-name.example/", netip.Addr{}, ""},
		{"http://to-private.example/", netip.Addr{}, ""},
		{"http://to-port.example/", netip.Addr{}, ""},
		{"http://to-here.example/", somewhere, "127.0.0.1:8080"},
	} {
		n.dials = nil
		r := mustFetch(t, f, Request{URL: mustURL(t, c.url), Addr: c.addr})
		check(t, r)
		got := strings.Join(n.dials, " ")
		if got != c.dial || (outcome(r) == "complete") != (c.dial != "") {
			t.Errorf("%s at %v: got %s %v, dialled %q, want %q", c.url, c.addr, outcome(r), r.Failure, got, c.dial)
		}
		if c.dial == "" && (outcome(r) != "refused-address" || !errors.Is(r.Failure, ErrNotLoopback)) {
			t.Errorf("%s: got %v, want ErrNotLoopback", c.url, r.Failure)
		}
		forget(f, r.URL.Host())
	}
	// The check just before the socket connects works without the earlier check, also for an
	// address that the operator named.
	for _, named := range []bool{false, true} {
		control := f.dialer.checkLast(named)
		if err := control("tcp4", "93.184.216.34:80", nil); !errors.Is(err, ErrNotLoopback) {
			t.Errorf("last check, named %v: got %v, want ErrNotLoopback", named, err)
		}
		if err := control("tcp4", "127.0.0.1:80", nil); err != nil {
			t.Errorf("last check of loopback, named %v: got %v, want nil", named, err)
		}
		at := netip.AddrPortFrom(somewhere, 9)
		if _, err := f.dialer.dialDirect(context.Background(), at, named, time.Now()); !errors.Is(err, ErrNotLoopback) {
			t.Errorf("dialDirect, named %v: got %v, want ErrNotLoopback", named, err)
		}
	}
	// Loopback also needs AllowPrivate.
	g, _ := piped(t, Config{LoopbackOnly: true}, each(okReply))
	if r := mustFetch(t, g, Request{URL: mustURL(t, "http://127.0.0.1/")}); outcome(r) != "refused-address" {
		t.Errorf("loopback without AllowPrivate: got %s, want refused-address", outcome(r))
	}
	for _, proxy := range []string{"http://127.0.0.1:1", "socks5://127.0.0.1:1", "socks5h://127.0.0.1:1"} {
		if _, err := New(Config{LoopbackOnly: true, Proxy: mustParseProxy(t, proxy)}); err == nil {
			t.Errorf("New with LoopbackOnly and the proxy %s: got no error", proxy)
		}
	}
}
