package lab

import (
	"fmt"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"
)

// result returns the text, tables and figures.
func (x *FocusedTopic) result(webs []*focusedWeb, got []OwnTopicCrawl) *Result {
	res := &Result{
		Name:  "focused-topic",
		Title: "Do agents with topics of their own send fewer pages when they fetch these first?",
		Question: "If agents divide the pages by topic, a page that is fetched by the wrong agent travels. The paper " +
			"on X4 (\"Topic-oriented collaborative crawling\", section 7) expects that focused crawling increases " +
			"the share of on-topic pages, and decreases the transfers between the crawlers. Does it, with " +
			"`--partition topic --strategy focused`?",
		SetUp: fmt.Sprintf("%d agents divide the pages by topic, with `--strategy bfs` and with `--strategy focused` "+
			"without `--topic`: each wants its own categories. They start from the same %d random pages of one "+
			"topic (science), and end when they have fetched a number of pages together. Each has %d workers, and "+
			"the delay of a host is %s. "+
			"*Encyclopedia*: the articles of Wikipedia for Schools with their own links. *Generated*: %s pages with "+
			"paragraphs of the test half of the Open Directory's texts; each draw is another web. The classifiers "+
			"(Naive Bayes) were trained on the train halves. An agent's page stays if the classifier says that it "+
			"belongs to this agent.", x.Agents, focusedSeeds, focusedWorkers, focusedDelay, humanize.Comma(x.Pages)),
		Data: Table{Columns: []Column{{Name: "web"}, {Name: "order"}, {Name: "draw"}, {Name: "pages"},
			{Name: "share that stays"}, {Name: "pages sent for each"}, {Name: "bytes sent for each"}}},
		Figure: &Figure{Alt: "The share of pages that stay with their agent, and the bytes sent to other agents for " +
			"each page, by the number of fetched pages."},
		Figures: map[string]any{"crawls": got},
		Again:   x.Again,
	}
	for _, c := range got {
		for _, p := range c.Points {
			res.Data.Add(c.Web, c.Order, c.Draw, p.Pages, p.Kept, p.Sent, p.Bytes)
		}
	}
	for _, w := range webs {
		res.Sections = append(res.Sections, topicSection(w.name, got))
		for _, y := range []struct {
			title, unit string
			top         float64
			of          func(TopicPoint) float64
		}{
			{"Pages that stay with the agent that fetched them: ", "%", percent, keptOf},
			{"Sent to other agents, for each fetched page: ", "bytes", 0, bytesOf},
		} {
			panel := Panel{Title: y.title + w.name, X: "pages fetched", Y: y.unit, Aside: true, Top: y.top}
			for _, order := range []string{focusedPlain, focusedAll} {
				line := Line{Name: order}
				for i := range topicSteps {
					pages, values := topicValues(got, w.name, order, i, y.of)
					line.Points = append(line.Points, plotter.XY{X: float64(pages), Y: average(values)})
				}
				panel.Lines = append(panel.Lines, line)
			}
			res.Figure.Panels = append(res.Figure.Panels, panel)
		}
	}
	return res
}

func keptOf(p TopicPoint) float64  { return percent * p.Kept }
func sentOf(p TopicPoint) float64  { return p.Sent }
func bytesOf(p TopicPoint) float64 { return p.Bytes }

// topicValues returns the values of all draws at a step, and the number of pages there.
func topicValues(got []OwnTopicCrawl, web, order string, step int, of func(TopicPoint) float64) (pages int,
	values []float64) {
	for _, c := range got {
		if c.Web == web && c.Order == order {
			pages = c.Points[step].Pages
			values = append(values, of(c.Points[step]))
		}
	}
	return pages, values
}

// topicSection tells the results of a web at a fifth, half and the end of the crawls.
func topicSection(web string, got []OwnTopicCrawl) Section {
	table := &Table{Columns: []Column{{Name: "first pages"}, {Name: "order"}, {Name: "stay", Unit: "%"},
		{Name: "pages sent for each", Digits: 2}, {Name: "bytes sent for each"}}}
	for _, step := range []int{topicSteps/5 - 1, topicSteps/2 - 1, topicSteps - 1} {
		for _, order := range []string{focusedPlain, focusedAll} {
			pages, kept := topicValues(got, web, order, step, keptOf)
			_, sent := topicValues(got, web, order, step, sentOf)
			_, bytes := topicValues(got, web, order, step, bytesOf)
			table.Add(pages, order, spread(kept), average(sent), int64(average(bytes)))
		}
	}
	return Section{Heading: "The crawls: " + web, Table: table, Shown: true,
		Text: fmt.Sprintf("Means of %d draws; of the share also the least and the highest. *Bytes* are those of the "+
			"pages as they came from the web.", focusedDraws)}
}
