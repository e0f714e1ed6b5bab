package near

import (
	"bufio"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// In scripts without spaces between words, each character is a word.
func TestWords(t *testing.T) {
	for text, want := range map[string]int{
		"The Moon's 2 sides": 5, "naïve café": 2, "2024年": 2, "今日は": 3, "東京タワーは1958年にABC完成": 12,
		"ーABC": 2, "ภาษาไทย": 7, "한국어 텍스트": 2, "": 0, "、。": 0,
	} {
		n := 0
		if new(Scratch).words([]byte(text), true, func(uint64) { n++ }); n != want {
			t.Errorf("%q has %d words, want %d", text, n, want)
		}
	}
}

// A character is joined with those before it, across punctuation, but not with words of other scripts.
func TestJoined(t *testing.T) {
	last := func(text string) (w uint64) {
		new(Scratch).words([]byte(text), true, func(h uint64) { w = h })
		return w
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"一二三四五", "六二三四五", true}, {"一二三四五", "一六三四五", false}, {"二三四、五", "二三四五", true},
		{"二三四a五", "五", true}, {"ไ五", "五", true}, {"五", "四五", false},
		{"ก" + strings.Repeat("ข", 17), "ค" + strings.Repeat("ข", 17), true},
		{"ก" + strings.Repeat("ข", 16), "ค" + strings.Repeat("ข", 16), false},
	} {
		if got := last(c.a) == last(c.b); got != c.same {
			t.Errorf("%q and %q end with the same word: %v, want %v", c.a, c.b, got, c.same)
		}
	}
}

// The shingles that earlier versions made of single characters are none of today.
func TestOlderSketch(t *testing.T) {
	text := []byte("人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。")
	var older, today Scratch
	older.shingle(text, false)
	today.shingle(text, true)
	for _, h := range older.shingles {
		if len(today.shingles) != len(older.shingles) || slices.Contains(today.shingles, h) {
			t.Errorf("%d and %d shingles, with %#x in both", len(older.shingles), len(today.shingles), h)
		}
	}
}

// Agents of other versions have the same LeastHash.
func TestLeastHashOfVersions(t *testing.T) {
	for text, want := range map[string]uint64{
		"東京タワーは1958年にABC完成。サーバー1、すごーーい。ภาษาไทย naïve café": 0x21e21d3479af5768,
		"The Moon's 2 sides are far": 0xca5f04cac7020833,
	} {
		if got, _ := new(Scratch).LeastHash([]byte(text)); got != want {
			t.Errorf("%q has %#x, want %#x", text, got, want)
		}
	}
}

// A language is how long its words are, and of which characters.
type language struct {
	name, space string
	first, last rune
	lengths     []float64 // the shares of the words of one character, two and so on
}

var languages = []language{
	{"en", " ", 'a', 'z', []float64{.04, .18, .19, .15, .09, .08, .08, .07, .05, .03, .02, .02}},
	{"zh", "", '一', '丕', []float64{.456, .486, .031, .026, .001}},
	{"ja", "", 'あ', 'ん', []float64{.442, .435, .08, .035, .008}},
	{"th", "", 'ก', 'ฮ', []float64{.04, .127, .239, .151, .105, .105, .078, .055, .031, .025, .024, .02}},
}

// lines returns lines of words. With ORBWEAVER_WORDS=DIR they are those of the file DIR/NAME.txt, real sentences with a
// space between words. Otherwise words are of random characters, with the lengths of real ones.
func (l *language) lines(t *testing.T, r *rand.Rand) (lines [][]string) {
	if dir := os.Getenv("ORBWEAVER_WORDS"); dir != "" {
		f, err := os.Open(filepath.Join(dir, l.name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			lines = append(lines, strings.Fields(s.Text()))
		}
		return lines
	}
	var words []string
	for n, share := range l.lengths {
		for range int(2000 * share) {
			var w strings.Builder
			for range n + 1 {
				w.WriteRune(l.first + r.Int32N(l.last-l.first+1))
			}
			words = append(words, w.String())
		}
	}
	for range 300 {
		line := make([]string, 26)
		for i := range line {
			line[i] = words[r.IntN(len(words))]
		}
		lines = append(lines, line)
	}
	return lines
}

// exact returns the Jaccard coefficient of the groups of five words of two texts.
func exact(a, b []string) float64 {
	groups := func(ws []string) map[string]bool {
		set := map[string]bool{}
		for i := range len(ws) - 4 {
			set[strings.Join(ws[i:i+5], " ")] = true
		}
		return set
	}
	x, y, both := groups(a), groups(b), 0
	for g := range x {
		if y[g] {
			both++
		}
	}
	return float64(both) / float64(len(x)+len(y)-both)
}

// TestRealWords compares near-duplicates with those by groups of five real words, in pages of 25 lines. Copies of a
// page have other words in some places, or other lines. Pages that share some lines are pairs, too.
func TestRealWords(t *testing.T) {
	for _, l := range languages {
		r := rand.New(rand.NewPCG(1, 2)) // fixed, because the shares vary
		lines := l.lines(t, r)
		var m Scratch
		sketch := func(ws []string) Sketch {
			s, ok := m.Of([]byte(strings.Join(ws, l.space)))
			if !ok {
				t.Fatalf("%s: a page has no sketch", l.name)
			}
			return s
		}
		page := func(picked []int) (ws []string) {
			for _, i := range picked {
				ws = append(ws, lines[i]...)
			}
			return ws
		}
		found, right, duplicates, pairs := 0, 0, 0, 0
		compare := func(a, b []string) {
			x, y := sketch(a), sketch(b)
			is, says := exact(a, b) >= 0.9, Similarity(&x, &y) >= 0.9
			pairs++
			if is {
				duplicates++
			}
			if says {
				found++
			}
			if is && says {
				right++
			}
		}
		for range testtier.Rounds(40, 400) {
			picked := r.Perm(len(lines))
			original := page(picked[:25])
			for _, rate := range []float64{.002, .005, .01, .015, .02, .03, .05} {
				edited := append([]string(nil), original...)
				for i := range edited {
					if from := lines[r.IntN(len(lines))]; r.Float64() < rate {
						edited[i] = from[r.IntN(len(from))]
					}
				}
				compare(original, edited)
			}
			for _, n := range []int{1, 2, 3, 5, 10, 20} {
				compare(original, page(picked[n:n+25]))
			}
		}
		precision, recall := float64(right)/float64(found), float64(right)/float64(duplicates)
		t.Logf("%s: %d pairs, %d near-duplicates, precision %.1f %%, recall %.1f %%", l.name, pairs, duplicates,
			100*precision, 100*recall)
		if precision < 0.93 || recall < 0.93 {
			t.Errorf("%s: the precision is %.3f, the recall %.3f", l.name, precision, recall)
		}
	}
}
