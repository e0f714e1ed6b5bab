package testweb

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// scheduled has pages that change at known times, given as sorted numbers of steps after base.
type scheduled struct {
	base time.Time
	step time.Duration
	at   map[pageID][]int
}

func (s *scheduled) Changed(host, page int64, at time.Time) (last, next time.Time) {
	for _, c := range s.at[pageID{host, page}] {
		t := s.base.Add(time.Duration(c) * s.step)
		if t.After(at) {
			return last, t
		}
		last = t
	}
	return last, time.Time{}
}

// stale returns the first change after a time, both in steps.
func (s *scheduled) stale(id pageID, from int) int {
	for _, c := range s.at[id] {
		if c > from {
			return c
		}
	}
	return math.MaxInt
}

// TestFreshTrackerAgainstModel: freshness and age equal the values of a model that looks at every step of time.
func TestFreshTrackerAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Now()
		web := &scheduled{base: base, step: 100 * time.Millisecond, at: map[pageID][]int{}}
		steps := rapid.IntRange(10, 3000).Draw(t, "steps")
		ids := []pageID{{1, 0}, {1, 7}, {2, 0}}
		for _, id := range ids {
			for c := 0; ; {
				if c += rapid.IntRange(1, steps).Draw(t, "change"); c >= 2*steps {
					break
				}
				web.at[id] = append(web.at[id], c)
			}
		}
		a := newFreshTracker(web, base, 2)
		ns := func(step int) int64 { return int64(step) * int64(web.step) }
		served := map[pageID][]int{}
		want := FreshReport{}
		for at := range steps {
			if rapid.IntRange(0, 5).Draw(t, "quiet") > 0 {
				continue
			}
			id := rapid.SampledFrom(ids).Draw(t, "page")
			status := rapid.SampledFrom([]int{200, 200, 304, 410}).Draw(t, "status")
			a.note(id, status, ns(at))
			copies := served[id]
			switch {
			case status == 304:
				want.Confirmed++
				if n := len(copies); n > 0 && web.stale(id, copies[n-1]) <= at {
					want.Wrong++
				}
			case status == 200 && copies == nil && len(served) == 2:
				want.Served++
				want.Uncounted++
			case status == 200:
				if n := len(copies); n > 0 && web.stale(id, copies[n-1]) <= at {
					want.Renewed++
				}
				want.Served++
				served[id] = append(copies, at)
			}
		}
		got := a.report(ns(steps))
		width := a.width / int64(web.step) // at first a bin may not be a whole number of steps
		if got.Served != want.Served || got.Renewed != want.Renewed || got.Confirmed != want.Confirmed ||
			got.Wrong != want.Wrong || got.Uncounted != want.Uncounted || got.Copies != int64(len(served)) {
			t.Fatalf("got %+v, want %+v and %d copies", got, want, len(served))
		}
		// For each step, find the copy that the crawl had, and its freshness in the middle of the step.
		bins := make([]freshBin, len(got.Over))
		var all freshBin
		for id, times := range served {
			for i, from := range times {
				until := steps
				if i+1 < len(times) {
					until = times[i+1]
				}
				stale := web.stale(id, from)
				for at := from; at < until; at++ {
					one := freshBin{held: 1}
					if at < stale {
						one.fresh = 1
					} else {
						one.age = float64(at-stale) + 0.5
					}
					all.add(one)
					if a.width%int64(web.step) == 0 {
						bins[at/int(width)].add(one)
					}
				}
			}
		}
		near := func(what string, got Freshness, want freshBin) {
			if want.held == 0 {
				want.held = 1
			}
			f, age := want.fresh/want.held, want.age/want.held*web.step.Seconds()
			if math.Abs(got.Fresh-f) > 1e-6 || math.Abs(time.Duration(got.Age).Seconds()-age) > 1e-6 {
				t.Fatalf("%s: got %v fresh and %v old, want %v and %v", what, got.Fresh, time.Duration(got.Age), f, age)
			}
		}
		near("in all", got.Mean, all)
		if a.width%int64(web.step) == 0 {
			for i, b := range bins {
				near("stretch", got.Over[i].Freshness, b)
			}
		}
		var now freshBin
		for id, times := range served {
			now.held++
			if stale := web.stale(id, times[len(times)-1]); stale > steps {
				now.fresh++
			} else {
				now.age += float64(steps - stale)
			}
		}
		near("now", got.Now, now)
		if len(got.Over) > maxBins {
			t.Fatalf("%d periods, want at most %d", len(got.Over), maxBins)
		}
		if again := a.report(ns(steps)); again.Mean != got.Mean {
			t.Fatalf("a second report differs: %+v and %+v", again.Mean, got.Mean)
		}
		a.reset(ns(steps))
		if r := a.report(ns(steps)); r.Copies != 0 || r.Served != 0 || r.Mean != (Freshness{}) {
			t.Fatalf("after a reset: %+v", r)
		}
	})
}

// TestFreshBinsAreBounded: a long crawl has no more periods than a short one, and their sums are complete.
func TestFreshBinsAreBounded(t *testing.T) {
	base := time.Now()
	web := &scheduled{base: base, step: time.Hour, at: map[pageID][]int{{1, 1}: {1000}}}
	a := newFreshTracker(web, base, 10)
	for h := range 500 {
		a.note(pageID{1, 0}, 200, int64(h)*int64(time.Hour))
	}
	a.note(pageID{1, 1}, 200, 0)
	r := a.report(int64(2000 * time.Hour))
	if len(r.Over) > maxBins || len(r.Over) < maxBins/4 {
		t.Errorf("%d periods, want %d to %d", len(r.Over), maxBins/4, maxBins)
	}
	served := int64(0)
	for _, s := range r.Over {
		served += s.Served
	}
	if served != 501 {
		t.Errorf("%d served in all periods, want 501", served)
	}
	if want := 0.75; math.Abs(r.Mean.Fresh-want) > 1e-9 {
		t.Errorf("%g fresh, want %g", r.Mean.Fresh, want)
	}
	if want := 125 * time.Hour; (time.Duration(r.Mean.Age) - want).Abs() > time.Second {
		t.Errorf("age %s, want %s", time.Duration(r.Mean.Age), want)
	}
}

func TestMatchesETag(t *testing.T) {
	for _, c := range []struct {
		field, etag string
		want        bool
	}{
		{`"a"`, `"a"`, true}, {`"a-gz"`, `"a"`, false}, {`"x", W/"a"`, `"a"`, true}, {`"x" , "a"`, `W/"a"`, true},
		{`"x,"a"`, `"a"`, false}, {"*", `"a"`, true}, {" * ", "", true}, {`""`, "", false}, {"", `"a"`, false},
		{`a`, `"a"`, false}, {`"a`, `"a"`, false}, {`"x""a"`, `"a"`, true}, {`W/`, `"a"`, false},
		{`"", "a"`, `"a"`, true},
	} {
		if got := MatchesETag(c.field, c.etag); got != c.want {
			t.Errorf("%s against %s: %v, want %v", c.field, c.etag, got, c.want)
		}
	}
}
