package lab

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"
)

// result returns the text, tables and figures of the experiment.
func (x *Freshness) result(t *Trial, laws []*freshLaw) *Result {
	var runs []*FreshRun
	var rates []RateEstimate
	theory := map[string]any{}
	for _, l := range laws {
		runs = append(runs, l.runs[recrawlPolicy], l.runs[fixedPolicy])
		rates = append(rates, l.rates...)
		theory[l.name] = map[string]Plan{"recrawl_with_true_rates": l.planned, "fixed": l.fixed, "freshest": l.best}
	}
	return &Result{
		Name: "freshness", Title: "How fresh are the copies?",
		Question: "One crawl visits each page as often as the page changes (`--strategy recrawl`). Another visits " +
			"all pages at one interval, and makes as many visits. Which crawl has the fresher copies?",
		SetUp: x.setUp(t),
		Sections: []Section{
			{Heading: "Freshness", Table: freshTable(laws), Shown: true, Text: x.verdict(laws)},
			{Heading: "The results by theory", Table: theoryTable(laws), Shown: true,
				Text: "The results of regular visits in the long run, computed from the true rates of the pages (Cho " +
					"and Garcia-Molina, SIGMOD 2000, section 4).\n\n- *Recrawl with true rates*: a visit to each " +
					"page after its mean time between two changes, within the bounds. If the measured number of " +
					"visits differs, the estimated rates are the reason.\n- *Fixed*: one interval, with as many " +
					"visits as the fixed interval made.\n- *Freshest*: the plan that keeps the most copies fresh " +
					"with as many visits. It must know all rates beforehand. It never visits pages that change too " +
					"often for a visit to pay, so the age of these copies has no bound."},
			{Heading: "How well the rates are estimated", Table: rateTable(rates), Shown: true,
				Text: "This table compares `reports/recrawl.csv` at the end of each crawl with recrawl, and the " +
					"web's true rates. *No change seen* is the share of the pages whose rate recrawl does not know; " +
					"it doubles their time to the next visit each time. The last three columns cover the other " +
					"pages: the median number of visits, the median of the estimated rate divided by the true rate, " +
					"and the share of estimates within a factor of two."},
		},
		Data:   freshData(runs),
		Figure: x.figure(laws),
		Figures: map[string]any{"runs": runs, "theory": theory, "rates": rates,
			"day_s": x.Day.Seconds(), "days": x.Days},
		Again: x.Again,
	}
}

func (x *Freshness) setUp(t *Trial) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The web is generated (`testweb --generate --changes`, seed %d, %s hosts, %d pages on average). "+
		"Its pages change as Poisson processes. A day of the web takes %s. Half of the pages have an ETag and a "+
		"Last-Modified. 15 %% have only an ETag, 15 %% only a Last-Modified, and 20 %% neither. All of them are "+
		"correct. ",
		t.Seed, humanize.Comma(x.Hosts), freshPages, x.Day)
	b.WriteString("How often pages change:\n\n")
	for _, l := range changeLaws {
		fmt.Fprintf(&b, "- **%s**: ", l.name)
		rest := 1.0
		for i, r := range l.rates {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%g %% of the pages once in %s", percent*r.Share, inDays(r.From))
			if r.To != r.From {
				fmt.Fprintf(&b, " to %s", inDays(r.To))
			}
			rest -= r.Share
		}
		if rest > 1e-9 {
			fmt.Fprintf(&b, ", %.0f %% never", percent*rest)
		}
		b.WriteString(".\n")
	}
	fmt.Fprintf(&b, "\nThe rates *as observed* are those that Cho and Garcia-Molina measured (VLDB 2000), with a "+
		"quarter of a day as the shortest time.\n\n- *Recrawl* is `--strategy recrawl` with `--recrawl-min` %s and "+
		"`--recrawl-max` %s, in days of the web.\n- *Fixed* is the same program with one interval for both settings. "+
		"With this interval it makes as many visits as recrawl made during the measurement.\n\nBoth crawl the same "+
		"web with the same changes, without delays, for its first %d days. They know nothing at first. The "+
		"measurement covers the second half; with a fixed interval, only its whole intervals. ",
		inDays(freshLeast), inDays(freshMost), x.Days)
	b.WriteString("*Fresh* is the share of the copies that are up to date. *Age* is the mean time since the first " +
		"change that a copy has missed, and 0 for a copy that is up to date. The web computes both from its own log " +
		"of its responses. A wrong 304 would end the experiment.")
	return b.String()
}

// inDays formats a time of the web for people.
func inDays(d time.Duration) string {
	if d < webDay {
		return fmt.Sprintf("%g h", d.Hours())
	}
	if d == webDay {
		return "1 day"
	}
	return fmt.Sprintf("%g days", float64(d)/float64(webDay))
}

// verdict returns text that says for each law which policy is fresher.
func (x *Freshness) verdict(laws []*freshLaw) string {
	var b strings.Builder
	b.WriteString("*Found*: the share of the visits that returned another version. ")
	for _, l := range laws {
		r, f := l.runs[recrawlPolicy], l.runs[fixedPolicy]
		word := "fresher"
		if r.Fresh < f.Fresh {
			word = "less fresh"
		}
		fmt.Fprintf(&b, "With the changes *%s*, recrawl is %s by %.1f percentage points (%.1f and %.1f %%). In ten "+
			"days it fetches %.2f versions of a page; fixed fetches %.2f. ",
			l.name, word, percent*max(r.Fresh-f.Fresh, f.Fresh-r.Fresh), percent*r.Fresh, percent*f.Fresh,
			10*r.Visits*r.Found, 10*f.Visits*f.Found)
	}
	return strings.TrimSpace(b.String())
}

