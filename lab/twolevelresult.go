package lab

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"

	"github.com/orbweaver/orbweaver/internal/cost"
)

// point returns the point of a way, or nil.
func point(ps []TwoLevelPoint, way string, n int, pages int64) *TwoLevelPoint {
	i := slices.IndexFunc(ps, func(p TwoLevelPoint) bool {
		return p.Way == way && p.Agents == n && int64(p.Pages) == pages
	})
	if i < 0 {
		return nil
	}
	return &ps[i]
}

// crawlOf returns the crawl of a way, which must be one of cs.
func crawlOf(cs []TwoLevelCrawl, way string, n int) TwoLevelCrawl {
	return cs[slices.IndexFunc(cs, func(c TwoLevelCrawl) bool { return c.Way == way && c.Agents == n })]
}

// paperSpeeds has the pages/s of all agents that the text of the paper names: figures 7 and 8.
var paperSpeeds = map[string]map[int]float64{
	waySites:    {1: 1784.22 * (1 - 0.0058), 7: 12_251.75},
	wayTwoLevel: {7: 12_399},
	wayAlone:    {1: 1784.22},
}

// crawlsResult adds figures 7 to 11.
func (x *TwoLevel) crawlsResult(res *Result, r *twoLevelRun) {
	most := x.common()
	alone := point(r.points, wayAlone, 1, most)
	speeds := &Table{Columns: []Column{{Name: "way"}, {Name: "agents"}, {Name: "pages/s each", Digits: 1},
		{Name: "of alone", Unit: "%", Digits: 1}, {Name: "times alone", Digits: 2}, {Name: "paper", Digits: 2},
		{Name: "links a page", Digits: 2}, {Name: "processor", Unit: "µs/page", Digits: 0}}}
	panel := Panel{Title: "Figures 7 and 8: pages a second of all agents", X: "agents", Y: "pages/s", Aside: true}
	for _, way := range []string{wayAlone, waySites, wayTwoLevel, wayRendezvous} {
		l := Line{Name: way}
		for _, n := range x.Agents {
			p := point(r.points, way, n, most)
			if p == nil {
				continue
			}
			var paper any
			if v, ok := paperSpeeds[way][n]; ok {
				paper = v / paperSpeeds[wayAlone][1]
			}
			c := crawlOf(r.crawls, way, n)
			times := p.Speed * float64(n) / alone.Speed
			speeds.Add(way, n, p.Speed, percent*p.Speed/alone.Speed, times, paper, p.Links, c.CPU)
			l.Points = append(l.Points, plotter.XY{X: float64(n), Y: p.Speed * float64(n)})
		}
		if way != wayAlone {
			panel.Lines = append(panel.Lines, l)
		}
	}
	heading := "Figures 7 and 8: speed by the number of agents"
	res.Sections = append(res.Sections, Section{Heading: heading, Table: speeds,
		Shown: true, Text: fmt.Sprintf("Crawls up to %s pages of all agents together.\n\n- *Sites* is full coverage, "+
			"*two-level* is `--coverage two-level`, *alone* is an agent without a cluster.\n- *Times alone*: the "+
			"speed of all agents, divided by that of the one alone. *Paper*: the same in the paper, as far as its "+
			"text has numbers. It has 6.91 for the seven agents divided by one agent with a coordinator.\n- "+
			"*Processor*: of the agents, over the whole crawl. Crawls of more agents are longer.\n%s",
			humanize.Comma(most), x.coverageCost(r.points))})
	res.Figure.Panels = append(res.Figure.Panels, panel)
	x.setUpResult(res, r)
	x.overheadResult(res, r)
	x.checkResult(res, r)
	x.messagesResult(res, r)
}

