// Package gateway answers: which requests does one view of a page make, and which answer does each get?
//
//	browser -> loopback proxy, one for each view -> Request -> Origin -> Answer -> browser
//	           CONNECT -> TLS with a certificate of this run -> the requests inside
//
// The browser of a view has no other way to the network. So pages, frames, workers, service workers and prefetches all
// come through here, one Request each. WebSockets and event streams are refused and counted. The Origin answers, by its
// own rules. This package itself opens no connection to a server.
//
// The requests come from a hostile page: their number, their size and the time of each are bounded.
package gateway

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/wake"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Request is one request of a view.
type Request struct {
	URL    weburl.URL
	Method string
	// Header has the fields that are the browser's to say: Accept, Origin, Referer, Cookie, Range, Sec-Fetch-* and what
	// a script has set. It has none that belong to a connection, and none by which the crawler says who it is.
	Header [][2]string
	// Dest is what the browser wants it for (Fetch Metadata, 2.1): "document", "iframe", "script", "style", "image",
	// "empty" for fetch and XMLHttpRequest, and so on; "" if it does not say.
	Dest string
	Body []byte
}

// An Answer is what the browser gets. The gateway closes Body.
type Answer struct {
	Status int
	// Header has the fields of the response. Those of the connection and of its codings are left out.
	Header http.Header
	// Body is the decoded content, and Size its bytes; -1: not known.
	Body io.ReadCloser
	Size int64
}

// An Origin answers the requests of a view. An error means that the request has no answer; the browser then
// gets the status 504. Safe for concurrent use.
type Origin interface {
	Answer(ctx context.Context, r *Request) (*Answer, error)
}

// Limits bounds what one view may ask for. Zero means the default.
type Limits struct {
	Requests int   // 1,000
	Bytes    int64 // of all answers, decoded; 200 MiB
	Upload   int64 // of the body of one request; 1 MiB
}

func (l Limits) filled() Limits {
	return Limits{cmp.Or(l.Requests, 1000), cmp.Or(l.Bytes, 200<<20), cmp.Or(l.Upload, 1<<20)}
}

// Counts says what a gateway has done.
type Counts struct {
	Requests   int // that the Origin was asked
	Bytes      int64
	WebSockets int // refused
	Streams    int // event streams, refused
	OverLimit  int // refused, because the view had asked for too much
	Malformed  int // refused: a URL that is none, or a body that is too long
	Failed     int // had no answer
}

// A Gateway is the way to the network of one view. Safe for concurrent use.
type Gateway struct {
	origin  Origin
	limits  Limits
	cert    tls.Certificate
	listen  net.Listener
	server  *http.Server
	inner   *http.Server
	tunnels tunnels
	clock   clock.Clock
	changed chan struct{}
	served  sync.WaitGroup

	mu     sync.Mutex // guards the rest
	counts Counts
	closed bool
	open   int
	last   time.Time // when open was last changed
}

// Open listens at a free port of 127.0.0.1. The caller calls Close.
func Open(a *Authority, origin Origin, limits Limits, c clock.Clock) (*Gateway, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("the browser's way to the crawler: %w", err)
	}
	g := &Gateway{origin: origin, limits: limits.filled(), cert: a.cert, listen: l, clock: clock.Or(c),
		changed: make(chan struct{}, 1)}
	g.last = g.clock.Now()
	g.tunnels.init(l.Addr())
	quiet := log.New(io.Discard, "", 0) // what a hostile page does to its connection is no news
	g.server = &http.Server{Handler: http.HandlerFunc(g.proxy), ErrorLog: quiet, MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: time.Minute}
	g.inner = &http.Server{Handler: http.HandlerFunc(g.tunnelled), ErrorLog: quiet, MaxHeaderBytes: 64 << 10,
		ReadHeaderTimeout: time.Minute, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, tunnelKey{}, c)
		}}
	g.served.Go(func() { _ = g.server.Serve(l) })
	g.served.Go(func() { _ = g.inner.Serve(&g.tunnels) })
	return g, nil
}

// Port is the port of 127.0.0.1 at which the proxy listens.
func (g *Gateway) Port() int { return g.listen.Addr().(*net.TCPAddr).Port }

