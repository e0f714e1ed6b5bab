package record

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A host is served on each of its ports, with a robots.txt for each.
func TestPorts(t *testing.T) {
	a := open(t, Config{}, response("http://a.example/x", ok("80"))+
		response("http://a.example:8080/x", ok("8080"))+
		response("http://a.example:8080/robots.txt", ok("User-agent: *\nDisallow: /x\nCrawl-delay: 7"))+
		response("http://a.example:80/y", ok("80"))+
		response("https://a.example:8443/x", ok("8443"))+
		response("https://b.example:8080/x", ok("the scheme of 8080 is http"))+
		response("http://b.example:443/x", ok("the scheme of 443 is https"))+
		response("http://b.example:0/x", ok("no port"))+
		response("http://b.example:99999/x", ok("no port"))+
		response("http://b.example:8080/robots.txt", "HTTP/1.1 301 Moved\r\nLocation: /rules\r\n\r\n")+
		response("http://b.example:8080/rules", ok("User-agent: *\nDisallow: /y"))+
		response("http://b.example:8080/y", ok("denied")))
	want := []testweb.Port{{Number: 8080}, {Number: 8443, Secure: true}}
	if !slices.Equal(a.Ports(), want) {
		t.Errorf("got ports %v, want %v", a.Ports(), want)
	}
	if s := a.Summary(); s.Skipped[OtherPort] != 2 || s.Skipped[BadURL] != 2 || s.Pages != 6 {
		t.Errorf("got %+v, want 2 on other ports, 2 bad URLs and 6 pages", s)
	}
	for _, tt := range []struct {
		url, body string
		denied    bool
	}{
		{"http://a.example/x", "80", false},
		{"http://a.example:8080/x", "8080", true},
		{"https://a.example:8443/x", "8443", false},
		{"https://a.example/x", "This URL was not recorded.\n", false},
		{"http://a.example:8080/y", "This URL was not recorded.\n", false},
		{"http://b.example:8080/y", "denied", true},
	} {
		got, r := ask(t, a, tt.url)
		if !strings.HasSuffix(got, "\r\n\r\n"+tt.body) || r.Denied != tt.denied {
			t.Errorf("%s: got denied %v, %q, want %v, %q", tt.url, r.Denied, got, tt.denied, tt.body)
		}
	}
	n, _ := a.Find("a.example")
	if d := a.Host(n).CrawlDelay; d != 7*time.Second {
		t.Errorf("got a Crawl-delay of %s, want 7s", d)
	}
	if n := a.Truth().Reachable(); n != 4 {
		t.Errorf("got %d reachable pages, want 4", n)
	}
}

// The number of ports is bounded.
func TestManyPorts(t *testing.T) {
	var b strings.Builder
	for i := range maxPorts + 3 {
		b.WriteString(response(fmt.Sprintf("http://a.example:%d/", 1000+i), ok("x")))
	}
	a := open(t, Config{}, b.String())
	if s := a.Summary(); len(a.Ports()) != maxPorts || s.Skipped[OtherPort] != 3 || s.URLs != maxPorts {
		t.Errorf("got %d ports, %+v", len(a.Ports()), s)
	}
}

// The report names the URLs with their ports, and tells pages of different ports apart.
func TestPortsServed(t *testing.T) {
	a := open(t, Config{}, response("http://a.example/x", ok("80"))+response("http://a.example:8080/x", ok("8080"))+
		response("https://a.example:8443/x", ok("8443")))
	w := must.Get(testweb.New(testweb.Config{Origin: a, Truth: a.Truth(), Ports: a.Ports(), LogEntries: 100}))(t)
	stop := w.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	if to := w.ConnectTo(); len(to) != 4 || to[2] != fmt.Sprintf(":8080::%d", w.HTTPPort()) ||
		to[3] != fmt.Sprintf(":8443::%d", w.HTTPSPort()) {
		t.Errorf("got %q", to)
	}
	tr := &http.Transport{DialContext: w.DialContext}
	t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Transport: tr}
	for _, tt := range []struct{ url, want string }{
		{"http://a.example/x", "80"}, {"http://a.example:8080/x", "8080"},
		{"http://a.example:8080/none", "This URL was not recorded.\n"},
	} {
		res, err := c.Get(tt.url)
		must.Do(t, err)
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(b) != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.url, b, err, tt.want)
		}
	}
	if !w.WaitIdle(10 * time.Second) {
		t.Fatal("the web is not idle")
	}
	r := w.Report()
	missed := []string{"https://a.example:8443/x"}
	if r.Repeated != 0 || r.Origin.Fetched != 2 || !slices.Equal(r.Origin.MissedURLs, missed) ||
		len(r.NotFound) != 1 || r.NotFound[0].URL != "http://a.example:8080/none" {
		t.Errorf("got %+v, %+v", r.Origin, r)
	}
	urls := []string{}
	for _, e := range w.Log() {
		urls = append(urls, e.URL)
	}
	want := []string{"http://a.example/x", "http://a.example:8080/x", "http://a.example:8080/none"}
	if !slices.Equal(urls, want) {
		t.Errorf("got %q, want %q", urls, want)
	}
}
