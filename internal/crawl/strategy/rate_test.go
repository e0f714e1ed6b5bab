package strategy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// regular is rateOf for visits at equal intervals.
func regular(n, x int, interval time.Duration) float64 {
	return rateOf(float64(n), float64(x), float64(n-x)*interval.Seconds(), float64(x)*interval.Seconds())
}

// TestRateTable checks values of the formula, also where the plain maximum of the
// likelihood, -log(1-x/n), is 0 or infinite.
func TestRateTable(t *testing.T) {
	for _, c := range []struct {
		n, x     int
		interval time.Duration
		want     float64
	}{
		{1, 0, time.Second, 0},
		{10, 0, time.Second, 0},
		{1, 1, time.Second, math.Log(3)},
		{10, 10, time.Second, math.Log(21)},
		{10, 6, time.Second, math.Log(10.5 / 4.5)}, // the paper's page: 10 days, 6 changes
		{10, 6, 24 * time.Hour, math.Log(10.5/4.5) / 86400},
		{50, 25, 2 * time.Second, math.Log(50.5/25.5) / 2},
	} {
		if got := regular(c.n, c.x, c.interval); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d of %d every %s: %g, want %g", c.x, c.n, c.interval, got, c.want)
		}
	}
}

// binomial returns the probability that n visits find x changes of a page that changes r
// times per interval on average.
func binomial(n, x int, r float64) float64 {
	lg := func(k int) float64 { v, _ := math.Lgamma(float64(k + 1)); return v }
	q := -math.Expm1(-r)
	return math.Exp(lg(n) - lg(x) - lg(n-x) + float64(x)*math.Log(q) - r*float64(n-x))
}

// TestRateBias compares the estimator and the plain quotient x/n with the paper's figures,
// by exact sums over all outcomes. The mean of the quotient is (1-exp(-r))/r of the true
// rate for any number of visits: 63 % at r = 1. A bias below 10 % needs five times as many
// visits (section 4.1). The bias of the estimator is small at 10 visits and vanishes with
// more (section 4.2).
func TestRateBias(t *testing.T) {
	mean := func(n int, r float64, estimate func(n, x int) float64) (sum float64) {
		for x := 0; x <= n; x++ {
			sum += binomial(n, x, r) * estimate(n, x)
		}
		return sum / r
	}
	ours := func(n, x int) float64 { return regular(n, x, time.Second) }
	naive := func(n, x int) float64 { return float64(x) / float64(n) }
	for _, n := range []int{1, 10, 100} {
		if got := mean(n, 1, naive); math.Abs(got-0.632) > 0.001 {
			t.Errorf("quotient, n = %d: %.4f of the truth, want 0.632", n, got)
		}
	}
	if got := mean(10, 0.2, naive); math.Abs(got-0.906) > 0.001 {
		t.Errorf("quotient, r = 0.2: %.4f, want 0.906", got)
	}
	for _, c := range []struct {
		n         int
		r, within float64
	}{
		{10, 0.1, 0.02}, {10, 0.5, 0.02}, {10, 1, 0.02}, {10, 1.5, 0.02},
		{20, 1, 0.01}, {20, 2, 0.02}, {50, 1, 0.005}, {50, 2, 0.005}, {50, 3, 0.03},
	} {
		if got := mean(c.n, c.r, ours); math.Abs(got-1) > c.within {
			t.Errorf("n = %d, r = %g: %.4f of the truth, want within %g", c.n, c.r, got, c.within)
		} else {
			t.Logf("n = %d, r = %g: %.4f of the truth", c.n, c.r, got)
		}
	}
	for _, r := range []float64{0.3, 1, 2} { // consistent
		if a, b := math.Abs(mean(15, r, ours)-1), math.Abs(mean(300, r, ours)-1); b > a || b > 0.002 {
			t.Errorf("r = %g: bias %.5f with 15 visits, %.5f with 300", r, a, b)
		}
	}
}

// poisson simulates the changes of a page.
type poisson struct {
	rng  *rand.Rand
	rate float64
	last float64 // change; -1: none yet
	next float64
}

func newPoisson(rng *rand.Rand, rate float64) *poisson {
	return &poisson{rng, rate, -1, rng.ExpFloat64() / rate}
}

