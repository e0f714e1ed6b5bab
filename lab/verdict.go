package lab

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Targets for the agent's pages/s, as a share of the yardstick's.
const (
	floorRatio = 0.40
	aimRatio   = 0.75
)

// of returns the counted measurements of a program in one kind.
func of(ms []measurement, kind, who string) []measurement {
	var out []measurement
	for _, m := range ms {
		if m.Kind == kind && m.Who == who && m.Round > 0 {
			out = append(out, m)
		}
	}
	return out
}

// each returns a value of each measurement.
func each[T any](ms []measurement, f func(m *measurement) T) []T {
	out := make([]T, len(ms))
	for i := range ms {
		out[i] = f(&ms[i])
	}
	return out
}

// ratios divides a program's rates in a kind by those of another program, or in another kind,
// in the same round.
func ratios(ms []measurement, kind, who, byKind, by string, rate func(*measurement) float64) []float64 {
	var out []float64
	for _, m := range of(ms, kind, who) {
		for _, b := range of(ms, byKind, by) {
			if r := rate(&b); b.Round == m.Round && r > 0 {
				out = append(out, rate(&m)/r)
			}
		}
	}
	return out
}

func wholeRate(m *measurement) float64    { return m.PagesPerS }
func fetchingRate(m *measurement) float64 { return m.FetchingPerS }

// result returns the text, tables and figures of the experiment.
func (x *Throughput) result(t *Trial, ks []kind, ms []measurement) *Result {
	r := &Result{
		Name:  "throughput",
		Title: "Pages a second of one agent",
		Question: "How many pages a second does one agent archive, compared with a minimal fetch-decode-scan-archive " +
			"loop (our yardstick, `bare`) on the same cores and from the same web?",
		SetUp:   x.setUp(t),
		Data:    runsTable(ms),
		Figures: map[string]any{},
	}
	rates, compared := x.rates(ks, ms, r.Figures)
	if len(compared.Rows) > 0 {
		r.Sections = append(r.Sections, Section{Heading: "Compared with the yardstick", Table: compared, Shown: true,
			Text: fmt.Sprintf("Pages/s of the agent, divided by the pages/s of bare in the same round; the median of "+
				"%d rounds.\n\n- *Whole* counts the time from the start of the process to its end.\n- *Fetching* "+
				"counts the time from the first page's request to the end of the last fetch. We quote the smaller "+
				"ratio of the two.\n- *By CPU* is the ratio if no process ever waited for anything but the cores: "+
				"the processor time a page of bare and its web, divided by the processor time a page of the agent "+
				"and its web.\n\nThe floor is %.2f, and the aim is %.2f.", x.Runs, floorRatio, aimRatio)})
	}
	r.Sections = append(r.Sections, Section{Heading: "All runs", Table: rates, Shown: true,
		Text: "The values are medians. *Spread* is the greatest minus the least, divided by the median. *CPU* is the " +
			"user and system time of the process, divided by its pages. *To gzip, kept* is the pages/s, divided by " +
			"the pages/s of the same program with gzip bodies over kept connections in the same round. It is given " +
			"because the yardstick supports neither TLS nor a connection for each fetch."})
	r.Sections = append(r.Sections, Section{Heading: "What the web saw", Table: seenTable(ks, x.Agents, ms),
		Text: "The sums over the runs. If a run has a violation, or a page that was missed or fetched twice, the " +
			"program ends with an error. *Missed* is known only for crawls that fetched their whole web."})
	r.Sections = append(r.Sections, x.profiles(ks, ms)...)
	r.Figure = x.figure(ks, ms)
	return r
}

