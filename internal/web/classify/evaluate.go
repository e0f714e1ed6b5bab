package classify

import (
	"math"
	"math/bits"
	"slices"
)

// An Evaluation compares a classifier with texts of known categories. Texts that are Unclassifiable are not judged,
// and neither are those of categories that the classifier does not have.
type Evaluation struct {
	Categories []string         `json:"categories"`
	All        Share            `json:"all"`
	ByCategory map[string]Share `json:"by_category"`
	BySource   map[string]Share `json:"by_source"`
	// ByLength has the texts by their number of terms (by Grams of letters), rounded down to a power of two.
	ByLength map[int]Share `json:"by_length"`
	// Confusion counts the texts by their category and that of the model, in the order of Categories.
	Confusion [][]int `json:"confusion"`
	// Calibration has ten classes of the model's probability of its answer, from 0 to 1. It is nil for Rocchio.
	Calibration []Calibration `json:"calibration,omitempty"`
	// Off is the expected calibration error: the mean of |accuracy - probability| over all texts, by the classes.
	Off     float64 `json:"expected_calibration_error"`
	Short   int     `json:"short"`            // Unclassifiable texts
	Foreign int     `json:"other_categories"` // texts of categories that the model does not have
}

// A Share is how many of some texts got their category.
type Share struct {
	Right int `json:"right"`
	Of    int `json:"of"`
}

// Accuracy is the share itself, from 0 to 1. It is NaN without texts.
func (s Share) Accuracy() float64 { return float64(s.Right) / float64(s.Of) }

// Interval returns Wilson's interval of 95 % confidence of the accuracy.
func (s Share) Interval() (low, high float64) {
	const z = 1.959964
	n, p := float64(s.Of), s.Accuracy()
	middle, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return (middle - half) / (1 + z*z/n), (middle + half) / (1 + z*z/n)
}

func (s *Share) add(right bool) {
	s.Of++
	if right {
		s.Right++
	}
}

// A Calibration is a class of answers with about the same probability by the model.
type Calibration struct {
	Share
	Probability float64 `json:"mean_probability"`
}

// Evaluate lets a classifier judge texts.
func Evaluate(c *Classifier, texts []Text) *Evaluation {
	k := len(c.categories)
	e := &Evaluation{
		Categories: c.categories,
		ByCategory: map[string]Share{}, BySource: map[string]Share{}, ByLength: map[int]Share{},
	}
	for range k {
		e.Confusion = append(e.Confusion, make([]int, k))
	}
	if c.model.kind != Rocchio {
		e.Calibration = make([]Calibration, 10)
	}
	var s Scratch
	for _, t := range texts {
		want, ok := slices.BinarySearch(c.categories, t.Category)
		if !ok {
			e.Foreign++
			continue
		}
		got := c.Classify([]byte(t.Text), nil, &s)
		if got.Category == Unclassifiable {
			e.Short++
			continue
		}
		right := got.Category == t.Category
		e.All.add(right)
		addTo(e.ByCategory, t.Category, right)
		addTo(e.BySource, t.Source, right)
		addTo(e.ByLength, 1<<(bits.Len(uint(got.Terms))-1), right)
		answer, _ := slices.BinarySearch(c.categories, got.Category)
		e.Confusion[want][answer]++
		if e.Calibration != nil {
			p := got.Chances[answer]
			c := &e.Calibration[min(9, int(10*p))]
			c.Probability = (c.Probability*float64(c.Of) + p) / float64(c.Of+1)
			c.add(right)
		}
	}
	for _, c := range e.Calibration {
		if c.Of > 0 {
			e.Off += math.Abs(c.Accuracy()-c.Probability) * float64(c.Of) / float64(e.All.Of)
		}
	}
	return e
}

func addTo[K comparable](to map[K]Share, key K, right bool) {
	s := to[key]
	s.add(right)
	to[key] = s
}
