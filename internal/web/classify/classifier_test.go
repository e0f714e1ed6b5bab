package classify

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// tongues returns a model that tells two languages by their letters.
func tongues(t *testing.T) *Model {
	t.Helper()
	var texts []Text
	for range 20 {
		texts = append(texts, Text{"en", "", "the house of that other alpha beta gamma"},
			Text{"xx", "", "zza qqo zzi qqu zzo qqa"})
	}
	m := must.Get(Train(texts, Training{Kind: Bayes, Features: Grams}))(t)
	return m
}

func trained(t *testing.T, training Training) *Model {
	t.Helper()
	texts := some(rand.New(rand.NewPCG(5, 6)), 40)
	for range 10 {
		texts = append(texts, Text{World, "", strings.Repeat("zza qqo ", 60)})
	}
	m := must.Get(Train(texts, training))(t)
	return m
}

// TestClassifier: a text in another language is World, a short one has no category, and the probabilities of all
// categories come to 1.
func TestClassifier(t *testing.T) {
	for _, kind := range Kinds() {
		m := trained(t, Training{Kind: kind, Language: "en"})
		if len(m.Categories()) != 2 {
			t.Errorf("%s: categories %q, want two without WORLD", kind, m.Categories())
		}
		c := must.Get(New(m, tongues(t)))(t)
		var s Scratch
		for _, test := range []struct {
			text, category, language string
		}{
			{strings.Repeat("alpha beta ", 30), "first", "en"},
			{strings.Repeat("lambda mu ", 30), "second", "en"},
			{strings.Repeat("zza qqo ", 30), World, "xx"},
			{strings.Repeat("zza qqo ", 10), Unclassifiable, "xx"},
			{strings.Repeat("zzaqqozzi", 12), World, "xx"}, // no spaces, but more letters than 50 terms have
			{strings.Repeat("alpha beta ", 24), Unclassifiable, "en"},
			{"", Unclassifiable, Unclassifiable},
		} {
			a := c.Classify([]byte(test.text), nil, &s)
			if a.Category != test.category || a.Language != test.language {
				t.Errorf("%s, %.20q: %s in %q, want %s in %q", kind, test.text, a.Category, a.Language, test.category,
					test.language)
			}
			if none := kind == Rocchio || test.category == Unclassifiable; none != (a.Chances == nil) {
				t.Errorf("%s, %.20q: probabilities %v", kind, test.text, a.Chances)
			}
			sum := 0.0
			for _, p := range a.Chances {
				sum += p
			}
			if a.Chances != nil && (math.Abs(sum-1) > 1e-9 || len(a.Chances) != len(c.Categories())) {
				t.Errorf("%s, %.20q: probabilities %v of %q", kind, test.text, a.Chances, c.Categories())
			}
		}
	}
}

// TestNoGate: a model for any language has a category World only if it was trained with one.
func TestNoGate(t *testing.T) {
	c := must.Get(New(trained(t, Training{Kind: Bayes}), nil))(t)
	a := c.Classify([]byte(strings.Repeat("zza qqo ", 30)), nil, new(Scratch))
	if a.Category != World || a.Language != "" || len(a.Chances) != 3 {
		t.Errorf("%+v", a)
	}
}

func TestUnknownLanguage(t *testing.T) {
	m := trained(t, Training{Kind: Bayes, Language: "de"})
	for _, languages := range []*Model{nil, tongues(t), trained(t, Training{Kind: Bayes})} {
		if _, err := New(m, languages); err == nil || !strings.Contains(err.Error(), `"de"`) {
			t.Errorf("error %v, want one that names the language", err)
		}
	}
}
