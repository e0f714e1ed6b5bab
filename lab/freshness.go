package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// Freshness answers: how fresh are the copies of a crawl that visits each page as often as the
// page changes, compared with a crawl that visits all pages at one interval, with as many
// visits?
//
// The web and the crawl are processes of their own. The web measures the freshness of the
// copies by what it served.
type Freshness struct {
	// Hosts is the number of hosts. Zero means 100, with --quick 20.
	Hosts int64 `placeholder:"N" help:"${hosts}"`
	// Day is the real time of a day of the web. Zero means 12 s, with --quick 500 ms.
	Day time.Duration `placeholder:"D" help:"${day}"`
	// Days is the duration of a crawl in days of the web. Only its second half is measured.
	// Zero means 30, with --quick 16.
	Days int64 `placeholder:"N" help:"${days}"`
}

const (
	freshPages     = 10   // of a host on average
	freshPageBytes = 4000 // of a page on average
	// freshLeast and freshMost bound the time between two visits, in the web's time.
	freshLeast, freshMost = webDay / 2, 15 * webDay
	webDay                = 24 * time.Hour
	// freshSlack bounds the time from the start of a crawl to its first page.
	freshSlack = 2 * time.Second
)

func (x *Freshness) defaults(quick bool) {
	size(quick, &x.Hosts, 100, 20)
	size(quick, &x.Day, 12*time.Second, 500*time.Millisecond)
	size(quick, &x.Days, 30, 16)
}

// A changeLaw describes how often the pages of a web change.
type changeLaw struct {
	name  string
	rates []gen.Rate
}

// changeLaws are the laws of the experiment.
var changeLaws = []changeLaw{
	{"as observed", gen.WebRates},
	{"all alike", []gen.Rate{{Share: 1, From: 3 * webDay, To: 3 * webDay}}},
	{"two speeds", []gen.Rate{
		{Share: 0.5, From: webDay / 8, To: webDay / 8}, {Share: 0.5, From: 10 * webDay, To: 10 * webDay},
	}},
}

// ErrFreshness reports a web that confirmed a copy which was not up to date.
var ErrFreshness = errors.New("the web confirmed a copy that was not up to date")

// The policies.
const (
	recrawlPolicy = "recrawl"
	fixedPolicy   = "fixed"
)

// A FreshRun is one crawl, as the web measured it.
type FreshRun struct {
	Law    string `json:"law"`
	Policy string `json:"policy"`
	// Least and Most bound the days between two visits.
	Least float64 `json:"least_days"`
	Most  float64 `json:"most_days"`

	Pages float64 `json:"pages"`
	// Visits is the mean number of visits per page and day. Found is the share of the visits
	// that brought a new version.
	Visits float64 `json:"visits_per_page_and_day"`
	Found  float64 `json:"visits_with_a_change"`
	Fresh  float64 `json:"fresh"`
	Age    float64 `json:"age_days"`

	Over []FreshMoment `json:"-"` // written to the CSV
}

// A FreshMoment is the mean over a short span of time of a crawl.
type FreshMoment struct {
	Day, Copies, Fresh, Age float64 // Day is the end of the span; Age is in days
	Visits, Found           int64
}

// A freshLaw holds the results for one law.
type freshLaw struct {
	changeLaw
	web     *gen.Web
	runs    map[string]*FreshRun // by policy
	rates   []RateEstimate
	planned Plan // of recrawl if it knew all rates
	fixed   Plan // of the fixed interval
	best    Plan // of the freshest plan with as many visits
}

// Run implements Experiment.
func (x *Freshness) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	var laws []*freshLaw
	for _, l := range changeLaws {
		w, err := gen.New(y.spec(t, l).Spec)
		if err != nil {
			return nil, err
		}
		laws = append(laws, &freshLaw{changeLaw: l, web: w, runs: map[string]*FreshRun{}})
	}
	// The laws run side by side, because they take little processor time. The fixed interval
	// follows from the number of visits of recrawl.
	least, most := y.real(freshLeast), y.real(freshMost)
	err := y.each(ctx, t, laws, recrawlPolicy, func(*freshLaw) (time.Duration, time.Duration) { return least, most })
	if err == nil {
		err = y.each(ctx, t, laws, fixedPolicy, func(l *freshLaw) (time.Duration, time.Duration) {
			every := time.Duration(float64(y.Day) / l.runs[recrawlPolicy].Visits)
			return every, every
		})
	}
	if err != nil {
		return nil, err
	}
	for _, l := range laws {
		y.plan(l)
	}
	return y.result(laws), nil
}

// real converts a time of the web to real time.
func (x *Freshness) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / float64(webDay) * float64(x.Day))
}

