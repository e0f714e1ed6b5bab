package classify

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// A Text is a text of a known category, for Train and Evaluate.
type Text struct {
	Category string
	Source   string // where it is from; empty: not known
	Text     string // in UTF-8
}

// Training says how Train makes a model.
type Training struct {
	Kind string
	// Features are what is counted of a text. Empty means Pairs for Logistic, and Words for the other kinds.
	Features string
	// Language is that of the texts: a Classifier gives texts in other languages the category World, and Train leaves
	// out texts of that category. Empty: any language.
	Language string
	// MinTexts is the number of texts in which a term must occur to be in the vocabulary. Zero means 2.
	MinTexts int
	// Epochs is how often Logistic sees each text. Zero means 12.
	Epochs int
	// ByTexts lets each text count the same for Logistic. Otherwise each category does, however many texts it has.
	ByTexts bool
	// Seed orders the texts for Logistic.
	Seed uint64
	// Step is called after each epoch of Logistic. Nil: it is not.
	Step func(epoch, epochs int)
}

// example is a text as terms of the vocabulary.
type example struct {
	category int
	terms    []occurrence
	total    float64 // occurrences of all terms
}

type occurrence struct {
	term  int32
	value float32 // the count; for vectors TF-IDF, and then the length of all is 1
}

// Train makes a model from texts. The same texts in the same order give the same model.
func Train(texts []Text, t Training) (*Model, error) {
	if !slices.Contains(Kinds(), t.Kind) {
		return nil, fmt.Errorf("%w: there is no kind %q; give one of %v", ErrTraining, t.Kind, Kinds())
	}
	if t.Features == "" {
		t.Features = Words
		if t.Kind == Logistic {
			t.Features = Pairs
		}
	}
	if !slices.Contains(AllFeatures(), t.Features) {
		return nil, fmt.Errorf("%w: there are no features %q; give some of %v", ErrTraining, t.Features, AllFeatures())
	}
	t.MinTexts = cmp.Or(t.MinTexts, 2)
	t.Epochs = cmp.Or(t.Epochs, 12)
	if t.Language != "" {
		texts = slices.DeleteFunc(slices.Clone(texts), func(x Text) bool { return x.Category == World })
	}
	categories, err := categoriesOf(texts)
	if err != nil {
		return nil, err
	}
	m := &Model{
		kind: t.Kind, features: t.Features, language: t.Language, categories: categories,
		bias: make([]float64, len(categories)),
	}
	var docs []Document
	in := map[uint64]int{}
	for _, text := range texts {
		var d Document
		m.Read(&d, []byte(text.Text))
		d.table = nil
		for _, term := range d.terms {
			in[term.hash]++
		}
		docs = append(docs, d)
	}
	var hashes []uint64
	for h, n := range in {
		if n >= t.MinTexts {
			hashes = append(hashes, h)
		}
	}
	slices.Sort(hashes)
	m.vocabulary = newVocabulary(hashes)
	weights := make([]float32, len(hashes)*len(categories))
	examples := make([]example, len(texts))
	for i, d := range docs {
		c, _ := slices.BinarySearch(categories, texts[i].Category)
		e := example{category: c}
		for _, term := range d.terms {
			if n, ok := m.vocabulary.find(term.hash); ok {
				e.terms = append(e.terms, occurrence{int32(n), float32(term.n)})
				e.total += float64(term.n)
			}
		}
		examples[i] = e
	}
	switch t.Kind {
	case Bayes:
		m.trainBayes(examples, weights)
	case Lewis:
		m.trainLewis(examples, weights)
	case Rocchio:
		m.vectors(examples)
		m.trainRocchio(examples, weights)
	case Logistic:
		m.vectors(examples)
		m.trainLogistic(examples, weights, t)
	}
	m.round(weights)
	return m, nil
}

// sizes returns the number of examples of each category.
func (m *Model) sizes(examples []example) []float64 {
	n := make([]float64, len(m.categories))
	for _, e := range examples {
		n[e.category]++
	}
	return n
}

// gramsSmoothing is added to each count of Grams, of which most languages have few.
const gramsSmoothing = 0.05

// trainBayes sets the weights of Naive Bayes: the logarithms of P(term|category), with one added to each count
// (Laplace), and of P(category). With Grams less is added, and all categories are equally likely before a text is read.
func (m *Model) trainBayes(examples []example, weights []float32) {
	k, terms := len(m.categories), len(m.vocabulary.hashes)
	counts, totals := make([]float64, len(weights)), make([]float64, k)
	for _, e := range examples {
		for _, o := range e.terms {
			counts[int(o.term)*k+e.category] += float64(o.value)
		}
		totals[e.category] += e.total
	}
	smoothing := 1.0
	if m.features == Grams {
		smoothing = gramsSmoothing
	}
	for i := range counts {
		weights[i] = float32(math.Log((counts[i] + smoothing) / (totals[i%k] + smoothing*float64(terms))))
	}
	for c, n := range m.sizes(examples) {
		if m.features != Grams {
			m.bias[c] = math.Log(n / float64(len(examples)))
		}
	}
}

