package view

import (
	"cmp"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
)

func (b builder) skipped() Section {
	s := Section{Name: "skipped", Title: "Links not followed"}
	list := b.r.Skipped[:min(len(b.r.Skipped), b.top)]
	if len(list) == 0 {
		s.Notes = []string{"The crawl followed every link."}
		return s
	}
	t := Table{Columns: columns("#links", "#share", "reason", "for example")}
	for _, c := range list {
		t.Rows = append(t.Rows, []Cell{number(c.Count), percent(c.Count, b.r.SkippedCount),
			text(cmp.Or(report.ReasonText(c.Name, c.Rule), c.Name)), location(c.Example)})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].Count })
	t.More = more(len(list), int64(len(b.r.Skipped)))
	s.Tables = []Table{t}
	return s
}

func (b builder) robots() Section {
	s := Section{Name: "robots", Title: "Forbidden by robots.txt"}
	list := b.r.RobotsBy[:min(len(b.r.RobotsBy), b.top)]
	if len(list) == 0 {
		s.Notes = []string{"robots.txt forbade no visit."}
		return s
	}
	t := Table{Columns: columns("#URLs", "host", "a rule that decided")}
	for _, c := range list {
		t.Rows = append(t.Rows, []Cell{number(c.Count), text(c.Name), text(c.Example)})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].Count })
	s.Tables = []Table{t}
	return s
}

func (b builder) mime() Section {
	t := Table{Columns: columns("#responses", "#share", "#content", "type", "for example")}
	list := b.r.MIME[:min(len(b.r.MIME), b.top)]
	for _, c := range list {
		t.Rows = append(t.Rows, []Cell{number(c.Count), percent(c.Count, b.r.Fetched), size(c.Bytes), text(c.Name),
			location(c.Example)})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].Count })
	t.More = more(len(list), int64(len(b.r.MIME)))
	return Section{Name: "mime", Title: "Content types", Tables: []Table{t}}
}

func (b builder) categories() Section {
	s := Section{Name: "categories", Title: "Visits to kept pages, by topic"}
	if len(b.r.Categories) == 0 {
		s.Notes = []string{"The crawl did not tell the topics of pages; --partition topic does."}
		return s
	}
	t := Table{Columns: columns("#visits", "#share", "#content", "category", "for example")}
	list, total := b.r.Categories[:min(len(b.r.Categories), b.top)], int64(0)
	for _, c := range b.r.Categories {
		total += c.Count
	}
	for _, c := range list {
		t.Rows = append(t.Rows, []Cell{number(c.Count), percent(c.Count, total), size(c.Bytes), text(c.Name),
			location(c.Example)})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].Count })
	t.More = more(len(list), int64(len(b.r.Categories)))
	s.Tables = []Table{t}
	return s
}

// histogram is a table of bars.
func histogram(title, what, of string, bars []review.Bar, name func(int64) string) Table {
	t := Table{Title: title, Columns: columns("#"+what, "#share", of)}
	var all int64
	for _, b := range bars {
		all += b.Count
	}
	for _, b := range bars {
		t.Rows = append(t.Rows, []Cell{number(b.Count), percent(b.Count, all), {Text: rangeText(b, name)}})
	}
	withBars(&t, 0, func(i int) int64 { return bars[i].Count })
	return t
}

// percentiles is a table of one row.
func percentiles(p review.Percentiles, name func(int64) Cell) Table {
	return Table{Title: "Percentiles", noBars: true, Columns: columns("#mean", "#50 %", "#90 %", "#95 %", "#99 %",
		"#most"),
		Rows: [][]Cell{{name(p.Mean), name(p.P50), name(p.P90), name(p.P95), name(p.P99), name(p.Max)}}}
}

// binary formats a power of two of bytes.
func binary(n int64) string { return strings.Replace(humanize.IBytes(uint64(n)), ".0 ", " ", 1) }

func (b builder) sizes() Section {
	s := Section{Name: "sizes", Title: "Sizes of pages"}
	if b.r.Sizes.Count == 0 {
		return s
	}
	t := Table{Title: "Largest responses", Columns: columns("#content", "#status", "type", "URL")}
	list := b.r.Largest[:min(len(b.r.Largest), b.top)]
	for _, v := range list {
		t.Rows = append(t.Rows, []Cell{size(v.Bytes), status(v.Code), text(v.MIME), location(v.URL)})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].Bytes })
	s.Tables = []Table{percentiles(b.r.Sizes, size),
		histogram("", "pages", "content", b.r.Histograms.BySize, func(n int64) string { return binary(n) }), t}
	return s
}

func (b builder) times() Section {
	s := Section{Name: "times", Title: "Times of responses"}
	if b.r.Latency.Count == 0 {
		return s
	}
	s.Notes = []string{"The time is from the start of the visit to the last byte."}
	t := Table{Title: "Slowest responses", Columns: columns("#time", "#content", "#status", "URL")}
	list := b.r.Slowest[:min(len(b.r.Slowest), b.top)]
	for _, v := range list {
		t.Rows = append(t.Rows, []Cell{millis(v.MS), size(v.Bytes), status(v.Code), location(v.URL)})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].MS })
	s.Tables = []Table{percentiles(b.r.Latency, millis),
		histogram("", "responses", "time", b.r.Histograms.ByLatency, func(n int64) string { return millis(n).Text }), t}
	return s
}

func status(code int) Cell { return Cell{Text: plainNumber(int64(code)), Tone: statusTone(code)} }

func (b builder) duplicates() Section {
	s := Section{Name: "duplicates", Title: "Duplicate contents"}
	list := b.r.Copies[:min(len(b.r.Copies), b.top)]
	if b.r.Duplicates == 0 {
		s.Notes = []string{"No content came twice."}
		return s
	}
	s.Notes = []string{report.Count(b.r.Duplicates, "response") +
		" had a content that the archive had already (" + percent(b.r.Duplicates, b.r.Fetched).Text + " of all)."}
	t := Table{Title: "Pages with the most copies", Columns: columns("#copies", "#content", "one of the copies")}
	for _, c := range list {
		t.Rows = append(t.Rows, []Cell{number(c.Count), size(c.Bytes), location(c.Example)})
	}
	withBars(&t, 0, func(i int) int64 { return list[i].Count })
	s.Tables = []Table{t}
	return s
}

func (b builder) depth() Section {
	s := Section{Name: "depth", Title: "Distance from the seeds"}
	t := Table{Columns: columns("#visits", "#share", "links from the seed")}
	for _, bar := range b.r.Histograms.ByDepth {
		t.Rows = append(t.Rows, []Cell{number(bar.Count), percent(bar.Count, b.r.Visits), {Text: wholeRange(bar)}})
	}
	withBars(&t, 0, func(i int) int64 { return b.r.Histograms.ByDepth[i].Count })
	s.Tables = []Table{t}
	return s
}
