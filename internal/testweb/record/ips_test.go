package record

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// Hosts whose names are IPv4 addresses are served; the reason is told for those that cannot be.
func TestIPs(t *testing.T) {
	a := open(t, Config{}, response("http://192.0.2.1/x", ok("1"))+response("http://192.0.2.1:8080/x", ok("2"))+
		response("https://192.0.2.1/x", ok("3"))+response("http://127.0.0.1:8000/", ok("4"))+
		rec("response", "http://localhost:8000/", date, "WARC-IP-Address: 127.0.0.1\r\n", ok("5"))+
		response("http://[2001:db8::1]/", ok("6"))+response("http://0.0.0.0/", ok("7"))+
		response("http://192.0.2.256/", ok("8"))+rec("revisit", "http://192.0.2.9/", date, "", ""))
	if want := []netip.Addr{netip.MustParseAddr("192.0.2.1")}; !slices.Equal(a.IPs(), want) {
		t.Errorf("got %v, want %v", a.IPs(), want)
	}
	if s := a.Summary(); s.URLs != 5 || s.Skipped[OtherAddr] != 1 || s.Skipped[IPv6Addr] != 1 ||
		s.Skipped[BadURL] != 1 {
		t.Errorf("got %+v", s)
	}
	for _, name := range []string{"127.0.0.1", "localhost"} {
		if n, ok := a.Find(name); !ok || a.Host(n).Addr.String() != "127.0.0.1" {
			t.Errorf("%s: got %+v, want the address 127.0.0.1", name, a.Host(n))
		}
	}
	w := must.Get(testweb.New(testweb.Config{Origin: a, Ports: a.Ports(), IPs: a.IPs(),
		Promise: testweb.Promise{SiteDelay: 1}}))(t)
	stop := w.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	at, _ := w.Lookup("192.0.2.1")
	if to := w.ConnectTo(); !at.IsLoopback() || len(to) != 8 ||
		to[0] != fmt.Sprintf("192.0.2.1:80:%s:%d", at, w.HTTPPort()) ||
		to[1] != fmt.Sprintf("192.0.2.1:443:%s:%d", at, w.HTTPSPort()) ||
		to[2] != fmt.Sprintf("192.0.2.1:8080:%s:%d", at, w.HTTPPort()) {
		t.Errorf("got %q", to)
	}
	w.EachHost(func(host string, addr netip.Addr) {
		if host != "localhost" {
			t.Errorf("got the host %s, which needs no name", host)
		}
	})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.CAPEM())
	tr := &http.Transport{DialContext: w.DialContext, TLSClientConfig: &tls.Config{RootCAs: pool}}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr}
	for url, want := range map[string]string{
		"http://192.0.2.1/x": "1", "http://192.0.2.1:8080/x": "2", "https://192.0.2.1/x": "3",
		"http://127.0.0.1:8000/": "4", "http://localhost:8000/": "5",
	} {
		res, err := c.Get(url)
		must.Do(t, err)
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v, want %q", url, b, err, want)
		}
	}
	for name := range w.Report().Sites {
		if net.ParseIP(name) == nil && name != "localhost" {
			t.Errorf("got the registered domain %s", name)
		}
	}
}

// The number of addresses is bounded, and an archive without anything else says why it is not served.
func TestManyIPs(t *testing.T) {
	var b strings.Builder
	for i := range maxIPs + 3 {
		b.WriteString(response(fmt.Sprintf("http://192.0.2.%d/", i), ok("x")))
	}
	a := open(t, Config{}, b.String())
	if s := a.Summary(); len(a.IPs()) != maxIPs || s.Skipped[OtherAddr] != 3 {
		t.Errorf("got %d addresses, %+v", len(a.IPs()), s)
	}
	_, err := Open(write(t, response("http://[::1]/", ok("x"))+response("http://[::1]/y", ok("x"))), Config{})
	const want = "2 records in 1 file: no HTTP response that could be served; 2 responses on an IPv6 address; only " +
		"IPv4 addresses are served"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
