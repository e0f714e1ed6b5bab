package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"
)

const (
	// linksAim and linksBytesAim are the targets for linksAt agents: links and bytes a page.
	linksAim, linksBytesAim = 1.5, 60
	linksAt                 = 8
)

// result returns the text, tables and figures of the experiment.
func (x *Links) result(t *Trial, model []ModelRow, sizes []LinkSize, runs []LinksRun) *Result {
	return &Result{
		Name: "links", Title: "What do agents send to each other?",
		Question: "How many links does an agent send to other agents for each page (e/n), and how many bytes? " +
			"UbiCrawler, a distributed crawler, claims e/n < 1 for any number of agents (section 5 of its paper): " +
			"a page has one link to another host there. Which remedies help, and what do they cost?",
		SetUp: x.setUp(t),
		Sections: []Section{
			{Heading: "Crawls: links and bytes a page", Table: linksTable(runs), Shown: true, Text: "All values " +
				"are totals up to the fill, divided by the pages fetched until then.\n\n- *Fill*: the share of the " +
				"web's pages that are fetched.\n- *Links*: links that were sent (e/n). *Keys*: URLs that their " +
				"owners were asked about before, in 6 bytes each.\n- *Exchange*: the bytes of both, compressed. " +
				"*Replicas*: journal records for the heirs (`--replicas 2`, the default). *Rest*: all other calls, " +
				"HTTP and gossip. *All* is what the agents wrote to their sockets, without the headers of TCP, UDP " +
				"and IP.\n- *Processor*: time of an agent, divided by its pages, for the whole crawl.\n\n" +
				x.verdict(runs)},
			{Heading: "Bytes a page by call", Table: linksCalls(runs)},
			{Heading: fmt.Sprintf("Model: remedies with %d agents", modelAgents), Table: modelTable(model), Shown: true,
				Text: "The columns are links a page, at several fills. *Keys* is at the end of the crawl.\n\n- " +
					"*Cache*: the sender does not send the links in a cache. *Each link once* is an exact set on " +
					"disk.\n- *Every n pages*: an agent with 256 waiting pages gathers links until it has " +
					"fetched n more: 34 take half a second with a line.\n- *Keys first*: the sender asks the " +
					"owner. The owner knows the URLs that other agents have pushed, or all in a cache of " +
					"262,144 URLs.\n- *Deeper*: the share of the " +
					"pages that are reached by more links than if all links are sent at once."},
			{Heading: "Model: octets of a link", Table: sizesTable(sizes), Text: "Links that one agent sends to " +
				"another, by the number of links in a batch. *After 64 KiB*, *after 8 KiB*: the receiver keeps as " +
				"many octets of earlier batches, to which the compression refers."},
		},
		Data:    linksData(runs),
		Figure:  linksFigure(runs),
		Figures: map[string]any{"runs": runs, "model": model, "link_sizes": sizes},
		Again:   x.Again,
	}
}

func (x *Links) setUp(t *Trial) string {
	return fmt.Sprintf("The web is generated (`testweb --generate`, seed %d, %s hosts, %d pages on average). A page "+
		"has 50 links, 10 of them to other hosts. Each agent is a process with a web server of its own, behind "+
		"a line of "+
		"%s/s, as in the experiment [scaling](scaling.md). The crawls have no delays and end when all pages are "+
		"fetched. The agents reach each other on loopback without keys; TLS adds 22 bytes to each message.\n\nThe "+
		"experiment "+
		"fails at a page that is missed or fetched twice. The model crawls the same web breadth-first in one process: "+
		"each agent fetches a page in turn.", t.Seed, humanize.Comma(x.Hosts), scalingPages,
		humanize.Bytes(uint64(x.Bandwidth)))
}

// verdict compares the crawl of linksAt agents with the aims, at a quarter of the web.
func (x *Links) verdict(runs []LinksRun) string {
	for _, r := range runs {
		for _, p := range r.Points {
			if r.Agents == linksAt && p.Fill == 0.25 {
				says := func(ok bool) string {
					if ok {
						return "reached"
					}
					return "missed"
				}
				return fmt.Sprintf("With %d agents and a quarter of the web, the aim of %.1f links a page is %s "+
					"(%.2f). The aim of %d bytes a page is %s by links and keys (%.0f), and %s by all bytes (%.0f).",
					linksAt, linksAim, says(p.Links <= linksAim), p.Links, linksBytesAim,
					says(p.exchange() <= linksBytesAim), p.exchange(), says(p.Bytes <= linksBytesAim), p.Bytes)
			}
		}
	}
	return ""
}

func (p *LinksPoint) exchange() float64 { return p.ByCall["push"] + p.ByCall["known"] }

