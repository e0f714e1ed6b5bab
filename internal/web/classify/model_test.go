package classify

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

// odp returns the halves of the texts in the categories of the Open Directory.
func odp(t testing.TB) (train, test []Text) {
	t.Helper()
	f, err := os.Open("../../../../shared/data/topics/odp.jsonl.gz")
	if err != nil {
		testneed.Missing(t, err)
	}
	defer f.Close()
	z := must.Get(gzip.NewReader(f))(t)
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct{ Category, Source, Split, Text string }
		must.Do(t, json.Unmarshal(lines.Bytes(), &r))
		half := &train
		if r.Split == "test" {
			half = &test
		}
		*half = append(*half, Text{r.Category, r.Source, r.Text})
	}
	if err := lines.Err(); err != nil || len(train)+len(test) != 12_456 {
		t.Fatalf("%d texts, %v", len(train)+len(test), err)
	}
	return train, test
}

// Each kind of model is better than the paper's Naive Bayes (60.7 %, figure 2), and not worse than it was when this was
// written.
func TestAccuracy(t *testing.T) {
	train, test := odp(t)
	for kind, least := range map[string]float64{Bayes: 0.855, Lewis: 0.83, Rocchio: 0.855, Logistic: 0.91} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := must.Get(Train(train, Training{Kind: kind}))(t)
			e := Evaluate(classifier(t, m), test)
			low, high := e.All.Interval()
			t.Logf("%s: %.4f (%.4f to %.4f) of %d texts; calibration error %.3f; %d terms", kind, e.All.Accuracy(), low,
				high, e.All.Of, e.Off, m.Vocabulary())
			if e.All.Accuracy() < least || e.All.Of+e.Short != len(test) || e.Foreign > 0 {
				t.Errorf("%s: %.4f of %d, %d short; want %.3f", kind, e.All.Accuracy(), e.All.Of, e.Short, least)
			}
			sum, right := 0, 0
			for c, row := range e.Confusion {
				for answer, n := range row {
					if sum += n; answer == c {
						right += n
					}
				}
			}
			if sum != e.All.Of || right != e.All.Right || len(e.ByCategory) != 15 {
				t.Errorf("%s: the confusion matrix has %d texts, %d right; %d categories", kind, sum, right,
					len(e.ByCategory))
			}
		})
	}
}

