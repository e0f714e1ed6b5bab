package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestReplay: a response that is made of received bytes has the body that the server sent, whatever its framing.
func TestReplay(t *testing.T) {
	f, err := New(Config{SpillDir: t.TempDir(), SpillBytes: 64 << 10, LoopbackOnly: true})
	must.Do(t, err)
	defer f.Close()
	large := strings.Repeat("a large body, which is spilled to a file. ", 10_000)
	for _, c := range []struct{ name, head, body, want string }{
		{"by length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello", "hello"},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n1;x\r\n!\r\n0\r\n\r\n",
			"hello!"},
		{"until the end", "HTTP/1.0 200 OK\n\n", "hello", "hello"},
		{"large", fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(large)), large, large},
		{"large and chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(large), large), large},
	} {
		t.Run(c.name, func(t *testing.T) {
			wire := c.head + c.body
			x := Received{URL: weburl.MustParse("http://a.example/"), Began: time.Unix(1, 0), Size: int64(len(wire))}
			halves := iotest.HalfReader(strings.NewReader(wire))
			for _, r := range []io.Reader{strings.NewReader(wire + "more"), halves} {
				resp, err := f.Replay(x, r)
				must.Do(t, err)
				body, cut, err := resp.Decode(1 << 20)
				if err != nil || cut || string(body) != c.want {
					t.Errorf("%d octets, %v, %v; want %d", len(body), cut, err, len(c.want))
				}
				if resp.Status != 200 || resp.HeadLen != len(c.head) || resp.Wire.Size() != int64(len(wire)) {
					t.Errorf("status %d, header of %d octets, wire of %d", resp.Status, resp.HeadLen, resp.Wire.Size())
				}
				resp.Release()
			}
		})
	}
	for _, wire := range []string{"", "x", "HTTP/1.1 200 OK\r\nA: b\r\n", "HTTP/1.1 2x0 OK\r\n\r\nbody",
		"HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", 100_000)} {
		_, err := f.Replay(Received{Size: int64(len(wire))}, strings.NewReader(wire))
		if !errors.Is(err, ErrNotResponse) {
			t.Errorf("%.30q: %v, want %v", wire, err, ErrNotResponse)
		}
	}
	_, err = f.Replay(Received{Size: 100}, strings.NewReader("HTTP/1.1 200 OK\r\n\r\nbody"))
	if !errors.Is(err, ErrNotResponse) {
		t.Errorf("a cut body: %v, want %v", err, ErrNotResponse)
	}
}

// FuzzReplay: any bytes are a response or an error, and a response has all of them.
func FuzzReplay(f *testing.F) {
	fetcher := must.Get(New(Config{SpillDir: f.TempDir(), LoopbackOnly: true}))(f)
	f.Cleanup(func() { fetcher.Close() })
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\n\n"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		r, err := fetcher.Replay(Received{Size: int64(len(wire))}, bytes.NewReader(wire))
		if err != nil {
			if !errors.Is(err, ErrNotResponse) {
				t.Fatal(err)
			}
			return
		}
		defer r.Release()
		if r.Wire.Size() != int64(len(wire)) || r.HeadLen > len(wire) {
			t.Fatalf("%d of %d octets, header of %d", r.Wire.Size(), len(wire), r.HeadLen)
		}
		r.Decode(1 << 16)
	})
}
