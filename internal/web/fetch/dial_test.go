package fetch

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// addressTable has every kind of address that must not be dialled, and some that may be.
var addressTable = []struct {
	addr string
	ok   bool
	what string
}{
	{"0.0.0.0", false, "unspecified"}, {"0.1.2.3", false, "this network"},
	{"10.0.0.1", false, "private"}, {"172.16.0.1", false, "private"}, {"172.31.255.255", false, "private"},
	{"192.168.1.1", false, "private"}, {"127.0.0.1", false, "loopback"}, {"127.8.9.10", false, "loopback"},
	{"169.254.169.254", false, "link-local, cloud metadata"}, {"100.64.0.1", false, "CGNAT"},
	{"100.127.255.255", false, "CGNAT"},
	{"192.0.0.8", false, "IETF"}, {"192.0.2.1", false, "documentation"}, {"198.18.0.1", false, "benchmarks"},
	{"198.51.100.1", false, "documentation"}, {"203.0.113.1", false, "documentation"},
	{"224.0.0.1", false, "multicast"}, {"239.255.255.255", false, "multicast"}, {"240.0.0.1", false, "reserved"},
	{"255.255.255.255", false, "broadcast"},
	{"::", false, "unspecified"}, {"::1", false, "loopback"}, {"fe80::1", false, "link-local"},
	{"fe80::1%eth0", false, "link-local with a zone"},
	{"fec0::1", false, "site-local"}, {"fc00::1", false, "unique local"}, {"fd12::1", false, "unique local"},
	{"ff02::1", false, "multicast"},
	{"::ffff:127.0.0.1", false, "mapped"}, {"::ffff:10.0.0.1", false, "mapped"},
	{"::ffff:93.184.216.34", false, "mapped, though public"},
	{"::127.0.0.1", false, "IPv4-compatible"}, {"64:ff9b::7f00:1", false, "NAT64 of loopback"},
	{"64:ff9b::a00:1", false, "NAT64 of private"},
	{"64:ff9b:1::7f00:1", false, "local NAT64"}, {"2002:7f00:1::", false, "6to4 of loopback"},
	{"2002:a00:1::1", false, "6to4 of private"},
	{"2002:c0a8:101::1", false, "6to4 of private"}, {"2001:0:7f00:1::", false, "Teredo"},
	{"2001:db8::1", false, "documentation"},
	{"100::1", false, "discard"}, {"3fff::1", false, "documentation"},
	{"93.184.216.34", true, "public"}, {"172.32.0.1", true, "public"}, {"100.128.0.1", true, "public"},
	{"11.0.0.1", true, "public"},
	{"2606:2800:220:1::1", true, "public"}, {"2a00:1450:4001::1", true, "public"},
}

func TestRefusedAddresses(t *testing.T) {
	for _, c := range addressTable {
		ip := netip.MustParseAddr(c.addr)
		// The address comes from the caller, from the resolver, or from the URL's host.
		reqs := []Request{{URL: mustURL(t, "http://a.example/"), Addr: ip},
			{URL: mustURL(t, "http://looked-up.example/")}}
		host := c.addr
		if ip.Is6() {
			host = "[" + c.addr + "]"
		}
		if ip.Zone() == "" {
			reqs = append(reqs, Request{URL: mustURL(t, "http://"+host+"/")})
		}
		lookup := func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{ip}, nil }
		f, n := piped(t, Config{Lookup: lookup}, each(okReply))
		for _, req := range reqs {
			n.dials = nil
			r := mustFetch(t, f, req)
			check(t, r)
			if c.ok && outcome(r) != "complete" || !c.ok && (outcome(r) != "refused-address" || len(n.dials) > 0) {
				t.Errorf("%s (%s) at %s: got %s, dialled %v", c.addr, c.what, req.URL, outcome(r), n.dials)
			}
			kind, _, _ := strings.Cut(c.what, ",")
			if !slices.Contains([]string{"loopback", "private", "link-local", "multicast"}, kind) {
				kind = ""
			}
			if want := ip.String() + " is a " + kind; !c.ok && !strings.Contains(r.Failure.Error(), want) {
				t.Errorf("got %q, want %q in it", r.Failure, want)
			}
			forget(f, req.URL.Host())
		}
		// The check just before the socket connects works without the earlier check.
		g := mustNew(t, Config{})
		if !c.ok {
			_, err := g.dialer.dialDirect(context.Background(), netip.AddrPortFrom(ip, 9), false,
				time.Now().Add(time.Second))
			if _, ok := errors.AsType[*NotPublicError](err); !ok && ip.Zone() == "" || err == nil {
				t.Errorf("%s (%s) was dialled: %v", c.addr, c.what, err)
			}
		}
		// With AllowPrivate, all are dialled.
		h, n := piped(t, Config{Lookup: lookup, AllowPrivate: true}, each(okReply))
		if r := mustFetch(t, h, reqs[0]); outcome(r) != "complete" || len(n.dials) != 1 {
			t.Errorf("%s (%s) with AllowPrivate: got %s, want complete", c.addr, c.what, outcome(r))
		}
	}
}

