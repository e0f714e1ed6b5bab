package testweb

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// fakeOrigin has the hosts h0.made.example, h1..., with pages /0, /1, ... of size bytes. replies has the Reply for any
// other target.
type fakeOrigin struct {
	hosts, pages int64
	size         int
	replies      map[string]Reply
	tls          TLSFault
	addr         func(int64) netip.Addr
}

func (o *fakeOrigin) Hosts() int64 { return o.hosts }

func (o *fakeOrigin) Find(name string) (int64, bool) {
	s, ok := strings.CutSuffix(name, ".made.example")
	if !ok || len(s) < 2 || s[0] != 'h' {
		return 0, false
	}
	n, err := strconv.ParseInt(s[1:], 10, 64)
	return n, err == nil && n >= 0 && n < o.hosts
}

func (o *fakeOrigin) Host(n int64) OriginHost {
	oh := OriginHost{
		Name: "h" + strconv.FormatInt(n, 10) + ".made.example", Site: "made.example", Pages: o.pages, TLS: o.tls,
		Addr: netip.AddrFrom4([4]byte{127, 100, byte(n >> 8), byte(n)}),
	}
	if o.addr != nil {
		oh.Addr = o.addr(n)
		oh.Site = oh.Name
	}
	return oh
}

var filler = bytes.Repeat([]byte("words and more words, "), 5000)

func (o *fakeOrigin) Answer(dst []byte, q Query) ([]byte, Reply) {
	rep, special := o.replies[q.Target]
	if !special {
		rep = Reply{Status: 404, Page: -1}
		if n, err := strconv.ParseInt(strings.TrimPrefix(q.Target, "/"), 10, 64); err == nil && n < o.pages {
			rep = Reply{Status: 200, Page: n}
		}
	} else if rep.Status >= 500 && q.Answered >= 2 {
		rep = Reply{Status: 200, Page: 0}
	}
	size := o.size
	if rep.Page < 0 {
		size = 10
	}
	from := len(dst)
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(rep.Status), 10)
	dst = append(dst, " Made\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(size), 10)
	if q.Close {
		dst = append(dst, "\r\nConnection: close"...)
	}
	if q.Gzip {
		dst = append(dst, "\r\nX-Gzip: taken"...)
	}
	dst = append(dst, "\r\n\r\n"...)
	rep.HeadLen = len(dst) - from
	if !q.Head {
		dst = append(dst, filler[:size]...)
	}
	return dst, rep
}

func dial(t testing.TB, w *Web, host string) net.Conn {
	t.Helper()
	c, err := w.DialContext(t.Context(), "tcp", host+":80")
	must.Do(t, err)
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func TestParseHead(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want verdict
		h    head
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", plainHead, head{target: "/", host: "a", n: 27}},
		{"HEAD /x?y HTTP/1.0\r\nhost:A:80\r\nConnection: Keep-Alive\r\n\r\n", plainHead,
			head{target: "/x?y", host: "A:80", n: 57, head: true, close: true}},
		{"GET / HTTP/1.1\r\nAccept-Encoding: br, gzip;q=0.5\r\nHost: a\r\nConnection: close\r\n\r\n", plainHead,
			head{target: "/", host: "a", n: 79, gzip: true, close: true}},
		{"GET / HTTP/1.1\r\nAccept-Encoding: gzip; q=0.0\r\nHost: a\r\n\r\n", plainHead,
			head{target: "/", host: "a", n: 57}},
		{"GET / HTTP/1.1\r\nHost: a\r\n", shortHead, head{}},
		{"", shortHead, head{}},
		{"POST / HTTP/1.1\r\n", oddHead, head{}},
		{"GET / HTTP/1.1\r\n\r\n", oddHead, head{}},
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", oddHead, head{}},
		{"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", oddHead, head{}},
		{"GET / HTTP/1.1\r\nHost: a\r\nBad name: x\r\n\r\n", oddHead, head{}},
		{"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", oddHead, head{}},
		{"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", oddHead, head{}},
		{"GET / HTTP/2.0\r\nHost: a\r\n\r\n", oddHead, head{}},
		{"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", oddHead, head{}},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n", oddHead, head{}},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n", oddHead, head{}},
		{"GET /" + strings.Repeat("x", maxOwnHead), oddHead, head{}},
	} {
		h, v := parseHead([]byte(tt.in))
		if v != tt.want || v == plainHead && h != tt.h {
			t.Errorf("%.60q: got %d %+v, want %d %+v", tt.in, v, h, tt.want, tt.h)
		}
	}
}

