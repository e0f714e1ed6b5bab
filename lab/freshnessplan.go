package lab

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// A Plan is the theoretical result of visits at regular times if pages change as Poisson
// processes (Cho and Garcia-Molina, "Synchronizing a database to improve freshness", SIGMOD
// 2000, section 4). Its fields are means over all pages.
type Plan struct {
	Visits float64 // per page and day
	Fresh  float64
	Age    float64 // in days; unbounded if a changing page is never visited
}

// bounded reports whether the age is bounded.
func (p Plan) bounded() bool { return p.Age < 1e6 }

// freshOf and ageOf return the freshness and the age, in the long run, of a page that changes
// once in mean days and is visited every interval days. A mean of 0 stands for a page that
// never changes, an infinite interval for no visits.
func freshOf(mean, interval float64) float64 {
	if mean == 0 {
		return 1
	}
	if math.IsInf(interval, 1) {
		return 0
	}
	x := interval / mean
	return -math.Expm1(-x) / x
}

func ageOf(mean, interval float64) float64 {
	if mean == 0 {
		return 0
	}
	if math.IsInf(interval, 1) {
		return interval
	}
	x := interval / mean
	return interval * (0.5 - (1-freshOf(mean, interval))/x)
}

// planOf returns the result of a plan that visits pages at the interval for their mean.
func planOf(means []float64, interval func(mean float64) float64) (p Plan) {
	n := float64(len(means))
	for _, m := range means {
		d := interval(m)
		p.Visits += 1 / d / n
		p.Fresh += freshOf(m, d) / n
		p.Age += ageOf(m, d) / n
	}
	return p
}

// freshest returns the intervals of the plan that keeps pages freshest with a number of visits
// per page and day on average. By Lagrange, one more visit gains the same freshness for all
// visited pages: mean*(1-(1+x)exp(-x)), where x is the interval divided by the mean. The plan
// does not visit pages that change too often.
func freshest(means []float64, visits float64) func(mean float64) float64 {
	// x solves 1-(1+x)exp(-x) = g, for g from 0 to 1.
	ratio := func(g float64) float64 {
		lo, hi := 0.0, 800.0
		for range 100 {
			if x := (lo + hi) / 2; 1-(1+x)*math.Exp(-x) < g {
				lo = x
			} else {
				hi = x
			}
		}
		return (lo + hi) / 2
	}
	at := func(gain float64) func(mean float64) float64 {
		return func(mean float64) float64 {
			if mean == 0 || gain >= mean {
				return math.Inf(1)
			}
			return mean * ratio(gain/mean)
		}
	}
	lo, hi := 0.0, 0.0
	for _, m := range means {
		hi = max(hi, m)
	}
	for range 60 {
		if gain := (lo + hi) / 2; planOf(means, at(gain)).Visits > visits {
			lo = gain
		} else {
			hi = gain
		}
	}
	return at(hi)
}

// means returns, for each page of a web, the mean number of days between two changes.
func (x *Freshness) means(l *freshLaw) (means []float64) {
	for h := range l.web.Hosts() {
		for p := range l.web.Pages(h) {
			means = append(means, x.days(l.web.MeanTime(h, p)))
		}
	}
	return means
}

// plan computes the plans of a law.
func (x *Freshness) plan(l *freshLaw) {
	means := x.means(l)
	least, most := float64(freshLeast)/float64(webDay), float64(freshMost)/float64(webDay)
	l.planned = planOf(means, func(mean float64) float64 {
		if mean == 0 {
			return most
		}
		return min(max(mean, least), most)
	})
	// Both plans have as many visits as the crawl with the fixed interval.
	visits := l.runs[fixedPolicy].Visits
	l.fixed = planOf(means, func(float64) float64 { return 1 / visits })
	l.best = planOf(means, freshest(means, visits))
}

// A RateEstimate compares, for the pages of one Rate, the rate of change that recrawl has
// estimated at the end with the true one.
type RateEstimate struct {
	Law   string  `json:"law"`
	From  float64 `json:"from_days"` // mean times between two changes; 0: never
	To    float64 `json:"to_days"`
	Pages int     `json:"pages"`
	// Unseen is the share of the pages without a seen change. For the others: Visits is the
	// median number of visits, Ratio the median quotient of the estimated and the true rate,
	// and Near the share of pages whose quotient is within a factor of two.
	Unseen float64 `json:"unseen"`
	Visits float64 `json:"median_visits"`
	Ratio  float64 `json:"median_ratio"`
	Near   float64 `json:"within_factor_two"`
}

// estimates compares the rates in a crawl's recrawl.csv with the true ones.
func (x *Freshness) estimates(l *freshLaw, dir string) (es []RateEstimate, err error) {
	const name = "recrawl.csv"
	rows, err := table(dir, name)
	if err != nil || len(rows[0]) < 4 || rows[0][3] != "changes_per_day" {
		return nil, fmt.Errorf("estimates: there is no %s: %w", name, err)
	}
	truth := map[string]time.Duration{}
	for h := range l.web.Hosts() {
		for p := range l.web.Pages(h) {
			truth[l.web.URL(h, p)] = l.web.MeanTime(h, p)
		}
	}
	classes := make([]RateEstimate, len(l.changeLaw.rates)+1)
	visits, ratios := make([][]float64, len(classes)), make([][]float64, len(classes))
	for i, r := range l.changeLaw.rates {
		classes[i] = RateEstimate{From: float64(r.From) / float64(webDay), To: float64(r.To) / float64(webDay)}
	}
	for _, row := range rows[1:] {
		mean, ok := truth[row[0]]
		if !ok {
			continue // the line that counts the omitted pages
		}
		n, err1 := strconv.ParseFloat(row[1], 64)
		perDay, err2 := strconv.ParseFloat(row[3], 64)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("estimates: %s: cannot read the row %q", name, row)
		}
		k := len(classes) - 1
		for i, c := range classes[:k] {
			const slack = 1e-3 // times are rounded
			if d := x.days(mean); mean > 0 && d >= c.From*(1-slack) && d <= c.To*(1+slack) {
				k = i
				break
			}
		}
		c := &classes[k]
		c.Pages++
		if perDay == 0 {
			c.Unseen++
			continue
		}
		ratio := perDay / webDay.Seconds() * mean.Seconds()
		visits[k], ratios[k] = append(visits[k], n), append(ratios[k], ratio)
		if ratio >= 0.5 && ratio <= 2 {
			c.Near++
		}
	}
	for k, c := range classes {
		if c.Pages == 0 {
			continue
		}
		c.Law = l.name
		c.Unseen /= float64(c.Pages)
		c.Visits, c.Ratio = Median(visits[k]), Median(ratios[k])
		c.Near /= float64(max(len(ratios[k]), 1))
		es = append(es, c)
	}
	return es, nil
}
