package message

import (
	"bytes"
	"io"
	"net/http/httputil"
	"testing"
)

func FuzzChunked(f *testing.F) {
	f.Add([]byte("3\r\nabc\r\n0\r\n\r\n"))
	f.Add([]byte("A;x=y\n0123456789\n0\nT: v\n\n"))
	f.Add([]byte("fffffffffffffffff\r\n"))
	f.Add([]byte("1 \r\na\r\n00\r\n\r\nmore"))
	f.Fuzz(func(t *testing.T, b []byte) {
		read := func(piece int) (body []byte, used int, c Chunks) {
			for rest := b; len(rest) > 0; {
				p := rest[:min(piece, len(rest))]
				for len(p) > 0 {
					data, n := c.Next(p)
					if n == 0 {
						return body, used, c
					}
					body, used, p, rest = append(body, data...), used+n, p[n:], rest[n:]
				}
			}
			return body, used, c
		}
		body, used, c := read(len(b) + 1)
		for _, piece := range []int{1, 3} {
			b2, u2, c2 := read(piece)
			if !bytes.Equal(b2, body) || u2 != used || c2.state != c.state {
				t.Fatalf("in pieces of %d: %q, %d, %v; in one: %q, %d, %v",
					piece, b2, u2, c2.state, body, used, c.state)
			}
		}
		if c.state == chunkDone && used < len("0\n\n") {
			t.Fatalf("done after %d bytes, which cannot be a whole body", used)
		}
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(b)))
		if err == nil && !(c.Ended() && bytes.Equal(body, want)) && c.state != chunkBad {
			t.Fatalf("got %q, state %v; net/http %q", body, c.state, want)
		}
		if err == nil && !bytes.Equal(body, want) {
			t.Fatalf("got %q, net/http %q", body, want)
		}
	})
}
