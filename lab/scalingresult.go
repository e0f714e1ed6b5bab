package lab

import (
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"
)

// A ScalingPoint holds the medians of all runs with a number of agents.
type ScalingPoint struct {
	Agents    int     `json:"agents"`
	PagesPerS float64 `json:"pages_per_s"`
	// OfOne is an agent's use of its line, divided by that of a single agent, run by run.
	OfOne    float64 `json:"of_one"`
	LowOfOne float64 `json:"least_of_one"`
	TopOfOne float64 `json:"greatest_of_one"`
	Least    float64 `json:"least_agent"`
	Most     float64 `json:"most_agent"`
	Line     float64 `json:"line_share"`
	// costs are the costs of the timed runs, from start to end. Peak is the largest value, Pages
	// the mean.
	costs
}

// points returns a point for each number of agents, in their order.
func (x *Scaling) points(rs []ScalingRun) (ps []ScalingPoint) {
	of := func(n int) (same []ScalingRun) {
		for _, r := range rs {
			if r.Agents == n {
				same = append(same, r)
			}
		}
		return same
	}
	base := of(x.Agents[0])
	for _, n := range x.Agents {
		same := of(n)
		middle := func(f func(r ScalingRun) float64) float64 {
			var vs []float64
			for _, r := range same {
				vs = append(vs, f(r))
			}
			return Median(vs)
		}
		var ratio []float64
		p := ScalingPoint{
			Agents: n, PagesPerS: middle(func(r ScalingRun) float64 { return r.PagesPerS }),
			Least: middle(func(r ScalingRun) float64 { return r.Least }),
			Most:  middle(func(r ScalingRun) float64 { return r.Most }),
			Line:  middle(func(r ScalingRun) float64 { return r.Line }),
			costs: costs{
				Overhead:  middle(func(r ScalingRun) float64 { return r.Overhead }),
				Keys:      middle(func(r ScalingRun) float64 { return r.Keys }),
				Exchanged: middle(func(r ScalingRun) float64 { return r.Exchanged }),
				CPU:       middle(func(r ScalingRun) float64 { return r.CPU }),
			},
		}
		for i, r := range same {
			p.Peak = max(p.Peak, r.Peak)
			p.Pages += r.Pages / int64(len(same))
			ratio = append(ratio, r.Line/base[i].Line)
		}
		p.OfOne, p.LowOfOne, p.TopOfOne = Median(ratio), slices.Min(ratio), slices.Max(ratio)
		ps = append(ps, p)
	}
	return ps
}

// result returns the text, tables and figures of the experiment.
func (x *Scaling) result(t *Trial, rs []ScalingRun, ws []WholeCrawl) *Result {
	ps := x.points(rs)
	return &Result{
		Name: "scaling", Title: "Does a cluster scale?",
		Question: "How many pages a second does each agent fetch as the number of agents grows (UbiCrawler, section " +
			"5.2 and figure 3)? What does the exchange of links cost? In a crawler that scales, the rate of each " +
			"agent stays the same. A crawler with a coordinator and seven agents keeps 98.6 % of one agent's rate.",
		SetUp: x.setUp(t),
		Sections: []Section{
			{Heading: "Pages a second of one agent", Table: scalingTable(ps), Shown: true, Text: "The values are " +
				"medians of the runs.\n\n- *Of one*: the share of its line that an agent used, divided by the share " +
				"that a single agent used, run by run. *Least* and *greatest* are the extremes of the runs. The " +
				"share is measured in bytes, because the lengths of pages vary by chance.\n- *Least agent* and " +
				"*most*: the pages/s of the agents that fetched the fewest and the most pages.\n\n" + x.verdict(ps)},
			{Heading: "What it costs: the runs with a line", Table: x.lineCosts(ps), Shown: true,
				Text: "These are the runs of the table above, from their start to their end. *Pages* is the mean " +
					"over the runs, *memory* the maximum; all other values are medians.\n\n- *Links sent*: the links " +
					"sent to other agents, divided by the pages fetched (e/n in the paper).\n- *Bytes to agents*: " +
					"the bytes on the wire, the overhead of the calls included.\n- *Processor*: the processor time " +
					"of an agent, divided by its pages. Start and end are included.\n\nA run ends long before all " +
					"pages of its web are fetched. So more of the links that an agent finds are new to it, and it " +
					"sends more of them: " +
					x.lineVerdict(ps)},
			{Heading: "What it costs: crawls to the end", Table: costTable(ws), Shown: true,
				Text: "Each is one crawl of the smaller web to its end, as fast as the machine allows. By the web's " +
					"own log, every page was fetched once. Most links of such a crawl lead to pages that the agent " +
					"knows already, and the agent does not send a link twice. So it sends fewer links a page than " +
					"the runs with a line, which show the beginning of a large crawl."},
		},
		Data:   scalingData(rs, ws),
		Figure: scalingFigure(ps, ws),
		Figures: map[string]any{
			"points": ps, "runs": rs, "whole": ws, "bandwidth": x.Bandwidth, "measured_s": x.Measured.Seconds(),
			"aim": scalingAim, "aim_at": scalingAt,
		},
		Again: x.Again,
	}
}

