package testweb

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A client that knows only the address of the Web reaches its hosts through it as a proxy, and finds the faults of
// their names.
func TestProxy(t *testing.T) {
	page := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(rw, "%s %s", req.Host, req.URL.Path)
	})
	w := serving(t, Config{Promise: Promise{HostDelay: time.Hour}, Sites: []Site{
		{Host: "a.example", Handler: page}, {Host: "dead.example", Handler: page, DNS: NoDomain},
		{Host: "late.example", Handler: page, DNS: NoAnswer}, {Host: "bad.example", Handler: page, TLS: Expired},
	}})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.CAPEM())
	tr := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: w.HTTPAddr()}),
		TLSClientConfig: &tls.Config{RootCAs: pool},
	}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr}
	for _, tt := range []struct{ url, want string }{
		{"http://a.example/x", "200 a.example /x"},
		{"https://a.example/y", "200 a.example /y"},
		{"http://dead.example/", "502 no address of dead.example"},
		{"http://late.example/", "504 no address of late.example"},
		{"http://none.example/x?y", "502 no address of none.example"},
		{"http://a.example:8080/", "502 a.example:8080: the test web does not have this port"},
		{"https://dead.example/", "Bad Gateway"},
		{"https://late.example/", "Gateway Timeout"},
		{"https://none.example/", "Bad Gateway"},
		{"https://a.example:8443/", "Bad Gateway"},
		{"https://bad.example/", "certificate has expired"},
	} {
		got := ""
		if res, err := c.Get(tt.url); err != nil {
			got = err.Error()
		} else {
			res.Body.Close()
			_, text := get(t, c, tt.url)
			got = fmt.Sprint(res.StatusCode, " ", text)
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.url, got, tt.want)
		}
	}
	get(t, c, "http://a.example/x")
	c.Transport = http.DefaultTransport
	if res, _ := get(t, c, "http://"+w.HTTPAddr()+"/"); res.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("not through the proxy: got %d, want 421", res.StatusCode)
	}
	until(t, "no request is open", func() bool { return w.Count().Active == 0 })
	r := w.Report()
	for _, h := range []string{"a.example", "dead.example"} {
		if got := r.Hosts[h].Requests; got < 2 {
			t.Errorf("%s: got %d requests, want 2 or more", h, got)
		}
	}
	a, _ := w.Lookup("a.example")
	if got := r.Addrs[a.String()].Requests; got != 2 { // the requests over HTTPS, but not those in plain HTTP
		t.Errorf("got %d requests at %s, want 2", got, a)
	}
	if _, ok := w.Fetched()["https://a.example/y"]; !ok {
		t.Errorf("got %v, want https://a.example/y in it", w.Fetched())
	}
	// What reaches no server is in the log as it was asked, and no promise applies to it.
	var log []string
	for _, e := range w.Log() {
		log = append(log, fmt.Sprint(e.Method, " ", e.URL, " ", e.Status))
	}
	for _, want := range []string{
		"GET http://none.example/x?y 502", "GET http://a.example:8080/ 502", "GET http://late.example/ 504",
		"GET http://" + w.HTTPAddr() + "/ 421", "CONNECT none.example:443 502",
		"CONNECT late.example:443 504", "CONNECT a.example:8443 502",
	} {
		if !slices.Contains(log, want) {
			t.Errorf("got the log %q, want %s in it", log, want)
		}
	}
	if _, ok := w.Fetched()["http://none.example/x?y"]; !ok || r.Hosts[unknownHost].Requests != 4 {
		t.Errorf("got %v and %+v, want the unknown URLs", w.Fetched(), r.Hosts[unknownHost])
	}
	for _, v := range r.Violations {
		if v.Host != "a.example" {
			t.Errorf("got the violation %+v, want only some of a.example", v)
		}
	}
}

// What a client does through a tunnel is judged by the client's own connection. A client that closes it before it opens
// the next one is not blamed, and one that does not is.
func TestTunnelIsTheClientsConnection(t *testing.T) {
	page := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "page") })
	sites := []Site{{Host: "h1.made.example", Handler: page}}
	for name, cfg := range map[string]Config{
		"sites": {Sites: sites}, "origin": {Origin: &fakeOrigin{hosts: 10, pages: 10, size: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			w := serving(t, cfg)
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(w.CAPEM())
			// ask opens a tunnel and fetches a page. The first bytes follow CONNECT at once, without its response.
			ask := func(port string) net.Conn {
				tcp, err := net.Dial("tcp", w.HTTPAddr())
				must.Do(t, err)
				var conn net.Conn = &eager{Conn: tcp, head: "CONNECT h1.made.example:" + port +
					" HTTP/1.1\r\nHost: h1.made.example:" + port + "\r\n\r\n"}
				if port == "443" {
					conn = tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: "h1.made.example"})
				}
				fmt.Fprint(conn, "GET /1 HTTP/1.1\r\nHost: h1.made.example\r\n\r\n")
				res, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil || res.StatusCode != http.StatusOK {
					t.Fatalf("port %s: got %+v, %v, want 200", port, res, err)
				}
				return conn
			}
			const n = 200
			for i := range n {
				ask([]string{"80", "443"}[i%2]).Close()
			}
			report := func() *Report {
				until(t, "no request is open", func() bool { return w.Count().Active == 0 })
				return w.Report()
			}
			r := report()
			addr, _ := w.Lookup("h1.made.example")
			h, a := r.Hosts["h1.made.example"].MaxConnections, r.Addrs[addr.String()]
			if len(r.Violations) > 0 || h != 1 || a.Connections != n || a.MaxConnections != 1 {
				t.Errorf("one connection at a time: got %v, %d of the host, %+v of the address", r.Violations, h, a)
			}
			defer ask("80").Close()
			defer ask("443").Close()
			if r := report(); len(r.Violations) != 1 || r.Violations[0].Kind != connections.String() {
				t.Errorf("two connections at once: got %v, want a violation", r.Violations)
			}
		})
	}
}

// An eager connection sends the head of a CONNECT request before the first bytes, and drops the response to it.
type eager struct {
	net.Conn
	head     string
	answered bool
}

func (c *eager) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(append([]byte(c.head), p...))
	n -= len(c.head)
	c.head = ""
	return n, err
}

func (c *eager) Read(p []byte) (int, error) {
	if !c.answered {
		c.answered = true
		head := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
		if _, err := io.ReadFull(c.Conn, head); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}

// A Web whose sockets are in another network namespace opens no tunnel into its own.
func TestProxyOfGivenSockets(t *testing.T) {
	open := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.Do(t, err)
		return l
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.Do(t, err)
	w := serving(t, Config{Sites: []Site{{Host: "a.example"}},
		Sockets: &Sockets{HTTP: open(), HTTPS: open(), DNSTCP: open(), DNSUDP: udp}})
	conn, err := net.Dial("tcp", w.HTTPAddr())
	must.Do(t, err)
	defer conn.Close()
	fmt.Fprint(conn, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n")
	line := make([]byte, 13)
	if _, err := conn.Read(line); err != nil || string(line) != "HTTP/1.1 405 " {
		t.Errorf("got %q, %v, want 405", line, err)
	}
}
