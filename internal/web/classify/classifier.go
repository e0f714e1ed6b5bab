package classify

import (
	"fmt"
	"slices"
)

// World is the category of texts in other languages than that of a model with a Language (paper, section 5: pages that
// are not in English).
const World = "WORLD"

// gateLetters is the number of letters from which a text in another language is World, even if it has less than
// MinTerms terms: some languages put no spaces between words.
const gateLetters = 100

// A Classifier gives texts a category: first by their language, if its model is for texts in one, then by their words.
// It never changes. Safe for concurrent use.
type Classifier struct {
	model, languages *Model // languages is nil if the model is for texts in any language
	categories       []string
	language         int // number of the model's language
}

// New returns a classifier by a model. If the model has a Language, a model of languages tells it, and texts in other
// languages are World.
func New(model, languages *Model) (*Classifier, error) {
	c := &Classifier{model: model, categories: model.categories}
	if model.language == "" {
		return c, nil
	}
	ok := languages != nil && languages.features == Grams && languages.kind != Rocchio
	if ok {
		c.language, ok = slices.BinarySearch(languages.categories, model.language)
	}
	if !ok {
		return nil, fmt.Errorf("the model is for texts in the language %q, which the model of languages does not tell",
			model.language)
	}
	c.languages = languages
	if _, have := slices.BinarySearch(c.categories, World); !have {
		c.categories = append(slices.Clone(c.categories), World)
		slices.Sort(c.categories)
	}
	return c, nil
}

// Categories returns the sorted categories. The caller must not change them.
func (c *Classifier) Categories() []string { return c.categories }

// Model returns the model of the words.
func (c *Classifier) Model() *Model { return c.model }

// An Answer is what a Classifier says of a text.
type Answer struct {
	Category string
	Terms    int    // of the text
	Language string // empty: it was not asked for
	// Chances are the probabilities of the categories in the order of Categories. They are nil for Rocchio, and without
	// a category.
	Chances []float64
}

// A Scratch is memory for Classify. The zero value is ready. It belongs to one goroutine.
type Scratch struct {
	text, language   Document
	scores, byTongue []float64
	chances          []float64
}

// Classify gives a text in UTF-8 its category. Its language is that of main, the main part of the text; without it, of
// the text. Answer.Chances are valid until the next call with the same Scratch.
func (c *Classifier) Classify(text, main []byte, s *Scratch) (a Answer) {
	if len(main) == 0 {
		main = text
	}
	inside := 1.0 // the probability that the text is in the model's language
	if c.languages != nil {
		c.languages.Read(&s.language, main)
		a.Language, s.byTongue = c.languages.Best(&s.language, s.byTongue)
		Probabilities(s.byTongue)
		inside = s.byTongue[c.language]
	}
	if c.model.features == Grams {
		text = main
	}
	c.model.Read(&s.text, text)
	a.Terms = s.text.Terms()
	a.Category, s.scores = c.model.Best(&s.text, s.scores)
	foreign := c.languages != nil && a.Language != c.model.language && a.Language != Unclassifiable
	switch {
	case foreign && (a.Category != Unclassifiable || s.language.Terms() >= gateLetters):
		a.Category = World
	case a.Category == Unclassifiable:
		return a
	}
	if c.model.kind != Rocchio {
		Probabilities(s.scores)
		a.Chances = c.chances(s, inside)
	}
	return a
}

// chances returns the probabilities of all categories.
func (c *Classifier) chances(s *Scratch, inside float64) []float64 {
	s.chances = s.chances[:0]
	next := 0
	for _, name := range c.categories {
		p := 0.0
		if next < len(c.model.categories) && c.model.categories[next] == name {
			p = inside * s.scores[next]
			next++
		}
		if c.languages != nil && name == World {
			p += 1 - inside
		}
		s.chances = append(s.chances, p)
	}
	return s.chances
}
