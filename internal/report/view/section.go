package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
)

// A Section is a part of the report.
type Section struct {
	Name   string // of --section
	Title  string
	Notes  []string
	Tables []Table
	charts []chart
	shares []share // parts of a whole, drawn as one bar
}

// A Table has a cell for each column in each row.
type Table struct {
	Title   string
	Columns []Column
	Rows    [][]Cell
	More    string // says what is left out; empty: nothing
	noBars  bool
	pairs   bool // names and values without heads
}

// A Column of numbers is aligned to the right.
type Column struct {
	Title  string
	Number bool
}

// Names lists the sections in their order.
var Names = []string{"summary", "speed", "hours", "status", "errors", "broken", "redirects", "hosts", "times", "sizes",
	"mime", "categories", "duplicates", "skipped", "robots", "depth"}

// Sections returns the parts of the report on r that `names` lists. Without names it returns all but the topics of a
// crawl that did not tell them. Lists have at most `top` rows.
func Sections(r *review.Review, top int, names ...string) []Section {
	b := builder{r, top}
	sections := []Section{b.summary(), b.speed(), b.hours(), b.status(), b.errors(), b.broken(), b.redirects(),
		b.hosts(), b.times(), b.sizes(), b.mime(), b.categories(), b.duplicates(), b.skipped(), b.robots(), b.depth()}
	return slices.DeleteFunc(sections, func(s Section) bool {
		if len(names) > 0 {
			return !slices.Contains(names, s.Name)
		}
		return s.Name == "categories" && len(r.Categories) == 0
	})
}

type builder struct {
	r   *review.Review
	top int
}

// columns reads "name" as a column of text and "#name" as a column of numbers.
func columns(names ...string) []Column {
	var out []Column
	for _, n := range names {
		title, isNumber := strings.CutPrefix(n, "#")
		out = append(out, Column{title, isNumber})
	}
	return out
}

// more says that a table shows only the first rows of all.
func more(shown int, all int64) string {
	if int64(shown) >= all {
		return ""
	}
	return "and " + humanize.Comma(all-int64(shown)) + " more"
}

// withBars gives the cells of a column bars in proportion to the values.
func withBars(t *Table, column int, value func(row int) int64) {
	longest := int64(1)
	for i := range t.Rows {
		longest = max(longest, value(i))
	}
	for i := range t.Rows {
		t.Rows[i][column].Bar = float64(value(i)) / float64(longest)
	}
}

func (b builder) summary() Section {
	r := b.r
	s := Section{Name: "summary", Title: "Summary"}
	t := Table{Columns: columns("", "#"), noBars: true, pairs: true}
	row := func(name string, c Cell) { t.Rows = append(t.Rows, []Cell{{Text: name}, c}) }
	optional := func(name string, n int64) {
		if n != 0 {
			row(name, number(n))
		}
	}
	row("pages (2xx)", number(r.Pages))
	optional("files of pages (2xx)", r.Files)
	row("visits", number(r.Visits))
	row("content received", size(r.Bytes))
	row("hosts visited", Cell{Text: hostText(r)})
	row("time", Cell{Text: seconds(r.Seconds)})
	row("pages a second", Cell{Text: meanRate(r.Pages, r.Seconds)})
	optional("redirects", r.Redirected)
	optional("not modified (304)", r.Unchanged)
	row("failed visits", number(r.Failed))
	row("broken links", number(r.BrokenCount))
	optional("duplicates", r.Duplicates)
	optional("cut bodies", r.Truncated)
	optional("forbidden by robots.txt", r.Denied)
	optional("robots.txt files", r.RobotsTxt)
	optional("skipped links", r.SkippedCount)
	var found, queued, retries, memory int64
	for _, d := range r.Dirs {
		if d.Summary != nil {
			found += d.Summary.Discovered
			queued += d.Summary.Queued
			retries += d.Summary.Retries
			memory = max(memory, d.Summary.PeakMemory)
		}
	}
	optional("links found", found)
	optional("URLs that wait", queued)
	optional("retries", retries)
	if memory > 0 {
		row("peak memory", size(memory))
	}
	s.Tables = append(s.Tables, t, b.crawls())
	lost := Table{Title: "Seeds that gave no page", Columns: columns("seed", "why")}
	for _, d := range r.Dirs {
		if d.Summary == nil {
			continue
		}
		for _, seed := range d.Summary.Failing.Seeds {
			lost.Rows = append(lost.Rows, []Cell{text(seed.URL), text(seed.Why)})
		}
		if more := d.Summary.Failing.MoreSeeds; more > 0 {
			lost.Rows = append(lost.Rows, []Cell{text("and " + humanize.Comma(more) + " more"), text("see crawl.log")})
		}
	}
	if len(lost.Rows) > 0 {
		s.Tables = append(s.Tables, lost)
	}
	if r.Visits == 0 {
		s.Notes = append(s.Notes, "The log has no visit yet.")
	}
	if r.Damaged > 0 {
		s.Notes = append(s.Notes, report.Count(r.Damaged, "line")+
			" of the files could not be read. The counts leave them out.")
	}
	if r.LeastCount > 0 {
		s.Notes = append(s.Notes,
			"The crawl has more names than the tables count. A row of a table by name may lack up to "+
				humanize.Comma(r.LeastCount)+" visits.")
	}
	return s
}

