package lab

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"
)

// crawlerKinds are the kinds of violations, in the order of the table.
var crawlerKinds = []string{"gap", "concurrent", "connections", "retry-after", "robots"}

// result returns the text, tables and figures of the experiment.
func (x *Crawlers) result(t *Trial, runs []CrawlerRun) *Result {
	return &Result{
		Name: "crawlers", Title: "How do other crawlers treat the same web?",
		Question: "Orbweaver, Scrapy and Wget2 crawl the same web, each told to keep the same delay and to obey " +
			"robots.txt. How much of it do they fetch, and what do the servers see of them?",
		SetUp: x.setUp(t, runs),
		Sections: []Section{
			{Heading: "Pages", Table: crawlerPages(runs), Shown: true, Text: "- *Coverage*: the share of the pages " +
				"that a crawl can reach (*reachable*) and that were fetched. *Beyond*: other pages, such as those " +
				"that robots.txt forbids.\n- *Overlap*: fetches of URLs that had been fetched before, divided by the " +
				"fetched pages.\n- *Compressed*: the share of the pages that the crawler asked for compressed.\n" +
				"- *Time*: from the first request to the end of the last one.\n- *Exit*: the crawler's exit code. " +
				"Wget2 reports 8 if any server answered with an error."},
			{Heading: "Politeness", Table: crawlerManners(runs), Shown: true, Text: fmt.Sprintf("The columns count "+
				"violations, as `testweb` reports them:\n\n- *Gap*: a request sooner than %s (or the Crawl-delay of "+
				"robots.txt) after the end of the last response. *Shortest* is the shortest gap divided by the delay; "+
				"it is 1 if the delay was always kept.\n- *Concurrent*, *connections*: two at once to a host.\n"+
				"- *Retry-After*: a request before the time that a 429 or 503 named.\n- *Robots*: a request that "+
				"robots.txt forbids. *Before robots*: requests to a host before its robots.txt was answered.",
				x.Delay)},
			{Heading: "The commands", Text: crawlerCommands(runs)},
		},
		Data:    crawlerData(runs),
		Figure:  crawlerFigure(runs),
		Figures: map[string]any{"runs": runs},
		Again:   x.Again,
	}
}

func (x *Crawlers) setUp(t *Trial, runs []CrawlerRun) string {
	versions := make([]string, len(runs))
	for i, r := range runs {
		versions[i] = r.Name + " " + r.Version
	}
	return fmt.Sprintf("The crawlers are %s. Each is the command of `orbweaver testweb ... -- COMMAND`, so it sees "+
		"the web at ports 80 and 443 under the usual names, and nothing else.\n\nThe web is generated "+
		"(`--generate --wild --traps 0`, seed %d, %s hosts, %d pages on average and at most %d). It has redirects, "+
		"dead links, servers that fail, hang and reset connections, and hosts that cannot be reached. A tenth of the "+
		"hosts ask for a Crawl-delay of %s. The crawls begin at one page and may go to any host. Each crawler gets a "+
		"delay of %s and a timeout of 5 s; the rest is the default, or follows from these.",
		strings.Join(versions, ", "), t.Seed, humanize.Comma(x.Hosts), crawlersPages, crawlersMaxPages,
		crawlersDelay*x.Delay, x.Delay)
}

func crawlerPages(runs []CrawlerRun) *Table {
	t := &Table{Columns: []Column{{Name: "crawler"}, {Name: "requests"}, {Name: "pages"}, {Name: "reachable"},
		{Name: "coverage", Unit: "%", Digits: 1}, {Name: "beyond"}, {Name: "overlap", Unit: "%", Digits: 1},
		{Name: "compressed", Unit: "%", Digits: 0}, {Name: "time", Unit: "s", Digits: 1}, {Name: "exit"}}}
	for i := range runs {
		r := &runs[i]
		fetched := max(1, float64(r.Fetched))
		t.Add(r.Name, r.Requests, r.Fetched, r.Reachable, percent*r.coverage(), r.Beyond,
			percent*float64(r.Repeated)/fetched, percent*float64(r.Compressed)/max(1, float64(r.Pages)), r.Took,
			r.ExitCode)
	}
	return t
}

func crawlerManners(runs []CrawlerRun) *Table {
	t := &Table{Columns: []Column{{Name: "crawler"}}}
	for _, k := range crawlerKinds {
		t.Columns = append(t.Columns, Column{Name: k})
	}
	t.Columns = append(t.Columns, Column{Name: "shortest", Digits: 3}, Column{Name: "before robots"})
	for _, r := range runs {
		row := []any{r.Name}
		for _, k := range crawlerKinds {
			row = append(row, r.Violations[k])
		}
		var shortest any
		if r.Shortest != nil {
			shortest = *r.Shortest
		}
		t.Add(append(row, shortest, r.BeforeRobots)...)
	}
	return t
}

func crawlerCommands(runs []CrawlerRun) string {
	var b strings.Builder
	for _, r := range runs {
		fmt.Fprintf(&b, "- %s: `%s`\n", r.Name, r.Command)
	}
	b.WriteString("\nScrapy runs [a spider](../../lab/crawlers/spider.py) that follows every link.")
	return b.String()
}

// crawlerData returns the CSV, with a line for each crawler.
func crawlerData(runs []CrawlerRun) Table {
	t := Table{Columns: []Column{{Name: "crawler"}, {Name: "version"}, {Name: "requests"}, {Name: "pages"},
		{Name: "fetched"}, {Name: "reachable"}, {Name: "missed"}, {Name: "beyond"}, {Name: "repeated"},
		{Name: "compressed"}, {Name: "seconds"}, {Name: "exit"}}}
	for _, k := range crawlerKinds {
		t.Columns = append(t.Columns, Column{Name: k})
	}
	t.Columns = append(t.Columns, Column{Name: "before robots"})
	for _, r := range runs {
		row := []any{r.Name, r.Version, r.Requests, r.Pages, r.Fetched, r.Reachable, r.Missed, r.Beyond, r.Repeated,
			r.Compressed, r.Took.Seconds(), r.ExitCode}
		for _, k := range crawlerKinds {
			row = append(row, r.Violations[k])
		}
		t.Add(append(row, r.BeforeRobots)...)
	}
	return t
}

func crawlerFigure(runs []CrawlerRun) *Figure {
	progress := Panel{Title: "Complete responses with status 200, without robots.txt", X: "time (s)", Y: "responses"}
	broken := Panel{Title: "Violations", Y: "violations", Groups: crawlerKinds}
	for _, r := range runs {
		l := Line{Name: r.Name}
		for _, p := range r.points {
			l.Points = append(l.Points, plotter.XY{X: p.at.Seconds(), Y: float64(p.responses)})
		}
		progress.Lines = append(progress.Lines, l)
		b := Bars{Name: r.Name}
		for _, k := range crawlerKinds {
			b.Values = append(b.Values, float64(r.Violations[k]))
		}
		broken.Bars = append(broken.Bars, b)
	}
	return &Figure{
		Alt:    "Responses that each crawler received over time, and the violations that the web counted, by kind.",
		Panels: []Panel{progress, broken},
	}
}