func freshTable(laws []*freshLaw) *Table {
	t := &Table{Columns: []Column{{Name: "changes"}, {Name: "policy"}, {Name: "between visits", Unit: "days"},
		{Name: "pages"}, {Name: "visits a page and day", Digits: 3},
		{Name: "fresh", Unit: "%", Digits: 1}, {Name: "age", Unit: "days", Digits: 2},
		{Name: "found", Unit: "%", Digits: 1}}}
	for _, l := range laws {
		for _, policy := range []string{recrawlPolicy, fixedPolicy} {
			r := l.runs[policy]
			between := fmt.Sprintf("%.2f", r.Least)
			if r.Most > r.Least {
				between = fmt.Sprintf("%.3g to %.3g", r.Least, r.Most)
			}
			t.Add(l.name, policy, between, int64(r.Pages+0.5), r.Visits, percent*r.Fresh, r.Age, percent*r.Found)
		}
	}
	return t
}

func theoryTable(laws []*freshLaw) *Table {
	t := &Table{Columns: []Column{{Name: "changes"}, {Name: "plan"}, {Name: "visits a page and day", Digits: 3},
		{Name: "fresh", Unit: "%", Digits: 1}, {Name: "age", Unit: "days", Digits: 2}}}
	for _, l := range laws {
		for _, p := range []struct {
			name string
			Plan
		}{{"recrawl with true rates", l.planned}, {"fixed", l.fixed}, {"freshest", l.best}} {
			age := any(p.Age)
			if !p.bounded() {
				age = "no bound"
			}
			t.Add(l.name, p.name, p.Visits, percent*p.Fresh, age)
		}
	}
	return t
}

func rateTable(rates []RateEstimate) *Table {
	t := &Table{Columns: []Column{{Name: "changes"}, {Name: "once in"}, {Name: "pages"},
		{Name: "no change seen", Unit: "%", Digits: 1}, {Name: "visits", Digits: 0},
		{Name: "estimated by true", Digits: 2}, {Name: "within factor 2", Unit: "%", Digits: 1}}}
	for _, r := range rates {
		once := "never"
		switch {
		case r.To > r.From:
			once = fmt.Sprintf("%g to %g days", r.From, r.To)
		case r.To > 0:
			once = fmt.Sprintf("%g days", r.From)
		}
		if r.Unseen == 1 {
			t.Add(r.Law, once, r.Pages, percent*r.Unseen, nil, nil, nil)
			continue
		}
		t.Add(r.Law, once, r.Pages, percent*r.Unseen, r.Visits, r.Ratio, percent*r.Near)
	}
	return t
}

// freshData returns the CSV, with a line for each span of each crawl.
func freshData(runs []*FreshRun) Table {
	t := Table{Columns: []Column{{Name: "changes"}, {Name: "policy"}, {Name: "day"}, {Name: "copies"}, {Name: "fresh"},
		{Name: "age days"}, {Name: "visits"}, {Name: "found"}}}
	for _, r := range runs {
		for _, m := range r.Over {
			t.Add(r.Law, r.Policy, m.Day, m.Copies, m.Fresh, m.Age, m.Visits, m.Found)
		}
	}
	return t
}

// drawnStretch is the number of days that a point of a curve covers.
const drawnStretch = 0.5

// curve returns a value of a crawl over time, in means over drawnStretch.
func (r *FreshRun) curve(days int64, of func(FreshMoment) float64) (points plotter.XYs) {
	var sum, weight, from, last float64
	for _, m := range r.Over {
		if m.Day > float64(days) {
			break
		}
		w := m.Copies * (m.Day - last)
		last = m.Day
		sum, weight = sum+of(m)*w, weight+w
		if m.Day-from >= drawnStretch && weight > 0 {
			points = append(points, plotter.XY{X: (from + m.Day) / 2, Y: sum / weight})
			sum, weight, from = 0, 0, m.Day
		}
	}
	return points
}

func (x *Freshness) figure(laws []*freshLaw) *Figure {
	fig := &Figure{Alt: "Share of the copies that are up to date over time, with recrawl and with a fixed " +
		"interval, and their age"}
	lines := func(l *freshLaw, of func(FreshMoment) float64) (ls []Line) {
		for _, policy := range []string{recrawlPolicy, fixedPolicy} {
			r := l.runs[policy]
			name := policy
			if policy == fixedPolicy {
				name = fmt.Sprintf("every %.2f days", r.Least)
			}
			ls = append(ls, Line{Name: name, Points: r.curve(x.Days, of)})
		}
		return ls
	}
	for _, l := range laws {
		best := Line{Name: "freshest plan, theory"}
		for _, day := range []float64{0, float64(x.Days)} {
			best.Points = append(best.Points, plotter.XY{X: day, Y: percent * l.best.Fresh})
		}
		fig.Panels = append(fig.Panels, Panel{
			Title: "Changes " + l.name + ": fresh copies", X: "days", Y: "%", Aside: true, Top: percent,
			Lines: append(lines(l, func(m FreshMoment) float64 { return percent * m.Fresh }), best),
		})
	}
	fig.Panels = append(fig.Panels, Panel{
		Title: "Changes " + laws[0].name + ": age of the copies", X: "days", Y: "days", Aside: true,
		Lines: lines(laws[0], func(m FreshMoment) float64 { return m.Age }),
	})
	return fig
}