func TestDialFailures(t *testing.T) {
	dead := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := dead.Addr().String()
	dead.Close()
	noName := errors.New("no such name")
	lookup := func(ctx context.Context, host string) ([]netip.Addr, error) {
		switch host {
		case "none.example":
			return nil, noName
		case "empty.example":
			return nil, nil
		case "mixed.example":
			return []netip.Addr{netip.MustParseAddr("10.0.0.1"), somewhere}, nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	cfg := shortTimes
	cfg.Lookup, cfg.ConnectTimeout = lookup, 20*time.Millisecond
	f := mustNew(t, cfg)
	for _, c := range []struct {
		url, want string
		code      int
		retry     bool
	}{
		{"http://none.example/", "dns", -1, true},
		{"http://empty.example/", "dns", -1, true},
		{"http://hanging.example/", "dns", -1, true},
	} {
		r := mustFetch(t, f, Request{URL: mustURL(t, c.url)})
		check(t, r)
		if outcome(r) != c.want || r.Failure.CrawlLogCode() != c.code || r.Failure.Retryable() != c.retry {
			t.Errorf("%s: got %v, code %d, retryable %v",
				c.url, r.Failure, r.Failure.CrawlLogCode(), r.Failure.Retryable())
		}
	}
	g := mustNew(t, Config{AllowPrivate: true})
	if r := mustFetch(t, g, Request{URL: mustURL(t, "http://"+addr+"/")}); outcome(r) != "connect" ||
		!r.Failure.Retryable() || r.Failure.CrawlLogCode() != -2 {
		t.Errorf("closed port: got %s %v, want a retryable connect", outcome(r), r.Failure)
	}
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	cfg.Dial = hang
	h := mustNew(t, cfg)
	if r := mustFetch(t, h, Request{URL: mustURL(t, "http://a.example/"),
		Addr: somewhere}); outcome(r) != "timeout-connect" {
		t.Errorf("hanging dial: got %s %v, want timeout-connect", outcome(r), r.Failure)
	}
	// A private address beside a public one is skipped, and so is a dead one.
	p, n := piped(t, Config{Lookup: lookup}, each(okReply))
	if r := mustFetch(t, p, Request{URL: mustURL(t, "http://mixed.example/")}); outcome(r) != "complete" ||
		r.Addr.String() != "93.184.216.34:80" {
		t.Errorf("mixed addresses: got %s at %v, want complete at the public address", outcome(r), r.Addr)
	}
	if diff := cmp.Diff([]string{"93.184.216.34:80"}, n.dials); diff != "" {
		t.Error(diff)
	}
}

func TestParseConnectTo(t *testing.T) {
	for _, c := range []struct {
		in   string
		want rule
		err  string
	}{
		{"a.example:80:127.0.0.1:8080", rule{"a.example", "80", "127.0.0.1", "8080"}, ""},
		{"A.Example:80:b.example:", rule{"a.example", "80", "b.example", ""}, ""},
		{"::127.0.0.1:8080", rule{"", "", "127.0.0.1", "8080"}, ""},
		{":443::8443", rule{"", "443", "", "8443"}, ""},
		{":::", rule{}, ""},
		{"[::1]:80:[2001:db8::2]:81", rule{"[::1]", "80", "2001:db8::2", "81"}, ""},
		{"", rule{}, "fewer than four parts"},
		{"a:80:b", rule{}, "fewer than four parts"},
		{"a:80:b:1:2", rule{}, "more than four parts"},
		{"a:80:::1:81", rule{}, "more than four parts"},
		{"a:80:[::1:81", rule{}, "missing ] after ["},
		{"a:80:[::1]81", rule{}, "missing : after ]"},
		{"a:80:[b]:81", rule{}, "not an IPv6 address"},
		{"a:http:b:81", rule{}, "not a number"},
		{"a:80:b:65536", rule{}, "not a number"},
		{"a:0:b:1", rule{}, "not a number"},
	} {
		got, err := parseConnectTo(c.in)
		switch {
		case c.err == "" && (err != nil || got != c.want):
			t.Errorf("parseConnectTo(%q) = %+v, %v; want %+v", c.in, got, err, c.want)
		case c.err != "" && (!errors.Is(err, ErrConnectTo) || !strings.Contains(err.Error(), c.err)):
			t.Errorf("parseConnectTo(%q): got %v, want %q in it", c.in, err, c.err)
		}
	}
	if _, err := New(Config{ConnectTo: []string{"x"}}); !errors.Is(err, ErrConnectTo) {
		t.Errorf("New with a bad rule: got %v, want ErrConnectTo", err)
	}
}

func TestConnectTo(t *testing.T) {
	rules := []string{
		"a.example:80:127.0.0.1:8080", "a.example::10.0.0.1:", "b.example:::81", ":8000:to.example:",
		"[2606::1]:80:[::1]:82",
	}
	var looked []string
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		looked = append(looked, host)
		if host == "to.example" {
			return []netip.Addr{netip.MustParseAddr("192.168.0.9")}, nil
		}
		return []netip.Addr{somewhere}, nil
	}
	var host string
	f, n := piped(t, Config{ConnectTo: rules, Lookup: lookup}, func(c net.Conn) {
		br := bufio.NewReader(c)
		req, err := readRequest(br)
		if err != nil {
			return
		}
		_, host, _ = strings.Cut(req, "Host: ")
		host, _, _ = strings.Cut(host, "\r\n")
		io.WriteString(c, okReply)
	})
	other := netip.MustParseAddr("93.184.216.99")
	for _, c := range []struct {
		url, dial, host string
		addr            netip.Addr
	}{
		{"http://a.example/", "127.0.0.1:8080", "a.example", other},
		{"http://a.example:81/", "10.0.0.1:81", "a.example:81", other},
		{"http://b.example/", "93.184.216.99:81", "b.example", other},
		{"http://b.example/", "93.184.216.34:81", "b.example", netip.Addr{}},
		{"http://c.example:8000/", "192.168.0.9:8000", "c.example:8000", other},
		// The caller's address may be that of the rule for the other port.
		{"http://c.example/", "93.184.216.34:80", "c.example", other},
		{"http://[2606::1]/", "[::1]:82", "[2606::1]", netip.Addr{}},
	} {
		n.dials = nil
		r := mustFetch(t, f, Request{URL: mustURL(t, c.url), Addr: c.addr})
		if outcome(r) != "complete" || len(n.dials) != 1 || n.dials[0] != c.dial || host != c.host ||
			r.Addr.String() != c.dial {
			t.Errorf("%s: got %s %v, dialled %v, Host %q; want %s, %q",
				c.url, outcome(r), r.Failure, n.dials, host, c.dial, c.host)
		}
		forget(f, r.URL.Host())
	}
	if diff := cmp.Diff([]string{"b.example", "to.example", "c.example"}, looked); diff != "" {
		t.Errorf("looked up (-want +got):\n%s", diff)
	}
	// A rule without an address gives no permission for a private address.
	r := mustFetch(t, f, Request{URL: mustURL(t, "http://b.example/"), Addr: netip.MustParseAddr("127.0.0.1")})
	if outcome(r) != "refused-address" {
		t.Errorf("private address with a rule for the port: got %s, want refused-address", outcome(r))
	}
}

// forget makes the next request to host dial.
func forget(f *Fetcher, host string) {
	if c := f.idle.take(host); c != nil {
		c.Close()
	}
}

func mustParseProxy(t *testing.T, s string) *url.URL {
	t.Helper()
	u := must.Get(url.Parse(s))(t)
	return u
}

func TestHTTPProxy(t *testing.T) {
	var got string
	reply := okReply
	addr := loopback(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			req, err := readRequest(br)
			if err != nil {
				return
			}
			got = req
			io.WriteString(c, reply)
		}
	})
	f := mustNew(t, Config{Proxy: mustParseProxy(t, "http://me:s%40cret@"+addr)})
	r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example:81/p?q"), Addr: somewhere})
	if outcome(r) != "complete" ||
		!strings.HasPrefix(got, "GET http://a.example:81/p?q HTTP/1.1\r\nHost: a.example:81\r\n") ||
		!strings.Contains(got, "\r\nProxy-Authorization: Basic bWU6c0BjcmV0\r\n") {
		t.Errorf("got %s, the proxy received %q", outcome(r), got)
	}
	if keep := strings.Replace(got, "Proxy-Authorization: Basic bWU6c0BjcmV0\r\n", "", 1); string(r.Request) != keep {
		t.Errorf("kept the request %q, want %q", r.Request, keep)
	}
	if r.Addr.IsValid() {
		t.Errorf("got Addr %v, want none, because the proxy looked it up", r.Addr)
	}
	if r = mustFetch(t, f, Request{URL: mustURL(t, "http://a.example:81/r")}); !r.Reused {
		t.Error("the connection to the proxy was not kept")
	}
	for _, private := range []string{"http://127.0.0.1/", "http://[::1]/", "http://169.254.169.254/"} {
		if r := mustFetch(t, f, Request{URL: mustURL(t, private)}); outcome(r) != "refused-address" {
			t.Errorf("%s by proxy: got %s, want refused-address", private, outcome(r))
		}
	}
	reply = "HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n"
	if r := mustFetch(t, f, Request{URL: mustURL(t, "http://b.example/")}); outcome(r) != "proxy" {
		t.Errorf("407 of the proxy: got %s, want proxy", outcome(r))
	}
	for _, c := range []struct{ proxy, why string }{
		{"ftp://x", "scheme must be http"}, {"https://x", "scheme must be http"},
		{"http://", "has no host"}, {"x", "scheme must be http"},
	} {
		if _, err := New(Config{Proxy: mustParseProxy(t, c.proxy)}); err == nil ||
			!strings.Contains(err.Error(), c.why) {
			t.Errorf("New with proxy %q: got %v", c.proxy, err)
		}
	}
}