// coverageCost compares full with two-level coverage at the largest crawls.
func (x *TwoLevel) coverageCost(ps []TwoLevelPoint) string {
	n, most := x.Agents[len(x.Agents)-1], x.common()
	full, two := point(ps, waySites, n, most), point(ps, wayTwoLevel, n, most)
	if full == nil || two == nil {
		return ""
	}
	slower, word := percent*(1-full.Speed/two.Speed), "slower"
	if slower < 0 {
		slower, word = -slower, "faster"
	}
	return fmt.Sprintf("\nWith %d agents, full coverage is %.1f %% %s than two-level. The paper has 1.2 %% slower "+
		"with 7 agents.", n, slower, word)
}

// fastResult adds the speed of one agent as fast as the machine allows, and at the paper's speed.
func (x *TwoLevel) fastResult(res *Result, r *twoLevelRun) {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "pages/s", Digits: 1},
		{Name: "of alone", Unit: "%", Digits: 1}, {Name: "paper, pages/s", Digits: 1},
		{Name: "paper, of alone", Unit: "%", Digits: 1}, {Name: "agent's processor", Unit: "µs/page", Digits: 0},
		{Name: "coordinator's", Unit: "µs/page", Digits: 0}}}
	most := x.common()
	for _, line := range []string{paperLine, noLine} {
		alone := point(r.points, wayAlone+line, 1, most)
		for _, way := range []string{wayAlone, waySites, wayRendezvous} {
			p := point(r.points, way+line, 1, most)
			if p == nil || alone == nil {
				continue
			}
			c := crawlOf(r.crawls, way+line, 1)
			var paper, of, coordinator any
			if v, ok := paperSpeeds[way][1]; ok && line == paperLine {
				paper, of = v, percent*v/paperSpeeds[wayAlone][1]
			}
			if c.Coordinator > 0 {
				coordinator = c.Coordinator
			}
			table.Add(p.Way, p.Speed, percent*p.Speed/alone.Speed, paper, of, c.CPU, coordinator)
		}
	}
	res.Sections = append(res.Sections, Section{Heading: "One fast agent", Table: table, Shown: true,
		Text: fmt.Sprintf("Crawls of one agent up to %s pages: with a line that gives it the paper's speed if it is "+
			"alone, and without a line, so that only the processors bound it, which it shares with its web server and "+
			"the coordinator. With sites each new host waits until it has been looked up and its assignment is on "+
			"disk. So the faster the agent, the more the beginning counts, when most hosts are new.",
			humanize.Comma(most))})
}

// setUpResult adds the two kinds of set-up.
func (x *TwoLevel) setUpResult(res *Result, r *twoLevelRun) {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "agents"}, {Name: "joined", Unit: "s", Digits: 2},
		{Name: "all met", Unit: "s", Digits: 2}, {Name: "hosts"}, {Name: "pages"}, {Name: "memory", Unit: "MB"}}}
	for _, c := range r.crawls {
		if strings.HasSuffix(c.Way, noLine) {
			continue
		}
		if c.Way != wayAlone {
			table.Add(c.Way, c.Agents, c.Joined, c.Begun, c.Hosts, c.Pages, float64(c.Peak)/1e6)
		}
		res.Data.Add(partCrawls, c.Way, c.Agents, c.Pages, "set-up", "joined_s", c.Joined)
		res.Data.Add(partCrawls, c.Way, c.Agents, c.Pages, "set-up", "all_met_s", c.Begun)
	}
	m := cost.Paper()
	res.Sections = append(res.Sections, Section{Heading: "Set-up of the connections (5.1)", Table: table,
		Text: fmt.Sprintf("*Joined*: from the start of an agent until it has joined the cluster (the paper's "+
			"inter-agent set-up). *All met*: until it knows all agents as owners of hosts; with sites, the "+
			"coordinator has told it (the paper's coordinator-agent set-up, and the wait for agents that start "+
			"later). Both are means of the agents. The paper has 0.45 and 3.59 pages/s for the two kinds. In a "+
			"crawl of a million pages by one machine (%.0f s), that is %.2f s and %.2f s.",
			1e6/m.Single, 1e6/m.Single*paperJoined/m.Single, 1e6/m.Single*paperBegun/m.Single)})
}

