package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cost"
)

// print writes the answer for people.
func (a *planAnswer) print(out io.Writer, fitted *cost.Fitted, q *cost.Question) error {
	from := "constants of --partition " + a.Constants
	switch {
	case fitted != nil:
		from = fmt.Sprintf("constants fitted to %d crawls", a.FitRuns)
	case a.Constants == cost.Paper().Name:
		from = "constants of the paper"
	}
	fmt.Fprintf(out, "%s of %s; %s\n\n", plural(int64(a.Pages), "page"), size(a.PageBytes), from)
	if !a.table {
		a.printOne(out, q)
	} else if err := a.printTable(out, q); err != nil {
		return err
	}
	if fitted != nil {
		explainFit(out, fitted)
	}
	a.explainFar(out, q)
	return nil
}

// explainFar says how far the answer is from what was measured.
func (a *planAnswer) explainFar(out io.Writer, q *cost.Question) {
	if !a.doubled && a.Plans[len(a.Plans)-1].Agents <= farAgents*a.MostAgents {
		return
	}
	fmt.Fprintln(out)
	switch {
	case a.doubled && a.BestAgents == 0:
		fmt.Fprintln(out, "By these constants each agent adds speed.")
	case a.doubled:
		fmt.Fprintf(out, "By these constants each agent adds speed, up to %s.\n", humanize.Comma(int64(a.BestAgents)))
	}
	fmt.Fprintf(out, "The constants come from crawls of up to %s. For many more the answer is a guess.\n",
		plural(int64(a.MostAgents), "agent"))
	if a.doubled && q.Bandwidth == 0 {
		fmt.Fprintln(out, "With --bandwidth the table shows how many agents fill your line.")
	}
}

// printOne writes the only plan as lines.
func (a *planAnswer) printOne(out io.Writer, q *cost.Question) {
	p := a.Plans[0]
	n := float64(p.Agents)
	line := func(what, format string, args ...any) {
		fmt.Fprintf(out, "%-8s %s\n", what, fmt.Sprintf(format, args...))
	}
	line("agents", "%d", p.Agents)
	line("speed", "%s pages/s%s; %s an agent, %.1f %% of one alone", whole(p.PagesPerS), p.band(),
		digits(p.PagesPerS/n), 100*p.OfAlone)
	line("time", "%s", span(p.Days))
	switch {
	case p.LineFull:
		line("line", "full: the bandwidth bounds the speed")
	case p.LineShare > 0:
		line("line", "%.0f %% of the bandwidth", 100*p.LineShare)
	}
	line("disk", "%s; %s an agent", size(p.DiskBytes), size(p.DiskBytes/n))
	line("memory", "%s an agent, as --memory", memorySize(p.Memory))
	if p.Cost == (cost.Cost{}) {
		return
	}
	var parts []string
	for _, c := range []struct {
		what         string
		price, value float64
	}{
		{"machines", q.Prices.Machine, p.Cost.Machines}, {"disk", q.Prices.Disk, p.Cost.Disk},
		{"traffic", q.Prices.Traffic, p.Cost.Traffic},
	} {
		if c.price > 0 {
			parts = append(parts, c.what+" "+money(c.value))
		}
	}
	line("cost", "%s a million pages; %s in all: %s", money(p.Cost.PerMillionPg), money(p.Cost.Total),
		strings.Join(parts, ", "))
}

// band returns the confidence band for people, or "".
func (p *plannedAgents) band() string {
	if p.HighPagesPerS == 0 {
		return ""
	}
	return fmt.Sprintf(" (95 %%: %s to %s)", whole(p.LowPagesPerS), whole(p.HighPagesPerS))
}