func TestConnectProxy(t *testing.T) {
	ca := newAuthority(t)
	server := loopback(t, serveTLS(ca.config("a.example"), each(okReply)))
	var asked, refusal string
	addr := loopback(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		req, err := readRequest(br)
		if err != nil {
			return
		}
		asked = req
		if refusal != "" {
			io.WriteString(c, refusal)
			return
		}
		up, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer up.Close()
		io.WriteString(c, "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
		done := make(chan bool)
		go func() { io.Copy(up, br); up.Close(); close(done) }()
		io.Copy(c, up)
		c.Close()
		<-done
	})
	cfg := shortTimes
	cfg.Proxy, cfg.CA = mustParseProxy(t, "http://me:pw@"+addr), ca.pool
	f := mustNew(t, cfg)
	r := mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/p")})
	want := "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nUser-Agent: Orbweaver\r\nProxy-Authorization: " +
		"Basic bWU6cHc=\r\n\r\n"
	if outcome(r) != "complete" || asked != want {
		t.Fatalf("got %s %v, the proxy received %q", outcome(r), r.Failure, asked)
	}
	if !strings.HasPrefix(string(r.Request), "GET /p HTTP/1.1\r\n") || strings.Contains(string(r.Request), "Proxy") {
		t.Errorf("got request %q", r.Request)
	}
	if r = mustFetch(t, f, Request{URL: mustURL(t, "https://a.example/q")}); !r.Reused {
		t.Error("the tunnel was not kept")
	}
	for _, refusal = range []string{"HTTP/1.1 403 No\r\n\r\n", "garbage\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nmore",
		"HTTP/1.1", strings.Repeat("x", 100<<10)} {
		if r := mustFetch(t, f, Request{URL: mustURL(t, "https://b.example/")}); outcome(r) != "proxy" ||
			!r.Failure.Retryable() {
			t.Errorf("reply %.30q of the proxy: got %s %v, want a retryable proxy", refusal, outcome(r), r.Failure)
		}
	}
}

