package builtin

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

var update = flag.Bool("update", false, "write the models")

// A row is a line of a file of texts.
type row struct{ Category, Lang, Kind, Source, Split, Text string }

func read(t testing.TB, name string) (rows []row) {
	t.Helper()
	f, err := os.Open("../../../../../shared/data/topics/" + name)
	if err != nil {
		testneed.Missing(t, err)
	}
	defer f.Close()
	z := must.Get(gzip.NewReader(f))(t)
	for d := json.NewDecoder(bufio.NewReader(z)); d.More(); {
		var r row
		must.Do(t, d.Decode(&r))
		rows = append(rows, r)
	}
	return rows
}

// same trains a model again, and compares it with the file in the program.
func same(t *testing.T, name string, have []byte, texts []classify.Text, training classify.Training, about string) {
	t.Helper()
	m := must.Get(classify.Train(texts, training))(t)
	var want bytes.Buffer
	must.Do(t, m.Write(&want, about))
	if *update {
		var file bytes.Buffer
		z, _ := gzip.NewWriterLevel(&file, gzip.BestCompression)
		if _, err := z.Write(want.Bytes()); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		must.Do(t, os.WriteFile(name, file.Bytes(), 0o644))
		t.Skipf("wrote %s: %d bytes, %d terms; test again", name, file.Len(), m.Vocabulary())
	}
	z := must.Get(gzip.NewReader(bytes.NewReader(have)))(t)
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s: the training gives another model, %v; -update writes it", name, err)
	}
}

// judged returns what a classifier with the models in the program says of texts.
func judged(t *testing.T, m *classify.Model, texts []classify.Text) *classify.Evaluation {
	t.Helper()
	c := must.Get(classify.New(m, Languages()))(t)
	return classify.Evaluate(c, texts)
}

// The model of languages is that of half of the texts, and tells the other half.
func TestLanguages(t *testing.T) {
	rows := read(t, "languages.jsonl.gz")
	named := map[string]bool{}
	for _, r := range rows {
		if r.Kind == "sentences" {
			named[r.Lang] = true
		}
	}
	var train, test []classify.Text
	for _, r := range rows {
		h := fnv.New32a()
		h.Write([]byte(r.Text))
		text := classify.Text{Category: r.Lang, Source: r.Kind, Text: r.Text}
		switch {
		case !named[r.Lang]:
		case r.Kind == "udhr" || h.Sum32()%2 == 0: // the Declaration is the same text in all languages
			train = append(train, text)
		default:
			test = append(test, text)
		}
	}
	same(t, "languages.model.gz", languages, train, classify.Training{
		Kind: classify.Bayes, Features: classify.Grams, MinTexts: 32,
	}, "sentences of lingua-go (Apache-2.0, from the Wortschatz corpora), Universal Declaration of Human Rights")
	e := judged(t, Languages(), test)
	for source, least := range map[string]float64{"sentences": 0.955, "word-pairs": 0.79, "single-words": 0.58} {
		s := e.BySource[source]
		t.Logf("%s: %.4f of %d", source, s.Accuracy(), s.Of)
		if s.Of < 1000 || s.Accuracy() < least {
			t.Errorf("%s: %.4f of %d, want %.3f", source, s.Accuracy(), s.Of, least)
		}
	}
	good := 0
	for language, s := range e.ByCategory {
		if s.Accuracy() >= 0.9 {
			good++
		}
		if language == "en" && s.Accuracy() < 0.9 {
			t.Errorf("English: %.4f of %d", s.Accuracy(), s.Of)
		}
	}
	if t.Logf("%d of %d languages with 90 %%", good, len(e.Categories)); len(e.Categories) < 70 || good < 45 {
		t.Errorf("%d of %d languages are told in nine of ten cases", good, len(e.Categories))
	}
}

// free says whether the licence of a source of the Open Directory's texts allows a model to be shipped.
func free(source string) bool {
	return !strings.HasPrefix(source, "20news") && !strings.HasPrefix(source, "reuters")
}

// topicsDigest is the digest of the model of topics. Crawls that divide pages by topic keep it in their directories.
// Only a program with the same model continues them.
const topicsDigest = "c77bc6cad982"

// The model of topics is that with which crawls have begun, and tells the test half of the free texts. It learned from
// their train half, by the training before regularization.
func TestTopics(t *testing.T) {
	var test, others []classify.Text
	for _, r := range read(t, "odp.jsonl.gz") {
		text := classify.Text{Category: r.Category, Source: r.Source, Text: r.Text}
		switch {
		case r.Split == "test" && free(r.Source):
			test = append(test, text)
		case r.Split == "test":
			others = append(others, text)
		}
	}
	if got := Topics().Digest(); !strings.HasPrefix(got, topicsDigest) {
		t.Errorf("the digest is %s, want %s", got, topicsDigest)
	}
	e := judged(t, Topics(), test)
	low, high := e.All.Interval()
	t.Logf("%.4f (%.4f to %.4f) of %d; calibration error %.3f; %v", e.All.Accuracy(), low, high, e.All.Of, e.Off,
		e.ByCategory)
	if e.All.Of < 2900 || e.All.Accuracy() < 0.94 || e.ByCategory[classify.World].Accuracy() < 0.97 {
		t.Errorf("%+v, WORLD %+v", e.All, e.ByCategory[classify.World])
	}
	o := judged(t, Topics(), others)
	t.Logf("of sources that it has not seen: %.4f of %d; %v", o.All.Accuracy(), o.All.Of, o.ByCategory)
	if o.All.Of < 2500 || o.All.Accuracy() < 0.37 {
		t.Errorf("of sources that it has not seen: %+v", o.All)
	}
}

// BenchmarkPage takes the time of a page of 22 KB on one core: its text without tags, its language and its topic.
func BenchmarkPage(b *testing.B) {
	var page bytes.Buffer
	page.WriteString("<!doctype html><title>A page</title><body>")
	for _, r := range read(b, "odp.jsonl.gz") {
		for _, line := range strings.Split(r.Text, "\n") {
			fmt.Fprintf(&page, "<p class=\"text\">%s <a href=\"/wiki/%d\">more</a></p>\n", html.EscapeString(line),
				page.Len())
		}
		if page.Len() > 22_300 {
			break
		}
	}
	body := page.Bytes()[:22_300]
	c, err := classify.New(Topics(), Languages())
	must.Do(b, err)
	var p parse.Page
	parse.Parse(parse.Input{URL: weburl.MustParse("http://a.example/"), ContentType: "text/html; charset=utf-8",
		Body: body}, parse.Options{}, &p)
	var s classify.Scratch
	var text []byte
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		text = p.AppendProse(text[:0], body)
		if a := c.Classify(text, p.MainText(), &s); a.Language != "en" {
			b.Fatal(a)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}