// trainLewis sets the weights of Lewis's classifier (Lewis, "An evaluation of phrasal and clustered representations on
// a text categorization task", SIGIR 1992). The score of a category C is the logarithm of P(C), and for each term w of
// the vocabulary that of
//
//	P(w|C) P(w|D) / P(w)  +  (1 - P(w|C)) (1 - P(w|D)) / (1 - P(w))
//
// P(w|D) is 1 if the term occurs in the document D, otherwise 0. So a category's bias is its score for a document
// without terms, and a weight is the logarithm of the ratio of the odds of w with C and without. P(w|C) is estimated as
// if there were one text more that has P(w) of the term.
func (m *Model) trainLewis(examples []example, weights []float32) {
	k := len(m.categories)
	sizes := m.sizes(examples)
	counts := make([]float64, len(weights))
	for _, e := range examples {
		for _, o := range e.terms {
			counts[int(o.term)*k+e.category]++
		}
	}
	for c, n := range sizes {
		m.bias[c] = math.Log(n / float64(len(examples)))
	}
	for term := range m.vocabulary.hashes {
		sum := 0.0
		for _, n := range counts[term*k : term*k+k] {
			sum += n
		}
		seen := (sum + 0.5) / (float64(len(examples)) + 1)
		for c := range k {
			p := (counts[term*k+c] + seen) / (sizes[c] + 1)
			weights[term*k+c] = float32(math.Log(p / (1 - p) * (1 - seen) / seen))
			m.bias[c] += math.Log((1 - p) / (1 - seen))
		}
	}
}

// vectors replaces the counts of the examples by TF-IDF, with length 1, and sets idf.
func (m *Model) vectors(examples []example) {
	in := make([]float64, len(m.vocabulary.hashes))
	for _, e := range examples {
		for _, o := range e.terms {
			in[o.term]++
		}
	}
	m.idf = make([]float32, len(in))
	for i, n := range in {
		m.idf[i] = float32(math.Log(float64(len(examples)+1) / n))
	}
	for _, e := range examples {
		squares := 0.0
		for i, o := range e.terms {
			v := tf(uint32(o.value)) * float64(m.idf[o.term])
			e.terms[i].value = float32(v)
			squares += v * v
		}
		if length := float32(math.Sqrt(squares)); length > 0 {
			for i := range e.terms {
				e.terms[i].value /= length
			}
		}
	}
}

// The weights of the texts of a category and of the others in Rocchio's formula, as in the SMART system.
const (
	rocchioFor     = 16
	rocchioAgainst = 4
)

// trainRocchio sets the weights of Rocchio: 16 times the mean of the category's vectors, less 4 times the mean of the
// others. Weights below zero become zero, and each category's vector gets the length 1.
func (m *Model) trainRocchio(examples []example, weights []float32) {
	k := len(m.categories)
	sizes := m.sizes(examples)
	sums := make([]float64, len(weights))
	for _, e := range examples {
		for _, o := range e.terms {
			sums[int(o.term)*k+e.category] += float64(o.value)
		}
	}
	squares := make([]float64, k)
	row := make([]float64, k)
	for term := range m.vocabulary.hashes {
		copy(row, sums[term*k:])
		all := 0.0
		for _, v := range row {
			all += v
		}
		for c, v := range row {
			w := max(0, rocchioFor*v/sizes[c]-rocchioAgainst*(all-v)/(float64(len(examples))-sizes[c]))
			sums[term*k+c] = w
			squares[c] += w * w
		}
	}
	for i, w := range sums {
		if squares[i%k] > 0 {
			weights[i] = float32(w / math.Sqrt(squares[i%k]))
		}
	}
}

// Constants of the gradient descent.
const (
	logisticRate  = 0.5 // AdaGrad's, of a weight
	logisticDecay = 1e-6
)

// trainLogistic minimizes the cross-entropy by stochastic gradient descent with a rate for each weight (AdaGrad).
func (m *Model) trainLogistic(examples []example, weights []float32, t Training) {
	k := len(m.categories)
	squares, bias := make([]float32, len(weights)), make([]float64, k)
	p := make([]float64, k)
	order := rand.New(rand.NewPCG(t.Seed, 0x6c6f67697374)).Perm(len(examples))
	rng := rand.New(rand.NewPCG(t.Seed, 1))
	value := m.sizes(examples)
	for c, n := range value {
		if value[c] = float64(len(examples)) / float64(k) / n; t.ByTexts {
			value[c] = 1
		}
	}
	for epoch := range t.Epochs {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			e := &examples[i]
			copy(p, bias)
			for _, o := range e.terms {
				at, v := int(o.term)*k, float64(o.value)
				for c, w := range weights[at : at+k] {
					p[c] += v * float64(w)
				}
			}
			Probabilities(p)
			p[e.category]--
			for c := range p {
				p[c] *= value[e.category]
				bias[c] -= 0.01 * p[c]
			}
			for _, o := range e.terms {
				at := int(o.term) * k
				for c, g := range p {
					d := float32(g)*o.value + logisticDecay*weights[at+c]
					squares[at+c] += d * d
					weights[at+c] -= logisticRate * d / (float32(math.Sqrt(float64(squares[at+c]))) + 1e-3)
				}
			}
		}
		if t.Step != nil {
			t.Step(epoch+1, t.Epochs)
		}
	}
	m.bias = bias
}

// Probabilities replaces logarithms of probabilities, up to a constant, by the probabilities.
func Probabilities(scores []float64) {
	most, sum := slices.Max(scores), 0.0
	for c, s := range scores {
		scores[c] = math.Exp(s - most)
		sum += scores[c]
	}
	for c := range scores {
		scores[c] /= sum
	}
}
