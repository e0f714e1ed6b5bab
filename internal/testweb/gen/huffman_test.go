package gen

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestLimitedCodes: no code is longer than the limit, and the codes are complete (the Kraft sum is one), as decoders
// demand.
func TestLimitedCodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32Range(0, 1<<20))
		freq := rapid.SliceOfN(one, 2, 286).Draw(t, "freq")
		most := uint8(rapid.IntRange(9, 15).Draw(t, "most"))
		used := 0
		for _, f := range freq {
			if f > 0 {
				used++
			}
		}
		if used < 2 {
			t.Skip()
		}
		sum := 0
		for i, l := range limited(freq, most) {
			if (l == 0) != (freq[i] == 0) || l > most {
				t.Fatalf("symbol %d with frequency %d: %d bits, want at most %d", i, freq[i], l, most)
			}
			if l > 0 {
				sum += 1 << (15 - l)
			}
		}
		if sum != 1<<15 {
			t.Fatalf("the Kraft sum is %d/32768, want 1", sum)
		}
	})
}

// TestMatchSymbols compares the symbols with the tables of RFC 1951, 3.2.5.
func TestMatchSymbols(t *testing.T) {
	base := 3
	for s, extra := range []uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5} {
		for n := base; n < base+1<<extra && n < 258; n++ {
			if got, bits := lengthSymbol(n); got != 257+s || bits != extra {
				t.Errorf("length %d: symbol %d with %d bits, want %d with %d", n, got, bits, 257+s, extra)
			}
		}
		base += 1 << extra
	}
	base = 1
	for s := range 30 {
		extra := uint8(max(0, s/2-1))
		for d := base; d < base+1<<extra; d++ {
			if got, bits := distanceSymbol(d); got != s || bits != extra {
				t.Fatalf("distance %d: symbol %d with %d bits, want %d with %d", d, got, bits, s, extra)
			}
		}
		base += 1 << extra
	}
	if base != 32769 {
		t.Errorf("the symbols cover distances up to %d, want 32768", base-1)
	}
}

// TestFarMatches: if the previous link is outside of the window, the next one is encoded without a match.
func TestFarMatches(t *testing.T) {
	w := newWeb(t, Spec{Hosts: 3, PageBytes: 200_000, Topics: 1, Languages: 1})
	want, _ := fetched(t, w, 0, 0, false)
	z, _ := fetched(t, w, 0, 0, true)
	zr, err := gzip.NewReader(bytes.NewReader(z))
	must.Do(t, err)
	if got, err := io.ReadAll(zr); err != nil || !bytes.Equal(got, want) || len(want) < 60_000 {
		t.Errorf("%v: got %d bytes, want %d", err, len(got), len(want))
	}
}

// TestGzipRatio: pages can be compressed as much as real ones.
func TestGzipRatio(t *testing.T) {
	w := newWeb(t, Spec{Hosts: 2000, Topics: 4, Languages: 4})
	plain, packed := 0, 0
	for h := range int64(200) {
		a, _ := fetched(t, w, h, 0, false)
		b, _ := fetched(t, w, h, 0, true)
		plain, packed = plain+len(a), packed+len(b)
	}
	if ratio := float64(plain) / float64(packed); ratio < 3 || ratio > 5 {
		t.Errorf("ratio %.2f, want 3 to 5", ratio)
	}
}

func TestVocabularies(t *testing.T) {
	topics, languages := vocabularies()
	if len(topics) != numTopics || len(languages) != numLanguages || languages[0].name != "en" ||
		topics[10].name != "science" {
		t.Fatalf("%d topics, %d languages", len(topics), len(languages))
	}
	for _, v := range append(topics, languages...) {
		if n := len(v.fitting(numSlugs+numDirs, nil)); len(v.words) < 300 || n != numSlugs+numDirs {
			t.Errorf("%s: %d words, %d of them for links", v.name, len(v.words), n)
		}
	}
	if len(vocabularyFile) > 150<<10 {
		t.Errorf("the vocabularies take %d bytes, want at most %d", len(vocabularyFile), 150<<10)
	}
}
