package classify

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// The kinds of models.
const (
	Bayes    = "bayes"    // multinomial Naive Bayes
	Lewis    = "lewis"    // Lewis's probabilistic classifier
	Rocchio  = "rocchio"  // the nearest centroid of TF-IDF vectors
	Logistic = "logistic" // multinomial logistic regression on TF-IDF vectors
)

// Kinds returns the kinds of models.
func Kinds() []string { return []string{Bayes, Lewis, Rocchio, Logistic} }

// The features of texts.
const (
	Words = "words" // terms
	Pairs = "pairs" // terms, and pairs of adjacent terms
	Grams = "grams" // runs of one to four characters, which tell the language of a text
)

// AllFeatures returns the features of texts.
func AllFeatures() []string { return []string{Words, Pairs, Grams} }

// MinLetters is the number of letters below which a text is Unclassifiable by Grams.
const MinLetters = 3

// MinTerms is the number of terms below which a text is Unclassifiable (paper, section 5: more than 50 words).
const MinTerms = 50

// Unclassifiable is the category of texts with less than MinTerms terms, or MinLetters letters.
const Unclassifiable = "UNCLASSIFIABLE"

// A Model gives texts one of its categories. It never changes. Safe for concurrent use.
type Model struct {
	kind       string
	features   string
	language   string   // of the texts; empty: any
	categories []string // sorted
	vocabulary vocabulary
	// weights has a row for each term of the vocabulary, with a weight for each category, in units of the term's scale.
	weights []int8
	scales  []float32 // by term
	bias    []float64 // by category
	idf     []float32 // by term; nil for Bayes and Lewis
	digest  string
}

// Digest returns the digest of the file from which Parse read the model; see Parse. It is empty for a model of Train.
func (m *Model) Digest() string { return m.digest }

// Kind returns the kind of the model.
func (m *Model) Kind() string { return m.kind }

// Categories returns the categories in the order of the scores. The caller must not change them.
func (m *Model) Categories() []string { return m.categories }

// Features returns what the model counts of a text.
func (m *Model) Features() string { return m.features }

// Language returns the language of the texts that the model is for; empty: any. See Classifier.
func (m *Model) Language() string { return m.language }

// Read replaces the document by what the model counts of a text in UTF-8.
func (m *Model) Read(d *Document, text []byte) {
	if m.features == Grams {
		d.grams(text)
		return
	}
	d.words(text, m.features == Pairs)
}

// Least returns the number of terms, or of letters, below which a text is Unclassifiable.
func (m *Model) Least() int {
	if m.features == Grams {
		return MinLetters
	}
	return MinTerms
}

// Vocabulary returns the number of terms that the model knows.
func (m *Model) Vocabulary() int { return len(m.vocabulary.hashes) }

// add adds the weights of a term to the scores, times a factor.
func (m *Model) add(scores []float64, term int, by float64) {
	k := len(m.categories)
	by *= float64(m.scales[term])
	row := m.weights[term*k : term*k+k]
	scores = scores[:len(row)]
	for c, w := range row {
		scores[c] += float64(by * float64(w)) // rounded, so that all processors give the same
	}
}

// round sets the weights to those of a training, each in a byte. What all categories have in common decides nothing, so
// the range of a term's weights is first moved to around zero; but Rocchio's cosines stay.
func (m *Model) round(weights []float32) {
	k := len(m.categories)
	m.weights, m.scales = make([]int8, len(weights)), make([]float32, len(weights)/k)
	for term := range m.scales {
		row := weights[term*k : term*k+k]
		low, high := slices.Min(row), slices.Max(row)
		middle, half := (low+high)/2, (high-low)/2
		if m.kind == Rocchio {
			middle, half = 0, high
		}
		if half <= 0 {
			continue
		}
		m.scales[term] = half / math.MaxInt8
		for c, w := range row {
			m.weights[term*k+c] = int8(math.RoundToEven(float64((w - middle) / half * math.MaxInt8)))
		}
	}
}

// Scores sets dst to the scores of the categories for a document, and returns it. For all kinds but Rocchio a score is
// the logarithm of a probability, up to a constant; for Rocchio it is a cosine.
func (m *Model) Scores(d *Document, dst []float64) []float64 {
	dst = append(dst[:0], m.bias...)
	if m.idf != nil {
		m.vector(d, dst)
		return dst
	}
	for _, t := range m.vocabulary.known(d) {
		if m.kind == Bayes {
			m.add(dst, int(t.term), float64(t.n))
		} else { // Lewis: a term occurs or does not
			m.add(dst, int(t.term), 1)
		}
	}
	return dst
}