// Close ends all requests, and returns when none is left.
func (g *Gateway) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	err := errors.Join(g.server.Close(), g.inner.Close())
	g.tunnels.Close()
	g.served.Wait()
	return err
}

// Counts returns the counts so far.
func (g *Gateway) Counts() Counts {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.counts
}

// Open returns how many requests wait for their answers, and since when this number is what it is.
func (g *Gateway) Open() (n int, since time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.last
}

// Changed has a value when Open may have changed. It is for one reader.
func (g *Gateway) Changed() <-chan struct{} { return g.changed }

// proxy handles what the browser asks of the proxy: a request with a whole URL, or a tunnel.
func (g *Gateway) proxy(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		if !r.URL.IsAbs() {
			g.refuse(w, &g.counts.Malformed, http.StatusBadRequest)
			return
		}
		g.serve(w, r, "http", r.URL.Host)
		return
	}
	c, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return // the connection has ended
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		_ = c.Close()
		return
	}
	g.tunnels.put(&tunnel{Conn: c, in: rw.Reader, out: c, cert: &g.cert, authority: r.Host})
}

// tunnelled handles a request inside of a tunnel.
func (g *Gateway) tunnelled(w http.ResponseWriter, r *http.Request) {
	t := r.Context().Value(tunnelKey{}).(*tunnel)
	scheme := "http"
	if t.secure {
		scheme = "https"
	}
	g.serve(w, r, scheme, t.authority)
}

func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, scheme, authority string) {
	if r.Header.Get("Upgrade") != "" {
		g.refuse(w, &g.counts.WebSockets, http.StatusForbidden)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		// An EventSource that gets this status does not try again (HTML, 9.2.2).
		g.refuse(w, &g.counts.Streams, http.StatusNoContent)
		return
	}
	// The Host field is the page's to say only by the URL.
	u, err := weburl.Parse((&url.URL{Scheme: scheme, Host: authority, Path: r.URL.Path, RawPath: r.URL.RawPath,
		RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}).String())
	body, tooLong := io.ReadAll(http.MaxBytesReader(w, r.Body, g.limits.Upload))
	if err != nil || tooLong != nil {
		g.refuse(w, &g.counts.Malformed, http.StatusBadRequest)
		return
	}
	if !g.begin() {
		g.refuse(w, &g.counts.OverLimit, http.StatusForbidden)
		return
	}
	defer g.end()
	a, err := g.origin.Answer(r.Context(), &Request{u, r.Method, forward(r.Header), r.Header.Get("Sec-Fetch-Dest"),
		body})
	if err != nil {
		// A connection that just ends makes the browser ask a second time.
		g.refuse(w, &g.counts.Failed, http.StatusGatewayTimeout)
		return
	}
	defer a.Body.Close()
	h := w.Header()
	for name, values := range a.Header {
		if !ofConnection(name, a.Header) && !ofServer[http.CanonicalHeaderKey(name)] {
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	if h["Date"] == nil {
		h["Date"] = nil // net/http adds none of its own
	}
	if h["Content-Type"] == nil {
		h["Content-Type"] = nil // nor guesses one: the browser does that
	}
	if a.Size >= 0 {
		h.Set("Content-Length", strconv.FormatInt(a.Size, 10))
	}
	w.WriteHeader(a.Status)
	left := &io.LimitedReader{R: a.Body, N: g.room()}
	n, err := io.Copy(w, left)
	g.received(n)
	if err != nil || left.N <= 0 && n < a.Size {
		// A part must not look like the whole. But the browser must see the part, or it asks a second time.
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// refuse answers a request without asking the Origin, and counts it.
func (g *Gateway) refuse(w http.ResponseWriter, as *int, status int) {
	g.count(as)
	w.Header()["Date"] = nil
	w.WriteHeader(status)
}

func (g *Gateway) count(as *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*as++
}

// begin counts a request, unless the view has asked for too much.
func (g *Gateway) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.counts.Requests >= g.limits.Requests || g.counts.Bytes >= g.limits.Bytes {
		return false
	}
	g.counts.Requests++
	g.open++
	g.served.Add(1)
	g.last = g.clock.Now()
	wake.Up(g.changed)
	return true
}

func (g *Gateway) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	g.last = g.clock.Now()
	wake.Up(g.changed)
	g.served.Done()
}

// room is how many bytes the view may still get.
func (g *Gateway) room() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, g.limits.Bytes-g.counts.Bytes)
}

