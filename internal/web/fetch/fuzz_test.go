package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// canned is a connection that has the whole answer ready. It returns the answer in pieces and then
// ends. Reads never block.
type canned struct {
	net.Conn
	rest  []byte
	piece int
}

func (c *canned) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.piece)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
func (c *canned) Write(p []byte) (int, error)      { return len(p), nil }
func (c *canned) Close() error                     { return nil }
func (c *canned) SetDeadline(time.Time) error      { return nil }
func (c *canned) SetReadDeadline(time.Time) error  { return nil }
func (c *canned) SetWriteDeadline(time.Time) error { return nil }

func cannedFetcher(tb testing.TB, reply []byte, piece int, c Config) *Fetcher {
	c.IdleKeep = -1
	c.Dial = func(context.Context, string, string) (net.Conn, error) {
		return &canned{rest: reply, piece: piece}, nil
	}
	f := must.Get(New(c))(tb)
	return f
}

func FuzzResponse(f *testing.F) {
	if _, err := os.Stat("../../../../shared/data/http"); err == nil {
		for _, raw := range rawReplies(f) {
			if len(raw.bytes) < 4096 {
				f.Add(raw.bytes, uint16(7))
			}
		}
	}
	f.Add(
		[]byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
		uint16(1))
	f.Add([]byte("\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.0 200\n a\nb\nContent-Length: 1\n\nxy"), uint16(3))
	u := must.Get(weburl.Parse("http://a.example/"))(f)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, reply []byte, piece uint16) {
		req := Request{URL: u, Addr: netip.MustParseAddr("93.184.216.34")}
		cfg := Config{MaxHeader: 8 << 10, MaxBody: 16 << 10, SpillBytes: 12 << 10, SpillDir: dir}
		whole := must.Get(cannedFetcher(t, reply, 1<<20, cfg).Fetch(context.Background(), req))(t)
		defer whole.Release()
		check(t, whole)
		wire := wireBytes(t, whole)
		if !bytes.Contains(reply, wire) {
			t.Fatalf("Wire %q holds bytes that never came", wire)
		}
		body := payloadBytes(t, whole)
		if got, _, err := whole.Decode(1 << 16); len(got) > 1<<16 ||
			err == nil && whole.Header.Get("Content-Encoding")+whole.Header.Get("Transfer-Encoding") == "" &&
				!bytes.Equal(got, body) {
			t.Fatalf("Decode: got %d bytes, %v; the payload has %d", len(got), err, len(body))
		}
		// The same bytes give the same response, in pieces of any size.
		parts := must.Get(cannedFetcher(t, reply, 1+int(piece), cfg).Fetch(context.Background(), req))(t)
		defer parts.Release()
		if outcome(parts) != outcome(whole) || parts.Status != whole.Status || parts.HeadLen != whole.HeadLen ||
			whole.Failure == nil && !bytes.Equal(payloadBytes(t, parts), body) {
			t.Fatalf("in one piece: %s %d %q, in several: %s %d %q",
				outcome(whole), whole.Status, body, outcome(parts), parts.Status, payloadBytes(t, parts))
		}
		// If net/http accepts a response, we accept it and read the same.
		status, want, ok := oracle(reply)
		if !ok || status < 100 || whole.Truncated == TruncatedLength ||
			whole.Failure != nil && whole.Failure.Kind == HeaderTooLarge {
			return
		}
		if strings.Count(string(reply), "HTTP/1.1 1") > maxInterim {
			return
		}
		if oddLine(reply) {
			return
		}
		if whole.Status != status || !bytes.Equal(body, want) {
			t.Fatalf("got %s %d %q (%v), net/http %d %q",
				outcome(whole), whole.Status, body, whole.Failure, status, want)
		}
	})
}

// oddLine reports whether reply has a status line that net/http reads differently. net/http takes
// any status of three characters that Atoi reads.
func oddLine(reply []byte) bool {
	line, _, _ := bytes.Cut(reply, []byte("\n"))
	_, _, _, _, ok := message.ParseStatus(string(line))
	return !ok
}

func FuzzDecode(f *testing.F) {
	text := []byte(strings.Repeat("The quick brown fox. ", 50))
	kinds := []string{"gzip", "deflate", "br", "zstd", "gzip, br", "zstd, gzip, deflate"}
	for i, k := range kinds {
		f.Add(coded(f, text, strings.Split(k, ", ")...), uint8(i))
	}
	u := must.Get(weburl.Parse("http://a.example/"))(f)
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		reply := append([]byte("HTTP/1.1 200 OK\r\nContent-Encoding: "+kinds[int(kind)%len(kinds)]+"\r\n\r\n"), body...)
		r, err := cannedFetcher(t, reply, 1<<20, Config{}).Fetch(context.Background(),
			Request{URL: u, Addr: netip.MustParseAddr("93.184.216.34")})
		must.Do(t, err)
		defer r.Release()
		const limit = 1 << 16
		long, cut, err := r.Decode(limit)
		if len(long) > limit || err != nil && !errors.Is(err, ErrCoding) || cut && err != nil {
			t.Fatalf("inconsistent result: %d bytes, cut %v, %v", len(long), cut, err)
		}
		long = bytes.Clone(long)
		short, _, _ := r.Decode(100)
		if !bytes.HasPrefix(long, short) && !bytes.HasPrefix(body, short) {
			t.Fatalf("Decode(100) = %q, Decode(%d) = %.200q", short, limit, long)
		}
	})
}

func FuzzConnectTo(f *testing.F) {
	f.Add("a.example:80:[::1]:8080")
	f.Add(":::")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseConnectTo(s)
		if err != nil {
			return
		}
		to := r.toAddr
		if strings.Contains(to, ":") {
			to = "[" + to + "]"
		}
		again, err := parseConnectTo(fmt.Sprintf("%s:%s:%s:%s", r.host, r.port, to, r.toPort))
		if err != nil || again != r {
			t.Fatalf("%q: got %+v; formatted and parsed again %+v, %v", s, r, again, err)
		}
	})
}