func hostText(r *review.Review) string {
	if r.AtLeast {
		return "at least " + humanize.Comma(int64(r.HostCount))
	}
	return humanize.Comma(int64(r.HostCount))
}

// crawls is the table of the crawl directories.
func (b builder) crawls() Table {
	t := Table{Title: "Crawls", noBars: true,
		Columns: columns("#pages", "#visited", "#failed", "#content", "#time", "as of", "state", "directory")}
	if len(b.r.Dirs) == 1 {
		t.Title = "Crawl"
	}
	for _, d := range b.r.Dirs {
		t.Rows = append(t.Rows, []Cell{number(d.Pages), number(d.Visits), number(d.Failed), size(d.Bytes),
			{Text: seconds(d.Seconds)}, {Text: moment(d.AsOf.Time)}, stateCell(d), text(d.Path)})
	}
	return t
}

// states says in words how a crawl ended.
var states = map[review.State]string{
	"finished":      "finished",
	"blocked":       "finished but for blocked hosts",
	"left":          "left its cluster",
	"signal":        "stopped by a signal",
	"operator":      "stopped by the operator",
	"output-closed": "stopped: its output was closed",
	"page-limit":    "stopped at its page limit",
	"size-limit":    "stopped at its size limit",
	"time-limit":    "stopped at its time limit",
	"disk-low":      "stopped because disk space was scarce",
	"callback":      "stopped by its program",
	review.Running:  "running",
	review.Killed:   "killed; --resume continues it",
	review.Failed:   "ended by an error",
	review.Unknown:  "not known",
}

func stateCell(d review.Dir) Cell {
	word, ok := states[d.State]
	if !ok {
		word = "stopped: " + string(d.State)
	}
	if d.Error != "" {
		word += ": " + d.Error
	}
	c := text(word)
	switch d.State {
	case "finished", "blocked", "left":
		c.Tone = "good"
	case review.Running:
		c.Tone = "note"
	case review.Failed:
		c.Tone = "bad"
	default:
		c.Tone = "warn"
	}
	return c
}

// textSpans is the number of rows of the table of the speed.
const textSpans = 12

func (b builder) speed() Section {
	l := b.r.Speed
	s := Section{Name: "speed", Title: "Speed over time"}
	if len(l.Spans) == 0 {
		return s
	}
	s.charts = speedCharts(l)
	per := (len(l.Spans) + textSpans - 1) / textSpans
	t := Table{Columns: columns("from (UTC)", "#pages/s", "#other/s", "#failed/s", "#content/s"), noBars: true}
	for i := 0; i < len(l.Spans); i += per {
		var sum review.Span
		part := l.Spans[i:min(i+per, len(l.Spans))]
		for _, p := range part {
			sum.Pages += p.Pages
			sum.Other += p.Other
			sum.Failed += p.Failed
			sum.Bytes += p.Bytes
		}
		width := float64(int64(len(part)) * l.WidthS)
		at := l.Start.Add(time.Duration(int64(i)*l.WidthS) * time.Second)
		t.Rows = append(t.Rows, []Cell{{Text: at.Format("2006-01-02 15:04:05")},
			{Text: rate(float64(sum.Pages) / width)},
			{Text: rate(float64(sum.Other) / width)}, {Text: rate(float64(sum.Failed) / width)},
			size(int64(float64(sum.Bytes) / width))})
	}
	s.Tables = []Table{t}
	return s
}