// socksServer implements enough of SOCKS5 (RFC 1928, 1929) to connect every request to up.
func socksServer(up string, asked *string) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		b := make([]byte, 600)
		take := func(n int) []byte { io.ReadFull(br, b[:n]); return b[:n] }
		methods := take(int(take(2)[1]))
		if strings.IndexByte(string(methods), 2) < 0 {
			c.Write([]byte{5, 0xff})
			return
		}
		c.Write([]byte{5, 2})
		user := string(take(int(take(2)[1])))
		pass := string(take(int(take(1)[0])))
		if user != "me" || pass != "pw" {
			c.Write([]byte{1, 1})
			return
		}
		c.Write([]byte{1, 0})
		var host string
		switch take(4)[3] {
		case 1:
			host = netip.AddrFrom4([4]byte(take(4))).String()
		case 3:
			host = string(take(int(take(1)[0])))
		case 4:
			host = netip.AddrFrom16([16]byte(take(16))).String()
		}
		*asked = fmt.Sprintf("%s:%d", host, binary.BigEndian.Uint16(take(2)))
		conn, err := net.Dial("tcp", up)
		if err != nil {
			c.Write([]byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0})
			return
		}
		defer conn.Close()
		c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		done := make(chan bool)
		go func() { io.Copy(conn, br); conn.Close(); close(done) }()
		io.Copy(c, conn)
		c.Close()
		<-done
	}
}

