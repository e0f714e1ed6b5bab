package lab

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"html"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/classify/builtin"
	"github.com/orbweaver/orbweaver/internal/web/parse"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Topic repeats the experiments of the paper on X4 with its classifiers (section 5, figures 2 and 3).
//
// It runs in this process. All results but the speeds are the same on every machine.
type Topic struct {
	// Texts is the folder with the texts. Empty means "../shared/data/topics".
	Texts string
}

// topicPage is the length of the pages for the speed, in bytes.
const topicPage = 22_300

// A TopicLearner is what one learner does with the texts of the Open Directory.
type TopicLearner struct {
	Kind       string               `json:"kind"`
	Evaluation *classify.Evaluation `json:"evaluation"`
	PagesPerS  float64              `json:"pages_per_s"` // on one core
	Terms      int                  `json:"terms"`
	Articles   classify.Share       `json:"articles"` // of the encyclopedia's test half
	// Links have both ends in the test half of the encyclopedia; AllLinks are all.
	Links    classify.Share            `json:"links"`
	ByTopic  map[string]classify.Share `json:"links_by_topic"`
	AllLinks classify.Share            `json:"all_links"`
	Chance   float64                   `json:"links_by_chance"` // what answers for shuffled articles would give
}

// A TopicLeftOut compares a source's test texts after trainings with and without its own.
type TopicLeftOut struct {
	Category string         `json:"category"`
	Source   string         `json:"source"`
	With     classify.Share `json:"with"`
	Without  classify.Share `json:"without"`
}

// topicRun has the results.
type topicRun struct {
	learners  []TopicLearner
	leftOut   []TopicLeftOut
	truth     classify.Share // links between articles with a topic in common
	languages *classify.Evaluation
	english   classify.Share
	others    classify.Share
}

// Run implements Experiment.
func (x *Topic) Run(ctx context.Context, t *Trial) (*Result, error) {
	r, err := x.run(ctx, t)
	if err != nil {
		return nil, err
	}
	return x.result(r), nil
}

// run makes all measurements.
func (x *Topic) run(ctx context.Context, t *Trial) (*topicRun, error) {
	dir, every := x.Texts, 1
	def(&dir, defaultTexts)
	if t.Quick {
		every = 8
	}
	odp, wiki, err := readBoth(dir, every)
	if err != nil {
		return nil, err
	}
	languages, err := readTexts(dir, "languages.jsonl.gz", every)
	if err != nil {
		return nil, err
	}
	var r topicRun
	e := newEncyclopedia(wiki)
	r.truth, _ = e.locality(e.shared, func(int) string { return "" }, true)
	for _, kind := range classify.Kinds() {
		done := t.step("%s", kind)
		l, err := learn(ctx, t, kind, odp, e)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		done("%.1f %%", percent*l.Evaluation.All.Accuracy())
		r.learners = append(r.learners, *l)
	}
	done := t.step("a source left out")
	if r.leftOut, err = leaveOut(ctx, odp); err != nil {
		return nil, err
	}
	done("%d sources", len(r.leftOut))
	if err := r.tongues(languages); err != nil {
		return nil, err
	}
	return &r, nil
}

// The accuracy, the locality and the speed in the paper, by learner (section 5). Speeds are of pages of 7,738 bytes.
var topicPaper = map[string]struct{ accuracy, locality, speed float64 }{
	classify.Bayes:   {60.7, 62.4, 19.5},
	classify.Lewis:   {58.2, 62.3, 2.89},
	classify.Rocchio: {43.7, 48.9, 1.61},
}

// learn trains and measures one learner.
func learn(ctx context.Context, t *Trial, kind string, odp []labelled, e *encyclopedia) (l *TopicLearner, err error) {
	of := func(split string) []classify.Text {
		return directory(odp, func(r *labelled) bool { return r.Split == split })
	}
	c, err := trainedOn(of("train"), kind)
	if err != nil {
		return nil, err
	}
	test := of("test")
	l = &TopicLearner{Kind: kind, Evaluation: classify.Evaluate(c, test), Terms: c.Model().Vocabulary()}
	if l.PagesPerS, err = classifySpeed(ctx, t, c, test); err != nil {
		return nil, err
	}
	if c, err = trainedOn(e.training(), kind); err != nil {
		return nil, err
	}
	answers := e.answers(c)
	l.Articles = e.right(answers)
	same := func(from, to int) bool { return answers[from] == answers[to] }
	topic := func(i int) string { return answers[i] }
	l.Links, l.ByTopic = e.locality(same, topic, true)
	l.AllLinks, _ = e.locality(same, topic, false)
	mixed := slices.Clone(answers)
	rand.New(rand.NewPCG(t.Seed, 5)).Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	chance, _ := e.locality(func(from, to int) bool { return mixed[from] == mixed[to] }, topic, false)
	l.Chance = chance.Accuracy()
	return l, nil
}