// until returns the number of changes up to t.
func (p *poisson) until(t float64) (n int) {
	for ; p.next <= t; n++ {
		p.last = p.next
		p.next += p.rng.ExpFloat64() / p.rate
	}
	return n
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// TestRateOfPoissonPages visits many pages of known rates: at equal intervals, at different
// intervals, and with pages that state their last change. The mean of the estimates must be
// the true rate.
func TestRateOfPoissonPages(t *testing.T) {
	const seed = 5
	for _, c := range []struct {
		name          string
		every, spread float64 // an interval is every, times up to 1+spread and down to 1/(1+spread)
		dated         bool
		rate, within  float64
	}{
		{"regular", 1, 0, false, 1, 0.02},
		{"regular, rare", 1, 0, false, 0.1, 0.03},
		{"irregular", 1, 1, false, 1, 0.05},
		{"irregular, rare", 1, 3, false, 0.2, 0.05},
		{"dated", 1, 0, true, 1, 0.02},
		{"dated, far too seldom visited", 20, 0.5, true, 1, 0.02},
		{"dated, rare", 1, 0.5, true, 0.2, 0.04},
	} {
		rng := rand.New(rand.NewPCG(seed, 0))
		sum, runs := 0.0, 4000
		for range runs {
			p := newPoisson(rng, c.rate)
			var e evidence
			at := 0.0
			for range 20 {
				d := c.every * math.Exp(math.Log1p(c.spread)*(2*rng.Float64()-1))
				at += d
				n := p.until(at)
				since := time.Duration(-1)
				if n > 0 && c.dated {
					since = seconds(at - p.last)
				}
				e.add(seconds(d), n > 0, since)
			}
			sum += e.rate()
		}
		if got := sum / float64(runs) / c.rate; math.Abs(got-1) > c.within {
			t.Errorf("%s: %.4f of the truth, want within %g (seed %d)", c.name, got, c.within, seed)
		} else {
			t.Logf("%s: %.4f of the truth", c.name, got)
		}
	}
}

// TestIntervals visits pages at the intervals that the strategy chooses. The visits to each
// page become about as frequent as its changes, within the bounds. If a page starts to
// change more or less often, the visits follow.
func TestIntervals(t *testing.T) {
	const seed = 9
	lo, hi := time.Minute, 24*time.Hour
	rng := rand.New(rand.NewPCG(seed, 0))
	// settle returns the median of the interval after a number of visits.
	after := func(visits int, rates func(visit int) float64) time.Duration {
		var all []float64
		for range 101 {
			p := newPoisson(rng, rates(0))
			var e evidence
			at, d := 0.0, first(0, lo, hi)
			for i := range visits {
				p.rate = rates(i)
				at += d.Seconds()
				e.add(d, p.until(at) > 0, -1)
				d = e.after(d, lo, hi)
			}
			all = append(all, d.Seconds())
		}
		return seconds(median(all))
	}
	constant := func(every time.Duration) func(int) float64 {
		return func(int) float64 { return 1 / every.Seconds() }
	}
	for _, c := range []struct {
		name  string
		rates func(int) float64
		want  time.Duration
		ratio float64
	}{
		{"hourly", constant(time.Hour), time.Hour, 1.25},
		{"every five hours", constant(5 * time.Hour), 5 * time.Hour, 1.25},
		{"every second", constant(time.Second), lo, 1.01},
		{"every year", constant(365 * 24 * time.Hour), hi, 1.01},
		{"every ten minutes, later every five hours", func(i int) float64 {
			if i < 100 {
				return 1. / 600
			}
			return 1. / 18000
		}, 5 * time.Hour, 1.5},
	} {
		got := after(300, c.rates)
		if ratio := got.Seconds() / c.want.Seconds(); ratio > c.ratio || ratio < 1/c.ratio {
			t.Errorf("%s: %s, want %s within %g (seed %d)", c.name, got.Round(time.Second), c.want, c.ratio, seed)
		} else {
			t.Logf("%s: %s", c.name, got.Round(time.Second))
		}
	}
	// If the bounds are far apart, the first intervals are long and tell little about a page
	// that changes often.
	lo, hi = time.Hour, 30*24*time.Hour
	for _, every := range []time.Duration{2 * time.Hour, 4 * time.Hour, 12 * time.Hour} {
		got := after(20, constant(every))
		if ratio := got.Seconds() / every.Seconds(); ratio > 1.25 || ratio < 1/1.25 {
			t.Errorf("every %s: %s after 20 visits, want within 1.25 (seed %d)", every, got.Round(time.Second), seed)
		} else {
			t.Logf("every %s: %s after 20 visits", every, got.Round(time.Second))
		}
	}
	if got := after(8, constant(time.Minute)); got != lo {
		t.Errorf("every minute: %s after 8 visits, want %s", got, lo)
	}
	lo, hi = time.Minute, 24*time.Hour
	// Without a change, the interval at most doubles and stays within the bounds.
	var e evidence
	d := first(0, lo, hi)
	for range 40 {
		e.add(d, false, -1)
		next := e.after(d, lo, hi)
		if next != min(2*d, hi) {
			t.Fatalf("after %s without a change %s", d, next)
		}
		d = next
	}
	for age, want := range map[time.Duration]time.Duration{0: time.Minute * 38, -time.Hour: time.Minute * 38,
		time.Second: lo, 2 * time.Hour: 2 * time.Hour, 9000 * time.Hour: hi} {
		if got := first(age, lo, hi); got.Round(time.Minute) != want {
			t.Errorf("first after an age of %s: %s, want %s", age, got, want)
		}
	}
}

func median(xs []float64) float64 {
	for i := range xs { // they are few
		for j := i; j > 0 && xs[j] < xs[j-1]; j-- {
			xs[j], xs[j-1] = xs[j-1], xs[j]
		}
	}
	return xs[len(xs)/2]
}
