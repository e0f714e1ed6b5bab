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
		Name: "scaling", Title: "As much among many as alone?",
		Question: "How many pages a second does each agent fetch when there are more of them (UbiCrawler, section " +
			"5.2 and figure 3), and what does the exchange of links cost? In a crawler that scales, the line is " +
			"level; a coordinator with seven agents keeps 98.6 % of one agent's rate.",
		SetUp: x.setUp(t),
		Sections: []Section{
			{Heading: "Pages a second of one agent", Table: scalingTable(ps), Shown: true, Text: "Medians of the " +
				"runs. *Of one*: the share of its line that an agent used, by that of one agent alone, run by run, " +
				"with the least and the greatest: in bytes, as the lengths of pages are chance. *Least agent* and " +
				"*most*: the one that fetched the least, and the most. " + x.verdict(ps)},
			{Heading: "What it costs: the runs with a line", Table: x.lineCosts(ps), Shown: true,
				Text: "The runs from which the table above comes, from their start to their end: medians, the mean " +
					"number of pages of all agents together, and the largest memory. *Links sent*: to other " +
					"agents, by pages fetched: the paper's e/n. *Bytes to agents*: on the wire, with all that the " +
					"calls need. *Processor*: of an agent, by page; start and end are in it. A run ends long " +
					"before the web does, so more of the links that an agent finds are new to it, and are sent: " +
					x.lineVerdict(ps)},
			{Heading: "What it costs: crawls to the end", Table: costTable(ws), Shown: true,
				Text: "One crawl each of the smaller web, to its end, as fast as the machine can; the web's own " +
					"account says that every page was fetched once. Most links of such a crawl lead to pages that " +
					"the agent has met before, and these are not sent again: so it sends fewer a page than the " +
					"beginning of a large crawl, which the runs with a line are."},
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
	return fmt.Sprintf("A made-up web (`testweb --generate`, seed %d and up, %s hosts, %d pages on average), the "+
		"same for every number of agents and larger than any run comes through. "+
		"Each agent is a process with a server of that web of its own, behind a line of %s/s of its own, so that "+
		"every agent has the same bandwidth and one machine is enough. That is %.1f MB/s; in the paper on "+
		"FC2L-UDCbot, a crawler with a coordinator, an agent has 40 MB/s: what is measured here is whether "+
		"agents keep each other waiting, not whether they fill such a line. No delays, scope any, one "+
		"seed, gzip, memory %s. "+
		"They reach each other on loopback without keys. A run is measured for %s, %s after the last agent has "+
		"fetched its first page; %d runs of each, by turns. "+
		"What the exchange costs is told twice: of these runs, and of crawls to the end of a web of %s hosts. A "+
		"violation of politeness, a page fetched twice or missed, or a host visited by two agents ends the "+
		"experiment. All share one machine's processors: as long as those are not busy, what is "+
		"measured is the agents'.",
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
			return fmt.Sprintf("with %d agents %.2f links and %.0f bytes a page, which are %.1f %% of a page's %s "+
				"bytes on the line. They do not go over that line, but over loopback.",
				p.Agents, p.Overhead, p.Exchanged, percent*p.Exchanged/page, humanize.Comma(int64(page)))
		}
	}
	return ""
}

func costTable(ws []WholeCrawl) *Table {
	t := &Table{Columns: []Column{{Name: "agents"}, {Name: "pages"}, {Name: "links sent a page", Digits: 3},
		{Name: "bytes to agents a page", Digits: 0}, {Name: "processor", Unit: "µs/page", Digits: 0},
		{Name: "memory", Unit: "MB", Digits: 0}}}
	for _, w := range ws {
		t.Add(w.Agents, w.Pages, w.Overhead, w.Exchanged, w.CPU, float64(w.Peak)/1e6)
	}
	return t
}

// scalingData returns the CSV, with a line for each run.
func scalingData(rs []ScalingRun, ws []WholeCrawl) Table {
	t := Table{Columns: []Column{{Name: "kind"}, {Name: "agents"}, {Name: "pages/s"}, {Name: "least pages/s"},
		{Name: "most pages/s"}, {Name: "line share"}, {Name: "overhead"}, {Name: "exchanged bytes per page"},
		{Name: "cpu us per page"}, {Name: "peak memory"}, {Name: "pages"}}}
	for _, r := range rs {
		t.Add("line", r.Agents, r.PagesPerS, r.Least, r.Most, r.Line, r.Overhead, r.Exchanged, r.CPU, r.Peak, r.Pages)
	}
	for _, w := range ws {
		t.Add("whole", w.Agents, nil, nil, nil, nil, w.Overhead, w.Exchanged, w.CPU, w.Peak, w.Pages)
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