// printTable writes a row for each number of agents.
func (a *planAnswer) printTable(out io.Writer, q *cost.Question) error {
	var text bytes.Buffer
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { fmt.Fprintln(t, strings.Join(cells, "\t")+"\t") }
	head := []string{"agents", "pages/s"}
	banded := a.Plans[0].HighPagesPerS > 0
	if banded {
		head = append(head, "at least", "at most")
	}
	head = append(head, "time")
	if q.Bandwidth > 0 {
		head = append(head, "of the line")
	}
	head = append(head, "disk an agent", "memory an agent")
	priced := a.Plans[0].Cost != (cost.Cost{})
	if priced {
		head = append(head, "cost a million pages")
	}
	row(append(head, "")...)
	for _, p := range a.Plans {
		cells := []string{strconv.Itoa(p.Agents), whole(p.PagesPerS)}
		switch {
		case banded && p.HighPagesPerS > 0:
			cells = append(cells, whole(p.LowPagesPerS), whole(p.HighPagesPerS))
		case banded:
			cells = append(cells, "", "")
		}
		cells = append(cells, span(p.Days))
		if q.Bandwidth > 0 {
			cells = append(cells, fmt.Sprintf("%.0f %%", 100*p.LineShare))
		}
		cells = append(cells, size(p.DiskBytes/float64(p.Agents)), memorySize(p.Memory))
		if priced {
			cells = append(cells, money(p.Cost.PerMillionPg))
		}
		mark := ""
		if p.Agents == a.BestAgents {
			mark = "best"
		}
		row(append(cells, mark)...)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	return nil
}

// explainFit writes the constants of a fit, and what it could not learn.
func explainFit(out io.Writer, f *cost.Fitted) {
	fmt.Fprintf(out, "\nfitted: an agent alone fetches %s pages/s", digits(f.Single))
	o := f.Overheads[0]
	if !f.NoAlone {
		fmt.Fprintf(out, "; a cluster costs it %s", digits(o.Base+o.Agent))
	}
	fmt.Fprintf(out, "; each other agent %s", digits(o.Agent))
	if !f.OneSize {
		fmt.Fprintf(out, "; each doubling of the pages %s", digits(o.Doubling))
	}
	fmt.Fprintln(out)
	if math.IsNaN(f.Error()) {
		fmt.Fprintln(out, "There are as many constants as crawls, so the error is not known. Add crawls.")
	} else {
		fmt.Fprintf(out, "A crawl differs from this by %s pages/s an agent (standard deviation).\n", digits(f.Error()))
	}
	if f.NoAlone {
		fmt.Fprintln(out, "No crawl was without a cluster, so \"alone\" means the only agent of a cluster.")
	}
	if f.OneSize {
		fmt.Fprintln(out, "All crawls have about as many pages, so the effect of the number of pages is not known.")
	}
	if f.MostPages > 0 {
		fmt.Fprintf(out, "More pages cost less here. Beyond %s, the most of these crawls, the plan does not count on "+
			"it.\n", humanize.Comma(int64(f.MostPages)))
	}
}

// whole formats a number without decimals, with commas.
func whole(x float64) string {
	if math.Abs(x) < 10 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return humanize.CommafWithDigits(math.Round(x), 0)
}

// digits formats a number of pages a second of one agent, with three digits or more.
func digits(x float64) string {
	if math.Abs(x) < 100 {
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
	return whole(x)
}

// size formats a number of bytes.
func size(bytes float64) string {
	const exa = 1e18
	if bytes >= 1000*exa {
		return fmt.Sprintf("%.3g EB", bytes/exa)
	}
	return humanize.SIWithDigits(bytes, 1, "B")
}

// memorySize formats a number of bytes as --memory takes it, rounded up to 16 MiB.
func memorySize(bytes float64) string {
	const step = 16 << 20
	mib := math.Ceil(bytes/step) * 16
	if mib >= 10*1024 {
		return whole(math.Ceil(mib/1024)) + "GiB"
	}
	return strconv.FormatFloat(mib, 'f', 0, 64) + "MiB"
}

// span formats a number of days.
func span(days float64) string {
	switch hours := days * 24; {
	case hours < 1.0/60:
		return fmt.Sprintf("%.1f seconds", hours*3600)
	case hours < 1:
		return fmt.Sprintf("%.1f minutes", hours*60)
	case hours < 72:
		return fmt.Sprintf("%.1f hours", hours)
	case days < 10:
		return fmt.Sprintf("%.2f days", days)
	}
	return fmt.Sprintf("%s days", humanize.CommafWithDigits(days, 1))
}

// money formats an amount of any currency.
func money(x float64) string {
	if x > 0 && x < 1 {
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return humanize.FormatFloat("#,###.##", x)
}
