package fetch

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// coded returns body with the codings applied, the first one first.
func coded(tb testing.TB, body []byte, codings ...string) []byte {
	tb.Helper()
	for _, c := range codings {
		var b bytes.Buffer
		var w io.WriteCloser
		switch c {
		case "gzip":
			w = gzip.NewWriter(&b)
		case "deflate":
			w = zlib.NewWriter(&b)
		case "raw":
			w, _ = flate.NewWriter(&b, 6)
		case "br":
			w = brotli.NewWriter(&b)
		case "zstd":
			w, _ = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
		}
		must.Get(w.Write(body))(tb)
		must.Do(tb, w.Close())
		body = b.Bytes()
	}
	return body
}

// response returns what a Fetcher makes of a server's reply with this body.
func response(tb testing.TB, body []byte, encoding string, spillBytes int64) *Response {
	tb.Helper()
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nTransfer-Encoding: chunked\r\n\r\n", encoding)
	var b bytes.Buffer
	b.WriteString(head)
	rnd := rand.New(rand.NewPCG(1, uint64(len(body))))
	for rest := body; len(rest) > 0; {
		k := min(len(rest), 1+rnd.IntN(5000))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", k, rest[:k])
		rest = rest[k:]
	}
	b.WriteString("0\r\n\r\n")
	f, _ := piped(tb, Config{SpillBytes: spillBytes, SpillDir: tb.TempDir()}, answer(b.Bytes(), true))
	r := mustFetch(tb, f, Request{URL: mustURL(tb, "http://a.example/")})
	if outcome(r) != "complete" {
		tb.Fatalf("got %s %v %s, want complete", outcome(r), r.Failure, r.Note)
	}
	if !bytes.Equal(payloadBytes(tb, r), body) {
		tb.Fatal("payload differs")
	}
	return r
}

func TestDecode(t *testing.T) {
	text := []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 2000))
	gz := coded(t, text, "gzip")
	cat := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	badSum := bytes.Clone(gz)
	badSum[len(badSum)-6] ^= 0xff
	for _, c := range []struct {
		name, encoding string
		body, want     []byte
		bad            bool // ErrCoding
	}{
		{"none", "", text, text, false},
		{"identity", "identity", text, text, false},
		{"gzip", "gzip", gz, text, false},
		{"x-gzip", "X-GZip", gz, text, false},
		{"two members", "gzip", cat(gz, gz), cat(text, text), false},
		{"garbage tail", "gzip", cat(gz, []byte("garbage")), text, false},
		{"zero tail", "gzip", cat(gz, make([]byte, 100)), text, false},
		{"bad checksum", "gzip", badSum, text, true},
		{"cut gzip", "gzip", gz[:len(gz)/2], text, true}, // a prefix of the text is decoded
		{"not gzip", "gzip", text, text, true},
		{"one byte of gzip", "gzip", gz[:1], nil, true},
		{"empty gzip", "gzip", nil, nil, false},
		{"zlib", "deflate", coded(t, text, "deflate"), text, false},
		{"raw deflate", "deflate", coded(t, text, "raw"), text, false},
		{"not deflate", "deflate", []byte("<html>"), nil, true},
		{"br", "br", coded(t, text, "br"), text, false},
		{"cut br", "br", coded(t, text, "br")[:40], text, true},
		{"not br", "br", text, nil, true},
		{"zstd", "zstd", coded(t, text, "zstd"), text, false},
		{"two frames", "zstd", cat(coded(t, text, "zstd"), coded(t, text, "zstd")), cat(text, text), false},
		{"not zstd", "zstd", text, text, true},
		{"gzip, br", "gzip, br", coded(t, text, "gzip", "br"), text, false},
		{"br, deflate, zstd", "br, deflate, identity, zstd", coded(t, text, "br", "deflate", "zstd"), text, false},
		{"gzip twice", "gzip, gzip", coded(t, text, "gzip", "gzip"), text, false},
		{"gzip once, said twice", "gzip, gzip", gz, text, true},
		{"unknown", "compress", text, text, false},
		{"unknown over gzip", "gzip, foo", gz, gz, false},
		{"six codings", "gzip, gzip, gzip, gzip, gzip, gzip", gz, gz, true},
	} {
		for _, spill := range []int64{1 << 20, 1 << 10} {
			r := response(t, c.body, c.encoding, spill)
			for range 2 { // the second time with pooled decoders
				got, cut, err := r.Decode(1 << 20)
				exact := !strings.HasPrefix(c.name, "cut") && c.want != nil
				if cut || errors.Is(err, ErrCoding) != c.bad || err != nil && !c.bad ||
					exact && !bytes.Equal(got, c.want) || !bytes.HasPrefix(cat(c.want, c.want), got) && c.want != nil {
					t.Errorf("%s: got %d bytes, cut %v, %v; want %d bytes, ErrCoding %v",
						c.name, len(got), cut, err, len(c.want), c.bad)
				}
			}
			r.Release()
		}
	}
}

