package lab

import (
	"fmt"
	"math"
	"slices"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"
)

// A QualityDraw is the result of one order with one set of seeds.
type QualityDraw struct {
	Reached int
	// Mean is the mean indegree of the first 100, 200, 500, 1000, ... pages (see
	// qualityPoints), and of all pages.
	Mean []float64
	All  float64
	// Top is the share of the best hundredth of all fetched pages that is among these.
	Top []float64
}

// A QualityCurve is the result of an order with all sets of seeds.
type QualityCurve struct {
	Order  string        `json:"order"`
	Agents int           `json:"agents"`
	Hosts  string        `json:"hosts"`
	Draws  []QualityDraw `json:"-"` // written to the CSV

	// Values for the first Pages[i] pages, over the draws; see sum.
	Pages    []int     `json:"pages"`
	Mean     []float64 `json:"mean_indegree"`
	Least    []float64 `json:"least"`
	Greatest []float64 `json:"greatest"`
	Top      []float64 `json:"top_share"`
}

// qualityPoints returns the numbers of pages at which the experiment takes the mean.
func qualityPoints(reached int) (ps []int) {
	for p := 100; p <= reached; p *= 10 {
		for _, times := range []int{1, 2, 5} {
			if p*times <= reached {
				ps = append(ps, p*times)
			}
		}
	}
	return ps
}

// add adds a draw with its pages in the order of their fetches.
func (c *QualityCurve) add(w *linkWeb, pages []uint32) {
	best := slices.Clone(pages)
	w.byIndegree(best)
	best = best[:(len(best)+99)/100]
	isBest := make(map[uint32]bool, len(best))
	for _, p := range best {
		isBest[p] = true
	}
	d := QualityDraw{Reached: len(pages)}
	at, sum, top := qualityPoints(len(pages)), 0.0, 0.0
	for i, p := range pages {
		sum += float64(w.indegree[p])
		if isBest[p] {
			top++
		}
		if len(d.Mean) < len(at) && at[len(d.Mean)] == i+1 {
			d.Mean = append(d.Mean, sum/float64(i+1))
			d.Top = append(d.Top, top/float64(len(best)))
		}
	}
	d.All = sum / float64(max(len(pages), 1))
	c.Draws = append(c.Draws, d)
}

// points returns the points that all draws have.
func (c *QualityCurve) points() []int {
	least := math.MaxInt
	for _, d := range c.Draws {
		least = min(least, d.Reached)
	}
	return qualityPoints(least)
}

// sum computes the values over all draws.
func (c *QualityCurve) sum() {
	c.Pages = c.points()
	for _, n := range c.Pages {
		means := c.mean(n)
		c.Mean, c.Least, c.Greatest = append(c.Mean, average(means)), append(c.Least, slices.Min(means)),
			append(c.Greatest, slices.Max(means))
		c.Top = append(c.Top, average(c.top(n)))
	}
}

// told returns the points that the text shows, or 0, which stands for all pages, if there are
// none.
func (c *QualityCurve) told() (ps []int) {
	all := c.points()
	for _, p := range []int{100, 1000, 5000, 10_000, 20_000, 50_000} {
		if slices.Contains(all, p) {
			ps = append(ps, p)
		}
	}
	if ps == nil {
		ps = []int{0}
	}
	return ps
}

// firstPages returns the name of a point.
func firstPages(n int) string {
	if n == 0 {
		return "all"
	}
	return humanize.Comma(int64(n))
}

// each returns a value of each draw at a point.
func (c *QualityCurve) each(n int, of func(d *QualityDraw, i int) float64) (vs []float64) {
	i := slices.Index(c.points(), n)
	for k := range c.Draws {
		vs = append(vs, of(&c.Draws[k], i))
	}
	return vs
}

// mean returns, for each draw, the mean indegree of the first n pages; 0 stands for all pages.
func (c *QualityCurve) mean(n int) []float64 {
	return c.each(n, func(d *QualityDraw, i int) float64 {
		if n == 0 {
			return d.All
		}
		return d.Mean[i]
	})
}