// figure10 has the paper's overheads with seven agents, by millions of pages.
var figure10 = []struct {
	million                    float64
	hosts, partition, exchange float64
}{{1, 0.54, 4.72, 24.97}, {2, 0.88, 6.31, 30.47}, {4, 1.23, 7.74, 35.15}, {8, 1.59, 9.16, 40.06}}

// The paper's overheads of set-up, which do not depend on the crawl (5.1): of the connections to other agents, and to
// the coordinator.
const (
	paperJoined = 0.45
	paperBegun  = 3.59
)

// lostToSetUp returns what an agent of the paper's speed loses to the two kinds of set-up in a crawl of so many pages.
func (x *TwoLevel) lostToSetUp(r *twoLevelRun, p *TwoLevelPoint) (joined, begun float64) {
	c, single := crawlOf(r.crawls, p.Way, p.Agents), cost.Paper().Single
	each := single * single * float64(p.Agents) / p.Pages // for a second
	return c.Joined * each, max(0, c.Begun-c.Joined) * each
}

// overheadResult adds figures 9 and 10.
func (x *TwoLevel) overheadResult(res *Result, r *twoLevelRun) {
	most, n := x.common(), x.Agents[len(x.Agents)-1]
	columns := []Column{{Name: "way"}, {Name: "agents"}, {Name: "pages"}, {Name: "agents' set-up", Digits: 2},
		{Name: "coordinator's set-up", Digits: 2}}
	for _, kind := range overheadKinds {
		columns = append(columns, Column{Name: kind, Digits: 2})
	}
	columns = append(columns, Column{Name: "all messages", Digits: 2})
	byAgents, byPages := &Table{Columns: columns}, &Table{Columns: columns}
	add := func(t *Table, p *TwoLevelPoint) {
		if p == nil {
			return
		}
		lost, all := p.lost()
		joined, begun := x.lostToSetUp(r, p)
		row := []any{p.Way, p.Agents, int64(p.Pages), joined, begun}
		for _, kind := range overheadKinds {
			row = append(row, lost[kind])
			res.Data.Add(partCrawls, p.Way, p.Agents, int64(p.Pages), kind, "lost_pages_per_s", lost[kind])
			res.Data.Add(partCrawls, p.Way, p.Agents, int64(p.Pages), kind, "bytes_per_page", p.Kinds[kind])
		}
		t.Add(append(row, all)...)
	}
	m := cost.Paper()
	for _, n := range x.Agents {
		of := map[string]float64{}
		for _, o := range m.Overheads {
			of[o.Kind] = o.At(n, 1e6)
		}
		byAgents.Add("paper's model", n, 1_000_000, paperJoined, paperBegun, of[cost.Sending], of[cost.Partition],
			of[cost.Exchange], nil, nil, nil,
			of[cost.Sending]+of[cost.Partition]+of[cost.Exchange])
		for _, way := range []string{waySites, wayRendezvous, wayTwoLevel} {
			add(byAgents, point(r.points, way, n, most))
		}
	}
	for _, f := range figure10 {
		byPages.Add("paper", 7, int64(f.million*1e6), paperJoined, paperBegun, f.hosts, f.partition, f.exchange, nil,
			nil, nil,
			f.hosts+f.partition+f.exchange)
	}
	for _, way := range []string{waySites, wayRendezvous} {
		for _, pages := range x.Pages {
			add(byPages, point(r.points, way, n, pages))
		}
	}
	text := "What an agent loses, in pages/s, to each kind of message if it has the paper's line of 320 Mbit/s, " +
		"pages of 22.3 KB, and the messages take their bytes from it. The bytes are measured, each message once: " +
		"what agents send to each other, and both ways between an agent and the coordinator. The paper's crawls have " +
		"a million pages or more, so its links are rarer than those of our shorter ones.\n\n- The two kinds of " +
		"*set-up* are times, during which an agent of the paper's speed would have fetched pages. *Hosts sent*: to " +
		"the coordinator, with its answers. *Partition information*: the coordinator's answers with assignments. " +
		"*Links exchanged*: links, and the questions which of them their owner has.\n- The paper's crawler has no " +
		"*replicas* (`--replicas 2`, the default, keeps a journal of each host at another agent) and counts no " +
		"*heartbeats* and no *transport* (HTTP; TLS adds 22 bytes to each message). Heartbeats depend on the time, " +
		"so they are those of an agent with the paper's speed."
	res.Sections = append(res.Sections,
		Section{Heading: "Figure 9: overhead by the number of agents, with " + humanize.Comma(most) + " pages",
			Table: byAgents, Shown: true, Text: text},
		Section{Heading: fmt.Sprintf("Figure 10: overhead by the number of pages, with %d agents", n),
			Table: byPages, Shown: true})
	for _, way := range []string{waySites, wayRendezvous} {
		panel := lostPanel("Figure 9: pages a second that an agent loses, "+way, "agents")
		for _, n := range x.Agents {
			panel.addLost(fmt.Sprint(n), point(r.points, way, n, most))
		}
		res.Figure.Panels = append(res.Figure.Panels, panel.Panel)
	}
	panel := lostPanel(fmt.Sprintf("Figure 10: the same with %d agents, sites", n), "thousand pages")
	for _, pages := range x.Pages {
		panel.addLost(strconv.FormatFloat(float64(pages)/1000, 'f', -1, 64), point(r.points, waySites, n, pages))
	}
	res.Figure.Panels = append(res.Figure.Panels, panel.Panel)
}