func (g *Gateway) received(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.counts.Bytes += n
}

// connection lists the fields that belong to a connection (RFC 9110, 7.6.1).
var connection = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade"}

// ofConnection reports whether a field belongs to the connection, by its name or because Connection lists it.
func ofConnection(name string, h http.Header) bool {
	if slices.ContainsFunc(connection, func(s string) bool { return strings.EqualFold(s, name) }) {
		return true
	}
	for _, list := range h["Connection"] {
		for s := range strings.SplitSeq(list, ",") {
			if strings.EqualFold(strings.TrimSpace(s), name) {
				return true
			}
		}
	}
	return false
}

// ofServer lists the fields of a response that would be wrong for the decoded content, and Alt-Svc, which names another
// way to the server.
var ofServer = map[string]bool{"Content-Encoding": true, "Content-Length": true, "Alt-Svc": true}

// ofCrawler lists the fields of a request that are the crawler's to say: who asks, which codings it reads, and whether
// it has a copy.
var ofCrawler = map[string]bool{"Host": true, "User-Agent": true, "From": true, "Accept-Encoding": true,
	"If-None-Match": true, "If-Modified-Since": true, "If-Match": true, "If-Unmodified-Since": true,
	"Content-Length": true, "Priority": true, "Cache-Control": true, "Pragma": true}

// forward returns the fields that go on to the server, in the order of their names.
func forward(h http.Header) (fields [][2]string) {
	for name, values := range h {
		if ofCrawler[name] || ofConnection(name, h) || strings.HasPrefix(name, "Sec-Ch-") {
			continue
		}
		for _, v := range values {
			fields = append(fields, [2]string{name, v})
		}
	}
	slices.SortStableFunc(fields, func(a, b [2]string) int { return cmp.Compare(a[0], b[0]) })
	return fields
}

// tunnels hands the connections inside of tunnels to their server. It is its net.Listener.
type tunnels struct {
	at     net.Addr
	more   chan *tunnel
	closed chan struct{}
	once   sync.Once
}

func (t *tunnels) init(at net.Addr) {
	t.at, t.more, t.closed = at, make(chan *tunnel), make(chan struct{})
}

func (t *tunnels) put(c *tunnel) {
	select {
	case t.more <- c:
	case <-t.closed:
		_ = c.Close()
	}
}

// Accept implements net.Listener.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case c := <-t.more:
		return c, nil
	case <-t.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *tunnels) Close() error {
	t.once.Do(func() { close(t.closed) })
	return nil
}

// Addr implements net.Listener.
func (t *tunnels) Addr() net.Addr { return t.at }

// A tunnel is the connection inside of a CONNECT. Its first byte says whether it is for TLS. A WebSocket without TLS
// has a tunnel, too.
type tunnel struct {
	net.Conn  // of the browser
	cert      *tls.Certificate
	authority string // as CONNECT names it

	// The goroutine that serves the tunnel reads before it writes.
	began  bool
	secure bool
	in     io.Reader
	out    io.Writer
}

type tunnelKey struct{}

// Read implements net.Conn.
func (t *tunnel) Read(p []byte) (int, error) {
	if !t.began {
		t.began = true
		buffer := bufio.NewReader(t.in)
		t.in = buffer
		if first, err := buffer.Peek(1); err == nil && first[0] == handshake {
			c := tls.Server(&tunnel{Conn: t.Conn, began: true, in: buffer, out: t.Conn},
				&tls.Config{Certificates: []tls.Certificate{*t.cert}, NextProtos: []string{"http/1.1"}})
			t.in, t.out, t.secure = c, c, true
		}
	}
	return t.in.Read(p)
}

// Write implements net.Conn.
func (t *tunnel) Write(p []byte) (int, error) { return t.out.Write(p) }

// handshake is the first byte of TLS (RFC 8446, 5.1).
const handshake = 22

// Text returns an answer with a text of the gateway's own.
func Text(status int, text string) *Answer {
	return &Answer{Status: status, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		Body: io.NopCloser(bytes.NewReader([]byte(text))), Size: int64(len(text))}
}