// spec returns the web of a law, which changes from now on.
func (x *Freshness) spec(t *Trial, l changeLaw) WebSpec {
	s := gen.Plain(t.Seed, x.Hosts)
	s.PagesMean, s.PageBytes, s.Denied = freshPages, freshPageBytes, 0
	s.Changes = &gen.Changes{Start: time.Now(), Day: x.Day, Rates: l.rates}
	return WebSpec{Spec: s}
}

// each crawls the webs of all laws side by side.
func (x *Freshness) each(ctx context.Context, t *Trial, laws []*freshLaw, policy string,
	bounds func(*freshLaw) (least, most time.Duration)) error {
	return t.crawling(fmt.Sprintf("%s, %d laws at once", policy, len(laws)), func() (string, error) {
		g, ctx := errgroup.WithContext(ctx)
		for _, l := range laws {
			least, most := bounds(l)
			g.Go(func() error {
				if err := x.crawl(ctx, t, l, policy, least, most); err != nil {
					return fmt.Errorf("%s: %w", l.name, err)
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return "", err
		}
		l := laws[0]
		r := l.runs[policy]
		return fmt.Sprintf("%s: %.1f %% fresh, %.2f visits a page and day", l.name, percent*r.Fresh, r.Visits), nil
	})
}

// crawl crawls the web of a law.
func (x *Freshness) crawl(ctx context.Context, t *Trial, l *freshLaw, policy string, least, most time.Duration) error {
	return t.serve(ctx, 1, x.spec(t, l.changeLaw), func(webs []*web, dir string) error {
		return x.visit(ctx, t.Orbweaver, webs[0], dir, l, policy, least, most)
	})
}

// visit crawls a web of a law.
func (x *Freshness) visit(ctx context.Context, program string, w *web, dir string, l *freshLaw, policy string,
	least, most time.Duration) error {
	job := crawlJob{
		Program: program, Web: w, Dir: filepath.Join(dir, "crawl"), Revisits: true,
		TimeLimit: time.Duration(x.Days+1)*x.Day + freshSlack,
		Flags:     []string{"--strategy", "recrawl", "--recrawl-min", least.String(), "--recrawl-max", most.String()},
	}
	got, err := job.run(ctx)
	if err != nil {
		return err
	}
	f := got.Report.Fresh
	if f == nil || f.Wrong > 0 {
		return fmt.Errorf("%w: %+v", ErrFreshness, f)
	}
	from := float64(x.Days) / 2
	if least == most {
		from = float64(x.Days) - math.Floor(from/x.days(least))*x.days(least)
	}
	r := x.measured(f, from)
	r.Law, r.Policy, r.Least, r.Most = l.name, policy, x.days(least), x.days(most)
	if r.Visits <= 0 {
		return fmt.Errorf("no page was visited again in the second half of the %d days", x.Days)
	}
	l.runs[policy] = r // one goroutine at a time runs a law
	if policy == recrawlPolicy {
		l.rates, err = x.estimates(l, job.Dir)
	}
	return err
}

// days converts a real time to days of the web.
func (x *Freshness) days(d time.Duration) float64 { return float64(d) / float64(x.Day) }

// measured sums up a crawl from a day on. Day 0 is the span with the first page. With a fixed
// interval, pages are visited in step, so only a whole number of intervals shows the mean.
func (x *Freshness) measured(f *testweb.FreshReport, from float64) *FreshRun {
	r := new(FreshRun)
	first, last := math.Inf(1), 0.0
	var held, fresh, age, visits, found float64
	for _, s := range f.Over {
		at := x.days(time.Duration(s.Until))
		if math.IsInf(first, 1) && s.Served > 0 {
			first, last = last, 0
		}
		if at -= first; at < 0 { // before the first page
			last = x.days(time.Duration(s.Until))
			continue
		}
		m := FreshMoment{
			Day: at, Copies: s.Copies, Fresh: s.Fresh, Age: x.days(time.Duration(s.Age)),
			Visits: s.Served + s.Confirmed, Found: s.Renewed,
		}
		r.Over = append(r.Over, m)
		// A span counts if most of it is within the measured time.
		if (last+at)/2 >= from && at <= float64(x.Days) {
			days := s.Copies * (at - last)
			held += days
			fresh += m.Fresh * days
			age += m.Age * days
			visits += float64(m.Visits)
			found += float64(m.Found)
			r.Pages = max(r.Pages, m.Copies)
		}
		last = at
	}
	if held > 0 && visits > 0 {
		r.Visits, r.Found, r.Fresh, r.Age = visits/held, found/visits, fresh/held, age/held
	}
	return r
}