// profiles returns the profiles of the agents as trees. If there are several agents, it also
// returns their comparison.
func (x *Throughput) profiles(ks []kind, ms []measurement) (out []Section) {
	intro := "These runs had a profiler and are not in the tables above. The first level is our package whose " +
		"function is innermost on the stack. The second level is the kind of work, the third the function.\n\n"
	for _, k := range ks {
		var ps []Profiled
		for _, m := range ms {
			if m.Kind == k.name && m.tree != nil {
				ps = append(ps, Profiled{m.Who, m.tree, m.Pages})
			}
		}
		if len(ps) > 1 {
			out = append(out, Section{Heading: "What changed: " + k.name, Table: Compare(ps, compareLeast),
				Text: "Processor time per page, by package and kind of work. A line is shown if it is more than a " +
					"hundredth of the time of one of the programs."})
		}
		for i, p := range ps {
			heading := "Where the time goes: " + k.name
			if len(ps) > 1 {
				heading += ", " + p.Name
			}
			if i < len(ps)-1 {
				continue // the comparison says enough
			}
			out = append(out, Section{Heading: heading,
				Text: intro + fmt.Sprintf("%s pages:\n\n```\n%s```", humanize.Comma(p.Pages),
					p.Tree.Flame(p.Pages, flameDepth, flameLeast))})
			intro = ""
		}
	}
	return out
}

func (x *Throughput) setUp(t *Trial) string {
	how := "In kinds of web that bare can crawl, the agent crawls the whole web. In the others it crawls for " +
		(2 * x.Duration).String() + "."
	if t.Quick {
		how = "The agent crawls for at most " + x.Duration.String() + "."
	}
	return fmt.Sprintf("The web is generated (seed %d) and has %s hosts with %g pages each on average. A page has "+
		"22.3 KB and 50 links. Web, agent and bare are processes of their own on the same cores, and every run has a "+
		"web of its own.\n\n- The agent is `crawl --delay 0 --scope any` with 64 workers and defaults for all other "+
		"settings. It obeys robots.txt.\n- Bare has %d kept connections for %s, and a list of %s URLs drawn from all "+
		"hosts.\n\n%s The programs take turns, %d rounds each.",
		t.Seed, humanize.Comma(x.Hosts), x.PagesMean, bareConns, x.Duration, humanize.Comma(bareURLs), how, x.Runs)
}

// rates returns tables of the median rates for people, and adds the rates to figures for
// programs.
func (x *Throughput) rates(ks []kind, ms []measurement, figures map[string]any) (all, compared *Table) {
	all = &Table{Columns: []Column{{Name: "web"}, {Name: "program"}, {Name: "pages/s"}, {Name: "spread", Unit: "%"},
		{Name: "fetching", Unit: "pages/s"},
		{Name: "MB/s", Digits: 1}, {Name: "CPU", Unit: "µs"}, {Name: "web's CPU", Unit: "µs"},
		{Name: "peak", Unit: "MB"}, {Name: "to gzip, kept", Digits: 2}}}
	compared = &Table{Columns: []Column{{Name: "web"}, {Name: "program"}, {Name: "bare", Unit: "pages/s"},
		{Name: "agent", Unit: "pages/s"},
		{Name: "whole", Digits: 2}, {Name: "fetching", Digits: 2}, {Name: "by CPU", Digits: 2},
		{Name: "floor", Digits: 2}, {Name: "verdict"}}}
	who := []string{"bare"}
	for _, p := range x.Agents {
		who = append(who, p.Name)
	}
	for _, k := range ks {
		for _, name := range who {
			s := of(ms, k.name, name)
			if len(s) == 0 {
				continue
			}
			rate := each(s, wholeRate)
			cpu := Median(each(s, func(m *measurement) time.Duration { return m.CPU }))
			row := map[string]any{
				"pages_per_s": Median(rate), "spread": Spread(rate),
				"fetching_pages_per_s": Median(each(s, fetchingRate)),
				"mb_per_s":             Median(each(s, func(m *measurement) float64 { return m.MBPerS })),
				"cpu_us":               float64(cpu) / 1e3,
				"web_cpu_us": float64(
					Median(each(s, func(m *measurement) time.Duration { return m.WebCPU }))) / 1e3,
				"peak_bytes": Median(each(s, func(m *measurement) int64 { return m.Peak })),
				"runs":       len(s),
			}
			var kept any
			if v := ratios(ms, k.name, name, "gzip", name, wholeRate); k.name != "gzip" && name != "bare" &&
				len(v) > 0 {
				kept = Median(v)
				row["to_gzip_kept"] = kept
			}
			all.Add(k.title, name, row["pages_per_s"], 100*row["spread"].(float64), row["fetching_pages_per_s"],
				row["mb_per_s"], row["cpu_us"], row["web_cpu_us"], float64(row["peak_bytes"].(int64))/1e6, kept)
			figures[key(k.name+" "+name)] = row
			bare := of(ms, k.name, "bare")
			if name == "bare" || len(bare) == 0 {
				continue
			}
			whole, fetching := Median(ratios(ms, k.name, name, k.name, "bare", wholeRate)),
				Median(ratios(ms, k.name, name, k.name, "bare", fetchingRate))
			ratio := min(whole, fetching)
			row["ratio"], row["ratio_fetching"], row["floor"], row["aim"] = ratio, fetching, floorRatio, aimRatio
			both := func(m *measurement) time.Duration { return m.CPU + m.WebCPU }
			byCPU := float64(Median(each(bare, both))) / float64(max(Median(each(s, both)), 1))
			row["ratio_by_cpu"] = byCPU
			compared.Add(k.title, name, Median(each(bare, wholeRate)), Median(rate), whole, fetching, byCPU, floorRatio,
				verdict(ratio))
		}
	}
	return all, compared
}

