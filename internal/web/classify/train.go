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
	// Features are what is counted of a text. Empty means Words.
	Features string
	// Language is that of the texts: a Classifier gives texts in other languages the category World, and Train leaves
	// out texts of that category. Empty: any language.
	Language string
	// MinTexts is the number of texts in which a term must occur to be in the vocabulary. Zero means 2.
	MinTexts int
	// Epochs is how often Logistic learns from each text for its weights. Zero means 6.
	Epochs int
	// ByTexts lets each text count the same for Logistic. Otherwise each category does, however many texts it has.
	ByTexts bool
	// Seed orders the texts for Logistic.
	Seed uint64
	// Step is called after each epoch of Logistic, which takes twice as many as Epochs. Nil: it is not.
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
	t.Features = cmp.Or(t.Features, Words)
	if !slices.Contains(AllFeatures(), t.Features) {
		return nil, fmt.Errorf("%w: there are no features %q; give some of %v", ErrTraining, t.Features, AllFeatures())
	}
	t.MinTexts = cmp.Or(t.MinTexts, 2)
	t.Epochs = cmp.Or(t.Epochs, 6)
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
		read := []byte(text.Text)
		if m.features == Grams {
			read = read[:min(len(read), maxGrams)]
		}
		m.Read(&d, read)
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
	logisticRate     = 0.3 // AdaGrad's, of a weight
	logisticBiasRate = 0.01
	// How much the loss of all texts counts against half the sum of the squared weights: the C of LIBLINEAR and
	// scikit-learn. The weights of small categories shrink more if each text counts the same, so then it is larger.
	lossByCategories = 10
	lossByTexts      = 100
)

// trainLogistic trains on four fifths of the texts, learns from the others how far the scores are to be stretched, and
// trains on all. Small weights find small categories better, but make the probabilities too cautious.
func (m *Model) trainLogistic(examples []example, weights []float32, t Training) {
	order := rand.New(rand.NewPCG(t.Seed, 0x6c6f67697374)).Perm(len(examples))
	held, epochs := len(order)/5, 0
	step := func() {
		if epochs++; t.Step != nil {
			t.Step(epochs, 2*t.Epochs)
		}
	}
	m.descend(examples, slices.Clone(order[held:]), weights, t, step)
	factor := m.stretch(examples, order[:held], weights)
	clear(weights)
	m.descend(examples, order, weights, t, step)
	for i := range weights {
		weights[i] *= float32(factor)
	}
	for c := range m.bias {
		m.bias[c] *= factor
	}
}

// descend minimizes the cross-entropy of the examples in order, with L2 regularization, by stochastic gradient descent
// with a rate for each weight (AdaGrad). It sets weights, which must be zero, and the bias, and shuffles order.
//
// A term's weights shrink only when the term occurs, and the more the rarer it is. So an epoch shrinks all alike.
func (m *Model) descend(examples []example, order []int, weights []float32, t Training, step func()) {
	k := len(m.categories)
	squares, p := make([]float32, len(weights)), make([]float64, k)
	rng := rand.New(rand.NewPCG(t.Seed, 1))
	value := make([]float64, k) // of a text, by its category
	decay := make([]float32, len(m.vocabulary.hashes))
	for _, i := range order {
		value[examples[i].category]++
		for _, o := range examples[i].terms {
			decay[o.term]++
		}
	}
	loss := float32(lossByCategories)
	for c, n := range value {
		value[c] = float64(len(order)) / float64(k) / n
	}
	if t.ByTexts {
		loss = lossByTexts
		for c := range value {
			value[c] = 1
		}
	}
	for i, n := range decay {
		decay[i] = 1 / (loss * n)
	}
	clear(m.bias)
	for range t.Epochs {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			e := &examples[i]
			m.logits(e, weights, p)
			Probabilities(p)
			p[e.category]--
			for c := range p {
				p[c] *= value[e.category]
				m.bias[c] -= logisticBiasRate * p[c]
			}
			for _, o := range e.terms {
				at := int(o.term) * k
				for c, g := range p {
					d := float32(g)*o.value + decay[o.term]*weights[at+c]
					squares[at+c] += d * d
					weights[at+c] -= logisticRate * d / (float32(math.Sqrt(float64(squares[at+c]))) + 1e-3)
				}
			}
		}
		step()
	}
}

// logits sets p to the scores of an example by weights that are not yet rounded.
func (m *Model) logits(e *example, weights []float32, p []float64) {
	copy(p, m.bias)
	for _, o := range e.terms {
		at, v := int(o.term)*len(p), float64(o.value)
		for c, w := range weights[at : at+len(p)] {
			p[c] += v * float64(w)
		}
	}
}

// stretch returns the factor of the scores with which the categories of the held examples are most probable. It is 1
// without examples. All examples together leave one text's worth of doubt, divided among all categories: otherwise a
// few examples that are all right would make the model certain.
func (m *Model) stretch(examples []example, held []int, weights []float32) float64 {
	scores, p := make([][]float64, len(held)), make([]float64, len(m.categories))
	for n, i := range held {
		m.logits(&examples[i], weights, p)
		scores[n] = slices.Clone(p)
	}
	best, most := 1.0, math.Inf(-1)
	doubt := 1 / float64(len(held)+1)
	for factor := 1.0 / 16; factor < 16 && len(held) > 0; factor *= 1.05 {
		sum := 0.0
		for n, i := range held {
			for c, s := range scores[n] {
				p[c] = factor * s
			}
			Probabilities(p)
			sum += (1 - doubt) * math.Log(p[examples[i].category]+1e-12)
			for _, q := range p {
				sum += doubt / float64(len(p)) * math.Log(q+1e-12)
			}
		}
		if sum > most {
			best, most = factor, sum
		}
	}
	return best
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
