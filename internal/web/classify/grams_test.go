package classify

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"hash/fnv"
	"maps"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

func TestGrams(t *testing.T) {
	var d Document
	for text, want := range map[string]map[string]int{
		"":    {},
		"1 .": {},
		"Ab":  {"a": 1, "b": 1, " a": 1, "ab": 1, "b ": 1, " ab": 1, "ab ": 1, " ab ": 1},
		"a, É!": {"a": 1, "é": 1, " a": 1, "a ": 1, " é": 1, "é ": 1, " a ": 1, "a é": 1, " é ": 1, " a é": 1,
			"a é ": 1},
	} {
		d.grams([]byte(text))
		hashes, letters := map[uint64]int{}, 0
		for run, n := range want {
			hashes[hashOf(run)] = n
			if utf8.RuneCountInString(run) == 1 {
				letters += n
			}
		}
		if got := counts(&d); !maps.Equal(got, hashes) || d.Terms() != letters {
			t.Errorf("%q: %d letters, %v, want %v", text, d.Terms(), got, hashes)
		}
	}
}

// Of a long text, four pieces are read; parts of characters at their borders are spaces.
func TestGramsOfLongText(t *testing.T) {
	var d Document
	text := []byte(strings.Repeat("é", maxGrams/2) + "z" + strings.Repeat("é", maxGrams/2))
	d.grams(text)
	if got := d.Terms(); got != 64+63+63+64 {
		t.Errorf("%d letters", got)
	}
	d.grams([]byte("alpha " + strings.Repeat("omega ", 1000) + "beta"))
	for _, run := range []string{" alp", "ome", "beta"} {
		if counts(&d)[hashOf(run)] == 0 {
			t.Errorf("%q is not among the runs", run)
		}
	}
	if n := d.Terms(); n < maxGrams*3/4 || n > maxGrams {
		t.Errorf("%d letters were read of %d bytes", n, maxGrams)
	}
}

// Naive Bayes by runs of characters tells 75 languages by a single sentence, half of which it has not seen.
func TestLanguages(t *testing.T) {
	f, err := os.Open("../../../../shared/data/topics/languages.jsonl.gz")
	if err != nil {
		testneed.Missing(t, err)
	}
	defer f.Close()
	z := must.Get(gzip.NewReader(f))(t)
	type row struct{ Lang, Kind, Text string }
	var rows []row
	named := map[string]bool{}
	for d := json.NewDecoder(bufio.NewReader(z)); d.More(); {
		var r row
		must.Do(t, d.Decode(&r))
		if rows = append(rows, r); r.Kind == "sentences" {
			named[r.Lang] = true
		}
	}
	var train, test []Text
	for _, r := range rows {
		h := fnv.New32a()
		h.Write([]byte(r.Text))
		switch {
		case !named[r.Lang] || r.Kind == "single-words":
		case r.Kind == "udhr" || h.Sum32()%2 == 0: // the Declaration is the same text in all languages
			train = append(train, Text{Category: r.Lang, Text: r.Text})
		default:
			test = append(test, Text{r.Lang, r.Kind, r.Text})
		}
	}
	m := must.Get(Train(train, Training{Kind: Bayes, Features: Grams, MinTexts: 16}))(t)
	e := Evaluate(classifier(t, m), test)
	sentences, pairs := e.BySource["sentences"], e.BySource["word-pairs"]
	t.Logf("%d languages, %d runs; sentences %.4f of %d, pairs of words %.4f of %d", len(m.Categories()),
		m.Vocabulary(), sentences.Accuracy(), sentences.Of, pairs.Accuracy(), pairs.Of)
	if len(m.Categories()) < 70 || sentences.Of < 10_000 || sentences.Accuracy() < 0.955 {
		t.Errorf("sentences: %+v of %d languages", sentences, len(m.Categories()))
	}
	if pairs.Of < 1000 || pairs.Accuracy() < 0.79 {
		t.Errorf("pairs of words: %+v", pairs)
	}
	if en := e.ByCategory["en"]; en.Accuracy() < 0.95 {
		t.Errorf("English: %+v", en)
	}
}
