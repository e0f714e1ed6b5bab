package lab

import (
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"
)

// harvestOf returns the harvest rates of a web and an order at a number of pages, by draw.
func harvestOf(all []Harvest, web, order string, n int, unseen bool) (rates []float64) {
	for _, h := range all {
		if h.Web == web && h.Order == order {
			r := h.Rates[n]
			if unseen {
				r = h.Unseen[n]
			}
			rates = append(rates, percent*r)
		}
	}
	return rates
}

// spread returns the mean of three rates with the least and the highest.
func spread(rates []float64) string {
	least, most := rates[0], rates[0]
	for _, r := range rates {
		least, most = min(least, r), max(most, r)
	}
	return fmt.Sprintf("%.1f (%.1f to %.1f)", average(rates), least, most)
}

// result returns the text, tables and figures.
func (x *Focused) result(webs []*focusedWeb, got []Harvest) *Result {
	res := &Result{
		Name: "focused", Title: "Does a focused crawl find the pages of a topic sooner?",
		Question: "The paper on X4 (\"Topic-oriented collaborative crawling\", section 7) proposes focused crawling: " +
			"pages that probably are of a wanted topic are fetched first (Chakrabarti, van den Berg and Dom, WWW " +
			"1999). The harvest rate is the share of the fetched pages that are of the topic. How high is it with " +
			"`--strategy focused`, beside a breadth-first crawl of as many pages?",
		SetUp: fmt.Sprintf("Each crawl starts from %d random pages of the topic and ends after a number of pages. "+
			"The webs say which pages are of the topic; the classifier's answers do not count. *Encyclopedia*: the "+
			"articles of Wikipedia for Schools with their own links, on 100 hosts at random; the classifier "+
			"(logistic) was trained on the train half. *Generated*: %s pages with paragraphs of the test half of the "+
			"Open Directory's texts, on hosts with neutral names; the classifier was trained on the train half, and "+
			"each draw is another web. The delay of a host is %s.",
			focusedSeeds, humanize.Comma(x.Pages), focusedDelay),
		Data: Table{Columns: []Column{{Name: "web"}, {Name: "order"}, {Name: "draw"}, {Name: "pages"},
			{Name: "harvest rate"}, {Name: "harvest rate of unseen pages"}}},
		Figure:  &Figure{Alt: "The harvest rate of focused and breadth-first crawls by the number of fetched pages."},
		Figures: map[string]any{"harvests": got},
	}
	for _, h := range got {
		for _, n := range slices.Sorted(maps.Keys(h.Rates)) {
			res.Data.Add(h.Web, h.Order, h.Draw, n, h.Rates[n], h.Unseen[n])
		}
	}
	about := &Table{Columns: []Column{{Name: "web"}, {Name: "topic"}, {Name: "pages"}, {Name: "hosts"},
		{Name: "of the topic", Unit: "%", Digits: 1}, {Name: "links within a category", Unit: "%", Digits: 1},
		{Name: "accuracy of the classifier", Unit: "%", Digits: 1}, {Name: "at least", Digits: 1},
		{Name: "at most", Digits: 1}}}
	var facts []map[string]any
	for _, w := range webs {
		low, high := w.accuracy.Interval()
		about.Add(w.name, w.topic, w.pages, w.hosts, percent*w.share, percent*w.links.Accuracy(),
			percent*w.accuracy.Accuracy(), percent*low, percent*high)
		facts = append(facts, map[string]any{"web": w.name, "pages": w.pages, "hosts": w.hosts, "of_the_topic": w.share,
			"links_within_a_category": w.links, "accuracy": w.accuracy})
	}
	res.Figures["webs"] = facts
	res.Sections = append(res.Sections, Section{Heading: "The webs", Table: about, Shown: true,
		Text: "The accuracy is that of the pages as a crawl gets them, with the anchor texts of their links; of the " +
			"encyclopedia only articles of the test half count. *At least* and *at most* bound it with 95 % " +
			"confidence."})
	for _, w := range webs {
		res.Sections = append(res.Sections, w.section(got, false))
		panel := Panel{Title: "Harvest rate: " + w.name, X: "pages fetched", Y: "%", Aside: true, Top: percent}
		for _, o := range append(focusedOrders, focusedOrder{Name: focusedBound}) {
			l := Line{Name: o.Name}
			if o.Name == focusedBound {
				l.Name = "bound"
			}
			for _, n := range w.points {
				y := average(harvestOf(got, w.name, o.Name, n, false))
				l.Points = append(l.Points, plotter.XY{X: float64(n), Y: y})
			}
			panel.Lines = append(panel.Lines, l)
		}
		res.Figure.Panels = append(res.Figure.Panels, panel)
	}
	res.Sections = append(res.Sections, webs[0].section(got, true))
	return res
}

// section tells the harvest rates of a web.
func (w *focusedWeb) section(got []Harvest, unseen bool) Section {
	table := &Table{Columns: []Column{{Name: "order by"}}}
	for _, n := range w.points {
		table.Columns = append(table.Columns, Column{Name: fmt.Sprintf("first %s pages", humanize.Comma(int64(n))),
			Unit: "%"})
	}
	for _, o := range append(focusedOrders, focusedOrder{Name: focusedBound}) {
		row := []any{o.Name}
		for _, n := range w.points {
			row = append(row, spread(harvestOf(got, w.name, o.Name, n, unseen)))
		}
		table.Add(row...)
	}
	s := Section{Heading: "Harvest rate: " + w.name, Table: table, Shown: true,
		Text: fmt.Sprintf("The mean of %d draws, with the least and the highest. *Focused* uses all evidence: page, "+
			"anchor, URL and host.", focusedDraws)}
	if unseen {
		s.Heading += ", test half alone"
		s.Text = "Of the fetched articles of the test half, on which the classifier was not trained, the share " +
			"of the topic."
	}
	return s
}