// A body that the connection cut within its coding is truncated, but not an error.
func TestDecodeTruncated(t *testing.T) {
	noise := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for _, c := range []string{"gzip", "deflate", "br", "zstd"} {
		b := coded(t, noise, c)
		reply := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", c, len(b),
			b[:len(b)*3/4])
		f, _ := piped(t, Config{}, answer([]byte(reply), false))
		r := mustFetch(t, f, Request{URL: mustURL(t, "http://a.example/")})
		got, cut, err := r.Decode(1 << 20)
		if !cut || err != nil || !bytes.HasPrefix(noise, got) {
			t.Errorf("%s: got %d bytes, cut %v, %v; want a cut prefix", c, len(got), cut, err)
		}
	}
}

func TestBombs(t *testing.T) {
	zeros := make([]byte, 16<<20)
	const limit = 100_000
	for _, c := range [][]string{{"gzip"}, {"deflate"}, {"br"}, {"zstd"}, {"gzip", "gzip"}, {"zstd", "br"},
		{"br", "gzip", "zstd"}} {
		b := coded(t, zeros, c...)
		if len(b) > 100<<10 {
			t.Fatalf("%v: %d bytes are too many for a bomb", c, len(b))
		}
		r := response(t, b, strings.Join(c, ","), 1<<20)
		got, cut, err := r.Decode(limit)
		if len(got) != limit || !cut || err != nil || bytes.ContainsFunc(got, func(r rune) bool { return r != 0 }) {
			t.Errorf("%v: got %d bytes, cut %v, %v; want a cut body of the limit's length", c, len(got), cut, err)
		}
		if got, cut, err = r.Decode(0); len(got) != 0 || !cut || err != nil {
			t.Errorf("%v, limit 0: got %d bytes, cut %v, %v; want a cut empty body", c, len(got), cut, err)
		}
		r.Release()
	}
	// A bomb that is large only in the middle: deflate blocks without content, compressed well.
	hollow := bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 1<<20)
	r := response(t, coded(t, hollow, "gzip"), "deflate, gzip", 1<<20)
	if got, cut, err := r.Decode(limit); len(got) != 0 || !cut || err != nil {
		t.Errorf("empty blocks: got %d bytes, cut %v, %v; want a cut empty body", len(got), cut, err)
	}
	r.Release()
	r = response(t, bytes.Repeat(coded(t, nil, "gzip"), 20_000), "gzip", 1<<20)
	if got, _, err := r.Decode(limit); len(got) != 0 || !errors.Is(err, ErrCoding) {
		t.Errorf("too many members: got %d bytes, %v; want ErrCoding", len(got), err)
	}
}

