package testweb

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // sets rapid's seed

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestFrontAgainstModel sends random requests on one connection, in random pieces. Each is answered in its turn, by the
// front or by net/http.
func TestFrontAgainstModel(t *testing.T) {
	o := &fakeOrigin{hosts: 10, pages: 100, size: 3000, replies: map[string]Reply{
		"/wait": {Status: 200, Page: 1, Wait: time.Millisecond},
		"/pace": {Status: 200, Page: 2, Pace: 100 * time.Microsecond},
	}}
	site := Site{Host: "site.example", Handler: Pages(map[string]string{"/": "a site"})}
	w := serving(t, Config{Origin: o, Sites: []Site{site, {Host: "raw.example",
		Raw: func(c *RawConn, req *http.Request) bool {
			c.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nraw")
			return true
		}}}})
	type kind struct {
		text         string
		method       string
		status, size int
		end          bool // the connection ends
	}
	kinds := []kind{
		{"GET /1 HTTP/1.1\r\nHost: h1.made.example\r\n\r\n", "GET", 200, 3000, false},
		{"GET /none HTTP/1.1\r\nHost: h2.made.example\r\nAccept-Encoding: gzip\r\n\r\n", "GET", 404, 10, false},
		{"HEAD /1 HTTP/1.1\r\nHost: h1.made.example\r\n\r\n", "HEAD", 200, 0, false},
		{"GET /wait HTTP/1.1\r\nHost: h3.made.example\r\n\r\n", "GET", 200, 3000, false},
		{"GET /pace HTTP/1.1\r\nHost: h3.made.example\r\n\r\n", "GET", 200, 3000, false},
		{"GET http://h4.made.example/1 HTTP/1.1\r\nHost: h4.made.example\r\n\r\n", "GET", 200, 3000, false},
		{"GET / HTTP/1.1\r\nHost: site.example\r\n\r\n", "GET", 200, 6, false},
		{"POST /1 HTTP/1.1\r\nHost: h5.made.example\r\nContent-Length: 3\r\n\r\nabc", "POST", 405, 0, false},
		{"GET /1 HTTP/1.1\r\nHost: h6.made.example\r\nX: " + strings.Repeat("x", 9000) + "\r\n\r\n", "GET", 200, 3000,
			false},
		{"GET /1 HTTP/1.1\r\nHost: h7.made.example\r\nConnection: close\r\n\r\n", "GET", 200, 3000, true},
		{"GET /1 HTTP/1.0\r\nHost: h7.made.example\r\n\r\n", "GET", 200, 3000, true},
		{"GET / HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n", "GET", 200, 6, true},
		{"GET / \r\n\r\n", "GET", 400, -1, true},
	}
	requests := int64(0)
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		var sent []kind
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			k := rapid.SampledFrom(kinds).Draw(t, "kind")
			text = append(text, k.text...)
			sent = append(sent, k)
			if k.end {
				break
			}
		}
		secure := rapid.Bool().Draw(t, "secure")
		port := w.HTTPPort()
		if secure {
			port = w.HTTPSPort()
		}
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		must.Do(t, err)
		defer c.Close()
		if secure {
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		cuts := rapid.SliceOfN(rapid.IntRange(1, 3000), 0, 6).Draw(t, "cuts")
		done := make(chan error, 1)
		go func() {
			for _, n := range append(cuts, len(text)) {
				n = min(n, len(text))
				if _, err := c.Write(text[:n]); err != nil {
					done <- err
					return
				}
				text = text[n:]
				time.Sleep(time.Duration(n%3) * 100 * time.Microsecond)
			}
			done <- nil
		}()
		in := bufio.NewReader(c)
		for i, k := range sent {
			res, err := http.ReadResponse(in, &http.Request{Method: k.method})
			if err != nil {
				t.Fatalf("request %d, %.40q: %v", i, k.text, err)
			}
			b, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != k.status || k.size >= 0 && len(b) != k.size {
				t.Fatalf("request %d, %.40q: got %d with %d bytes, %v; want %d with %d",
					i, k.text, res.StatusCode, len(b), err, k.status, k.size)
			}
			if k.status != 400 {
				requests++
			}
			if !k.end {
				continue
			}
			if b, err := io.ReadAll(in); len(b) > 0 || err != nil {
				t.Fatalf("after the last response: got %.40q, %v", b, err)
			}
		}
		must.Do(t, <-done)
	})
	// Pipelined requests count as concurrent, so the test checks only their number.
	until(t, "ended", func() bool { r := w.Report(); return r.Active == 0 && r.Requests == requests })
}