// skewed returns texts of some categories in an order: the most of the first one, and of each other one 0.55 times as
// many as of the one before, but at least 10. Of the rest, others texts get the category OTHER. Texts are cut after so
// many words.
func skewed(texts []Text, order []string, most, others, words int) (some []Text) {
	left := map[string]int{"OTHER": others}
	for i, c := range order {
		left[c] = max(10, int(float64(most)*math.Pow(0.55, float64(i))))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, i := range rng.Perm(len(texts)) {
		x := texts[i]
		if !slices.Contains(order, x.Category) {
			x.Category = "OTHER"
		}
		if left[x.Category]--; left[x.Category] >= 0 {
			all := strings.Fields(x.Text)
			x.Text = strings.Join(all[:min(words, len(all))], " ")
			some = append(some, x)
		}
	}
	return some
}

// On skewed samples, the two ways of weighing are not worse than they were when this was written: in accuracy, and in
// the mean of the categories' accuracies.
func TestSkewed(t *testing.T) {
	train, test := odp(t)
	for _, c := range []struct {
		name                string
		order               []string
		most, others, words int
		want                map[bool][2]float64 // by Training.ByTexts: accuracy and mean
	}{
		{"seven categories", []string{"SOCIETY", "SPORTS", "HEALTH", "ARTS", "COMPUTERS", "SCIENCE", "HOME"}, 500, 0,
			1 << 20, map[bool][2]float64{false: {0.93, 0.86}, true: {0.91, 0.80}}},
		{"a large mixed category, short texts", []string{"COMPUTERS", "SCIENCE", "ARTS", "NEWS", "KIDS", "HOME"}, 300,
			700, 80, map[bool][2]float64{false: {0.85, 0.785}, true: {0.82, 0.615}}},
	} {
		learn := skewed(train, c.order, c.most, c.others, c.words)
		judge := skewed(test, c.order, c.most, c.others, c.words)
		for byTexts, want := range c.want {
			m := must.Get(Train(learn, Training{Kind: Logistic, ByTexts: byTexts}))(t)
			e := Evaluate(classifier(t, m), judge)
			mean := 0.0
			for _, s := range e.ByCategory {
				mean += s.Accuracy() / float64(len(e.ByCategory))
			}
			t.Logf("%s, by texts %t: %.4f of %d, mean %.4f, off %.3f", c.name, byTexts, e.All.Accuracy(), e.All.Of,
				mean, e.Off)
			if e.All.Accuracy() < want[0] || mean < want[1] || e.Off > 0.06 {
				t.Errorf("%s, by texts %t: %.4f, mean %.4f, off %.3f; want %v and 0.06", c.name, byTexts,
					e.All.Accuracy(), mean, e.Off, want)
			}
		}
	}
}

// some returns texts of two categories that share words.
func some(rng *rand.Rand, n int) (texts []Text) {
	words := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu")
	for i := range n {
		var b strings.Builder
		for range 60 {
			j := rng.IntN(8)
			if i%2 == 1 {
				j += 4
			}
			b.WriteString(words[j] + " ")
		}
		texts = append(texts, Text{[]string{"first", "second"}[i%2], "", b.String()})
	}
	return texts
}

// The scores of Naive Bayes and of Lewis's classifier are those of their formulas, computed here with words.
func TestFormulas(t *testing.T) {
	texts := some(rand.New(rand.NewPCG(1, 2)), 9)
	probe := "alpha alpha theta iota unknown"
	type count struct{ occurrences, texts float64 }
	words := map[string]map[string]count{} // by word, then by category
	sizes, totals := map[string]float64{}, map[string]float64{}
	for _, x := range texts {
		sizes[x.Category]++
		seen := map[string]bool{}
		for _, w := range strings.Fields(x.Text) {
			if words[w] == nil {
				words[w] = map[string]count{}
			}
			c := words[w][x.Category]
			if c.occurrences++; !seen[w] {
				c.texts++
			}
			seen[w], words[w][x.Category] = true, c
			totals[x.Category]++
		}
	}
	bayes := func(c string) float64 {
		score := math.Log(sizes[c] / 9)
		for _, w := range strings.Fields(probe) {
			if words[w] != nil {
				score += math.Log((words[w][c].occurrences + 1) / (totals[c] + float64(len(words))))
			}
		}
		return score
	}
	lewis := func(c string) float64 {
		score := math.Log(sizes[c] / 9)
		for w, by := range words {
			pw := (by["first"].texts + by["second"].texts + 0.5) / 10
			pwc := (by[c].texts + pw) / (sizes[c] + 1)
			pwd := 0.0
			if strings.Contains(" "+probe+" ", " "+w+" ") {
				pwd = 1
			}
			score += math.Log(pwc*pwd/pw + (1-pwc)*(1-pwd)/(1-pw))
		}
		return score
	}
	var d Document
	d.words([]byte(probe), false)
	for kind, formula := range map[string]func(string) float64{Bayes: bayes, Lewis: lewis} {
		m := must.Get(Train(texts, Training{Kind: kind}))(t)
		// What both scores have in common decides nothing. A weight has 8 bits.
		got, want := m.Scores(&d, nil), formula("first")-formula("second")
		if math.Abs(got[0]-got[1]-want) > 0.05 {
			t.Errorf("%s: first is ahead by %g, want %g", kind, got[0]-got[1], want)
		}
	}
}

// A logistic model of few texts of one category and many of another finds the few if the categories count the same, and
// more texts are right if each counts the same.
func TestWeigh(t *testing.T) {
	texts := func(seed uint64) (texts []Text) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for i := range 600 {
			category, own := "many", 0.4
			if i%12 == 0 {
				category, own = "few", 0.6
			}
			var words []string
			for range 60 {
				word := fmt.Sprintf("w%c%c", 'a'+rng.IntN(20), 'a'+rng.IntN(20))
				if rng.Float64() < 0.04 { // a word that the few have more often
					word = "common"
					if rng.Float64() < own {
						word = "rare"
					}
				}
				words = append(words, word)
			}
			texts = append(texts, Text{Category: category, Text: strings.Join(words, " ")})
		}
		return texts
	}
	right := map[bool][2]int{} // few, many
	for _, byTexts := range []bool{false, true} {
		m := must.Get(Train(texts(1), Training{Kind: Logistic, Features: Words, ByTexts: byTexts}))(t)
		e := Evaluate(classifier(t, m), texts(2))
		right[byTexts] = [2]int{e.ByCategory["few"].Right, e.ByCategory["many"].Right}
	}
	if right[false][0] <= right[true][0] || right[true][1] <= right[false][1] {
		t.Errorf("right of few and many: %v by categories, %v by texts", right[false], right[true])
	}
}

