package lab

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// ErrNoTexts reports that there are no texts at the given path.
var ErrNoTexts = errors.New("the texts are missing")

// labelled is a line of the files of texts. Each file has some of the fields.
type labelled struct {
	ID       int      `json:"id"`
	Title    string   `json:"title"`
	Category string   `json:"category"`
	Topics   []string `json:"topics"`
	Links    []int    `json:"links"`
	Source   string   `json:"source"`
	Lang     string   `json:"lang"`
	Kind     string   `json:"kind"`
	Split    string   `json:"split"`
	Text     string   `json:"text"`
}

// defaultTexts is the folder with the texts.
const defaultTexts = "../shared/data/topics"

// readTexts reads one of the files of texts. Of so many lines it keeps the first.
func readTexts(dir, name string, every int) (rows []labelled, err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s; --texts names the folder", ErrNoTexts, dir, name)
	}
	if err != nil {
		return nil, fmt.Errorf("texts: %w", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("texts: %s: %w", name, err)
	}
	n := 0
	for d := json.NewDecoder(bufio.NewReaderSize(z, 1<<20)); d.More(); n++ {
		var row labelled
		if err := d.Decode(&row); err != nil {
			return nil, fmt.Errorf("texts: %s: %w", name, err)
		}
		if n%every == 0 {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// readBoth reads the texts of the Open Directory and of the encyclopedia.
func readBoth(dir string, every int) (odp, wiki []labelled, err error) {
	if odp, err = readTexts(dir, "odp.jsonl.gz", every); err == nil {
		wiki, err = readTexts(dir, "wikispeedia.jsonl.gz", every)
	}
	return odp, wiki, err
}

// tally counts an answer, which may be right.
func tally(s *classify.Share, right bool) {
	if s.Of++; right {
		s.Right++
	}
}

// directory returns the texts of the Open Directory that keep accepts.
func directory(rows []labelled, keep func(*labelled) bool) (texts []classify.Text) {
	for i := range rows {
		if r := &rows[i]; keep(r) {
			texts = append(texts, classify.Text{Category: r.Category, Source: r.Source, Text: r.Text})
		}
	}
	return texts
}

// An encyclopedia has articles with topics and with links between them.
type encyclopedia struct {
	articles []labelled
	number   map[int]int // by id
}

func newEncyclopedia(articles []labelled) *encyclopedia {
	e := &encyclopedia{articles, map[int]int{}}
	for i := range articles {
		e.number[articles[i].ID] = i
	}
	return e
}

// training returns the train half. An article with several topics is an example of each.
func (e *encyclopedia) training() (texts []classify.Text) {
	for i := range e.articles {
		a := &e.articles[i]
		for _, topic := range a.Topics {
			if a.Split == "train" {
				texts = append(texts, classify.Text{Category: topic, Text: a.Text})
			}
		}
	}
	return texts
}

// answers lets a classifier judge all articles.
func (e *encyclopedia) answers(c *classify.Classifier) []string {
	var s classify.Scratch
	out := make([]string, len(e.articles))
	for i := range e.articles {
		out[i] = c.Classify([]byte(e.articles[i].Text), nil, &s).Category
	}
	return out
}

// right counts the articles of the test half whose answer is one of their topics.
func (e *encyclopedia) right(answers []string) (s classify.Share) {
	for i := range e.articles {
		if a := &e.articles[i]; a.Split == "test" && len(a.Topics) > 0 && answers[i] != classify.Unclassifiable {
			tally(&s, slices.Contains(a.Topics, answers[i]))
		}
	}
	return s
}

// locality counts the links whose two ends get the same category, by the category of the first: those between articles
// of the test half, or all.
func (e *encyclopedia) locality(same func(from, to int) bool, category func(int) string, onlyTest bool) (
	all classify.Share, by map[string]classify.Share) {
	by = map[string]classify.Share{}
	for from := range e.articles {
		a := &e.articles[from]
		for _, id := range a.Links {
			to, ok := e.number[id]
			if !ok || onlyTest && (a.Split != "test" || e.articles[to].Split != "test") {
				continue
			}
			s := by[category(from)]
			tally(&s, same(from, to))
			tally(&all, same(from, to))
			by[category(from)] = s
		}
	}
	return all, by
}

// shared reports whether two articles have a topic in common.
func (e *encyclopedia) shared(from, to int) bool {
	return common(e.articles[from].Topics, e.articles[to].Topics)
}

// common reports whether two lists have a name in common.
func common(a, b []string) bool {
	return slices.ContainsFunc(a, func(name string) bool { return slices.Contains(b, name) })
}
