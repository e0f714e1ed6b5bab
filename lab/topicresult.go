package lab

import (
	"fmt"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// result returns the text, tables and figures.
func (x *Topic) result(r *topicRun) *Result {
	res := &Result{
		Name: "topic", Title: "How well does a classifier tell topics?",
		Question: "X4 (\"Topic-oriented collaborative crawling\") gives each page to the agent of its topic. Its " +
			"paper compares three classifiers: how often they are right, how often a link leads to a page of the " +
			"same category, and how fast they are. What do ours do?",
		SetUp: "Paper: 500 pages to train and 500 to test for each of 15 categories of the Open Directory; links of " +
			"100 pages a category. Here: texts in 15 categories of the Open Directory from several corpora (12,456, " +
			"half to train and half to test), and the 4,598 articles of Wikipedia for Schools with 119,879 links and " +
			"15 topics. *Bayes*, *lewis* and *rocchio* are the paper's learners with words as features. *Logistic* " +
			"is logistic regression on words and pairs of words.",
		Data: Table{Columns: []Column{{Name: "part"}, {Name: "learner"}, {Name: "what"}, {Name: "right"},
			{Name: "of"}, {Name: "value"}}},
		Figure: &Figure{Alt: "Accuracy and topic locality of four classifiers by category: figures 2 and 3 of X4."},
		Figures: map[string]any{"learners": r.learners, "left_out": r.leftOut, "truth": r.truth,
			"languages": r.languages},
		Again: x.Again,
	}
	r.overall(res)
	r.byCategory(res)
	r.bySource(res)
	r.withoutSource(res)
	r.locality(res)
	r.byLanguage(res)
	return res
}

func (r *topicRun) add(res *Result, part, learner, what string, s classify.Share) {
	res.Data.Add(part, learner, what, s.Right, s.Of, s.Accuracy())
}

func (r *topicRun) overall(res *Result) {
	table := &Table{Columns: []Column{{Name: "learner"}, {Name: "accuracy", Unit: "%", Digits: 1},
		{Name: "at least", Digits: 1}, {Name: "at most", Digits: 1}, {Name: "paper", Digits: 1},
		{Name: "probabilities off by", Digits: 3}, {Name: "terms"}, {Name: "pages/s"}, {Name: "paper's", Digits: 2}}}
	for _, l := range r.learners {
		low, high := l.Evaluation.All.Interval()
		var accuracy, speed, off any
		if p, ok := topicPaper[l.Kind]; ok {
			accuracy, speed = p.accuracy, p.speed
		}
		if l.Kind != classify.Rocchio {
			off = l.Evaluation.Off
		}
		table.Add(l.Kind, percent*l.Evaluation.All.Accuracy(), percent*low, percent*high, accuracy, off, l.Terms,
			int64(l.PagesPerS), speed)
		r.add(res, "directory", l.Kind, "all", l.Evaluation.All)
		res.Data.Add("directory", l.Kind, "pages/s", nil, nil, l.PagesPerS)
	}
	e := r.learners[0].Evaluation
	res.Sections = append(res.Sections, Section{Heading: "Accuracy and speed", Table: table, Shown: true,
		Text: fmt.Sprintf("The test half of the Open Directory's texts: %s that have 50 words. *At least* and *at "+
			"most* bound the accuracy with 95 %% confidence (Wilson). The speed is that of one core for pages of %s "+
			"bytes: tags and scripts removed, the language told first. The paper's pages have 7,738 bytes, on a "+
			"machine of 2001, and are other pages than ours: its accuracies are a floor, not a comparison.",
			humanize.Comma(int64(e.All.Of)), humanize.Comma(topicPage))})
}

// columns returns a column for each learner after the first ones.
func (r *topicRun) columns(first ...Column) []Column {
	for _, l := range r.learners {
		first = append(first, Column{Name: l.Kind, Unit: "%", Digits: 1})
	}
	return first
}

// sharesTable has a row for each key, with the accuracies of all learners.
func (r *topicRun) sharesTable(what string, of func(*TopicLearner) map[string]classify.Share) *Table {
	table := &Table{Columns: r.columns(Column{Name: what}, Column{Name: "texts"})}
	for _, key := range sortedKeys(of(&r.learners[0])) {
		row := []any{key, of(&r.learners[0])[key].Of}
		for i := range r.learners {
			row = append(row, percent*of(&r.learners[i])[key].Accuracy())
		}
		table.Add(row...)
	}
	return table
}

func (r *topicRun) byCategory(res *Result) {
	of := func(l *TopicLearner) map[string]classify.Share { return l.Evaluation.ByCategory }
	panel := Panel{Title: "Figure 2: accuracy by category", X: "category", Y: "%", Digits: 0, Aside: true,
		Top: 1.15 * percent}
	for i := range r.learners {
		l := &r.learners[i]
		b := Bars{Name: l.Kind}
		for _, category := range sortedKeys(of(l)) {
			b.Values = append(b.Values, percent*of(l)[category].Accuracy())
			r.add(res, "directory", l.Kind, category, of(l)[category])
			if i == 0 {
				panel.Groups = append(panel.Groups, category[:min(3, len(category))])
			}
		}
		panel.Bars = append(panel.Bars, b)
	}
	res.Figure.Panels = append(res.Figure.Panels, panel)
	res.Sections = append(res.Sections, Section{Heading: "Figure 2: accuracy by category",
		Table: r.sharesTable("category", of), Shown: true})
}

func (r *topicRun) bySource(res *Result) {
	res.Sections = append(res.Sections, Section{Heading: "Accuracy by source",
		Table: r.sharesTable("source", func(l *TopicLearner) map[string]classify.Share {
			by := map[string]classify.Share{}
			for source, s := range l.Evaluation.BySource {
				sum := by[corpus(source)]
				by[corpus(source)] = classify.Share{Right: sum.Right + s.Right, Of: sum.Of + s.Of}
			}
			return by
		})})
}

func (r *topicRun) withoutSource(res *Result) {
	table := &Table{Columns: []Column{{Name: "category"}, {Name: "source"}, {Name: "texts"},
		{Name: "with it", Unit: "%", Digits: 1}, {Name: "without", Unit: "%", Digits: 1}}}
	var with, without classify.Share
	sum := func(to *classify.Share, s classify.Share) { to.Right, to.Of = to.Right+s.Right, to.Of+s.Of }
	for _, l := range r.leftOut {
		table.Add(l.Category, l.Source, l.With.Of, percent*l.With.Accuracy(), percent*l.Without.Accuracy())
		r.add(res, "left out", classify.Logistic, l.Category+", "+l.Source, l.Without)
		sum(&with, l.With)
		sum(&without, l.Without)
	}
	table.Add("all", "", with.Of, percent*with.Accuracy(), percent*without.Accuracy())
	res.Sections = append(res.Sections, Section{Heading: "One source left out", Table: table,
		Text: "*Logistic*, for categories with several sources: the test texts of a source, after a training with " +
			"and without the train texts of that source in that category. What is lost is what a model knows of a " +
			"source's manner, and of subjects that no other source has."})
}

func (r *topicRun) locality(res *Result) {
	table := &Table{Columns: []Column{{Name: "learner"}, {Name: "accuracy", Unit: "%", Digits: 1},
		{Name: "locality", Unit: "%", Digits: 1}, {Name: "at least", Digits: 1}, {Name: "at most", Digits: 1},
		{Name: "paper", Unit: "%", Digits: 1}, {Name: "of all links", Unit: "%", Digits: 1},
		{Name: "by chance", Unit: "%", Digits: 1}}}
	panel := Panel{Title: "Figure 3: links to articles of the same topic, by topic", X: "topic", Y: "%", Digits: 0,
		Aside: true, Top: 1.15 * percent}
	topics := sortedKeys(r.learners[len(r.learners)-1].ByTopic)
	for _, topic := range topics {
		panel.Groups = append(panel.Groups, topic[:min(4, len(topic))])
	}
	for _, l := range r.learners {
		low, high := l.Links.Interval()
		var paper any
		if p, ok := topicPaper[l.Kind]; ok {
			paper = p.locality
		}
		table.Add(l.Kind, percent*l.Articles.Accuracy(), percent*l.Links.Accuracy(), percent*low, percent*high, paper,
			percent*l.AllLinks.Accuracy(), percent*l.Chance)
		r.add(res, "encyclopedia", l.Kind, "accuracy", l.Articles)
		r.add(res, "encyclopedia", l.Kind, "locality", l.Links)
		r.add(res, "encyclopedia", l.Kind, "locality of all links", l.AllLinks)
		b := Bars{Name: l.Kind}
		for _, topic := range topics {
			b.Values = append(b.Values, percent*l.ByTopic[topic].Accuracy())
			r.add(res, "encyclopedia", l.Kind, "locality of "+topic, l.ByTopic[topic])
		}
		panel.Bars = append(panel.Bars, b)
	}
	low, high := r.truth.Interval()
	table.Add("the topics themselves", nil, percent*r.truth.Accuracy(), percent*low, percent*high, nil, nil, nil)
	res.Figure.Panels = append(res.Figure.Panels, panel)
	res.Sections = append(res.Sections, Section{Heading: "Figure 3: topic locality", Table: table, Shown: true,
		Text: fmt.Sprintf("The articles of the encyclopedia, after training on its train half. An article with "+
			"several topics is an example of each; an answer is right if it is one of them. *Locality*: of the %s "+
			"links between articles of the test half, the share whose two ends get the same answer; *all links* are "+
			"those of the train half, too. *By chance*: the answers of all articles shuffled. *The topics "+
			"themselves*: the ends have a topic in common. With hashing it would be 1/n with n agents.",
			humanize.Comma(int64(r.truth.Of)))},
		Section{Heading: "Figure 3: topic locality by topic", Table: r.sharesTable("topic of the linking article",
			func(l *TopicLearner) map[string]classify.Share { return l.ByTopic }),
			Text: "*Texts* are the links of *bayes*, whose answer for the linking article is the topic."})
}

func (r *topicRun) byLanguage(res *Result) {
	table := &Table{Columns: []Column{{Name: "texts"}, {Name: "number"}, {Name: "accuracy", Unit: "%", Digits: 1},
		{Name: "at least", Digits: 1}, {Name: "at most", Digits: 1}, {Name: "paper", Unit: "%", Digits: 1}}}
	add := func(what string, s classify.Share, paper any) {
		low, high := s.Interval()
		table.Add(what, s.Of, percent*s.Accuracy(), percent*low, percent*high, paper)
		r.add(res, "languages", "", what, s)
	}
	add("all", r.languages.All, nil)
	for _, kind := range sortedKeys(r.languages.BySource) {
		add(kind, r.languages.BySource[kind], nil)
	}
	for n := 1; n <= 1<<20; n *= 2 {
		if s, ok := r.languages.ByLength[n]; ok {
			add(fmt.Sprintf("%d to %d letters", n, 2*n-1), s, nil)
		}
	}
	add("English: told to be English", r.english, 96.1)
	add("others: told not to be English", r.others, 90.2)
	languages := &Table{Columns: []Column{{Name: "language"}, {Name: "texts"},
		{Name: "accuracy", Unit: "%", Digits: 1}}}
	for _, l := range sortedKeys(r.languages.ByCategory) {
		s := r.languages.ByCategory[l]
		languages.Add(l, s.Of, percent*s.Accuracy())
	}
	res.Sections = append(res.Sections,
		Section{Heading: "Languages", Table: table, Shown: true,
			Text: fmt.Sprintf("The model in the program, which knows %d languages, with single sentences, pairs of "+
				"words and single words on which it was not trained. The paper tells English from the rest by common "+
				"words, with whole pages of more than 50 words.", len(r.languages.Categories))},
		Section{Heading: "Languages, one by one", Table: languages})
}