// The score of Rocchio is a cosine: 1 for a text that is its category's centroid.
func TestCosine(t *testing.T) {
	texts := []Text{{"x", "", "one two two three"}, {"x", "", "one two two three"}, {"y", "", "three four four five"},
		{"y", "", "three four four five"}}
	m := must.Get(Train(texts, Training{Kind: Rocchio}))(t)
	var d Document
	d.words([]byte("four five four"), false)
	s := m.Scores(&d, nil)
	if s[0] != 0 || s[1] < 0.97 || s[1] > 1.0001 {
		t.Errorf("cosines %v", s)
	}
}

// A model learns, gives the same answers after it was written and read, and is the same if it is trained again.
func TestFile(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	train, test := some(rng, 60), some(rng, 40)
	for _, kind := range Kinds() {
		var files [2][]byte
		var m *Model
		for i := range files {
			var err error
			if m, err = Train(train, Training{Kind: kind, Seed: 7}); err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			must.Do(t, m.Write(&b, "made up"))
			files[i] = b.Bytes()
		}
		if !bytes.Equal(files[0], files[1]) {
			t.Errorf("%s: two trainings give two models", kind)
		}
		read, digest, err := Parse(files[0])
		if err != nil || len(digest) != 64 || read.Kind() != kind {
			t.Fatalf("%s: %q, %v", kind, digest, err)
		}
		var d Document
		for _, x := range test {
			m.Read(&d, []byte(x.Text))
			a, b := m.Scores(&d, nil), read.Scores(&d, nil)
			if a[0] != b[0] || a[1] != b[1] {
				t.Fatalf("%s: %v, and after reading %v", kind, a, b)
			}
		}
		if e := Evaluate(classifier(t, read), test); e.All.Accuracy() < 0.97 {
			t.Errorf("%s: %+v", kind, e.All)
		}
		for cut := 0; cut < len(files[0]); cut += 1 + len(files[0])/50 {
			if _, _, err := Parse(files[0][:cut]); !errors.Is(err, ErrModel) {
				t.Fatalf("%s, cut at %d: %v", kind, cut, err)
			}
			bad := bytes.Clone(files[0])
			bad[cut] ^= 4
			if _, _, err := Parse(bad); !errors.Is(err, ErrModel) {
				t.Fatalf("%s, a bit changed at %d: %v", kind, cut, err)
			}
		}
	}
}

// The head of a file cannot make Parse allocate more than the file is long.
func TestHugeHead(t *testing.T) {
	head := fileHead{Kind: Kinds()[0], Features: AllFeatures()[0], Terms: maxTerms}
	for i := range maxCategories {
		head.Categories = append(head.Categories, fmt.Sprintf("c%03d", i))
	}
	line, err := json.Marshal(head)
	must.Do(t, err)
	file := fmt.Appendf(nil, "%s\n%s\n", fileMagic, line)
	sum := sha256.Sum256(file)
	file = append(file, sum[:]...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = Parse(file)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrModel) || after.TotalAlloc-before.TotalAlloc > 1<<20 {
		t.Errorf("%v after %d bytes were allocated", err, after.TotalAlloc-before.TotalAlloc)
	}
}

func TestShortAndForeign(t *testing.T) {
	m := must.Get(Train(some(rand.New(rand.NewPCG(5, 6)), 20), Training{Kind: Bayes}))(t)
	var d Document
	for n, want := range map[int]string{MinTerms - 1: Unclassifiable, MinTerms: "first"} {
		d.words([]byte(strings.Repeat("alpha ", n)), false)
		if got, _ := m.Best(&d, nil); got != want {
			t.Errorf("%d terms: %s, want %s", n, got, want)
		}
	}
	e := Evaluate(classifier(t, m), []Text{{"third", "", "x"}, {"first", "", "alpha"}})
	if e.Foreign != 1 || e.Short != 1 || e.All.Of != 0 {
		t.Errorf("%+v", e)
	}
}