func trainedOn(texts []classify.Text, kind string) (*classify.Classifier, error) {
	m, err := classify.Train(texts, classify.Training{Kind: kind})
	if err != nil {
		return nil, err
	}
	return classify.New(m, nil)
}

// classifySpeed returns how many pages a second one core classifies: from the bytes of the page, which the crawl has
// parsed, to the category, with the language first.
func classifySpeed(ctx context.Context, t *Trial, c *classify.Classifier, texts []classify.Text) (float64, error) {
	var pages int
	size(t.Quick, &pages, 200, 20)
	gate, err := classify.New(builtin.Languages(), nil)
	if err != nil {
		return 0, err
	}
	r := rand.New(rand.NewPCG(t.Seed, 6))
	var took time.Duration
	var p parse.Page
	var s, tongue classify.Scratch
	var text []byte
	for range pages {
		body := pageOf(texts, r)
		parse.Parse(parse.Input{URL: weburl.MustParse("http://a.example/"), ContentType: "text/html; charset=utf-8",
			Body: body}, parse.Options{}, &p)
		began := time.Now()
		for range 10 {
			text = p.AppendProse(text[:0], body)
			gate.Classify(text, p.MainText(), &tongue)
			c.Classify(text, p.MainText(), &s)
		}
		took += time.Since(began)
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	return float64(10*pages) / took.Seconds(), nil
}

// pageOf makes a page of paragraphs with links, from texts that follow each other.
func pageOf(texts []classify.Text, r *rand.Rand) []byte {
	var b bytes.Buffer
	b.WriteString("<!doctype html><title>A page</title><body>\n")
	for i := r.IntN(len(texts)); b.Len() < topicPage; i = (i + 1) % len(texts) {
		for line := range strings.Lines(texts[i].Text) {
			line = html.EscapeString(line)
			fmt.Fprintf(&b, "<p class=\"text\">%s <a href=\"/page/%d\">more</a></p>\n", line, b.Len())
		}
	}
	return b.Bytes()[:topicPage]
}

// leaveOut trains without each source of the categories that have several, and asks for its test texts. A source is a
// corpus: the groups of a corpus count as one.
func leaveOut(ctx context.Context, odp []labelled) (out []TopicLeftOut, err error) {
	corpora := map[string]map[string]bool{} // by category
	for i := range odp {
		r := &odp[i]
		if corpora[r.Category] == nil {
			corpora[r.Category] = map[string]bool{}
		}
		corpora[r.Category][corpus(r.Source)] = true
	}
	all := directory(odp, func(r *labelled) bool { return r.Split == "train" })
	with, err := trainedOn(all, classify.Logistic)
	if err != nil {
		return nil, err
	}
	for _, category := range slices.Sorted(maps.Keys(corpora)) {
		for _, name := range slices.Sorted(maps.Keys(corpora[category])) {
			if len(corpora[category]) < 2 || ctx.Err() != nil {
				continue
			}
			of := func(r *labelled) bool { return r.Category == category && corpus(r.Source) == name }
			without, err := trainedOn(directory(odp, func(r *labelled) bool { return r.Split == "train" && !of(r) }),
				classify.Logistic)
			if err != nil {
				return nil, err
			}
			test := directory(odp, func(r *labelled) bool { return r.Split == "test" && of(r) })
			if len(test) == 0 {
				continue
			}
			out = append(out, TopicLeftOut{category, name, classify.Evaluate(with, test).All,
				classify.Evaluate(without, test).All})
		}
	}
	return out, ctx.Err()
}

// corpus returns the first word of a source, such as "20news" of "20news sci.space".
func corpus(source string) string {
	name, _, _ := strings.Cut(source, " ")
	return name
}

// tongues lets the program's model of languages judge the half of the texts on which it was not trained.
func (r *topicRun) tongues(rows []labelled) error {
	c, err := classify.New(builtin.Languages(), nil)
	if err != nil {
		return err
	}
	var texts []classify.Text
	for i := range rows {
		l := &rows[i]
		h := fnv.New32a()
		h.Write([]byte(l.Text))
		if l.Kind != "udhr" && h.Sum32()%2 == 1 {
			texts = append(texts, classify.Text{Category: l.Lang, Source: l.Kind, Text: l.Text})
		}
	}
	r.languages = classify.Evaluate(c, texts)
	english, _ := slices.BinarySearch(c.Categories(), "en")
	for i, row := range r.languages.Confusion {
		for j, n := range row {
			s := &r.others
			if i == english {
				s = &r.english
			}
			s.Of += n
			if (i == english) == (j == english) {
				s.Right += n
			}
		}
	}
	return nil
}