// A lossPanel draws overheads as bars.
type lossPanel struct{ Panel }

func lostPanel(title, x string) lossPanel {
	p := lossPanel{Panel{Title: title, X: x, Y: "pages/s", Stack: true, Digits: 1, Aside: true, Top: 1}}
	for _, kind := range overheadKinds {
		p.Bars = append(p.Bars, Bars{Name: kind})
	}
	return p
}

// addLost adds a bar. p may be nil.
func (l *lossPanel) addLost(group string, p *TwoLevelPoint) {
	l.Groups = append(l.Groups, group)
	var lost map[string]float64
	if p != nil {
		all := 0.0
		lost, all = p.lost()
		l.Top = max(l.Top, 1.15*all)
	}
	for i, kind := range overheadKinds {
		v := lost[kind]
		if p == nil {
			v = math.NaN()
		}
		l.Bars[i].Values = append(l.Bars[i].Values, v)
	}
}

// reached says whether a difference is within the aim.
func (c *TwoLevelCheck) reached(aim float64) string {
	switch {
	case percent*c.Worst <= aim:
		return "yes"
	case percent*c.Mean <= aim:
		return "on average"
	}
	return "no"
}

// checkResult adds figure 11.
func (x *TwoLevel) checkResult(res *Result, r *twoLevelRun) {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "what"}, {Name: "form"}, {Name: "points"},
		{Name: "mean difference", Unit: "%", Digits: 1}, {Name: "largest", Unit: "%", Digits: 1}, {Name: "with agents"},
		{Name: "and pages"}, {Name: "aim", Unit: "%"}, {Name: "reached"}}}
	var all []TwoLevelCheck
	for _, way := range projectedWays {
		for _, f := range []form{formPaper, formOurs} {
			all = append(all, x.check(r.points, way, f)...)
		}
		all = append(all, x.checkSpeed(r.points, way)...)
	}
	for _, c := range all {
		aim := 20.0
		if c.What == whatSpeed || c.What == whatAll {
			aim = 5
		}
		table.Add(c.Way, c.What, string(c.Form), c.Points, percent*c.Mean, percent*c.Worst, c.WorstAt,
			int64(c.WorstWith), aim, c.reached(aim))
		res.Data.Add(partCrawls, c.Way, c.WorstAt, int64(c.WorstWith), "check of "+c.What+", "+string(c.Form),
			"worst_deviation", c.Worst)
	}
	res.Figures["checks"] = all
	x.pairsResult(res, all)
	res.Sections = append(res.Sections, Section{Heading: "Figure 11: how far the estimates are off", Table: table,
		Text: "A model is fitted to half of the crawls, the first, third and so on by the number of agents, and " +
			"compared with the others. *Paper's form* is that of section 5.2: each overhead is linear in the " +
			"number n of agents and in the logarithm of the number m of pages. *Our form* follows from what our " +
			"messages do, and has two constants for each kind instead of three. A link is sent once by each agent, " +
			"and the rarer the more it has sent; (n-1)/n of all links belong to other agents. A replica goes to one " +
			"other agent. A host is asked for once; all agents are told. *Speed* is the measured speed of an agent."})
	x.constantsResult(res, r)
}