func TestFront(t *testing.T) {
	o := &fakeOrigin{hosts: 10, pages: 100, size: 22300}
	pages := Pages(map[string]string{"/": "a site"})
	w := serving(t, Config{Origin: o, Sites: []Site{{Host: "site.example", Handler: pages}}})
	c := client(t, w)
	for _, scheme := range []string{"http", "https"} {
		for i := range 3 {
			res, body := get(t, c, fmt.Sprintf("%s://h1.made.example/%d", scheme, i))
			if res.StatusCode != 200 || body != string(filler[:o.size]) {
				t.Errorf("%s: got %d with %d bytes", scheme, res.StatusCode, len(body))
			}
		}
		if res, body := get(t, c, scheme+"://h1.made.example/none"); res.StatusCode != 404 || len(body) != 10 {
			t.Errorf("got %d with %d bytes, want 404", res.StatusCode, len(body))
		}
		if _, body := get(t, c, scheme+"://site.example/"); body != "a site" {
			t.Errorf("a site next to the origin: got %q", body)
		}
	}
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	r := w.Report()
	h := r.Hosts["h1.made.example"]
	if h.Requests != 8 || h.Pages != 6 || h.Connections != 2 || h.Bytes != 6*22300+20 || h.Status[404] != 2 {
		t.Errorf("got %+v", h)
	}
	if r.Hosts["site.example"].Pages != 2 {
		t.Errorf("got %+v", r.Hosts["site.example"])
	}
}

