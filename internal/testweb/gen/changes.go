package gen

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Changes describes how the pages of a web change. Each page changes by a Poisson process, independently of all others.
// The version of a page at a time is a function of the seed, the page and the time.
//
// The zero Changes has the rates that Cho and Garcia-Molina observed on the web (see WebRates).
type Changes struct {
	// Start is the zero of time for all processes. Pages have also changed before it. Zero means 2000-01-01 UTC. Two
	// webs that differ only in Start are equal at equal times since Start.
	Start time.Time
	// Day is the real duration of a day of the web. It scales all rates. Zero means 24h.
	Day time.Duration
	// Rates has shares of the pages, each with a rate of change. Pages outside of these shares never change. Nil means
	// WebRates.
	Rates []Rate

	// The shares of pages by how they describe their version. All other pages have an ETag and a Last-Modified, both
	// correct. Zero means the default; a negative share means none.
	ETagOnly     float64 // zero means 0.15
	ModifiedOnly float64 // zero means 0.15
	Neither      float64 // zero means 0.2
	// Lying is the share of pages with wrong validators: half of them never change, the other half differ in each
	// response. Zero means none.
	Lying float64
}

// A Rate is a share of the pages. Their mean times between two changes are between From and To, in the web's time, and
// their logarithms are evenly distributed.
type Rate struct {
	Share    float64
	From, To time.Duration
}

const webDay = 24 * time.Hour

// WebRates are the rates of change in Cho and Garcia-Molina, "The evolution of the web and implications for an
// incremental crawler" (VLDB 2000), figure 2: 720,000 pages of 270 popular sites, visited daily for four months. In the
// paper 23 % of the pages had changed at each visit; the shortest time it resolves is a day, the longest is four
// months. The lower end of a quarter of a day is an assumption. The remaining 30 % of the pages never changed.
var WebRates = []Rate{
	{0.23, webDay / 4, webDay},
	{0.15, webDay, 7 * webDay},
	{0.16, 7 * webDay, 30 * webDay},
	{0.16, 30 * webDay, 120 * webDay},
}

// defaultStart is the default of Changes.Start.
var defaultStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// leastInterval is the smallest mean time between two changes, in real time.
const leastInterval = time.Millisecond

// withDefaults returns c with its zero fields filled in, or an error if a value is not valid.
func (c Changes) withDefaults() (Changes, error) {
	if c.Start.IsZero() {
		c.Start = defaultStart
	}
	def(&c.Day, webDay)
	if c.Rates == nil {
		c.Rates = WebRates
	}
	def(&c.ETagOnly, 0.15)
	def(&c.ModifiedOnly, 0.15)
	def(&c.Neither, 0.2)
	c.ETagOnly, c.ModifiedOnly, c.Neither = max(c.ETagOnly, 0), max(c.ModifiedOnly, 0), max(c.Neither, 0)
	switch {
	case c.Start.Year() < 1980 || c.Start.Year() > 2200:
		return c, fmt.Errorf("changes: start %s: want a year from 1980 to 2200", c.Start.Format(time.RFC3339))
	case c.Day < time.Millisecond || c.Day > 1000*time.Hour:
		return c, fmt.Errorf("changes: day %s: want 1ms to 1000h", c.Day)
	case !(c.ETagOnly <= 1 && c.ModifiedOnly <= 1 && c.Neither <= 1 && c.Lying >= 0 && c.Lying <= 1):
		return c, errors.New("changes: a share is not between 0 and 1")
	case c.ETagOnly+c.ModifiedOnly+c.Neither+c.Lying > 1+1e-9:
		return c, fmt.Errorf(
			"changes: the shares ETag only %g, Last-Modified only %g, neither %g and lying %g add up to more than 1",
			c.ETagOnly, c.ModifiedOnly, c.Neither, c.Lying)
	}
	sum := 0.0
	for _, r := range c.Rates {
		switch {
		case !(r.Share >= 0 && r.Share <= 1):
			return c, fmt.Errorf("changes: share %g: want 0 to 1", r.Share)
		case r.From <= 0 || r.To < r.From || r.To > 100*365*webDay:
			return c, fmt.Errorf(
				"changes: mean time %s to %s: want more than 0, at most 100 years, and the lower one first",
				r.From, r.To)
		case c.real(r.From) < float64(leastInterval):
			return c, fmt.Errorf(
				"changes: mean time %s with a day of %s: want at least %s of real time", r.From, c.Day, leastInterval)
		}
		sum += r.Share
	}
	if sum > 1+1e-9 {
		return c, fmt.Errorf("changes: the shares of the rates add up to %g, want at most 1", sum)
	}
	return c, nil
}

// real converts a time of the web to real nanoseconds.
func (c *Changes) real(d time.Duration) float64 { return float64(d) / float64(webDay) * float64(c.Day) }

// steps is the number of different mean times of a Rate.
const steps = 64