// constantsResult adds our constants of the model.
func (x *TwoLevel) constantsResult(res *Result, r *twoLevelRun) {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "kind"}, {Name: "times"}, {Name: "m"},
		{Name: "base", Digits: 4},
		{Name: "per agent", Digits: 4}, {Name: "per doubling of the pages", Digits: 4}}}
	for _, way := range projectedWays {
		f, err := fitLost(r.points, way, formOurs)
		if err != nil {
			continue
		}
		for _, o := range f.Overheads {
			if o != (cost.Overhead{Kind: o.Kind, Share: o.Share, Own: o.Own}) {
				table.Add(way, o.Kind, times(o.Share), whose(o.Own), o.Base, o.Agent, o.Doubling)
			}
		}
	}
	res.Sections = append(res.Sections, Section{Heading: "Our constants", Table: table,
		Text: "Of our form, fitted to all points: what an agent loses in pages/s on the paper's line is the factor " +
			"*times*, times (base + per agent × n + per doubling × log2 m). *m* are million pages, of all agents or " +
			"of one. They are those of `orbweaver plan --constants rendezvous` and `sites`."})
}

// times says what an overhead is multiplied with.
func times(s cost.Share) string {
	switch s {
	case cost.Each:
		return "n"
	case cost.Others:
		return "(n-1)/n"
	case cost.Cluster:
		return "1, but 0 with one agent"
	}
	return "1"
}

func whose(own bool) string {
	if own {
		return "of one"
	}
	return "of all"
}

// pairsResult adds the points of figure 11.
func (x *TwoLevel) pairsResult(res *Result, checks []TwoLevelCheck) {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "agents"}, {Name: "pages"},
		{Name: "overheads, paper's form", Digits: 2}, {Name: "our form", Digits: 2}, {Name: "measured", Digits: 2},
		{Name: "speed estimated", Digits: 1}, {Name: "measured speed", Digits: 1},
		{Name: "difference", Unit: "%", Digits: 1}}}
	at := func(pairs []TwoLevelPair, point TwoLevelPair) (estimated, measured any) {
		for _, p := range pairs {
			if p.Agents == point.Agents && p.Pages == point.Pages {
				return p.Estimated, p.Measured
			}
		}
		return nil, nil
	}
	pairs := func(way, what string, f form) []TwoLevelPair {
		for _, c := range checks {
			if c.Way == way && c.What == what && c.Form == f {
				return c.Pairs
			}
		}
		return nil
	}
	for _, way := range projectedWays {
		paper, ours := pairs(way, whatAll, formPaper), pairs(way, whatAll, formOurs)
		for _, speed := range pairs(way, whatSpeed, formPaper) {
			first, measured := at(paper, speed)
			second, _ := at(ours, speed)
			table.Add(way, speed.Agents, int64(speed.Pages), first, second, measured, speed.Estimated, speed.Measured,
				percent*(speed.Estimated/speed.Measured-1))
		}
	}
	res.Sections = append(res.Sections, Section{Heading: "Figure 11: estimated beside measured", Table: table,
		Text: "The crawls that were not fitted, in pages/s of an agent. *Overheads* are those of figures 9 and 10, " +
			"on the paper's line; *speed* is measured on the lines of this experiment."})
}

