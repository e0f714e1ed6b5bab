package lab

import (
	"fmt"
	"maps"
	"slices"

	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// result returns the measurements: a place for each learner, category, source, topic and language.
func (x *Topic) result(r *topicRun) *Result {
	d := newData("part", "learner", "name", "source")
	d.Fact("page_bytes", topicPage)
	d.Fact("languages", len(r.languages.Categories))
	shares := func(part, learner string, all map[string]classify.Share) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			d.At(part, learner, name).All(all[name])
		}
	}
	for _, l := range r.learners {
		at := d.At("learner", l.Kind).All(l.Evaluation.All).Set("terms", l.Terms).Set("pages_per_s", l.PagesPerS)
		links := d.At("links", l.Kind).All(l.Links).Set("articles_right", l.Articles.Right).
			Set("articles_of", l.Articles.Of).Set("all_right", l.AllLinks.Right).Set("all_of", l.AllLinks.Of).
			Set("chance", l.Chance)
		if p, ok := topicPaper[l.Kind]; ok {
			at.Set("paper_accuracy", p.accuracy).Set("paper_pages_per_s", p.speed)
			links.Set("paper", p.locality)
		}
		if l.Kind != classify.Rocchio {
			at.Set("off", l.Evaluation.Off)
		}
		shares("category", l.Kind, l.Evaluation.ByCategory)
		for _, source := range slices.Sorted(maps.Keys(l.Evaluation.BySource)) {
			d.At("source", l.Kind, corpus(source)).All(l.Evaluation.BySource[source])
		}
		shares("topic", l.Kind, l.ByTopic)
	}
	d.At("links", "the topics themselves").All(r.truth)
	for _, l := range r.leftOut {
		d.At("left out", classify.Logistic, l.Category, l.Source).All(l)
	}
	d.At("languages", "", "all").All(r.languages.All)
	shares("languages", "", r.languages.BySource)
	for n := 1; n <= 1<<20; n *= 2 {
		if s, ok := r.languages.ByLength[n]; ok {
			d.At("languages", "", fmt.Sprintf("%d to %d letters", n, 2*n-1)).All(s)
		}
	}
	d.At("languages", "", "English: told to be English").All(r.english).Set("paper", 96.1)
	d.At("languages", "", "others: told not to be English").All(r.others).Set("paper", 90.2)
	shares("language", "", r.languages.ByCategory)
	return &Result{Name: "topic", Rows: d}
}