func verdict(ratio float64) string {
	switch {
	case ratio >= aimRatio:
		return "the aim is reached"
	case ratio >= floorRatio:
		return "above the floor"
	}
	return "below the floor"
}

// seenTable returns the table of what the web observed.
func seenTable(ks []kind, agents []Program, ms []measurement) *Table {
	t := &Table{Columns: []Column{{Name: "web"}, {Name: "program"}, {Name: "runs"}, {Name: "pages"},
		{Name: "robots.txt"}, {Name: "violations"}, {Name: "twice"},
		{Name: "missed"}, {Name: "most requests at once to a host"}, {Name: "handshakes"},
		{Name: "resumed", Unit: "%", Digits: 1}}}
	for _, k := range ks {
		for _, p := range agents {
			var runs, pages, robots, bad, twice, missed, full, resumed int64
			most, whole := 0, false
			for _, m := range ms {
				if m.Kind != k.name || m.Who != p.Name || m.Crawl == nil {
					continue
				}
				r := m.Crawl.Report
				runs++
				pages += m.Pages
				robots += m.Crawl.Summary.RobotsTxt
				for _, n := range r.ViolationCount {
					bad += n
				}
				if o := r.Origin; o != nil {
					twice += o.Twice
					if o.Reachable > 0 && m.Crawl.Summary.StopReason == finished {
						whole = true
						missed += o.Missed
					}
				}
				for n := range r.AtOnce["host"] {
					most = max(most, n)
				}
				full += r.TLS.Full
				resumed += r.TLS.Resumed
			}
			if runs == 0 {
				continue
			}
			row := []any{k.title, p.Name, runs, pages, robots, bad, twice, nil, most, nil, nil}
			if whole {
				row[7] = missed
			}
			if n := full + resumed; n > 0 {
				row[9], row[10] = n, 100*float64(resumed)/float64(n)
			}
			t.Add(row...)
		}
	}
	return t
}

