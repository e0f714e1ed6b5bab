package lab

import (
	"fmt"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"
)

// result returns the measurements: a place for each crawl, each stretch of it, each plan and each class of pages.
func (x *Freshness) result(laws []*freshLaw) *Result {
	d := newData("law", "policy", "plan", "class", "day")
	d.Fact("hosts", x.Hosts)
	d.Fact("pages_of_host", freshPages)
	d.Fact("day_lasts", x.Day.String())
	d.Fact("days", x.Days)
	d.Fact("least", inDays(freshLeast))
	d.Fact("most", inDays(freshMost))
	for _, l := range laws {
		d.At(l.name).Set("how_often", l.String())
		for _, policy := range []string{recrawlPolicy, fixedPolicy} {
			r := l.runs[policy]
			d.At(l.name, policy).All(r)
			ages := r.curve(x.Days, func(m FreshMoment) float64 { return m.Age })
			for i, p := range r.curve(x.Days, func(m FreshMoment) float64 { return m.Fresh }) {
				d.At(l.name, policy, "", "", p.X).Set("fresh_then", p.Y).Set("age_then", ages[i].Y)
			}
		}
		for _, p := range []struct {
			name string
			Plan
		}{{"recrawl with true rates", l.planned}, {"fixed", l.fixed}, {"freshest", l.best}} {
			at := d.At(l.name, "", p.name).Set("visits", p.Visits).Set("fresh", p.Fresh)
			if p.bounded() {
				at.Set("age", p.Age)
			} else {
				at.Set("age", "no bound")
			}
		}
		for i, r := range l.rates {
			d.At(l.name, "", "", i).All(r)
		}
	}
	return &Result{Name: "freshness", Rows: d}
}

// String says how often pages change.
func (l *changeLaw) String() string {
	var parts []string
	rest := 1.0
	for _, r := range l.rates {
		part := fmt.Sprintf("%g %% of the pages once in %s", percent*r.Share, inDays(r.From))
		if r.To != r.From {
			part += " to " + inDays(r.To)
		}
		parts = append(parts, part)
		rest -= r.Share
	}
	if rest > 1e-9 {
		parts = append(parts, fmt.Sprintf("%.0f %% never", percent*rest))
	}
	return strings.Join(parts, ", ")
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
