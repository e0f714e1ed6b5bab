package testweb

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// BenchmarkServe requests a page of 22 KB on one kept connection. It measures the cost of a request with its tracking,
// and the client's cost.
func BenchmarkServe(b *testing.B) {
	dir := b.TempDir()
	write(b, dir, "page.html", "<!doctype html><meta charset=utf-8>"+strings.Repeat("words and more words, ", 1000))
	w := serving(b, Config{Folders: []Folder{{Host: "a.example", Dir: dir}}})
	a, _ := w.Lookup("a.example")
	c, err := net.Dial("tcp", net.JoinHostPort(a.String(), fmt.Sprint(w.HTTPPort())))
	must.Do(b, err)
	defer c.Close()
	in := bufio.NewReaderSize(c, 64<<10)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		fmt.Fprintf(c, "GET /page.html?%d HTTP/1.1\r\nHost: a.example\r\n\r\n", n)
		res, err := http.ReadResponse(in, nil)
		must.Do(b, err)
		io.Copy(io.Discard, res.Body)
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pages/s")
}

// BenchmarkFront does the same for a host of an Origin: on a kept connection, on a new one for each page, and over TLS.
func BenchmarkFront(b *testing.B) {
	for _, bb := range []struct {
		name         string
		each, secure bool
	}{{"kept", false, false}, {"each", true, false}, {"tls", false, true}} {
		b.Run(bb.name, func(b *testing.B) {
			o := &fakeOrigin{hosts: 1000, pages: 1000, size: 22300}
			w := serving(b, Config{Origin: o, CloseEach: bb.each})
			c := client(b, w)
			scheme := "http"
			if bb.secure {
				scheme = "https"
			}
			b.ReportAllocs()
			n := 0
			if bb.each || bb.secure {
				for b.Loop() {
					get(b, c, fmt.Sprintf("%s://h1.made.example/%d", scheme, n%1000))
					n++
				}
			} else {
				k := dial(b, w, "h1.made.example")
				page, _ := o.Answer(nil, Query{Target: "/1"})
				for b.Loop() {
					fmt.Fprintf(k, "GET /%d HTTP/1.1\r\nHost: h1.made.example\r\n\r\n", n%1000)
					if _, err := io.ReadFull(k, page); err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pages/s")
		})
	}
}

// BenchmarkTracker measures the tracking of a request alone, on a connection that goes from host to host.
func BenchmarkTracker(b *testing.B) {
	o := &fakeOrigin{hosts: 20_000, pages: 1000}
	w := serving(b, Config{Origin: o})
	t := w.track
	c := &conn{web: w, local: o.Host(1).Addr}
	rep := Reply{Status: 200}
	b.ReportAllocs()
	n := int64(0)
	for b.Loop() {
		rep.Page = n % 1000
		r := newRequest(c, t.originHost(c, n%20_000), "/some/path-of-a-page.html", "GET")
		r.begin = t.now()
		t.begin(c, r)
		t.askedBefore(r)
		t.replied(r, &rep)
		r.complete = true
		t.end(r, t.now())
		n++
	}
}