func TestBadTraining(t *testing.T) {
	texts := some(rand.New(rand.NewPCG(1, 1)), 4)
	var many []Text // of more categories than a model file can have
	for i := range 257 {
		many = append(many, Text{Category: fmt.Sprint("c", i), Text: "x"})
	}
	for name, c := range map[string]struct {
		texts []Text
		kind  string
	}{
		"no kind":      {texts, "tree"},
		"no texts":     {nil, Bayes},
		"one category": {[]Text{texts[0], texts[2]}, Bayes},
		"no category":  {append([]Text{{}}, texts...), Bayes},
		"reserved":     {append([]Text{{Category: Unclassifiable}}, texts...), Bayes},
		"many":         {many, Bayes},
	} {
		if _, err := Train(c.texts, Training{Kind: c.kind}); !errors.Is(err, ErrTraining) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, kind := range Kinds() { // texts without a term in common with others
		m := must.Get(Train([]Text{{"a", "", "x"}, {"b", "", ""}}, Training{Kind: kind}))(t)
		var d Document
		m.Read(&d, []byte("x y"))
		for _, s := range m.Scores(&d, nil) {
			if math.IsNaN(s) {
				t.Errorf("%s: %v", kind, s)
			}
		}
	}
}

// The interval of Wilson, against values of R's prop.test without correction.
func TestInterval(t *testing.T) {
	low, high := Share{Right: 81, Of: 263}.Interval()
	if math.Abs(low-0.2553) > 1e-4 || math.Abs(high-0.3662) > 1e-4 {
		t.Errorf("%.4f to %.4f", low, high)
	}
}

// A category with a newline could imitate a field of an archive. No model has one.
func TestControlCharacter(t *testing.T) {
	texts := some(rand.New(rand.NewPCG(5, 6)), 6)
	for i := range texts {
		texts[i].Category += "\nvia: http://elsewhere.example/"
	}
	m := must.Get(Train(texts, Training{Kind: Rocchio}))(t)
	var b bytes.Buffer
	must.Do(t, m.Write(&b, ""))
	if _, _, err := Parse(b.Bytes()); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "control character") {
		t.Error(err)
	}
}

// FuzzParse: no file breaks Parse.
func FuzzParse(f *testing.F) {
	m := must.Get(Train(some(rand.New(rand.NewPCG(3, 4)), 6), Training{Kind: Rocchio}))(f)
	var b bytes.Buffer
	must.Do(f, m.Write(&b, ""))
	f.Add(b.Bytes()[:b.Len()-sha256.Size])
	f.Add([]byte(fileMagic + "\n{}\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		sum := sha256.Sum256(body)
		file := append(body[:len(body):len(body)], sum[:]...)
		m, _, err := Parse(file)
		if err != nil && !errors.Is(err, ErrModel) || err == nil && m.Vocabulary() > maxTerms {
			t.Error(err)
		}
	})
}

// classifier returns a classifier by a model for any language.
func classifier(t *testing.T, m *Model) *Classifier {
	t.Helper()
	c := must.Get(New(m, nil))(t)
	return c
}

// TestDigest: a model knows the digest of the file that it was read from.
func TestDigest(t *testing.T) {
	texts := []Text{{Category: "A", Text: strings.Repeat("ship ", 60)},
		{Category: "A", Text: strings.Repeat("ship ", 50)}, {Category: "B", Text: strings.Repeat("plane ", 60)},
		{Category: "B", Text: strings.Repeat("plane ", 50)}}
	m, err := Train(texts, Training{Kind: Bayes})
	must.Do(t, err)
	var b bytes.Buffer
	must.Do(t, m.Write(&b, ""))
	got, digest, err := Parse(b.Bytes())
	if err != nil || m.Digest() != "" || got.Digest() != digest || len(digest) != 64 {
		t.Errorf("%v, %q, %q, want %q", err, m.Digest(), got.Digest(), digest)
	}
}