// hours shows the traffic by the hour of the day, as Polybot, a crawler (paper), shows it.
func (b builder) hours() Section {
	s := Section{Name: "hours", Title: "Traffic by hour of the day"}
	t := Table{Columns: columns("hour (UTC)", "#requests", "#pages", "#content")}
	for _, h := range b.r.ByHour {
		t.Rows = append(t.Rows, []Cell{{Text: fmt.Sprintf("%02d", h.Hour)}, number(h.Requests), number(h.Pages),
			size(h.Bytes)})
	}
	withBars(&t, 3, func(i int) int64 { return b.r.ByHour[i].Bytes })
	s.Tables = []Table{t}
	return s
}

func (b builder) hosts() Section {
	list := b.r.Hosts[:min(len(b.r.Hosts), b.top)]
	t := Table{Columns: columns("#visited", "#pages", "#files", "#content", "#failed", "#broken", "#denied",
		"#duplicates", "#mean time", "host")}
	for _, h := range list {
		t.Rows = append(t.Rows, []Cell{number(h.Visits), number(h.Pages), number(h.Files), size(h.Bytes),
			toned(h.Failed, "bad"), toned(h.Broken, "warn"), number(h.Denied), number(h.Duplicates),
			millis(h.MeanMS), text(h.Host)})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].Visits })
	t.More = more(len(list), int64(b.r.HostCount))
	return Section{Name: "hosts", Title: "Hosts", Tables: []Table{t}}
}

// toned is a number that has a tone unless it is zero.
func toned(n int64, tone string) Cell {
	c := number(n)
	if n > 0 {
		c.Tone = tone
	}
	return c
}

func (b builder) status() Section {
	s := Section{Name: "status", Title: "Statuses"}
	t := Table{Columns: columns("#visits", "#share", "#content", "#code", "meaning")}
	list := b.r.Status[:min(len(b.r.Status), b.top)]
	kinds := []share{{Name: "2xx", Tone: "good"}, {Name: "3xx", Tone: "note"}, {Name: "4xx", Tone: "warn"},
		{Name: "5xx", Tone: "bad"}, {Name: "no response", Tone: "worst"}, {Name: "not asked", Tone: "quiet"}}
	for _, c := range b.r.Status {
		code, _ := strconv.Atoi(c.Name)
		i := 4
		switch tone := statusTone(code); {
		case tone == "quiet":
			i = 5
		case code >= 500:
			i = 3
		case code > 0:
			i = max(code/100-2, 0)
		}
		kinds[i].Count += c.Count
	}
	for _, k := range kinds {
		if k.Count > 0 {
			s.shares = append(s.shares, k)
		}
	}
	for _, c := range list {
		code, _ := strconv.Atoi(c.Name)
		name := text(c.Name)
		name.Tone = statusTone(code)
		t.Rows = append(t.Rows, []Cell{number(c.Count), percent(c.Count, b.r.Visits), size(c.Bytes), name,
			text(statusText(code))})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].Count })
	t.More = more(len(list), int64(len(b.r.Status)))
	s.Tables = []Table{t}
	return s
}

func (b builder) errors() Section {
	t := Table{Columns: columns("#visits", "what happened", "what to do", "first cause")}
	list := b.r.Errors[:min(len(b.r.Errors), b.top)]
	for _, c := range list {
		t.Rows = append(t.Rows, []Cell{number(c.Count), text(report.ErrorText(c.Name)),
			text(report.ErrorAdvice(c.Name)), text(c.Example)})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].Count })
	t.More = more(len(list), int64(len(b.r.Errors)))
	s := Section{Name: "errors", Title: "Errors", Tables: []Table{t}}
	if len(list) == 0 {
		s.Notes = []string{"No visit failed."}
	}
	return s
}

func (b builder) broken() Section {
	s := Section{Name: "broken", Title: "Broken links"}
	list := b.r.Broken[:min(len(b.r.Broken), b.top)]
	if len(list) == 0 {
		s.Notes = []string{"No broken link."}
		return s
	}
	t := Table{Columns: columns("#pages", "result", "URL", "linked from")}
	for _, l := range list {
		from := Cell{Text: "a seed"}
		switch {
		case len(l.Pages) > 0:
			from = location(l.Pages[0])
			if via := Through(l, 0); via != "" {
				from.Text += " through " + report.OneLine(via)
			}
			if l.Links > 1 {
				from.Text += " and " + report.Count(l.Links-1, "other page")
			}
		case l.Links > 0:
			from = number(l.Links)
		}
		result := text(Result(l))
		result.Tone = "bad"
		if l.Status >= 400 && l.Status < 500 {
			result.Tone = "warn"
		}
		t.Rows = append(t.Rows, []Cell{number(l.Links), result, location(l.URL), from})
	}
	t.noBars = true
	t.More = more(len(list), b.r.BrokenCount)
	s.Tables = []Table{t}
	if list[len(list)-1].Kind == review.KindOthers {
		s.Notes = append(s.Notes, "Documents come first, then files that pages embed from the crawl's own sites, then "+
			"those from other sites.")
	}
	if !b.r.BrokenKnown {
		s.Notes = append(s.Notes, "Each URL has the page on which the crawl found it first. Other pages may link "+
			"to it, too.")
	}
	return s
}