// TestFrontConnection sends every kind of request on one connection.
func TestFrontConnection(t *testing.T) {
	o := &fakeOrigin{hosts: 10, pages: 100, size: 2000}
	pages := Pages(map[string]string{"/": "a site"})
	w := serving(t, Config{Origin: o, Sites: []Site{{Host: "site.example", Handler: pages}}})
	c := dial(t, w, "h1.made.example")
	in := bufio.NewReader(c)
	expect := func(method, what string, status, size int) {
		t.Helper()
		res, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != status || len(b) != size {
			t.Fatalf("%s: got %d with %d bytes, %v; want %d with %d",
				what, res.StatusCode, len(b), err, status, size)
		}
	}
	io.WriteString(c, strings.Repeat("GET /1 HTTP/1.1\r\nHost: h1.made.example\r\n\r\n", 200)+"GET /2 HTTP/1.1\r\nHo")
	for range 200 {
		expect("GET", "pipelined", 200, 2000)
	}
	io.WriteString(c, "st: H2.made.EXAMPLE.:80\r\n\r\n")
	expect("GET", "in two parts", 200, 2000)
	io.WriteString(c, "HEAD /2 HTTP/1.1\r\nHost: h2.made.example\r\n\r\n")
	expect("HEAD", "HEAD", 200, 0)
	io.WriteString(c, "GET http://h3.made.example/2 HTTP/1.1\r\nHost: h3.made.example\r\n\r\n"+
		"GET /3 HTTP/1.1\r\nHost: h3.made.example\r\n\r\n")
	expect("GET", "absolute form", 200, 2000)
	expect("GET", "after that", 200, 2000)
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: site.example\r\n\r\n")
	expect("GET", "a site", 200, 6)
	io.WriteString(c, "GET /4 HTTP/1.1\r\nHost: h3.made.example\r\n\r\n"+
		"POST /5 HTTP/1.1\r\nHost: h3.made.example\r\nContent-Length: 2\r\n\r\nab")
	expect("GET", "back at the origin", 200, 2000)
	expect("POST", "POST", 405, 0)
	io.WriteString(c, "GET /6 HTTP/1.1\r\nHost: h3.made.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	expect("GET", "the last request", 200, 2000)
	if b, err := io.ReadAll(in); len(b) > 0 || err != nil {
		t.Errorf("after the last response: got %q, %v", b, err)
	}
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	r := w.Report()
	if r.Requests != 208 || r.Pages != 206 || r.Hosts["h1.made.example"].MaxConcurrent != 1 ||
		r.ViolationCount["connections"] != 0 {
		t.Errorf("got %+v", r)
	}

	c = dial(t, w, "h1.made.example")
	io.WriteString(c, "GET / SPAM\r\n\r\n")
	if b, _ := io.ReadAll(c); !bytes.HasPrefix(b, []byte("HTTP/1.1 400 ")) {
		t.Errorf("garbage: got %q", b)
	}
	for name, req := range map[string]string{
		"HTTP/1.0": "GET /1 HTTP/1.0\r\nHost: h1.made.example\r\n\r\nGET /never",
		"close":    "GET /1 HTTP/1.1\r\nConnection: close\r\nHost: h1.made.example\r\n\r\n",
	} {
		c = dial(t, w, "h1.made.example")
		io.WriteString(c, req)
		if b, err := io.ReadAll(c); !bytes.HasPrefix(b, []byte("HTTP/1.1 200 ")) || len(b) < 2000 || err != nil {
			t.Errorf("%s: got %d bytes, %v", name, len(b), err)
		}
	}
}

func TestCloseEach(t *testing.T) {
	w := serving(t, Config{
		Origin: &fakeOrigin{hosts: 10, pages: 100, size: 2000}, CloseEach: true, Sites: []Site{{Host: "site.example"}},
	})
	c := client(t, w)
	for _, u := range []string{
		"http://h1.made.example/1", "https://h1.made.example/2", "http://h1.made.example/3", "http://site.example/",
	} {
		if res, _ := get(t, c, u); !res.Close {
			t.Errorf("%s: the connection stays open", u)
		}
	}
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	if r := w.Report().Hosts["h1.made.example"]; r.Connections != 3 || r.MaxConnections != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestFrontFaults(t *testing.T) {
	o := &fakeOrigin{hosts: 10, pages: 100, size: 2000, replies: map[string]Reply{
		"/hang":  {Status: 200, Page: 1, Fault: HangAfter, Cut: 100},
		"/reset": {Status: 200, Page: 2, Fault: ResetAfter, Cut: 100},
		"/close": {Status: 200, Page: 3, Fault: CloseAfter, Cut: 100},
		"/none":  {Status: 200, Page: 4, Fault: CloseAfter},
		"/wait":  {Status: 200, Page: 5, Wait: 30 * time.Millisecond},
		"/pace":  {Status: 200, Page: 6, Pace: 10 * time.Millisecond},
		"/503":   {Status: 503, Page: -1},
		"/no":    {Status: 200, Page: 7, Denied: true, Rule: "disallow: /no"},
		"/429":   {Status: 429, Page: -1, RetryAfter: time.Hour},
	}}
	w := serving(t, Config{Origin: o})
	h := w.Report
	for path, want := range map[string]int{"/hang": 100, "/reset": 100, "/close": 100, "/none": 0} {
		patience := 20 * time.Second
		if path == "/hang" {
			patience = 50 * time.Millisecond
		}
		b, ended := ask(t, w, "h0.made.example", path, 1<<20, patience)
		if len(b) != want || ended != (path != "/hang") {
			t.Errorf("%s: got %d bytes, ended %v", path, len(b), ended)
		}
	}
	until(t, "ended", func() bool { return h().Active == 0 })
	if r := h().Hosts["h0.made.example"]; r.Aborted != 1 || r.Broken != 3 || r.Pages != 0 {
		t.Errorf("got %+v, want 1 aborted, 3 broken, no page", r)
	}
	c := client(t, w)
	for path, least := range map[string]time.Duration{
		"/wait": 30 * time.Millisecond, "/pace": 10 * time.Millisecond,
	} {
		began := time.Now()
		if _, body := get(t, c, "http://h0.made.example"+path); len(body) != 2000 || time.Since(began) < least {
			t.Errorf("%s: got %d bytes after %v", path, len(body), time.Since(began))
		}
	}
	for _, want := range []int{503, 503, 200, 200} {
		if res, _ := get(t, c, "http://h0.made.example/503"); res.StatusCode != want {
			t.Errorf("repeated request: got %d, want %d", res.StatusCode, want)
		}
	}
	get(t, c, "http://h0.made.example/no")
	get(t, c, "http://h0.made.example/429")
	get(t, c, "http://h0.made.example/1")
	until(t, "ended", func() bool { return h().Active == 0 })
	if got := fmt.Sprint(h().ViolationCount); got != "map[retry-after:1 robots:1]" {
		t.Errorf("got %v", got)
	}
}

// TestFrontEndsByClosing: a whole response may end with its connection. A response that is cut off is not a page.
func TestFrontEndsByClosing(t *testing.T) {
	o := &fakeOrigin{hosts: 10, pages: 100, size: 2000, replies: map[string]Reply{
		"/whole": {Status: 200, Page: 1, Fault: CloseAfter, Cut: 1 << 30},
		"/cut":   {Status: 200, Page: 2, Fault: CloseAfter, Cut: 1000},
	}}
	w := serving(t, Config{Origin: o})
	for _, path := range []string{"/whole", "/cut"} {
		if b, ended := ask(t, w, "h0.made.example", path, 1<<20, 20*time.Second); !ended || len(b) < 1000 {
			t.Errorf("%s: got %d bytes, ended %v", path, len(b), ended)
		}
	}
	until(t, "ended", func() bool { return w.Report().Active == 0 })
	if r := w.Report().Hosts["h0.made.example"]; r.Pages != 1 || r.Broken != 1 {
		t.Errorf("got %+v, want a page and a broken answer", r)
	}
}

func TestFrontEndsWithClientsHanging(t *testing.T) {
	o := &fakeOrigin{hosts: 10, pages: 100, size: 2000, replies: map[string]Reply{
		"/hang": {Status: 200, Page: 1, Fault: HangAfter, Cut: 100},
	}}
	w, err := New(Config{Origin: o})
	must.Do(t, err)
	stop := w.Start()
	for i, text := range []string{
		"", "GET /1", "GET /hang HTTP/1.1\r\nHost: h0.made.example\r\n\r\n",
		"GET http://h0.made.example/hang HTTP/1.1\r\nHost: h0.made.example\r\n\r\n",
		"GET /hang HTTP/1.1\r\nHost: h0.made.example\r\n\r\n" + strings.Repeat("x", 1<<20),
	} {
		c := dial(t, w, "h0.made.example")
		go io.WriteString(c, text)
		if i > 1 {
			if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
				t.Errorf("%.40q: %v", text, err)
			}
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestFrontPatience(t *testing.T) {
	w := serving(t, Config{Origin: &fakeOrigin{hosts: 10, pages: 100, size: 2000}})
	live := &connSet{m: map[*conn]struct{}{}}
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	defer server.Close()
	const now = int64(time.Hour)
	wait := map[int64]bool{0: false, now - int64(4*time.Minute): false, now - int64(6*time.Minute): true,
		-(now - int64(30*time.Second)): false, -(now - int64(2*time.Minute)): true}
	got := map[int64]net.Conn{}
	for at := range wait {
		c, err := net.Dial("tcp", server.Addr().String())
		must.Do(t, err)
		defer c.Close()
		k := &conn{Conn: c, tcp: c.(*net.TCPConn), web: w}
		k.waiting.Store(at)
		live.add(k)
		got[at] = c
	}
	live.expire(now)
	for at, want := range wait {
		if _, err := got[at].Write([]byte("x")); (err != nil) != want {
			t.Errorf("waiting since %d at %d: closed %v, want %v", at, now, err != nil, want)
		}
	}
}

func FuzzParseHead(f *testing.F) {
	f.Add([]byte("GET /x HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip;q=0\r\n\r\n"))
	f.Add([]byte("HEAD / HTTP/1.0\r\nHost: a\r\nConnection: close, x\r\n\r\n"))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, v := parseHead(b)
		if v != plainHead {
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(b[:h.n])))
		if err != nil {
			t.Skip() // net/http refuses targets and hosts that are invalid in a URL; the Origin gets them unchanged
		}
		if req.RequestURI != h.target || req.Host != h.host || (req.Method == "HEAD") != h.head ||
			req.ContentLength != 0 || len(req.TransferEncoding) > 0 {
			t.Errorf("%q: got %+v, net/http reads %+v", b, h, req)
		}
		if want := req.Close || !req.ProtoAtLeast(1, 1); h.close != want {
			t.Errorf("%q: close: got %v, net/http has %v", b, h.close, want)
		}
	})
}

// shortOfFiles is a listener whose first calls of Accept fail because there is no free file descriptor.
type shortOfFiles struct {
	net.Listener
	failures int
}

func (l *shortOfFiles) Accept() (net.Conn, error) {
	if l.failures--; l.failures >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return nil, net.ErrClosed
}

func TestAcceptOutlastsAShortage(t *testing.T) {
	w, err := New(Config{})
	must.Do(t, err)
	defer w.Close()
	l := &shortOfFiles{failures: 3}
	w.front.loops.Add(1)
	if err := w.front.accept(&listener{Listener: l, web: w}); !errors.Is(err, net.ErrClosed) || l.failures != -1 {
		t.Errorf("got %v with %d failures left", err, l.failures)
	}
}