// top returns, for each draw, the share of the best hundredth in the first n pages.
func (c *QualityCurve) top(n int) []float64 {
	return c.each(n, func(d *QualityDraw, i int) float64 {
		if n == 0 {
			return 1
		}
		return d.Top[i]
	})
}

func average(vs []float64) float64 {
	sum := 0.0
	for _, v := range vs {
		sum += v
	}
	return sum / float64(max(len(vs), 1))
}

// beside returns the ratios to another curve, draw by draw, as text.
func (c *QualityCurve) beside(other *QualityCurve, n int) string {
	a, b := c.mean(n), other.mean(n)
	for i := range a {
		a[i] /= b[i]
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", Median(a), slices.Min(a), slices.Max(a))
}

// find returns the curve of an order by its name.
func (q *qualityRun) find(name, hosts string, agents int) *QualityCurve {
	for _, c := range q.got {
		if c.Order == name && c.Hosts == hosts && c.Agents == agents {
			return c
		}
	}
	return nil
}

// byOne returns the curves of a single agent with the hosts of the experiment.
func (q *qualityRun) byOne() (cs []*QualityCurve) {
	for _, c := range q.got {
		if c.Agents == 1 && c.Hosts == q.main.name {
			cs = append(cs, c)
		}
	}
	return cs
}

// result returns the text, tables and figures of the experiment.
func (q *qualityRun) result() *Result {
	return &Result{
		Name: "quality", Title: "Are important pages fetched early?",
		Question: "UbiCrawler's agents visit host by host (section 5 and figure 2 of its paper). This crawler keeps " +
			"a delay for hundreds of hosts at the same time. Do both still fetch pages early that many other pages " +
			"link to? Does the division of hosts among agents change this?",
		SetUp: q.setUp(),
		Sections: []Section{
			{Heading: "Mean indegree of the first n pages", Table: q.meanTable(), Shown: true,
				Text: "The values are means over all sets of seeds. The bound is the order of all reachable pages by " +
					"indegree."},
			{Heading: "Compared with breadth-first", Table: q.besideTable(), Shown: true, Text: "The mean indegree, " +
				"divided by the mean indegree of plain breadth-first with the same seeds: the median over the sets " +
				"of seeds, with the least and the greatest in parentheses."},
			{Heading: "The best hundredth", Table: q.topTable(), Shown: true, Text: "The best hundredth are the " +
				"reachable pages with the highest indegree. The table shows how many of them are among the first n " +
				"pages, as means over all sets of seeds. Half of the web links to a few pages; these dominate the " +
				"mean indegree, but not this share."},
			{Heading: "Agents", Table: q.agentTable(), Shown: true, Text: "The mean indegree, divided by the mean " +
				"indegree of one agent with the same seeds: the median, with the least and the greatest in " +
				"parentheses. The agents together have as many threads and hosts at a time as the one agent. So each " +
				"of 16 agents has 31 hosts."},
			{Heading: "The influence of the hosts", Table: q.hostTable(), Text: "Compared with plain breadth-first, " +
				"as above. *More* and *fewer*: hosts that were made with another number of bits for a host. *Any " +
				"pages*: as many hosts of the same sizes, with random pages."},
		},
		Data:   q.data(),
		Figure: q.figure(),
		Figures: map[string]any{"pages": q.web.g.Nodes(), "links": q.web.g.Links(), "hosts": q.main.hosts(),
			"links_inside": q.main.inside, "curves": q.got},
		Again: q.Again,
	}
}

func (q *qualityRun) setUp() string {
	sizes := slices.Sorted(slices.Values(q.main.sizes))
	reached := q.find(plainName, q.main.name, 1).each(0,
		func(d *QualityDraw, _ int) float64 { return float64(d.Reached) })
	return fmt.Sprintf("- **Web**: a real link graph of %s pages and %s links (uk-2007-05@100000; Boldi and Vigna, "+
		"\"The WebGraph framework I\", WWW 2004; Boldi, Rosa, Santini, Vigna, \"Layered label propagation\", WWW "+
		"2011). A page's quality is its indegree in the whole graph.\n- **Hosts**: the graph has no URLs, so the "+
		"experiment makes hosts. Pages that link to each other have near numbers, and each host is a run of "+
		"consecutive pages. The chosen runs give the shortest description of the links. A link inside a host of s "+
		"pages takes log2 s bits, any other link log2 of all pages, and a host %g bits. The result is %s hosts of %s "+
		"pages (median; the largest has %s), with %.0f %% of the links inside a host.\n- **Seeds**: %d random sets "+
		"of %d pages (seed %d), the same for all orders. From a set %s pages can be reached. The experiment checks "+
		"that every order fetches each of them once. A page becomes known when a page that links to it is "+
		"fetched.\n- **Per host**: section 3 of the paper. A thread visits one host breadth-first until it has no "+
		"pages left. Then the thread takes the waiting host that was met first. All threads fetch at the same "+
		"rate.\n- **This crawler**: its frontier in virtual time, with %v between two requests to a host, %v a "+
		"fetch, links in a random order by site, and no robots.txt. It visits %d hosts at a time. A variant makes "+
		"fewer fetches than politeness allows (%d at a time).\n- **Agents**: rendezvous hashing divides the hosts, "+
		"with other names in each draw. Links reach their owner at once. The agents share the number of threads and "+
		"of hosts at a time.",
		humanize.Comma(int64(q.web.g.Nodes())), humanize.Comma(int64(q.web.g.Links())), hostCosts[0].bits,
		humanize.Comma(int64(len(sizes))), humanize.Comma(int64(Median(sizes))),
		humanize.Comma(int64(sizes[len(sizes)-1])), percent*q.main.inside,
		q.Draws, q.Seeds, q.t.Seed, fromTo(reached), qualityDelay, fetchTime, atATime, slowAtATime)
}

// fromTo formats the least and the greatest value.
func fromTo(vs []float64) string {
	least, most := humanize.Comma(int64(slices.Min(vs))), humanize.Comma(int64(slices.Max(vs)))
	if least == most {
		return least
	}
	return least + " to " + most
}

// pageColumns returns the columns for the points in the text.
func pageColumns(told []int, digits int, unit string) (cs []Column) {
	for _, n := range told {
		cs = append(cs, Column{Name: firstPages(n), Digits: digits, Unit: unit})
	}
	return cs
}

func (q *qualityRun) meanTable() *Table {
	told := q.got[0].told()
	if told[0] != 0 {
		told = append(told, 0)
	}
	t := &Table{Columns: append([]Column{{Name: "order"}}, pageColumns(told, 1, "")...)}
	for _, c := range q.byOne() {
		cells := []any{c.Order}
		for _, n := range told {
			cells = append(cells, average(c.mean(n)))
		}
		t.Add(cells...)
	}
	return t
}

func (q *qualityRun) besideTable() *Table {
	told := q.got[0].told()
	t := &Table{Columns: append([]Column{{Name: "order"}}, pageColumns(told, 2, "")...)}
	for _, c := range q.byOne() {
		if c == q.got[0] {
			continue
		}
		cells := []any{c.Order}
		for _, n := range told {
			cells = append(cells, c.beside(q.got[0], n))
		}
		t.Add(cells...)
	}
	return t
}

func (q *qualityRun) topTable() *Table {
	told := q.got[0].told()
	t := &Table{Columns: append([]Column{{Name: "order"}}, pageColumns(told, 1, "%")...)}
	for _, c := range q.byOne() {
		cells := []any{c.Order}
		for _, n := range told {
			cells = append(cells, percent*average(c.top(n)))
		}
		t.Add(cells...)
	}
	return t
}

func (q *qualityRun) agentTable() *Table {
	told := q.got[0].told()
	t := &Table{Columns: append([]Column{{Name: "order"}, {Name: "agents"}}, pageColumns(told, 2, "")...)}
	for _, c := range q.got {
		if c.Agents == 1 {
			continue
		}
		cells := []any{c.Order, c.Agents}
		for _, n := range told {
			cells = append(cells, c.beside(q.find(c.Order, c.Hosts, 1), n))
		}
		t.Add(cells...)
	}
	return t
}

func (q *qualityRun) hostTable() *Table {
	told := q.got[0].told()
	t := &Table{Columns: append([]Column{{Name: "hosts"}, {Name: "number"}, {Name: "median pages"}, {Name: "largest"},
		{Name: "links inside", Unit: "%", Digits: 1}, {Name: "order"}}, pageColumns(told, 2, "")...)}
	for _, d := range q.all {
		for _, name := range []string{perHostName(someThreads), crawlerName(atATime)} {
			cells := []any{d.name, d.hosts(), Median(d.sizes), slices.Max(d.sizes), percent * d.inside, name}
			for _, n := range told {
				cells = append(cells, q.find(name, d.name, 1).beside(q.got[0], n))
			}
			t.Add(cells...)
		}
	}
	return t
}

// data returns the CSV, with a line for each draw at each point.
func (q *qualityRun) data() Table {
	t := Table{Columns: []Column{{Name: "order"}, {Name: "hosts"}, {Name: "agents"}, {Name: "draw"}, {Name: "pages"},
		{Name: "mean indegree"}, {Name: "top share"}}}
	for _, c := range q.got {
		for i, d := range c.Draws {
			for k, n := range qualityPoints(d.Reached) {
				t.Add(c.Order, c.Hosts, c.Agents, i, n, d.Mean[k], d.Top[k])
			}
			t.Add(c.Order, c.Hosts, c.Agents, i, d.Reached, d.All, 1.0)
		}
	}
	return t
}

// line returns the line of a curve.
func (c *QualityCurve) line(name string, color int, of func(n int) []float64) Line {
	l := Line{Name: name, Color: color, Bold: c.Order == crawlerName(atATime)}
	for _, n := range c.points() {
		if y := average(of(n)); y > 0 { // 0 has no logarithm
			l.Points = append(l.Points, plotter.XY{X: float64(n), Y: y})
		}
	}
	return l
}

// shortOrder returns an order's name for a legend.
func shortOrder(name string) string {
	switch name {
	case bestName:
		return "best of discovered"
	case idealName:
		return "bound"
	case randomName:
		return "random"
	case crawlerName(atATime):
		return fmt.Sprintf("this crawler, %d", atATime)
	}
	return name
}

func agentsOf(n int) string {
	if n == 1 {
		return "1 agent"
	}
	return fmt.Sprintf("%d agents", n)
}

// figure draws the paper's figure, and the same with several agents.
func (q *qualityRun) figure() *Figure {
	orders := Panel{Title: "Mean indegree of the pages fetched so far", X: "pages fetched", Y: "mean indegree",
		Log: true}
	top := Panel{Title: "How much of the best hundredth is fetched", X: "pages fetched", Y: "%", Log: true}
	for i, c := range q.byOne() {
		orders.Lines = append(orders.Lines, c.line(shortOrder(c.Order), i+1, c.mean))
		l := c.line(shortOrder(c.Order), i+1, c.top)
		for k := range l.Points {
			l.Points[k].Y *= percent
		}
		top.Lines = append(top.Lines, l)
	}
	agents := Panel{Title: "Hosts divided among agents: mean indegree", X: "pages fetched", Y: "mean indegree",
		Log: true}
	for _, o := range []struct{ name, short string }{{perHostName(someThreads), "per host"},
		{crawlerName(atATime), "this crawler"}} {
		for _, n := range agentNumbers {
			c := q.find(o.name, q.main.name, n)
			l := c.line(o.short+", "+agentsOf(n), len(agents.Lines)+1, c.mean)
			l.Bold = false // the lines overlap
			agents.Lines = append(agents.Lines, l)
		}
	}
	return &Figure{Alt: "The mean indegree of the pages fetched so far, and the share of the best hundredth, by " +
		"order and by number of agents", Panels: []Panel{orders, top, agents}}
}