// Through returns the redirect that leads from page i of a broken link to its URL, or "".
func Through(l review.Broken, i int) string {
	if i < len(l.Via) && l.Via[i] != "-" {
		return l.Via[i]
	}
	return ""
}

// Result says in words why a link is broken: "404 Not Found", "no address for the host name: no such host".
func Result(l review.Broken) string {
	kind, cause, found := strings.Cut(l.Error, ": ")
	if kind = report.ErrorText(kind); found {
		kind += ": " + strings.TrimPrefix(cause, "robots.txt: ")
	}
	switch {
	case l.Status > 0 && l.Error != "":
		return fmt.Sprintf("%d %s (%s)", l.Status, statusText(l.Status), kind)
	case l.Status > 0:
		return fmt.Sprintf("%d %s", l.Status, statusText(l.Status))
	case l.Error != "":
		return kind
	}
	return statusText(l.Status)
}

func (b builder) redirects() Section {
	s := Section{Name: "redirects", Title: "Redirects"}
	if b.r.Redirected == 0 {
		s.Notes = []string{"No response redirected."}
		return s
	}
	s.Notes = []string{report.Count(b.r.Redirected, "response") + " redirected. A chain that ends with a " +
		"redirect leads to a URL that the crawl had met before, or does not follow."}
	lengths := Table{Title: "Lengths of chains", Columns: columns("#chains", "redirects")}
	chains := int64(0)
	bars := slices.DeleteFunc(slices.Clone(b.r.Histograms.ByChain), func(bar review.Bar) bool { return bar.Count == 0 })
	for _, bar := range bars {
		chains += bar.Count
		lengths.Rows = append(lengths.Rows, []Cell{number(bar.Count), {Text: wholeRange(bar)}})
	}
	withBars(&lengths, 0, func(i int) int64 { return bars[i].Count })
	t := Table{Title: "Longest chains", noBars: true, Columns: columns("#redirects", "#status", "URL")}
	list := b.r.Chains[:min(len(b.r.Chains), b.top)]
	for _, c := range list {
		for i, h := range c.Hops {
			n, to := Cell{}, location(h.URL)
			if i == 0 {
				n = number(int64(c.Redirects))
			} else {
				to.Text = "→ " + to.Text
			}
			status := Cell{Text: "?"}
			if h.Status != 0 {
				status = Cell{Text: strconv.Itoa(h.Status), Tone: statusTone(h.Status)}
			}
			if i == len(c.Hops)-1 && c.Note != "" {
				to.Text += " (" + report.ErrorText(report.OneLine(c.Note)) + ")"
			}
			t.Rows = append(t.Rows, []Cell{n, status, to})
		}
	}
	t.More = more(len(list), chains)
	s.Tables = []Table{lengths, t}
	return s
}

func plainNumber(n int64) string { return strconv.FormatInt(n, 10) }

// wholeRange names the range of a bar of whole numbers.
func wholeRange(b review.Bar) string {
	switch b.To {
	case 0:
		return plainNumber(b.From) + " or more"
	case b.From + 1:
		return plainNumber(b.From)
	}
	return plainNumber(b.From) + " – " + plainNumber(b.To-1)
}

// Bars reports whether the first column has bars.
func (t Table) Bars() bool { return !t.noBars }

// Pairs reports whether the rows are names and values, without heads.
func (t Table) Pairs() bool { return t.pairs }

// Cards reports whether a narrow window shows each row as a block: the table has many columns, or several of text.
func (t Table) Cards() bool {
	texts := 0
	for _, c := range t.Columns {
		if !c.Number {
			texts++
		}
	}
	linked := func(row []Cell) bool { return slices.ContainsFunc(row, func(c Cell) bool { return c.Link != "" }) }
	return !t.pairs && (texts > 1 || len(t.Columns) > 4 || slices.ContainsFunc(t.Rows, linked))
}