func (x *Scaling) setUp(t *Trial) string {
	return fmt.Sprintf("The web is generated (`testweb --generate`, seed %d and up, %s hosts, %d pages on average). "+
		"It is the same for every number of agents, and larger than any run can fetch.\n\nEach agent is a process "+
		"and has a web server of its own, behind a line of %s/s of its own. So every agent has the same bandwidth, "+
		"and one machine is enough. This is %.1f MB/s. In the paper on FC2L-UDCbot, a crawler with a coordinator, an "+
		"agent has 40 MB/s. So this experiment shows whether agents keep each other waiting. It does not show "+
		"whether they fill such a line.\n\n- The crawls have no delays, scope any, one seed, gzip, and memory %s. "+
		"The agents reach each other on loopback without keys.\n- A measurement takes %s. It begins %s after the "+
		"last agent has fetched its first page. There are %d runs for each number of agents, which take turns.\n- "+
		"The cost of the exchange is measured twice: in these runs, and in crawls to the end of a web of %s "+
		"hosts.\n- The experiment fails at a violation of politeness, at a page that is missed or fetched twice, and "+
		"at a host that two agents visit.\n\nAll agents share one machine's processors. While these are not busy, "+
		"the agents alone determine the results.",
		t.Seed, humanize.Comma(int64(scalingHosts*slices.Max(x.Agents))), scalingPages,
		humanize.Bytes(uint64(x.Bandwidth)), float64(x.Bandwidth)/1e6, scalingMemory, x.Measured.Round(time.Second),
		x.Warm.Round(time.Second), x.Runs, humanize.Comma(x.Hosts))
}

// verdict returns text that compares the result with the aim.
func (x *Scaling) verdict(ps []ScalingPoint) string {
	for _, p := range ps {
		if p.Agents == scalingAt && ps[0].Agents == 1 {
			says := "reached"
			if p.OfOne < scalingAim {
				says = "missed"
			}
			return fmt.Sprintf("The aim, %.0f %% with %d agents, is %s: %.1f %%.", percent*scalingAim, scalingAt, says,
				percent*p.OfOne)
		}
	}
	return ""
}

func scalingTable(ps []ScalingPoint) *Table {
	t := &Table{Columns: []Column{{Name: "agents"}, {Name: "pages/s each", Digits: 1},
		{Name: "of one", Unit: "%", Digits: 1}, {Name: "least", Unit: "%", Digits: 1},
		{Name: "greatest", Unit: "%", Digits: 1}, {Name: "least agent", Digits: 1}, {Name: "most", Digits: 1},
		{Name: "of the line", Unit: "%", Digits: 1}, {Name: "pages/s in all", Digits: 0}}}
	for _, p := range ps {
		t.Add(p.Agents, p.PagesPerS, percent*p.OfOne, percent*p.LowOfOne, percent*p.TopOfOne, p.Least, p.Most,
			percent*p.Line, p.PagesPerS*float64(p.Agents))
	}
	return t
}