func TestSOCKSProxy(t *testing.T) {
	server := loopback(t, each(okReply))
	var asked string
	addr := loopback(t, socksServer(server, &asked))
	lookup := func(_ context.Context, host string) ([]netip.Addr, error) {
		if host == "private.example" {
			return []netip.Addr{netip.MustParseAddr("10.1.2.3")}, nil
		}
		return []netip.Addr{somewhere}, nil
	}
	for _, c := range []struct{ proxy, url, asked, want string }{
		{"socks5://me:pw@", "http://a.example/", "93.184.216.34:80", "complete"},
		{"socks5h://me:pw@", "http://a.example/", "a.example:80", "complete"},
		{"socks5://me:pw@", "http://private.example/", "", "refused-address"},
		{"socks5h://me:pw@", "http://10.1.2.3/", "", "refused-address"},
		{"socks5://me:wrong@", "http://a.example/", "", "proxy"},
		{"socks5://", "http://a.example/", "", "proxy"},
	} {
		asked = ""
		cfg := shortTimes
		cfg.Proxy, cfg.Lookup = mustParseProxy(t, c.proxy+addr), lookup
		r := mustFetch(t, mustNew(t, cfg), Request{URL: mustURL(t, c.url)})
		check(t, r)
		if outcome(r) != c.want || asked != c.asked {
			t.Errorf("%s by %s: got %s %v, the proxy was asked for %q; want %s, %q",
				c.url, c.proxy, outcome(r), r.Failure, asked, c.want, c.asked)
		}
	}
}
