package archive

import (
	"bytes"
	stdflate "compress/flate"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
)

func inflated(t testing.TB, b []byte) []byte {
	t.Helper()
	r := bytes.NewReader(b)
	got, err := io.ReadAll(stdflate.NewReader(r))
	if err != nil {
		t.Fatal(err)
	}
	if r.Len() > 0 {
		t.Fatalf("%d bytes behind the last block", r.Len())
	}
	return got
}

func TestDeflate(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, 100_000)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	few := make([]byte, 200_000)
	for i := range few {
		few[i] = "abc"[rnd.IntN(3)]
	}
	skewed := make([]byte, 60_000) // codes longer than allowed
	for i, n, c := 0, 1, byte(0); i < len(skewed); c++ {
		for k := 0; k < n && i < len(skewed); k++ {
			skewed[i] = c
			i++
		}
		n += n/2 + 1
	}
	rnd.Shuffle(len(skewed), func(i, j int) { skewed[i], skewed[j] = skewed[j], skewed[i] })
	d := new(deflater)
	for name, in := range map[string]string{
		"empty": "", "one": "x", "two": "xx", "lines": lorem, "long": strings.Repeat(lorem, 100),
		"random": string(random), "zeros": string(make([]byte, 300_000)), "few": string(few), "skewed": string(skewed),
		"far": string(random[:32768]) + "0123456789" + string(random[:32768]), "segment": strings.Repeat("x", segment), "segments": strings.Repeat("ab", segment),
		"far by one": string(random[:32769]) + string(random[:32769]),
	} {
		for _, final := range []bool{true, false} {
			var w bitWriter
			w.b = append(w.b, "front"...)
			d.deflate(&w, []byte(in), final)
			if !final {
				stored(&w, nil, 1)
			}
			w.align()
			if got := inflated(t, w.b[len("front"):]); string(got) != in {
				t.Errorf("%s: %d bytes came back, want %d", name, len(got), len(in))
			}
			if over := len(w.b) - len(in); over > 20+len(in)/4000 {
				t.Errorf("%s: %d bytes more than before", name, over)
			}
		}
	}
}

func FuzzDeflate(f *testing.F) {
	f.Add([]byte(lorem))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{1, 2, 3, 4, 5, 6, 7}, 100))
	d := new(deflater)
	f.Fuzz(func(t *testing.T, in []byte) {
		var w bitWriter
		d.deflate(&w, in, true)
		w.align()
		if !bytes.Equal(inflated(t, w.b), in) {
			t.Fatal("what came back differs")
		}
		if len(w.b) > len(in)+10+len(in)/4000 {
			t.Fatalf("%d bytes became %d", len(in), len(w.b))
		}
	})
}

// BenchmarkDeflate compresses pages of 22.3 KB with ours and with the library.
func BenchmarkDeflate(b *testing.B) {
	pages := visitedPages(128, "")
	b.Run("ours", func(b *testing.B) {
		d := new(deflater)
		var w bitWriter
		i, n := 0, 0
		for ; b.Loop(); i++ {
			w = bitWriter{b: w.b[:0]}
			d.deflate(&w, pages[i%len(pages)].wire, true)
			w.align()
			n += len(w.b)
		}
		b.ReportMetric(float64(n)/float64(i), "B/page")
	})
	for _, level := range []int{1, 2, 6, -2} {
		b.Run("library"+string('0'+rune(level)), func(b *testing.B) {
			var out slab
			fw, err := flate.NewWriter(&out, level)
			if err != nil {
				b.Fatal(err)
			}
			i, n := 0, 0
			for ; b.Loop(); i++ {
				out.b = out.b[:0]
				fw.Reset(&out)
				fw.Write(pages[i%len(pages)].wire)
				fw.Close()
				n += len(out.b)
			}
			b.ReportMetric(float64(n)/float64(i), "B/page")
		})
	}
}
