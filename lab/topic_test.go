package lab

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// island is an encyclopedia of four articles of the test half and one of the train half.
func island() *encyclopedia {
	return newEncyclopedia([]labelled{
		{ID: 1, Split: "test", Topics: []string{"a"}, Links: []int{2, 3, 9}}, // 9 is no article
		{ID: 2, Split: "test", Topics: []string{"a", "b"}, Links: []int{3}},
		{ID: 3, Split: "test", Topics: []string{"b"}, Links: []int{5}},
		{ID: 4, Split: "test"},
		{ID: 5, Split: "train", Topics: []string{"b", "c"}, Text: "x", Links: []int{3}},
	})
}

// TestEncyclopedia: links between articles of the test half count by the category of the first; an answer is right if
// it is one of several topics; an article without a topic is not judged.
func TestEncyclopedia(t *testing.T) {
	e := island()
	answers := []string{"a", "b", "b", "a", "c"}
	all, by := e.locality(func(from, to int) bool { return answers[from] == answers[to] },
		func(i int) string { return answers[i] }, true)
	if all != (classify.Share{Right: 1, Of: 3}) || by["a"] != (classify.Share{Right: 0, Of: 2}) ||
		by["b"] != (classify.Share{Right: 1, Of: 1}) {
		t.Errorf("%+v, %+v", all, by)
	}
	if s, _ := e.locality(e.shared, func(int) string { return "" }, false); s != (classify.Share{Right: 4, Of: 5}) {
		t.Errorf("topics in common: %+v, want 4 of 5", s)
	}
	if s := e.right(answers); s != (classify.Share{Right: 3, Of: 3}) {
		t.Errorf("right: %+v", s)
	}
	if texts := e.training(); len(texts) != 2 || texts[0].Category != "b" || texts[1].Category != "c" {
		t.Errorf("training: %+v", texts)
	}
}

// gzLines writes a file of objects, each of them in so many lines as a quick run of Topic skips.
func gzLines(t *testing.T, name string, rows []labelled) {
	t.Helper()
	gzCopies(t, name, rows, 8)
}

// gzCopies writes a file of objects, each of them in some lines.
func gzCopies(t *testing.T, name string, rows []labelled, copies int) {
	t.Helper()
	f := must.Get(os.Create(name))(t)
	z := gzip.NewWriter(f)
	for _, r := range rows {
		b := must.Get(json.Marshal(r))(t)
		io.WriteString(z, strings.Repeat(string(b)+"\n", copies))
	}
	must.Do(t, errors.Join(z.Close(), f.Close()))
}

// TestTopicOfMadeUpTexts: the whole experiment on texts whose words name their category. Of the two sources of a
// category one has words of its own, so a training without it does not know them.
func TestTopicOfMadeUpTexts(t *testing.T) {
	dir := t.TempDir()
	trial := (&Trial{Quick: true, Screen: io.Discard}).with(dir)
	if _, err := (&Topic{Texts: dir}).Run(context.Background(), trial); !errors.Is(err, ErrNoTexts) {
		t.Errorf("no texts: %v", err)
	}
	var odp, wiki, languages []labelled
	for i := range 40 {
		split := []string{"train", "test"}[i%2]
		add := func(category, source, words string) {
			odp = append(odp, labelled{Category: category, Source: source, Split: split,
				Text: strings.Repeat(words+" the of and ", 20)})
		}
		add("SEA", "letters a", "ship harbour")
		add("SEA", "novels", "whale whaler")
		add("AIR", "letters", "plane airport cloud")
		wiki = append(wiki, labelled{ID: i, Split: split, Topics: []string{[]string{"Sea", "Air"}[i/2%2]},
			Links: []int{(i + 4) % 40}, Text: strings.Repeat([]string{"ship harbour ", "plane airport "}[i/2%2], 30)})
		languages = append(languages, labelled{Lang: "en", Kind: "sentences",
			Text: fmt.Sprintf("This is the house of the %d other people that we know", i)})
	}
	gzLines(t, filepath.Join(dir, "odp.jsonl.gz"), odp)
	gzLines(t, filepath.Join(dir, "wikispeedia.jsonl.gz"), wiki)
	gzLines(t, filepath.Join(dir, "languages.jsonl.gz"), languages)
	r := must.Get((&Topic{Texts: dir}).run(context.Background(), trial))(t)
	for _, l := range r.learners {
		if l.Evaluation.All.Accuracy() < 1 || l.Articles != (classify.Share{Right: 20, Of: 20}) ||
			l.Links.Accuracy() < 1 || l.Chance > 0.8 || l.PagesPerS <= 0 {
			t.Errorf("%s: %+v, articles %+v, links %+v, by chance %g, %g pages/s", l.Kind, l.Evaluation.All, l.Articles,
				l.Links, l.Chance, l.PagesPerS)
		}
	}
	left := r.leftOut
	if len(left) != 2 || left[0].Category != "SEA" || left[0].Source != "letters" || left[0].With.Accuracy() < 1 ||
		left[1].Source != "novels" {
		t.Errorf("%+v", left)
	}
	if e := r.languages; e.All.Of == 0 || e.All.Accuracy() < 1 {
		t.Errorf("%+v", e.All)
	}
	text := rendered(t, new(Topic).result(r))
	for _, want := range []string{"| SEA      |    40 |     100.0 |", "| letters |    40 |",
		"| the topics themselves |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
}
