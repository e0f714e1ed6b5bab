package lab

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// topicCrawlName is the name of the result.
const topicCrawlName = "topic-crawl"

// result returns the text, tables and figures.
func (x *TopicCrawl) result(webs []TopicWeb) *Result {
	res := &Result{
		Name: topicCrawlName, Title: "What does a crawl divided by topic keep, fetch and send?",
		Question: "The paper on X4 (\"Topic-oriented collaborative crawling\", section 6) crawls with 16 local " +
			"crawlers, one for each category, and compares them with 16 parts by a hash of the pages' contents: " +
			"pages kept and imported (figure 4), topic locality (5), pages that several crawlers fetch (6), and the " +
			"PageRank within a part beside that in all pages (7). What does `--partition topic` do? [Figures 2 and " +
			"3](topic.md) are about the classifier.",
		SetUp: x.setUp(webs),
		Data: Table{Columns: []Column{{Name: "web"}, {Name: "part"}, {Name: "crawler"}, {Name: "what"},
			{Name: "value"}}},
		Figure:  &Figure{Alt: "Figures 4 to 7 of X4: pages kept and imported, locality, fetches, Kendall's tau."},
		Figures: map[string]any{"webs": webs, "again": x.Again},
		Again:   x.Again,
	}
	aboutWebs(res, webs)
	for i := range webs {
		w := &webs[i]
		w.figure4(res)
		w.figure5(res)
		w.figure6(res)
		w.figure7(res)
		w.moved(res)
	}
	return res
}

