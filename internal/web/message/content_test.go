package message

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestStoredChunks: a broken chunk ends a body. A body that does not begin with a chunk size has none.
func TestStoredChunks(t *testing.T) {
	head := ReadHead([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"0\r\n\r\n", ""},
		{"5\r\nhello\r\n0\r\n\r\n", "hello"},
		{"5;ext=1\r\nhello\r\n3\r\n wo\r\n0\r\nTrailer: x\r\n\r\n", "hello wo"},
		{"005\nhello\n0\n\n", "hello"},
		{"5\r\nhel", "hel"},
		{"5\r\nhello", "hello"},
		{"5\r\nhello\r\n", "hello"},
		{"5\r\nhello\r\nFFF", "hello"},
		{"not chunked", "not chunked"},
		{"-5\r\nhello\r\n", "-5\r\nhello\r\n"},
		{"5\r\nhelloXX3\r\nabc", "hello"},
		{"ffffffffffffffffff\r\nx", "ffffffffffffffffff\r\nx"},
		{strings.Repeat("5", 9000), strings.Repeat("5", 9000)},
	} {
		for _, in := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in))} {
			body, coded := head.Coded(t.Context(), in)
			if got, err := io.ReadAll(body); err != nil || string(got) != c.want || coded != (c.in != c.want) {
				t.Errorf("%.40q: got %.40q (%v), want %.40q", c.in, got, err, c.want)
			}
		}
	}
}

// packed returns body under codings, the first one first.
func packed(t *testing.T, body []byte, codings ...string) []byte {
	t.Helper()
	for _, c := range codings {
		var b bytes.Buffer
		var w io.WriteCloser
		switch c {
		case "gzip":
			w = gzip.NewWriter(&b)
		case "deflate":
			w = zlib.NewWriter(&b)
		case "br":
			w = brotli.NewWriter(&b)
		}
		must.Get(w.Write(body))(t)
		must.Do(t, w.Close())
		body = b.Bytes()
	}
	return body
}

// stored reads the content of a stored response with these fields.
func stored(ctx context.Context, fields string, body []byte) ([]byte, error) {
	h := ReadHead([]byte("HTTP/1.1 200 OK\r\n" + fields + "\r\n"))
	in, _, err := h.Content(ctx, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(in)
}

// Several Content-Encoding fields are one list (RFC 9110, 5.3).
func TestContent(t *testing.T) {
	text := []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 2000))
	gz, both := packed(t, text, "gzip"), packed(t, text, "deflate", "gzip")
	for _, c := range []struct {
		fields     string
		body, want []byte
		err        error
	}{
		{"", text, text, nil},
		{"Content-Encoding: deflate, gzip\r\n", both, text, nil},
		{"Content-Encoding: deflate\r\ncontent-encoding: gzip\r\n", both, text, nil},
		{"Content-Encoding: identity\r\nContent-Encoding: X-GZIP\r\n", gz, text, nil},
		{"Content-Encoding: gzip\r\nX: y\r\nContent-Encoding:\r\n", gz, text, nil},
		{"Content-Encoding: deflate\r\nTransfer-Encoding: gzip\r\n", both, text, nil},
		{"Content-Encoding: deflate\r\nTransfer-Encoding: gzip, chunked\r\n",
			fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(both), both), text, nil},
		{"Content-Encoding: gzip, gzip\r\n", gz, text, nil}, // it was packed once
		{"Content-Encoding: gzip\r\n", text, text, nil},
		{"Content-Encoding: gzip\r\nContent-Encoding: foo\r\n", gz, gz, nil},
		{"Content-Encoding: gzip\r\n", gz[:len(gz)/2], nil, ErrCoding},
		{strings.Repeat("Content-Encoding: gzip\r\n", MaxCodings+1), gz, nil, ErrLayers},
	} {
		got, err := stored(t.Context(), c.fields, c.body)
		if !errors.Is(err, c.err) || c.err == nil && (err != nil || !bytes.Equal(got, c.want)) {
			t.Errorf("%q: %d bytes, %v; want %d, %v", c.fields, len(got), err, len(c.want), c.err)
		}
	}
}

// A stages counts how often a coded body is read, and ends a context at the last time.
type stages struct {
	io.Reader
	reads, last int
	end         func()
}

func (s *stages) Read(p []byte) (int, error) {
	if s.reads++; s.reads == s.last {
		s.end()
	}
	return s.Reader.Read(p)
}

// A body whose inner codings yield far more than the outer one ends with ErrTooLong, however little is read of it.
// Each Read ends with the context, also one that finds no content.
func TestContentIsBounded(t *testing.T) {
	hollow := bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 1<<20) // 5 MB of deflate without content
	for _, c := range []struct {
		name, fields string
		body         []byte
		most         int64
		want         error
	}{
		{"hollow", "deflate, gzip", packed(t, hollow, "gzip"), 1 << 40, ErrTooLong},
		{"hollow within", "deflate, br, gzip", packed(t, hollow, "br", "gzip"), 1 << 40, ErrTooLong},
		{"deep", "gzip, gzip, gzip", packed(t, make([]byte, 8<<20), "gzip", "gzip", "gzip"), 1 << 20, ErrTooLong},
	} {
		h := ReadHead([]byte("HTTP/1.1 200 OK\r\nContent-Encoding: " + c.fields + "\r\n\r\n"))
		codings, err := AppendCodings(nil, h.Header)
		must.Do(t, err)
		d := NewDecoder(t.Context(), bytes.NewReader(c.body), codings, c.most)
		n, err := io.Copy(io.Discard, d)
		if !errors.Is(err, c.want) || n > c.most {
			t.Errorf("%s: %d bytes, %v; want %v", c.name, n, err, c.want)
		}
		for i := range len(codings) - 1 {
			if d.inner[i].read > layerRoom+2*(n+64<<10) {
				t.Errorf("%s: coding %d has yielded %d bytes for %d", c.name, i, d.inner[i].read, n)
			}
		}
		if _, err := d.Read(make([]byte, 1)); !errors.Is(err, c.want) {
			t.Errorf("%s: after its end %v", c.name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	in := &stages{Reader: bytes.NewReader(hollow), last: 3, end: cancel}
	d := NewDecoder(ctx, in, []string{"deflate"}, 1<<40)
	if n, err := d.Read(make([]byte, 10)); n != 0 || err != context.Canceled || in.reads != 3 {
		t.Errorf("%d bytes, %v after %d reads; want the context's error at the third", n, err, in.reads)
	}
	broken := errors.New("broken disk")
	d = NewDecoder(t.Context(), iotest.ErrReader(broken), []string{"br", "gzip"}, 1<<40)
	if _, err := io.ReadAll(d); err != broken {
		t.Errorf("an error of the body's source: %v", err)
	}
}

func TestUnpacked(t *testing.T) {
	for size, want := range map[int64]int64{0: 256 << 20, 1 << 30: 20 << 30, math.MaxInt64: math.MaxInt64 / 20 * 20} {
		if got := Unpacked(size); got != want {
			t.Errorf("Unpacked(%d) = %d, want %d", size, got, want)
		}
	}
}
