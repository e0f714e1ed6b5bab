package fetch

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dataDir returns a directory of the shared test data. Without the data it fails in CI and skips
// elsewhere.
func dataDir(tb testing.TB, name string) string {
	tb.Helper()
	dir := filepath.Join("..", "..", "..", "..", "shared", "data", name)
	if _, err := os.Stat(dir); err != nil {
		testneed.Missing(tb, err)
	}
	return dir
}

func mustURL(tb testing.TB, s string) weburl.URL {
	tb.Helper()
	u, err := weburl.Parse(s)
	if err != nil {
		tb.Fatalf("Parse(%q): %v", s, err)
	}
	return u
}

func mustNew(tb testing.TB, c Config) *Fetcher {
	tb.Helper()
	f := must.Get(New(c))(tb)
	tb.Cleanup(func() { f.Close() })
	return f
}

func mustFetch(tb testing.TB, f *Fetcher, req Request) *Response {
	tb.Helper()
	r, err := f.Fetch(context.Background(), req)
	if err != nil {
		tb.Fatalf("Fetch(%s): %v", req.URL, err)
	}
	tb.Cleanup(r.Release)
	return r
}

// network is a Dial that serves every address over a pipe.
type network struct {
	serve func(net.Conn)
	mu    sync.Mutex
	dials []string
	open  sync.WaitGroup
}

func (n *network) dial(_ context.Context, _, addr string) (net.Conn, error) {
	client, server := net.Pipe()
	n.mu.Lock()
	n.dials = append(n.dials, addr)
	n.mu.Unlock()
	n.open.Go(func() {
		defer server.Close()
		n.serve(server)
	})
	return client, nil
}

var somewhere = netip.MustParseAddr("93.184.216.34")

// piped returns a Fetcher whose connections are all answered by serve.
func piped(tb testing.TB, c Config, serve func(net.Conn)) (*Fetcher, *network) {
	n := &network{serve: serve}
	c.Dial = n.dial
	if c.Lookup == nil {
		c.Lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{somewhere}, nil }
	}
	f := must.Get(New(c))(tb)
	tb.Cleanup(func() { f.Close(); n.open.Wait() })
	return f, n
}

// readRequest reads one request's header.
func readRequest(br *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := br.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String(), err
		}
	}
}

// answer serves the same bytes to the one request of a connection. It then closes the connection,
// or waits until the client closes it.
func answer(reply []byte, stay bool) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		if _, err := readRequest(br); err != nil {
			return
		}
		if _, err := c.Write(reply); err == nil && stay {
			io.Copy(io.Discard, br)
		}
	}
}

// each serves the same bytes to each request of a connection.
func each(reply string) func(net.Conn) {
	return func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			if _, err := readRequest(br); err != nil {
				return
			}
			if _, err := io.WriteString(c, reply); err != nil {
				return
			}
		}
	}
}

// loopback listens on 127.0.0.1 and serves each connection.
func loopback(tb testing.TB, serve func(net.Conn)) (addr string) {
	tb.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(tb)
	var open sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	open.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns[c] = true
			mu.Unlock()
			open.Go(func() {
				serve(c)
				c.Close()
				mu.Lock()
				delete(conns, c)
				mu.Unlock()
			})
		}
	})
	tb.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range conns {
			c.Close()
		}
		mu.Unlock()
		open.Wait()
	})
	return ln.Addr().String()
}

func wireBytes(tb testing.TB, r *Response) []byte {
	tb.Helper()
	b, err := io.ReadAll(io.NewSectionReader(r.Wire, 0, r.Wire.Size()))
	if err != nil {
		tb.Fatalf("read wire: %v", err)
	}
	if m, ok := r.Wire.Bytes(); ok && !bytes.Equal(b, m) {
		tb.Fatalf("Wire.Bytes and Wire.ReadAt differ")
	}
	return b
}

func payloadBytes(tb testing.TB, r *Response) []byte {
	tb.Helper()
	b, err := io.ReadAll(r.Payload())
	if err != nil {
		tb.Fatalf("read payload: %v", err)
	}
	var w bytes.Buffer
	if _, err := r.Payload().(io.WriterTo).WriteTo(&w); err != nil || !bytes.Equal(b, w.Bytes()) {
		tb.Fatalf("WriteTo: %d bytes and %v, Read: %d", w.Len(), err, len(b))
	}
	return b
}

// outcome returns how a response ended, as one word.
func outcome(r *Response) string {
	switch {
	case r.Failure != nil:
		return r.Failure.Kind.String()
	case r.Truncated != "":
		return "truncated-" + r.Truncated
	}
	return "complete"
}

// check asserts what holds for every response.
func check(tb testing.TB, r *Response) {
	tb.Helper()
	if r.Wire == nil || int64(r.HeadLen) > r.Wire.Size() {
		tb.Fatalf("HeadLen %d is inconsistent with a Wire of %d bytes", r.HeadLen, r.Wire.Size())
	}
	if r.Failure != nil {
		if r.Status != 0 || r.Truncated != "" || r.Failure.Err == nil || r.Failure.CrawlLogCode() >= 0 {
			tb.Fatalf("inconsistent response: failure %v, status %d, truncated %q", r.Failure, r.Status, r.Truncated)
		}
		return
	}
	if r.Status < 100 || r.Status > 999 || r.HeadLen == 0 || !strings.HasPrefix(r.Proto, "HTTP/") {
		tb.Fatalf("inconsistent response: status %d, head of %d bytes, protocol %q", r.Status, r.HeadLen, r.Proto)
	}
}

// shortTimes bounds a test that hangs. A busy machine answers in time.
var shortTimes = Config{
	ConnectTimeout: 20 * time.Second, TLSTimeout: 20 * time.Second, FirstByteTimeout: 20 * time.Second,
	IdleTimeout: 20 * time.Second, TotalTimeout: time.Minute,
}
