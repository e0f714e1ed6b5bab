package testweb

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A client that knows only the address of the Web reaches its hosts through it as a proxy, and finds the faults of
// their names.
func TestProxy(t *testing.T) {
	page := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		fmt.Fprintf(rw, "%s %s", req.Host, req.URL.Path)
	})
	w := serving(t, Config{Sites: []Site{
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
		{"http://none.example/", "421 This is a test web. It has no host"},
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
}

// A Web whose sockets are in another network namespace opens no tunnel into its own.
func TestProxyOfGivenSockets(t *testing.T) {
	open := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := serving(t, Config{Sites: []Site{{Host: "a.example"}},
		Sockets: &Sockets{HTTP: open(), HTTPS: open(), DNSTCP: open(), DNSUDP: udp}})
	conn, err := net.Dial("tcp", w.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n")
	line := make([]byte, 13)
	if _, err := conn.Read(line); err != nil || string(line) != "HTTP/1.1 405 " {
		t.Errorf("got %q, %v, want 405", line, err)
	}
}