// changing is a Changes in the form that a Web needs.
type changing struct {
	Changes
	start int64    // Start in Unix nanoseconds
	upTo  []uint64 // for each Rate, the largest hash of its pages (see hit)
	mean  [][steps]int64
	kinds [numKinds]uint64 // for each kind of validators, the largest hash of its pages
}

func newChanging(c Changes) (*changing, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	ch := &changing{Changes: c, start: c.Start.UnixNano()}
	sum := 0.0
	for _, r := range c.Rates {
		sum += r.Share
		ch.upTo = append(ch.upTo, share(sum))
		var mean [steps]int64
		for i := range mean {
			at := (float64(i) + 0.5) / steps
			// Rounded, so that machines with other rounding make the same web.
			mean[i] = int64(math.Round(c.real(r.From)*math.Pow(float64(r.To)/float64(r.From), at)/1000)) * 1000
		}
		ch.mean = append(ch.mean, mean)
	}
	sum = 0
	shares := [numKinds]float64{
		restless: c.Lying / 2, stuck: c.Lying / 2, silent: c.Neither, etagOnly: c.ETagOnly,
		modifiedOnly: c.ModifiedOnly,
	}
	for i, s := range shares {
		sum += s
		ch.kinds[i] = share(sum)
	}
	ch.kinds[both] = 1 << 32
	return ch, nil
}

// A process gives the changes of one page. Time is divided into cells, each as long as the mean time. The number of a
// cell determines how many changes it has, and when.
type process struct {
	h    uint64 // of the page
	mean int64  // nanoseconds; 0: the page never changes
}

func (w *Web) process(host, page int64) process {
	c := w.changes
	host = w.source(host)
	h := w.hash(saltChange, host, w.original(host, page))
	p := process{h: h}
	for i, upTo := range c.upTo {
		if hit(h, upTo) {
			p.mean = c.mean[i][h%steps]
			break
		}
	}
	return p
}

// manyCells is how many cells are searched for a change before or after a time. The probability that none of them has
// one is 10^-43.
const manyCells = 100

// fewChanges is the largest number of changes in a cell. The probability of more is 10^-9.
const fewChanges = 11

// poisson has the probabilities of at most 0, 1, 2... changes in a cell, in units of 1/2^32.
var poisson = func() (upTo [fewChanges]uint64) {
	p, sum := 1/math.E, 0.0
	for k := range upTo {
		sum += p
		upTo[k] = uint64(math.Round(sum * (1 << 32)))
		p /= float64(k + 1)
	}
	return upTo
}()

// cell calls f for the time of each change in a cell, in any order.
func (p process) cell(n int64, f func(at int64)) {
	r := stream(mix(p.h + uint64(n)*golden))
	x := r.next() >> 32
	for _, upTo := range poisson {
		if x < upTo {
			return
		}
		f(n*p.mean + int64(below(r.next(), uint64(p.mean))))
	}
}

// never is the time of a change that never happens.
const never = math.MaxInt64

// around returns the last change at or before time t and the first change after it, in nanoseconds since Start.
func (p process) around(t int64) (last, next int64) {
	if p.mean == 0 {
		return -int64(below(mix(p.h), uint64(365*webDay))) - int64(time.Second), never
	}
	first := t / p.mean
	if t < 0 && t%p.mean != 0 {
		first--
	}
	last, next = math.MinInt64, never
	look := func(at int64) {
		if at <= t {
			last = max(last, at)
		} else {
			next = min(next, at)
		}
	}
	p.cell(first, look)
	for n := first - 1; last == math.MinInt64 && n > first-manyCells; n-- {
		p.cell(n, look)
	}
	for n := first + 1; next == never && n < first+manyCells; n++ {
		p.cell(n, look)
	}
	if last == math.MinInt64 {
		last = (first - manyCells) * p.mean
	}
	return last, next
}

// version returns a number for the version that began at last. It is never 0 and differs between versions and pages.
func (p process) version(last int64) uint64 { return mix(p.h^mix(uint64(last))) | 1 }

// Changed implements testweb.Changing: it returns the last change of a page at or before a time, and the next one; the
// zero time means never. Without Spec.Changes both are zero. Mirrors and duplicates change with their originals.
func (w *Web) Changed(host, page int64, at time.Time) (last, next time.Time) {
	if w.changes == nil {
		return time.Time{}, time.Time{}
	}
	start := w.changes.start
	l, n := w.process(host, page).around(at.UnixNano() - start)
	if n != never {
		next = time.Unix(0, start+n)
	}
	return time.Unix(0, start+l), next
}

// Changing reports whether the pages change.
func (w *Web) Changing() bool { return w.changes != nil }

// MeanTime returns the mean real time between two changes of a page; zero means that the page never changes.
func (w *Web) MeanTime(host, page int64) time.Duration {
	if w.changes == nil {
		return 0
	}
	return time.Duration(w.process(host, page).mean)
}