// lineCosts returns the table of the costs of the timed runs.
func (x *Scaling) lineCosts(ps []ScalingPoint) *Table {
	ws := make([]WholeCrawl, len(ps))
	for i, p := range ps {
		ws[i] = WholeCrawl{p.Agents, p.costs}
	}
	return costTable(ws)
}

// lineVerdict returns text about the share of the line that the exchange of links takes, at the
// number of agents of the aim.
func (x *Scaling) lineVerdict(ps []ScalingPoint) string {
	for _, p := range ps {
		if p.Agents == scalingAt || p.Agents == x.Agents[len(x.Agents)-1] {
			page := p.Line * float64(x.Bandwidth) / p.PagesPerS
			return fmt.Sprintf("with %d agents %.2f links and %.0f bytes a page, which is %.1f %% of the %s bytes "+
				"that a page takes on the line. The agents exchange these bytes over loopback, not over the line.",
				p.Agents, p.Overhead, p.Exchanged, percent*p.Exchanged/page, humanize.Comma(int64(page)))
		}
	}
	return ""
}

func costTable(ws []WholeCrawl) *Table {
	t := &Table{Columns: []Column{{Name: "agents"}, {Name: "pages"}, {Name: "links sent a page", Digits: 3},
		{Name: "URLs asked about a page", Digits: 3},
		{Name: "bytes to agents a page", Digits: 0}, {Name: "processor", Unit: "µs/page", Digits: 0},
		{Name: "memory", Unit: "MB", Digits: 0}}}
	for _, w := range ws {
		t.Add(w.Agents, w.Pages, w.Overhead, w.Keys, w.Exchanged, w.CPU, float64(w.Peak)/1e6)
	}
	return t
}

// scalingData returns the CSV, with a line for each run.
func scalingData(rs []ScalingRun, ws []WholeCrawl) Table {
	t := Table{Columns: []Column{{Name: "kind"}, {Name: "agents"}, {Name: "pages/s"}, {Name: "least pages/s"},
		{Name: "most pages/s"}, {Name: "line share"}, {Name: "overhead"}, {Name: "keys per page"},
		{Name: "exchanged bytes per page"},
		{Name: "cpu us per page"}, {Name: "peak memory"}, {Name: "pages"}}}
	for _, r := range rs {
		t.Add("line", r.Agents, r.PagesPerS, r.Least, r.Most, r.Line, r.Overhead, r.Keys,
			r.Exchanged, r.CPU, r.Peak, r.Pages)
	}
	for _, w := range ws {
		t.Add("whole", w.Agents, nil, nil, nil, nil, w.Overhead, w.Keys, w.Exchanged, w.CPU, w.Peak, w.Pages)
	}
	return t
}

func scalingFigure(ps []ScalingPoint, ws []WholeCrawl) *Figure {
	line := func(name string, f func(p ScalingPoint) float64) Line {
		l := Line{Name: name}
		for _, p := range ps {
			l.Points = append(l.Points, plotter.XY{X: float64(p.Agents), Y: f(p)})
		}
		return l
	}
	begun := line("runs with a line", func(p ScalingPoint) float64 { return p.Overhead })
	sent := Line{Name: "crawls to the end"}
	for _, w := range ws {
		sent.Points = append(sent.Points, plotter.XY{X: float64(w.Agents), Y: w.Overhead})
	}
	return &Figure{
		Alt: "Pages a second of one agent, and links sent a page, by the number of agents.",
		Panels: []Panel{
			{Title: "Pages a second of one agent", X: "agents", Y: "pages/s", Lines: []Line{
				line("on average", func(p ScalingPoint) float64 { return p.PagesPerS }),
				line("the least", func(p ScalingPoint) float64 { return p.Least }),
				line("the most", func(p ScalingPoint) float64 { return p.Most }),
			}},
			{Title: "Links sent to other agents by pages fetched (e/n)", X: "agents", Y: "links a page",
				Lines: []Line{begun, sent}},
		},
	}
}