// messagesResult adds what the coordinator adds for each host.
func (x *TwoLevel) messagesResult(res *Result, r *twoLevelRun) {
	table := &Table{Columns: []Column{{Name: "way"}, {Name: "agents"}, {Name: "links a page", Digits: 3},
		{Name: "message bytes a page", Digits: 0}, {Name: "calls to agents a page", Digits: 3},
		{Name: "calls to the coordinator a page", Digits: 3}, {Name: "bytes to and from it a host", Digits: 1},
		{Name: "calls to it a host", Digits: 2}, {Name: "pages of the crawl"}}}
	most := x.common()
	for _, n := range x.Agents {
		for _, way := range []string{wayRendezvous, waySites, wayTwoLevel} {
			p := point(r.points, way, n, most)
			if p == nil {
				continue
			}
			c := crawlOf(r.crawls, way, n)
			sum := 0.0
			for _, v := range p.Kinds {
				sum += v
			}
			var bytes, calls any
			if way != wayRendezvous {
				bytes, calls = c.HostBytes, c.HostCalls
			}
			table.Add(way, n, p.Links, sum, p.Others, p.Coordinator, bytes, calls, c.Pages)
		}
	}
	res.Sections = append(res.Sections, Section{Heading: "Messages: what the coordinator adds", Table: table,
		Text: fmt.Sprintf("Crawls up to %s pages, so the crawls are compared at the same fill. *A host*: in the whole "+
			"crawl, whose pages the last column has, for each host that the agents have met. Each agent asks the "+
			"coordinator at least once a second, so slow crawls of few hosts have more calls for each host.",
			humanize.Comma(most))})
}

// coverageResult adds the coverage of crawls of webs with pages that only other hosts link to.
func (x *TwoLevel) coverageResult(res *Result, runs []CoverageRun) {
	table := &Table{Columns: []Column{{Name: "linked from other hosts only", Unit: "%"}, {Name: "way"},
		{Name: "reachable"}, {Name: "within hosts"}, {Name: "fetched"}, {Name: "coverage", Digits: 4},
		{Name: "links sent a page", Digits: 3}, {Name: "message bytes a page", Digits: 0}}}
	panel := Panel{Title: "Coverage by the share of pages that only other hosts link to", X: "%", Y: "coverage (%)",
		Digits: 1, Aside: true, Top: 1.15 * percent}
	for _, way := range []string{wayRendezvous, waySites, wayTwoLevel} {
		b := Bars{Name: way}
		for i := range runs {
			if r := &runs[i]; r.Way == way {
				b.Values = append(b.Values, percent*r.Coverage())
			}
		}
		panel.Bars = append(panel.Bars, b)
	}
	for i := range runs {
		r := &runs[i]
		table.Add(int(percent*r.Crosslinked+0.5), r.Way, r.Reachable, r.Within, r.Fetched, r.Coverage(), r.Overhead,
			r.Exchanged)
		res.Data.Add(partCoverage, r.Way, coverageAgents, r.Fetched, fmt.Sprint(r.Crosslinked), "coverage",
			r.Coverage())
		if r.Way == wayRendezvous {
			panel.Groups = append(panel.Groups, fmt.Sprint(int(percent*r.Crosslinked+0.5)))
		}
	}
	res.Sections = append(res.Sections, Section{Heading: "Coverage: full and two-level", Table: table, Shown: true,
		Text: fmt.Sprintf("Crawls of a web of %s hosts to the end, with %d agents. *Reachable* pages can be found "+
			"at all, *within hosts* without links from one host to a page of another one. Two-level coverage finds "+
			"these, and pages to which another host of the same agent links. The experiment fails if a crawl "+
			"misses a page that it should find, or fetches one twice.", humanize.Comma(x.Hosts), coverageAgents)})
	res.Figure.Panels = append(res.Figure.Panels, panel)
}