func linksTable(runs []LinksRun) *Table {
	t := &Table{Columns: []Column{{Name: "agents"}, {Name: "fill", Unit: "%"}, {Name: "links", Digits: 2},
		{Name: "keys", Digits: 2}, {Name: "exchange", Unit: "B", Digits: 0}, {Name: "replicas", Unit: "B", Digits: 0},
		{Name: "rest", Unit: "B", Digits: 0}, {Name: "all", Unit: "B", Digits: 0},
		{Name: "processor", Unit: "µs", Digits: 0}}}
	for _, r := range runs {
		for _, p := range r.Points {
			var cpu any
			if p.Fill == 1 {
				cpu = r.CPU
			}
			ships := p.ByCall["ship"]
			t.Add(r.Agents, int(percent*p.Fill+0.5), p.Links, p.Keys, p.exchange(), ships, p.Bytes-p.exchange()-ships,
				p.Bytes, cpu)
		}
	}
	return t
}

// linksCalls has the bytes of each call at the end of the crawls.
func linksCalls(runs []LinksRun) *Table {
	t := &Table{Columns: []Column{{Name: "call"}}}
	calls := map[string]bool{}
	for _, r := range runs {
		t.Columns = append(t.Columns, Column{Name: fmt.Sprintf("%d agents", r.Agents), Digits: 1})
		for call := range r.Points[len(r.Points)-1].ByCall {
			calls[call] = true
		}
	}
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		row := []any{strings.ToUpper(call[:1]) + call[1:]}
		for _, r := range runs {
			row = append(row, r.Points[len(r.Points)-1].ByCall[call])
		}
		t.Add(row...)
	}
	return t
}

// modelFills are the fills that the table of the model shows.
var modelFills = []float64{0.05, 0.25, 0.5, 1}

func modelTable(model []ModelRow) *Table {
	t := &Table{Columns: []Column{{Name: "remedy"}}}
	for _, f := range modelFills {
		t.Columns = append(t.Columns, Column{Name: fmt.Sprintf("at %.0f %%", percent*f), Digits: 2})
	}
	t.Columns = append(t.Columns, Column{Name: "keys", Digits: 2}, Column{Name: "deeper", Unit: "%", Digits: 2})
	for rows := range slices.Chunk(model, len(linksFills)) {
		row := []any{rows[0].Remedy}
		for _, f := range modelFills {
			i := slices.IndexFunc(rows, func(r ModelRow) bool { return r.Fill == f })
			row = append(row, rows[i].Links)
		}
		last := rows[len(rows)-1]
		t.Add(append(row, last.Keys, percent*last.Deeper)...)
	}
	return t
}

func sizesTable(sizes []LinkSize) *Table {
	t := &Table{Columns: []Column{{Name: "links in a batch"}, {Name: "plain", Digits: 0}, {Name: "zstd", Digits: 0},
		{Name: "zstd after 64 KiB", Digits: 0}, {Name: "deflate after 8 KiB", Digits: 0}}}
	for _, s := range sizes {
		t.Add(s.Batch, s.Plain, s.Zstd, s.History, s.Deflate)
	}
	return t
}

// linksData returns the CSV, with a line for each fill of each crawl.
func linksData(runs []LinksRun) Table {
	t := Table{Columns: []Column{{Name: "agents"}, {Name: "fill"}, {Name: "pages"}, {Name: "links per page"},
		{Name: "keys per page"}, {Name: "bytes per page"}, {Name: "push"}, {Name: "known"}, {Name: "ship"},
		{Name: "transport"}, {Name: "gossip"}}}
	for _, r := range runs {
		for _, p := range r.Points {
			t.Add(r.Agents, p.Fill, p.Pages, p.Links, p.Keys, p.Bytes, p.ByCall["push"], p.ByCall["known"],
				p.ByCall["ship"], p.ByCall["transport"], p.ByCall["gossip"])
		}
	}
	return t
}

func linksFigure(runs []LinksRun) *Figure {
	lines := func(f func(p *LinksPoint) float64) (ls []Line) {
		for _, r := range runs {
			l := Line{Name: fmt.Sprintf("%d agents", r.Agents)}
			for i := range r.Points {
				l.Points = append(l.Points, plotter.XY{X: percent * r.Points[i].Fill, Y: f(&r.Points[i])})
			}
			ls = append(ls, l)
		}
		return ls
	}
	return &Figure{
		Alt: "Links and bytes that agents send to each other for each page, by the share of the web that is fetched.",
		Panels: []Panel{
			{Title: "Links sent to other agents by pages fetched (e/n)", X: "fill (%)", Y: "links a page",
				Lines: lines(func(p *LinksPoint) float64 { return p.Links })},
			{Title: "Bytes sent to other agents", X: "fill (%)", Y: "bytes a page",
				Lines: lines(func(p *LinksPoint) float64 { return p.Bytes })},
		},
	}
}