// runsTable returns the CSV, with a line for each run.
func runsTable(ms []measurement) Table {
	t := Table{Columns: []Column{{Name: "web"}, {Name: "program"}, {Name: "round"}, {Name: "profiled"}, {Name: "pages"},
		{Name: "wall", Unit: "s"}, {Name: "fetching", Unit: "s"},
		{Name: "pages/s"}, {Name: "fetching pages/s"}, {Name: "MB/s"}, {Name: "cpu", Unit: "µs"},
		{Name: "web cpu", Unit: "µs"}, {Name: "peak bytes"},
		{Name: "robots_txt"}, {Name: "violations"}, {Name: "twice"}, {Name: "reachable"}, {Name: "missed"},
		{Name: "handshakes"}, {Name: "resumed"}, {Name: "stop"}}}
	for i := range ms {
		m := &ms[i]
		profiled := 0
		if m.tree != nil {
			profiled = 1
		}
		row := []any{m.Kind, m.Who, m.Round, profiled, m.Pages, m.Wall, m.Fetching, m.PagesPerS, m.FetchingPerS,
			m.MBPerS, m.CPU, m.WebCPU, m.Peak}
		if c := m.Crawl; c != nil {
			bad := int64(0)
			for _, n := range c.Report.ViolationCount {
				bad += n
			}
			row = append(row, c.Summary.RobotsTxt, bad)
			if o := c.Report.Origin; o != nil {
				row = append(row, o.Twice, o.Reachable, o.Missed)
			} else {
				row = append(row, nil, nil, nil)
			}
			row = append(row, c.Report.TLS.Full+c.Report.TLS.Resumed)
			if share := m.Resumed(); share >= 0 {
				row = append(row, share)
			} else {
				row = append(row, nil)
			}
			row = append(row, c.Summary.StopReason)
		}
		t.Add(row...)
	}
	return t
}

// figure draws rates, ratios and processor time.
func (x *Throughput) figure(ks []kind, ms []measurement) *Figure {
	rate := Panel{Title: "Pages a second, whole process (median, least to greatest)", Y: "pages/s"}
	ratio := Panel{Title: "Compared with the yardstick", Y: "agent / bare", Digits: 2, First: 1,
		Levels: []Level{{fmt.Sprintf("floor %.2f", floorRatio), floorRatio},
			{fmt.Sprintf("aim %.2f", aimRatio), aimRatio}}}
	cost := Panel{Title: "Processor time of the program itself", Y: "µs a page"}
	who := []string{"bare"}
	for _, p := range x.Agents {
		who = append(who, p.Name)
	}
	for _, k := range ks {
		rate.Groups = append(rate.Groups, k.name)
		if k.bare {
			ratio.Groups = append(ratio.Groups, k.name)
		}
	}
	cost.Groups = rate.Groups
	for _, name := range who {
		r, c, q := Bars{Name: name}, Bars{Name: name}, Bars{Name: name}
		for _, k := range ks {
			s := of(ms, k.name, name)
			v := each(s, wholeRate)
			low, high := span(v)
			r.Values, r.Low, r.High = append(r.Values, orNaN(v)), append(r.Low, low), append(r.High, high)
			c.Values = append(c.Values, orNaN(each(s, func(m *measurement) float64 { return float64(m.CPU) / 1e3 })))
			if k.bare {
				v := ratios(ms, k.name, name, k.name, "bare", wholeRate)
				low, high := span(v)
				q.Values, q.Low, q.High = append(q.Values, orNaN(v)), append(q.Low, low), append(q.High, high)
			}
		}
		rate.Bars, cost.Bars = append(rate.Bars, r), append(cost.Bars, c)
		if name != "bare" {
			ratio.Bars = append(ratio.Bars, q)
		}
	}
	f := &Figure{Alt: "Pages a second and processor time a page of " + strings.Join(who, ", ") +
		" by the way in which the web is served", Panels: []Panel{rate}}
	if len(ratio.Groups) > 0 {
		f.Panels = append(f.Panels, ratio)
	}
	f.Panels = append(f.Panels, cost)
	return f
}

// orNaN returns the median, or NaN if there are no values.
func orNaN(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	return Median(v)
}

// span returns the least and the greatest value.
func span(v []float64) (low, high float64) {
	for i, f := range v {
		if i == 0 || f < low {
			low = f
		}
		high = max(high, f)
	}
	return low, high
}
