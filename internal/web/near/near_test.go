package near_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/near"
)

// words returns words that differ with high probability.
func words(r *rand.Rand, n int) []string {
	ws := make([]string, n)
	for i := range ws {
		ws[i] = fmt.Sprintf("w%x", r.Uint32())
	}
	return ws
}

func sketch(t testing.TB, text string) near.Sketch {
	t.Helper()
	var m near.Scratch
	s, ok := m.Of([]byte(text))
	if !ok {
		t.Fatalf("%.60q has no sketch", text)
	}
	return s
}

// TestSimilarity compares estimates with the exact coefficient of two texts that share a part.
func TestSimilarity(t *testing.T) {
	for _, n := range []int{60, 300, 3000, 30000} {
		for _, share := range []float64{0, 0.3, 0.6, 0.8, 0.9, 0.97, 1} {
			// The seed is fixed: the estimate is within five standard errors for nearly all seeds, not for all.
			r := rand.New(rand.NewPCG(1, uint64(n)))
			shared := int(2 * float64(n) * share / (1 + share)) // of n shingles
			ws := words(r, shared+near.Width-1)
			text := func() string {
				return strings.Join(ws, " ") + " " + strings.Join(words(r, n-shared), " ")
			}
			a, b := sketch(t, text()), sketch(t, text())
			got, want := near.Similarity(&a, &b), float64(shared)/float64(2*n-shared)
			if bound := standardError(want, float64(n)) * 5; math.Abs(got-want) > bound {
				t.Errorf("%d shingles: the similarity is %.3f, want %.3f within %.3f", n, got, want, bound)
			}
		}
	}
}

// standardError is about that of the estimate for two texts of n shingles with a similarity, by the formulas for the
// odd sketch (Mitzenmacher, Pagh and Pham, section 3) and for the sample.
func standardError(similarity, n float64) float64 {
	const bits, sample = 1024, 2048
	share := 2 * similarity / (1 + similarity) // of the shingles of a text that the other has
	size := math.Min(n, sample)
	d := 2 * size * (1 - share)
	if d > bits { // nearly half of the bits differ
		return 0.1
	}
	v := (bits/4*(math.Exp(4*d/bits)-1) - d + 1) / (4 * size * size)
	if n > sample {
		v += share * (1 - share) / sample
	}
	return math.Sqrt(v) * (1 + similarity) * (1 + similarity) / 2 // the derivative of share/(2-share)
}

// TestLeastHash compares how often texts have the same least hash with their similarity.
func TestLeastHash(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3)) // fixed, because the share varies
	const pairs, n, shared = 2000, 50, 40
	var m near.Scratch
	same := 0
	for range pairs {
		ws := words(r, shared+near.Width-1)
		hash := func() uint64 {
			h, ok := m.LeastHash([]byte(strings.Join(append(ws[:len(ws):len(ws)], words(r, n-shared)...), " ")))
			if !ok {
				t.Fatal("a text of 54 words has no hash")
			}
			return h
		}
		if a, b := hash(), hash(); a == b {
			same++
		}
	}
	got, want := float64(same)/pairs, float64(shared)/(2*n-shared)
	if math.Abs(got-want) > 0.05 {
		t.Errorf("%.3f of the texts have the same hash, want %.3f", got, want)
	}
	for _, text := range []string{"", "one two three four"} {
		if _, ok := m.LeastHash([]byte(text)); ok {
			t.Errorf("%q has a hash, although it has no five words", text)
		}
	}
	if _, ok := m.LeastHash([]byte("one two three four five")); !ok {
		t.Error("a text of five words has no hash")
	}
}

func TestSameText(t *testing.T) {
	base := "Élan ÉTÉ 42 naïve " + strings.Join(words(rand.New(rand.NewPCG(1, 2)), 60), " ")
	a := sketch(t, base)
	for name, text := range map[string]string{
		"case":        strings.ToUpper(base),
		"spaces":      strings.ReplaceAll(base, " ", "\n\t "),
		"punctuation": strings.ReplaceAll(base, " ", ", «") + "!",
	} {
		b := sketch(t, text)
		if a != b {
			t.Errorf("%s changes the sketch: similarity %.2f", name, near.Similarity(&a, &b))
		}
	}
}

func TestShortText(t *testing.T) {
	r := testseed.Rand(t)
	var m near.Scratch
	for n, want := range map[int]bool{0: false, 4: false, near.Least + near.Width - 2: false,
		near.Least + near.Width - 1: true} {
		if _, ok := m.Of([]byte(strings.Join(words(r, n), " "))); ok != want {
			t.Errorf("%d words: a sketch is %v, want %v", n, ok, want)
		}
	}
	if _, ok := m.Of([]byte(strings.Repeat("網頁爬蟲程序", 6))); !ok {
		t.Error("36 characters without spaces have no sketch")
	}
}

// TestStable has the keys of a text, because indexes on disk have them.
func TestStable(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "word%d ", i*i)
	}
	s := sketch(t, text.String())
	keys := s.Keys()
	if got := fmt.Sprintf("%x %x %x", s[:8], keys[:2], s[96:104]); got != stable {
		t.Errorf("the sketch and its keys begin with %s, want %s", got, stable)
	}
}

const stable = `97fc3b04e359e7cb [1d8339dcdb69c586 bc937ae858ef559e] 0000000400008000`

// FuzzOf checks that no text fails, and that a text has the similarity 1 to itself.
func FuzzOf(f *testing.F) {
	f.Add([]byte("a b c d e f g h i j k l m n o p q r s t u v w x y z 1 2 3 4"))
	f.Add([]byte("\xff\xfe 網頁"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var m near.Scratch
		if s, ok := m.Of(text); ok && near.Similarity(&s, &s) != 1 {
			t.Errorf("the similarity of %q to itself is %v", text, near.Similarity(&s, &s))
		}
	})
}

func BenchmarkOf(b *testing.B) {
	text := []byte(strings.Join(words(rand.New(rand.NewPCG(1, 1)), 1000), " "))
	var m near.Scratch
	b.SetBytes(int64(len(text)))
	n := 0
	for b.Loop() {
		m.Of(text)
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "pages/s")
}
