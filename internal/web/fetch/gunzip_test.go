package fetch

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kgzip "github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// gzipOf returns one gzip member. level is a level of compress/flate; -2 is Huffman coding only, 0
// is stored.
func gzipOf(tb testing.TB, body []byte, level int) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := must.Get(kgzip.NewWriterLevel(&b, level))(tb)
	must.Get(w.Write(body))(tb)
	must.Do(tb, w.Close())
	return b.Bytes()
}

// texts are bodies of all kinds: with one symbol, without repetitions, with near and far matches,
// and in all lengths for which a loop may behave differently.
func texts(tb testing.TB) map[string][]byte {
	seed := [32]byte{7}
	rnd := rand.New(rand.NewChaCha8(seed))
	noise := make([]byte, 70_000)
	rand.NewChaCha8(seed).Read(noise)
	m := map[string][]byte{
		"page": benchText(), "noise": noise,
		"far": append(bytes.Clone(noise[:32768]), noise[:32768]...),
	}
	for _, n := range []int{0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 100, 257, 258, 259, 1000, 65535, 65536} {
		m[fmt.Sprint("one symbol ", n)] = bytes.Repeat([]byte{'x'}, n)
		m[fmt.Sprint("short noise ", n)] = noise[:n]
	}
	for period := 2; period < 20; period++ {
		m[fmt.Sprint("period ", period)] = bytes.Repeat(noise[:period], 3000/period)
	}
	// Symbols that are each half as frequent as the one before give codes of all lengths.
	var rare []byte
	for len(rare) < 300_000 {
		k := byte(0)
		for k < 60 && rnd.IntN(2) == 0 {
			k++
		}
		rare = append(rare, k*3)
	}
	m["rare"] = rare
	for i := range 40 {
		b := make([]byte, rnd.IntN(40_000))
		for j := range b {
			b[j] = "etaoin shrdlu<a href=\"/>\n"[rnd.IntN(1+rnd.IntN(25))]
		}
		m[fmt.Sprint("letters ", i)] = b
	}
	if files, err := filepath.Glob("../../../../shared/data/*/*.html"); err == nil {
		for _, name := range files[:min(len(files), 50)] {
			if b, err := os.ReadFile(name); err == nil {
				m[name] = b
			}
		}
	}
	return m
}

func TestGunzip(t *testing.T) {
	for name, text := range texts(t) {
		for level := -2; level <= 9; level++ {
			z := gzipOf(t, text, level)
			b, n, ok := gunzip(z, 1<<20)
			if !ok || !bytes.Equal(b.b[:n], text) {
				t.Errorf("%s, level %d: got ok %v, %d bytes of %d", name, level, ok, n, len(text))
			}
			b.release()
			if b, _, ok = gunzip(z, int64(len(text))-1); ok {
				t.Errorf("%s: decoded %d bytes with a limit of %d", name, len(text), len(text)-1)
				b.release()
			}
		}
	}
}

// gunzip skips the fields of the header. It does not decode a body with an unusual header.
func TestGunzipHeader(t *testing.T) {
	z := gzipOf(t, []byte("hello"), 6)
	with := func(flags byte, more string) []byte {
		b := append(bytes.Clone(z[:10]), more...)
		b[3] = flags
		return append(b, z[10:]...)
	}
	for _, c := range []struct {
		name string
		in   []byte
		ok   bool
	}{
		{"plain", z, true},
		{"text flag", with(1, ""), true},
		{"name", with(8, "a.html\x00"), true},
		{"name and comment", with(24, "a\x00b\x00"), true},
		{"extra", with(4, "\x03\x00abc"), true},
		{"all", with(28, "\x00\x00a\x00b\x00"), true},
		{"extra beyond the end", with(4, "\xff\xff"), false},
		{"name without end", append(bytes.Clone(z[:3]), append([]byte{8}, bytes.Repeat([]byte{1}, 40)...)...), false},
		{"header checksum", with(2, "\x00\x00"), false},
		{"reserved flag", with(32, ""), false},
		{"two members", append(bytes.Clone(z), z...), false},
		{"a tail", append(bytes.Clone(z), 0), false},
		{"cut", z[:len(z)-1], false},
		{"nothing", nil, false},
		{"only a header", z[:10], false},
		{"another method", append([]byte{0x1f, 0x8b, 7}, z[3:]...), false},
	} {
		b, n, ok := gunzip(c.in, 1000)
		if ok != c.ok || ok && string(b.b[:n]) != "hello" {
			t.Errorf("%s: got ok %v, want %v", c.name, ok, c.ok)
		}
		b.release()
	}
}

// A damaged body is never decoded as a good one and does no harm.
func TestGunzipDamaged(t *testing.T) {
	text := benchText()
	z := gzipOf(t, text, 6)
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 4000 {
		bad := bytes.Clone(z)
		for range 1 + rnd.IntN(3) {
			bad[rnd.IntN(len(bad))] ^= 1 << rnd.IntN(8)
		}
		if rnd.IntN(4) == 0 {
			bad = bad[:rnd.IntN(len(bad))]
		}
		if b, n, ok := gunzip(bad, 1<<20); ok {
			if !bytes.Equal(b.b[:n], text) { // flags of the header may change nothing
				t.Fatalf("a damaged body was decoded to %d different bytes", n)
			}
			b.release()
		}
	}
}

// A false length costs no more memory than deflate could produce.
func TestGunzipClaims(t *testing.T) {
	z := gzipOf(t, []byte("hello"), 6)
	for _, size := range []uint32{0, 4, 6, 1 << 20, 1<<32 - 1} {
		bad := bytes.Clone(z)
		binary.LittleEndian.PutUint32(bad[len(bad)-4:], size)
		if _, _, ok := gunzip(bad, 1<<40); ok {
			t.Errorf("a false length of %d was accepted", size)
		}
	}
	bomb := gzipOf(t, make([]byte, 8<<20), 9)
	if _, _, ok := gunzip(bomb, 1<<40); ok {
		t.Error("8 MiB were decoded in one piece; the maximum is 4 MiB")
	}
}

// gunzip accepts only what compress/gzip reads as one member, and gives the same bytes.
func FuzzGunzip(f *testing.F) {
	for name, text := range texts(f) {
		if len(text) < 3000 || strings.HasPrefix(name, "letters") {
			for _, level := range []int{-2, 0, 1, 6} {
				f.Add(gzipOf(f, text, level))
			}
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		const limit = 1 << 16
		b, n, ok := gunzip(in, limit)
		if !ok {
			return
		}
		defer b.release()
		z, err := gzip.NewReader(bytes.NewReader(in))
		if err != nil {
			t.Fatalf("decoded %d bytes of a body that compress/gzip refuses: %v", n, err)
		}
		want, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(b.b[:n], want) {
			t.Fatalf("got %d bytes, but compress/gzip gives %d, %v", n, len(want), err)
		}
	})
}

// BenchmarkGunzip compares the two decoders on one page.
func BenchmarkGunzip(b *testing.B) {
	text := benchText()
	z := gzipOf(b, text, 6)
	b.Run("memory", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			buf, n, ok := gunzip(z, 1<<20)
			if !ok || n != len(text) {
				b.Fatal(n, ok)
			}
			buf.release()
		}
	})
	b.Run("stream", func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		var r kgzip.Reader
		plain := make([]byte, 1<<20)
		for b.Loop() {
			must.Do(b, r.Reset(bytes.NewReader(z)))
			if n, err := io.ReadFull(&r, plain); n != len(text) || err != io.ErrUnexpectedEOF {
				b.Fatal(n, err)
			}
		}
	})
}