// A body as long as its limit needs no buffer of twice the limit, because the buffer grows to the
// limit and no further.
func TestDecodeBuffer(t *testing.T) {
	const limit = 16 << 20
	r := response(t, coded(t, make([]byte, limit+10), "gzip"), "gzip", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got, cut, err := r.Decode(limit)
	runtime.ReadMemStats(&after)
	if len(got) != limit || !cut || err != nil {
		t.Errorf("got %d bytes, cut %v, %v; want a cut body of the limit's length", len(got), cut, err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 2*limit+1<<20 {
		t.Errorf("allocated %d bytes for a body of %d", n, limit)
	}
	r.Release()
}

// fullDisk fails every write after the first left bytes.
type fullDisk struct {
	disk.FS
	left   int
	opened int
	closed int
}

func (d *fullDisk) OpenFile(name string, flag int, perm fs.FileMode) (disk.File, error) {
	if d.left < 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOSPC}
	}
	f, err := d.FS.OpenFile(name, flag, perm)
	d.opened++
	return &fullFile{f, d}, err
}

type fullFile struct {
	disk.File
	d *fullDisk
}

func (f *fullFile) Write(p []byte) (int, error) {
	if f.d.left -= len(p); f.d.left < 0 {
		return 0, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.Write(p)
}

func (f *fullFile) Close() error { f.d.closed++; return f.File.Close() }

func TestSpill(t *testing.T) {
	body := make([]byte, 500_000)
	rand.NewChaCha8([32]byte{2}).Read(body)
	reply := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for _, c := range []struct {
		left int
		want error
	}{{1 << 30, nil}, {100_000, syscall.ENOSPC}, {0, syscall.ENOSPC}, {-1, syscall.ENOSPC}} {
		dir := t.TempDir()
		d := &fullDisk{FS: disk.OS, left: c.left}
		f, _ := piped(t, Config{FS: d, SpillDir: dir, SpillBytes: 32 << 10}, answer(reply, true))
		r, err := f.Fetch(context.Background(), Request{URL: mustURL(t, "http://a.example/")})
		if !errors.Is(err, c.want) || disk.IsFull(err) != (c.want != nil) || (r == nil) != (c.want != nil) {
			t.Errorf("%d bytes free: got %v, want %v", c.left, err, c.want)
		}
		if r != nil {
			if !bytes.Equal(wireBytes(t, r), reply) || !bytes.Equal(payloadBytes(t, r), body) {
				t.Error("spilled bytes differ")
			}
			if _, mem := r.Wire.Bytes(); mem {
				t.Error("nothing was spilled")
			}
			if got, cut, err := r.Decode(1 << 20); err != nil || cut || !bytes.Equal(got, body) {
				t.Errorf("Decode: got %d bytes, %v, %v", len(got), cut, err)
			}
			p := make([]byte, 100)
			for _, off := range []int64{0, 32<<10 - 50, 400_000, int64(len(reply)) - 50, int64(len(reply))} {
				n, err := r.Wire.ReadAt(p, off)
				if !bytes.Equal(p[:n], reply[off:min(off+100, int64(len(reply)))]) || (err == io.EOF) != (n < 100) {
					t.Errorf("ReadAt(%d): got %d bytes, %v", off, n, err)
				}
			}
			r.Release()
			r.Release()
			if n, err := r.Wire.ReadAt(p, 0); n != 0 || err != io.EOF {
				t.Errorf("ReadAt after Release: got %d, %v, want 0, EOF", n, err)
			}
		}
		if d.opened != d.closed {
			t.Errorf("opened %d spill files, but closed %d", d.opened, d.closed)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("spill files remain: %v", left)
		}
		if f.idle.len() > 0 && c.want != nil {
			t.Error("a connection was kept after a full disk")
		}
	}
}

func TestBuffers(t *testing.T) {
	for _, size := range []int{0, 1, 1024, 1025, 32 << 10, 4 << 20, 4<<20 + 1} {
		b := newBuffer(size)
		if len(b.b) < size || len(b.b) > max(2*size, 1024) {
			t.Errorf("newBuffer(%d) has %d bytes", size, len(b.b))
		}
		b.release()
	}
	(*buffer)(nil).release()
}