// vector adds the scores of the document's TF-IDF vector, whose length is 1.
func (m *Model) vector(d *Document, dst []float64) {
	sums, squares := make([]float64, len(dst)), 0.0
	for _, t := range m.vocabulary.known(d) {
		v := tf(t.n) * float64(m.idf[t.term])
		squares += v * v
		m.add(sums, int(t.term), v)
	}
	if squares == 0 {
		return
	}
	length := math.Sqrt(squares)
	for c := range dst {
		dst[c] += sums[c] / length
	}
}

// tf returns the weight of a term that occurs n times.
func tf(n uint32) float64 {
	if n < uint32(len(fewTimes)) {
		return fewTimes[n]
	}
	return 1 + math.Log(float64(n))
}

// fewTimes has the weights of terms that occur so many times.
var fewTimes = func() (t [64]float64) {
	for n := range t {
		t[n] = 1 + math.Log(float64(n))
	}
	return t
}()

// Best returns the category with the highest score: the first one of several. With less than Least terms it is
// Unclassifiable. scratch is reused for the scores, which Best returns.
func (m *Model) Best(d *Document, scratch []float64) (category string, scores []float64) {
	scores = m.Scores(d, scratch)
	if d.Terms() < m.Least() {
		return Unclassifiable, scores
	}
	best := 0
	for c := range scores {
		if scores[c] > scores[best] {
			best = c
		}
	}
	return m.categories[best], scores
}

// A vocabulary finds the number of a term by its hash.
type vocabulary struct {
	hashes []uint64 // sorted
	table  []uint32 // open addressing: number plus one; 0: free
	may    []uint64 // a bit for each of many hashes: clear if no term has one of them
}

func newVocabulary(hashes []uint64) (v vocabulary) {
	v.hashes = hashes
	size := 1 << 10
	for size < 2*len(hashes) {
		size *= 2
	}
	v.table = make([]uint32, size)
	mask := uint64(size - 1)
	for i, h := range hashes {
		s := slot(h) & mask
		for v.table[s] != 0 {
			s = (s + 1) & mask
		}
		v.table[s] = uint32(i + 1)
	}
	v.may = make([]uint64, size/16) // at most every fourth bit is set
	for _, h := range hashes {
		word, bit := v.mayAt(h)
		v.may[word] |= 1 << bit
	}
	return v
}

func (v *vocabulary) mayAt(h uint64) (word, bit uint64) {
	return h >> 38 & uint64(len(v.may)-1), h >> 32 & 63
}

// known returns the terms of a document that are in the vocabulary. They are valid until the next call for the
// document.
//
// Most of its time is waiting for memory. So it looks up the terms in two passes whose steps do not depend on each
// other: the first one drops most of the unknown terms by a table that fits into the processor's cache.
func (v *vocabulary) known(d *Document) []numbered {
	list := slices.Grow(d.known[:0], len(d.terms))[:len(d.terms)]
	n := 0
	for i := range d.terms {
		list[n] = numbered{uint32(i), d.terms[i].n}
		word, bit := v.mayAt(d.terms[i].hash)
		n += int(v.may[word] >> bit & 1)
	}
	maybe := list[:n]
	list = list[:0]
	for _, t := range maybe {
		if i, ok := v.find(d.terms[t.term].hash); ok {
			list = append(list, numbered{uint32(i), t.n})
		}
	}
	d.known = list
	return list
}

func (v *vocabulary) find(h uint64) (number int, ok bool) {
	mask := uint64(len(v.table) - 1)
	for s := slot(h) & mask; ; s = (s + 1) & mask {
		switch i := v.table[s]; {
		case i == 0:
			return 0, false
		case v.hashes[i-1] == h:
			return int(i - 1), true
		}
	}
}

// ErrTraining reports texts from which no model can be made.
var ErrTraining = errors.New("training")

// categoriesOf returns the sorted categories of the texts.
func categoriesOf(texts []Text) ([]string, error) {
	var all []string
	for _, t := range texts {
		if t.Category == "" || t.Category == Unclassifiable {
			return nil, fmt.Errorf("%w: a text has the category %q; give each text one of your own", ErrTraining,
				t.Category)
		}
		all = append(all, t.Category)
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) < 2 || len(all) > maxCategories {
		return nil, fmt.Errorf("%w: the texts have %d categories; give 2 to %d", ErrTraining, len(all), maxCategories)
	}
	return all, nil
}
