package lab

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestJaccard(t *testing.T) {
	of := func(text string) map[uint64]bool { return exactShingles(judgeWords(text)) }
	for _, c := range []struct {
		a, b string
		want float64
	}{
		{"a b c d e f", "a b c d e f", 1},
		{"<p>A b, c</p> d<script>x y z</script> e &amp; f", "a b c <!-- u v --> d e<style>w</style> f", 1},
		{"a b c d e f", "a b c d e g", 1.0 / 3},
		{"a b c d e f g h", "a b c d e f g h i j", 4.0 / 6},
		{"a b c d e a b c d e", "a b c d e", 1.0 / 5}, // a shingle that occurs again counts once
		{"a b c d e", "e d c b a", 0},
		{"a b c d", "a b c d", 0}, // no shingle
	} {
		if got := jaccard(of(c.a), of(c.b)); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%q and %q: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}

// TestAllPairs compares the coefficients of all pairs with those of jaccard.
func TestAllPairs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var pages []*nearPage
	for range 30 {
		p := &nearPage{shingles: map[uint64]bool{}}
		for range 1 + rng.IntN(20) {
			p.shingles[rng.Uint64N(40)] = true
		}
		pages = append(pages, p)
	}
	n := 0
	for p := range allPairs(pages) {
		n++
		if want := jaccard(p.a.shingles, p.b.shingles); p.exact != want {
			t.Fatalf("%v and %v: %v, want %v", p.a.shingles, p.b.shingles, p.exact, want)
		}
	}
	if n != 30*29/2 {
		t.Errorf("%d pairs, want %d", n, 30*29/2)
	}
}

// TestPrecisionAndRecall has pairs whose exact coefficients and SimHashes are given.
func TestPrecisionAndRecall(t *testing.T) {
	r := nearRun{pairs: map[float64]int{}}
	pair := func(exact float64, distance int) nearPair {
		return nearPair{&nearPage{sim: 0}, &nearPage{sim: 1<<distance - 1}, exact}
	}
	pairs := []nearPair{pair(0.95, 0), pair(0.9, 3), pair(0.92, 4), pair(0.85, 2), pair(0.3, 3), pair(0, 40)}
	must.Do(t, r.compare(context.Background(), "versions", func(yield func(nearPair) bool) {
		for _, p := range pairs {
			if !yield(p) {
				return
			}
		}
	}))
	if r.pairs[0.8] != 4 || r.pairs[0.9] != 3 {
		t.Errorf("%v pairs, want 4 at 0.8 and 3 at 0.9", r.pairs)
	}
	for _, s := range r.scores {
		var want string
		switch {
		case s.Detector == "simhash, 3 bits" && s.Level == 0.9:
			want = "precision 2/4, recall 2/3"
		case s.Detector == "simhash, 3 bits" && s.Level == 0.8:
			want = "precision 3/4, recall 3/4"
		case s.Detector == "simhash, 5 bits" && s.Level == 0.9:
			want = "precision 3/5, recall 3/3"
		default:
			continue
		}
		got := fmt.Sprintf("precision %v/%v, recall %v/%v", s.Precision.Right, s.Precision.Of, s.Recall.Right,
			s.Recall.Of)
		if got != want {
			t.Errorf("%s at %g: %s, want %s", s.Detector, s.Level, got, want)
		}
	}
}

// TestNearQuick runs the experiment on small pages. Each page has four versions, which differ in some words.
func TestNearQuick(t *testing.T) {
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(1, 3))
	const pages = 200
	var texts [pages][]string
	for i := range texts {
		for range 300 {
			texts[i] = append(texts[i], fmt.Sprintf("w%d", rng.Uint32()))
		}
	}
	for _, v := range nearVersions {
		must.Do(t, os.Mkdir(filepath.Join(dir, v), 0o755))
		for i := range texts {
			for range i % 5 { // words that differ from the version before
				texts[i][rng.IntN(300)] = fmt.Sprintf("w%d", rng.Uint32())
			}
			page := "<title>Page</title><body><p>" + strings.Join(texts[i], " ")
			name := filepath.Join(dir, v, fmt.Sprintf("%03d.html", i))
			must.Do(t, os.WriteFile(name, []byte(page), 0o644))
		}
	}
	trial := (&Trial{Quick: true, Seed: 1, Screen: io.Discard}).with(t.TempDir())
	res, err := (&Near{Pages: dir}).Run(context.Background(), trial)
	must.Do(t, err)
	holds(t, res, `at(min(of), "measure", "recall") >= 50`,
		// The pages, the webs and the hashes are the same in each run.
		`at(min(right/of), "level", 0.9, "detector", "odd sketch, all pairs") >= 0.9`,
		`at(min(right/of), "level", 0.9, "detector", "odd sketch, by bands") >= 0.9`,
		`min(near_at_0_9_of) > 0`, `min(stored) > 0`, `marked >= 20`, `marked <= 75`, // of 100 pages
		fmt.Sprintf("pages == %d", len(nearVersions)*pages/8))
	v, err := subset{d: res.Rows}.value("jaccard_mean")
	if similar := v.numbers(); err != nil || len(similar) != len(nearRates) || !slices.IsSortedFunc(similar,
		func(a, b float64) int { return cmp.Compare(b, a) }) {
		t.Errorf("the more words are edited, the less similar the copies: %v, %v", v, err)
	}
	if text := rendered(t, res); !strings.Contains(text, "| versions |   0.9 | simhash, 10 bits") {
		t.Errorf("the text is\n%s", text)
	}
}