func (x *TopicCrawl) setUp(webs []TopicWeb) string {
	var b strings.Builder
	b.WriteString("Paper: 8.9 million pages (137 GB) of the Web of June 2001, 16 crawlers on six machines, Naive " +
		"Bayes; the text that we have names no other numbers of figures 4 to 7 than those below. Here: agents are " +
		"processes of this machine, with a memory of " + scalingMemory + " each and no delays, and reach each other " +
		"on loopback without keys. The classifier is logistic.\n\n")
	for i := range webs {
		w := &webs[i]
		what := "the articles of Wikipedia for Schools with their own links. The classifier was trained on half of " +
			"them, by their 15 topics."
		if w.Depth > 0 {
			what = fmt.Sprintf("a web with paragraphs of the test half of the Open Directory's texts, in 15 "+
				"categories; the classifier was trained on the train half. Each crawl followed %d links from the seed "+
				"and no further, and so ended by itself with a part of the web. The generator draws "+
				"the links: by its default 62.4 %% of them (the paper's topic locality) lead to a page of the same "+
				"category, 40 %% stay in the host, and 40 %% of a host's pages have another category than the host. "+
				"Within these shares it draws targets uniformly, apart from a tree that reaches all pages. So "+
				"locality is put in, and how far it carries over to fetches and PageRank is measured. No page "+
				"is popular, as pages of the Web are.", w.Depth)
		}
		fmt.Fprintf(&b, "- *%s* (%s pages on %s hosts, %d agents): %s\n", title(w.Name), humanize.Comma(w.Pages),
			humanize.Comma(w.Hosts), w.Agents, what)
	}
	b.WriteString("\nA category is a crawler, also if an agent has several of them, and so are the pages without a " +
		"category (`" + classify.Unclassifiable + "`, less than 50 words). A page is kept by the crawler of its " +
		"category, retained if that crawler has fetched it first, and imported if another one has. A crawler fetches " +
		"each page to which a page that it keeps links. For hashing, the same pages are divided into 16 parts by the " +
		"SHA-1 of their contents.")
	return b.String()
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func aboutWebs(res *Result, webs []TopicWeb) {
	table := &Table{Columns: []Column{{Name: "web"}, {Name: "reachable pages"}, {Name: "depth"},
		{Name: "fetched"}, {Name: "kept"}, {Name: "accuracy of the classifier", Unit: "%", Digits: 1},
		{Name: "links within a topic", Unit: "%", Digits: 1}}}
	for i := range webs {
		w := &webs[i]
		depth := any("no limit")
		if w.Depth > 0 {
			depth = w.Depth
		}
		table.Add(w.Name, w.Reachable, depth, w.Check.Fetched, w.Check.Kept, percent*w.Accuracy.Accuracy(),
			percent*w.Truth.Accuracy())
		res.Data.Add(w.Name, "crawl", "all", "fetched", w.Check.Fetched)
		res.Data.Add(w.Name, "crawl", "all", "kept", w.Check.Kept)
	}
	res.Sections = append(res.Sections, Section{Heading: "The crawls by topic", Table: table, Shown: true,
		Text: "*Fetched* and *kept* are distinct pages. *Links within a topic* are those between kept pages that " +
			"have a topic in common by the web's own word."})
}

// panel adds a panel with a bar for each crawler.
func (w *TopicWeb) panel(res *Result, p Panel) {
	for _, c := range w.Categories {
		p.Groups = append(p.Groups, c.Name[:min(3, len(c.Name))])
	}
	p.Title += ", " + w.Name
	p.X, p.Aside = "category", true
	res.Figure.Panels = append(res.Figure.Panels, p)
}

// values returns a number of each category.
func (w *TopicWeb) values(of func(*TopicCategory) float64) (values []float64) {
	for i := range w.Categories {
		values = append(values, of(&w.Categories[i]))
	}
	return values
}

func (w *TopicWeb) section(res *Result, heading string, table *Table, text string) {
	res.Sections = append(res.Sections, Section{Heading: heading + ", " + w.Name, Table: table, Text: text,
		Shown: true})
}

// share returns a part in percent.
func share(part, of int64) float64 { return percent * float64(part) / float64(max(of, 1)) }

func (w *TopicWeb) figure4(res *Result) {
	const heading = "Figure 4: pages kept and imported"
	table := &Table{Columns: []Column{{Name: "category"}, {Name: "pages kept"}, {Name: "retained"}, {Name: "imported"},
		{Name: "retained", Unit: "MB", Digits: 2}, {Name: "imported", Unit: "MB", Digits: 2},
		{Name: "imported of kept", Unit: "%", Digits: 1}}}
	var all TopicCategory
	row := func(name string, c *TopicCategory) {
		table.Add(name, c.Pages, c.Retained, c.Imported, float64(c.RetainedBytes)/1e6, float64(c.ImportedBytes)/1e6,
			share(c.ImportedBytes, c.RetainedBytes+c.ImportedBytes))
	}
	for i := range w.Categories {
		c := &w.Categories[i]
		row(c.Name, c)
		all.Pages, all.Retained, all.Imported = all.Pages+c.Pages, all.Retained+c.Retained, all.Imported+c.Imported
		all.RetainedBytes, all.ImportedBytes = all.RetainedBytes+c.RetainedBytes, all.ImportedBytes+c.ImportedBytes
		res.Data.Add(w.Name, "figure 4", c.Name, "bytes retained", c.RetainedBytes)
		res.Data.Add(w.Name, "figure 4", c.Name, "bytes imported", c.ImportedBytes)
	}
	row("all", &all)
	mega := func(of func(*TopicCategory) int64) []float64 {
		return w.values(func(c *TopicCategory) float64 { return float64(of(c)) / 1e6 })
	}
	top := slices.Max(mega(func(c *TopicCategory) int64 { return c.RetainedBytes + c.ImportedBytes }))
	w.panel(res, Panel{Title: "Figure 4: kept by category", Y: "MB", Digits: 1, Stack: true, Top: 1.15 * top,
		Bars: []Bars{
			{Name: "retained", Values: mega(func(c *TopicCategory) int64 { return c.RetainedBytes })},
			{Name: "imported", Values: mega(func(c *TopicCategory) int64 { return c.ImportedBytes })},
		}})
	w.section(res, heading, table, fmt.Sprintf("Bytes are those of the bodies as the web sent them, compressed. "+
		"With the 16 parts by hash, %.1f %% of the pages would be imported; 15/16 are 93.75 %%. Paper: a picture "+
		"whose numbers our text of it does not have.", share(int64(w.HashImported), int64(w.Check.Kept))))
}

func (w *TopicWeb) figure5(res *Result) {
	table := &Table{Columns: []Column{{Name: "category"}, {Name: "links"}, {Name: "locality", Unit: "%", Digits: 1},
		{Name: "at least", Digits: 1}, {Name: "at most", Digits: 1}, {Name: "fetches"},
		{Name: "kept by itself", Unit: "%", Digits: 1}}}
	var links, fetches, hash classify.Share
	row := func(name string, l, f classify.Share) {
		cells := []any{name, l.Of, nil, nil, nil, nil, nil}
		if l.Of > 0 {
			low, high := l.Interval()
			copy(cells[2:], []any{percent * l.Accuracy(), percent * low, percent * high})
		}
		if f.Of > 0 {
			copy(cells[5:], []any{f.Of, percent * f.Accuracy()})
		}
		table.Add(cells...)
	}
	sum := func(to *classify.Share, s classify.Share) { to.Right, to.Of = to.Right+s.Right, to.Of+s.Of }
	for i := range w.Categories {
		c := &w.Categories[i]
		row(c.Name, c.Links, c.Fetches)
		sum(&links, c.Links)
		sum(&fetches, c.Fetches)
		res.Data.Add(w.Name, "figure 5", c.Name, "links", c.Links.Of)
		res.Data.Add(w.Name, "figure 5", c.Name, "links within", c.Links.Right)
	}
	row("all", links, fetches)
	least, most := 1.0, 0.0
	for i := range w.Hash {
		h := &w.Hash[i]
		sum(&hash, h.Links)
		if h.Links.Of > 0 {
			least, most = min(least, h.Links.Accuracy()), max(most, h.Links.Accuracy())
		}
		res.Data.Add(w.Name, "figure 5", h.Name, "links", h.Links.Of)
		res.Data.Add(w.Name, "figure 5", h.Name, "links within", h.Links.Right)
	}
	row("16 parts by hash", hash, classify.Share{})
	w.panel(res, Panel{Title: "Figure 5: links within the category", Y: "%", Digits: 0, Top: 1.15 * percent,
		Bars: []Bars{{Values: w.values(func(c *TopicCategory) float64 {
			if c.Links.Of == 0 {
				return math.NaN()
			}
			return percent * c.Links.Accuracy()
		})}}, Levels: []Level{{Name: "1/16", Y: percent / topicCrawlers}}})
	w.section(res, "Figure 5: locality in the crawl", table, fmt.Sprintf("*Locality* is the share of the links from "+
		"pages of the category to kept pages that lead to its own pages, with the interval of 95 %% confidence "+
		"(Wilson). *Fetches* are the kept pages to which the crawler has links, each once. The parts by hash have a "+
		"locality from %.1f to %.1f %%; the paper's value for them is 1/16, 6.25 %%. %s Paper: slightly lower than in "+
		"its figure 3 (62.4 %% with Naive Bayes), with about the same relations between categories; lower for ADULT, "+
		"which gets the pages without a category there.", percent*least, percent*most, w.beats("locality",
		func(c *TopicCategory) (float64, bool) { return c.Links.Accuracy(), c.Links.Of > 0 }, most)))
}

// beats says in which categories a value is above a bound.
func (w *TopicWeb) beats(what string, of func(*TopicCategory) (value float64, ok bool), bound float64) string {
	n, all := 0, 0
	var not []string
	for i := range w.Categories {
		c := &w.Categories[i]
		v, ok := of(c)
		switch {
		case c.Pages == 0:
			continue
		case ok && v > bound:
			n++
		default:
			not = append(not, fmt.Sprintf("%s (%s pages, %.1f links a page within)", c.Name,
				humanize.Comma(int64(c.Pages)), float64(c.Links.Right)/float64(c.Pages)))
		}
		all++
	}
	text := fmt.Sprintf("The %s of %d of the %d categories with pages is above that of every part by hash", what, n,
		all)
	if len(not) > 0 {
		text += "; not that of " + strings.Join(not, ", ")
	}
	return text + "."
}

func (w *TopicWeb) figure6(res *Result) {
	table := &Table{Columns: []Column{{Name: "crawlers or agents"}, {Name: "pages by crawlers"},
		{Name: "log10", Digits: 2}, {Name: "pages by agents"}, {Name: "by the agents' logs"}}}
	at := func(v []int, i int) any {
		if i < len(v) {
			return v[i]
		}
		return nil
	}
	var b Bars
	p := Panel{Title: "Figure 6: pages fetched by exactly i crawlers, " + w.Name, X: "i", Y: "log10 of pages",
		Digits: 1, Aside: true}
	for i, n := range w.ByCrawlers {
		if i == 0 && n == 0 {
			continue
		}
		log, bar := any(nil), math.NaN()
		if n > 0 {
			bar = math.Log10(float64(n))
			log = bar
		}
		b.Values, p.Groups = append(b.Values, bar), append(p.Groups, fmt.Sprint(i))
		table.Add(i, n, log, at(w.ByAgents, i), at(w.Logged, i))
		res.Data.Add(w.Name, "figure 6", i, "pages by crawlers", n)
		res.Data.Add(w.Name, "figure 6", i, "pages by agents", at(w.ByAgents, i))
		res.Data.Add(w.Name, "figure 6", i, "pages by agents, logged", at(w.Logged, i))
	}
	p.Bars, p.Top = []Bars{b}, 1.15*math.Log10(float64(slices.Max(w.ByCrawlers)))
	res.Figure.Panels = append(res.Figure.Panels, p)
	c := w.Check
	text := fmt.Sprintf("The first two numbers follow from the links, the last one is what the agents' logs say of "+
		"their fetches. For %s of %s kept pages the same agents have fetched the page as follow from the links. ",
		humanize.Comma(int64(c.Equal)), humanize.Comma(int64(c.Kept)))
	text += fmt.Sprintf("%s pages were not fetched by the agent that keeps them, because another agent's copy came "+
		"before its turn: this program saves these fetches, and the paper does not say that X4 does.",
		humanize.Comma(int64(c.Spared)))
	switch {
	case c.Undone == 1:
		text += " The other one is the seed, which all agents know from the start."
	case c.Undone > 1:
		text += fmt.Sprintf(" %s others were not fetched by another agent with a link to them. The seed is one of "+
			"these, because all agents know it from the start.", humanize.Comma(int64(c.Undone)))
	}
	if c.Extra > 0 {
		text += fmt.Sprintf(" %s pages were fetched by an agent without a link to them.",
			humanize.Comma(int64(c.Extra)))
	}
	if c.Astray > 0 {
		text += fmt.Sprintf(" %s pages are in the archive of another agent than most pages of their category.",
			humanize.Comma(int64(c.Astray)))
	}
	w.section(res, "Figure 6: pages fetched by exactly i crawlers", table, text+" Paper: the number of pages "+
		"decreases rapidly as i increases; how many pages all 16 crawlers fetched is missing in our text of it.")
}

func (w *TopicWeb) figure7(res *Result) {
	table := &Table{Columns: []Column{{Name: "category"}, {Name: "pages"}, {Name: "links within, a page", Digits: 2},
		{Name: "tau", Digits: 3}, {Name: "tau of as many by hash", Digits: 3}, {Name: "part by hash"}, {Name: "pages"},
		{Name: "links within, a page", Digits: 2}, {Name: "tau", Digits: 3}}}
	number := func(tau *float64) any {
		if tau == nil {
			return nil
		}
		return *tau
	}
	bar := func(tau *float64) float64 {
		if tau == nil {
			return math.NaN()
		}
		return percent * *tau
	}
	bars := []Bars{{Name: "topic"}, {Name: "as many by hash"}, {Name: "16 by hash"}}
	least, most := 1.0, -1.0
	var smaller []string
	for i := range max(len(w.Categories), len(w.Hash)) {
		row := make([]any, 9)
		if i < len(w.Categories) {
			c := &w.Categories[i]
			copy(row, []any{c.Name, c.Pages, float64(c.Links.Right) / float64(max(c.Pages, 1)), number(c.Tau),
				number(c.Random)})
			bars[0].Values, bars[1].Values = append(bars[0].Values, bar(c.Tau)), append(bars[1].Values, bar(c.Random))
			res.Data.Add(w.Name, "figure 7", c.Name, "tau", number(c.Tau))
			res.Data.Add(w.Name, "figure 7", c.Name, "tau of as many by hash", number(c.Random))
			if c.Random != nil && (c.Tau == nil || *c.Tau <= *c.Random) {
				smaller = append(smaller, c.Name)
			}
		}
		if i < len(w.Hash) {
			h := &w.Hash[i]
			copy(row[5:], []any{h.Name, h.Pages, float64(h.Links.Right) / float64(max(h.Pages, 1)), number(h.Tau)})
			bars[2].Values = append(bars[2].Values, bar(h.Tau))
			res.Data.Add(w.Name, "figure 7", h.Name, "tau", number(h.Tau))
			if h.Tau != nil {
				least, most = min(least, *h.Tau), max(most, *h.Tau)
			}
		}
		table.Add(row...)
	}
	w.panel(res, Panel{Title: "Figure 7: Kendall's tau of PageRanks", Y: "100 tau", Top: 1.15 * percent, Bars: bars})
	text := "The PageRanks (damping 0.85) within the part and in all kept pages, by Kendall's tau-b. *As many by " +
		"hash* are as many pages as the category has, chosen by the hash of their contents: tau depends on the size " +
		"of a part, and categories differ in size. It is the mean of " + fmt.Sprint(topicDraws) + " choices, without " +
		"those whose pages all have the same rank. Paper: the tau of each topic is above those of all parts by hash, " +
		"which are nearly identical. Here the parts by hash have "
	if most < least {
		text += "no tau. "
	} else {
		text += fmt.Sprintf("%.3f to %.3f. ", least, most)
	}
	text += w.beats("tau", func(c *TopicCategory) (float64, bool) {
		if c.Tau == nil {
			return 0, false
		}
		return *c.Tau, true
	}, most)
	if len(smaller) > 0 {
		text += " As many pages by hash have at least the tau of " + strings.Join(smaller, ", ") + "."
	} else {
		text += " No category is below as many pages by hash."
	}
	w.section(res, "Figure 7: PageRank within a part", table, text)
}

func (w *TopicWeb) moved(res *Result) {
	table := &Table{Columns: []Column{{Name: "partition"}, {Name: "pages"}, {Name: "fetches"},
		{Name: "from the web", Unit: "MB", Digits: 1}, {Name: "pages moved of fetches", Unit: "%", Digits: 1},
		{Name: "between agents", Unit: "MB", Digits: 1}, {Name: "bytes a page"}, {Name: "pages", Unit: "MB", Digits: 1},
		{Name: "links", Unit: "MB", Digits: 1}, {Name: "replicas", Unit: "MB", Digits: 1},
		{Name: "rest", Unit: "MB", Digits: 1}}}
	mega := func(n int64) float64 { return float64(n) / 1e6 }
	for _, c := range w.Costs {
		pages, links, replicas := c.ByCall["pages"], c.ByCall["push"]+c.ByCall["known"], c.ByCall["ship"]
		table.Add(c.Way, c.Pages, c.Fetches, mega(c.Received), share(c.Moved, c.Fetches), mega(c.Sent),
			c.Sent/max(c.Pages, 1), mega(pages), mega(links), mega(replicas), mega(c.Sent-pages-links-replicas))
		res.Data.Add(w.Name, "bytes", c.Way, "sent", c.Sent)
		res.Data.Add(w.Name, "bytes", c.Way, "received", c.Received)
		res.Data.Add(w.Name, "bytes", c.Way, "pages", c.Pages)
		res.Data.Add(w.Name, "bytes", c.Way, "fetches", c.Fetches)
	}
	w.section(res, "Bytes between agents", table, fmt.Sprintf("*Hash* is `--partition hash --boundary contents`, "+
		"where %d/%d of the pages belong to another agent (%.1f %%); *rendezvous* divides hosts, and sends links. "+
		"*Pages moved* belong to another agent; one that it has already is not sent. *Pages* are "+
		"distinct ones, by the web's own report. The bytes between agents are those that each agent has counted on "+
		"the wire, without the headers of TCP, UDP and IP, with `--replicas 2`, the default.", w.Agents-1, w.Agents,
		share(int64(w.Agents-1), int64(w.Agents))))
}
