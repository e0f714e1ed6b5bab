package lab

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// The formulas of freshness and age agree with a simulation of one page.
func TestFreshnessTheory(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range [][2]float64{{1, 1}, {3, 1}, {1, 4}, {10, 2.5}} {
		mean, interval := c[0], c[1]
		fresh, age := 0.0, 0.0
		const n = 200_000
		for range n { // from one visit to the next
			if first := rng.ExpFloat64() * mean; first < interval {
				fresh += first
				age += (interval - first) * (interval - first) / 2
			} else {
				fresh += interval
			}
		}
		fresh, age = fresh/n/interval, age/n/interval
		if got := freshOf(mean, interval); math.Abs(got-fresh) > 0.005 {
			t.Errorf("mean %g, interval %g: fresh %.4f, want %.4f", mean, interval, got, fresh)
		}
		if got := ageOf(mean, interval); math.Abs(got-age) > 0.02*interval {
			t.Errorf("mean %g, interval %g: age %.4f, want %.4f", mean, interval, got, age)
		}
	}
	if freshOf(0, 5) != 1 || ageOf(0, 5) != 0 || freshOf(1, math.Inf(1)) != 0 || !math.IsInf(ageOf(1, math.Inf(1)), 1) {
		t.Error("a page that never changes, or is never visited")
	}
}

// TestFreshestPlan: five pages that change 1 to 5 times a day, visited once a
// day on average. The paper's table 2 (SIGMOD 2000, section 5.2) has these
// frequencies of the best plan.
func TestFreshestPlan(t *testing.T) {
	means := []float64{1, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5}
	best := freshest(means, 1)
	for i, want := range []float64{1.15, 1.36, 1.35, 1.14, 0.00} {
		if got := 1 / best(means[i]); math.Abs(got-want) > 0.006 {
			t.Errorf("changes %d times a day: visited %.3f times, want %.2f", i+1, got, want)
		}
	}
	p := planOf(means, best)
	same := planOf(means, func(float64) float64 { return 1 })
	if math.Abs(p.Visits-1) > 1e-6 || p.Fresh <= same.Fresh || p.bounded() || !same.bounded() {
		t.Errorf("best %+v, all alike %+v", p, same)
	}
	// If all pages are alike, the best plan visits them alike.
	alike := []float64{3, 3, 3}
	if got := freshest(alike, 0.25)(3); math.Abs(got-4) > 1e-6 {
		t.Errorf("every %g days, want 4", got)
	}
}

// The measurement covers the time from a day on, weighted by copies and length.
func TestFreshnessMeasured(t *testing.T) {
	x := &Freshness{Day: time.Second, Days: 4}
	stretch := func(until, copies, fresh, age float64, served, confirmed, renewed int64) testweb.FreshStretch {
		s := func(v float64) testweb.Seconds { return testweb.Seconds(v * float64(time.Second)) }
		return testweb.FreshStretch{Until: s(until), Copies: copies,
			Freshness: testweb.Freshness{Fresh: fresh, Age: s(age)}, Served: served,
			Confirmed: confirmed, Renewed: renewed}
	}
	r := x.measured(&testweb.FreshReport{Over: []testweb.FreshStretch{
		stretch(7, 0, 0, 0, 0, 0, 0), stretch(8, 10, 0.1, 9, 100, 100, 100), stretch(9, 10, 0.1, 9, 100, 100, 100),
		stretch(10, 10, 0.8, 1, 4, 1, 3), stretch(11, 30, 0.4, 2, 10, 0, 3), stretch(12, 30, 0, 9, 100, 100, 100),
	}}, 2)
	for name, v := range map[string][2]float64{
		"fresh": {r.Fresh, 0.5}, "age": {r.Age, 1.75}, "visits": {r.Visits, 15.0 / 40}, "found": {r.Found, 6.0 / 15},
		"pages": {r.Pages, 30}, "moments": {float64(len(r.Over)), 5}, "first": {r.Over[0].Day, 1},
	} {
		if math.Abs(v[0]-v[1]) > 1e-9 {
			t.Errorf("%s: got %g, want %g", name, v[0], v[1])
		}
	}
}

// The experiment compares the rates that recrawl estimates with the web's rates.
func TestFreshnessEstimates(t *testing.T) {
	law := changeLaw{"test", []gen.Rate{{Share: 0.6, From: webDay, To: 4 * webDay}}}
	x := &Freshness{Hosts: 20, Day: time.Second, Days: 4}
	w, err := gen.New(x.spec(&Trial{Seed: 1}, law).Spec)
	must.Do(t, err)
	var b bytes.Buffer
	b.WriteString("url,visits,changes,changes_per_day,interval_s\n")
	changing := 0
	for h := range w.Hosts() {
		for p := range w.Pages(h) {
			rate := "0"
			if m := w.MeanTime(h, p); m > 0 {
				changing++
				rate = "1e9" // far too large
				if changing%4 != 0 {
					rate = fmt.Sprint(webDay.Seconds() / m.Seconds() * 1.5)
				}
			}
			b.WriteString(w.URL(h, p) + ",7,3," + rate + ",1\n")
		}
	}
	b.WriteString("(5 more),,,,\n")
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "reports"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "reports", "recrawl.csv"), b.Bytes(), 0o644))
	es, err := x.estimates(&freshLaw{changeLaw: law, web: w}, dir)
	if err != nil || len(es) != 2 {
		t.Fatalf("%+v, %v", es, err)
	}
	if e := es[0]; e.Pages != changing || e.Unseen != 0 || e.Visits != 7 || math.Abs(e.Ratio-1.5) > 1e-6 ||
		math.Abs(e.Near-0.75) > 1/float64(changing) {
		t.Errorf("%+v of %d", e, changing)
	}
	if e := es[1]; e.Unseen != 1 || e.To != 0 {
		t.Errorf("never: %+v", e)
	}
}

// TestFreshnessExperiment: web and crawl run, and the report is complete. The test asserts nothing
// about freshness, because a busy machine changes it.
func TestFreshnessExperiment(t *testing.T) {
	testtier.OnlySoak(t, "crawls a web that changes for some seconds")
	dir := finishes(t, &Freshness{Hosts: 5, Day: 300 * time.Millisecond, Days: 16}, buildTrial(t))
	f := must.Get(os.Open(filepath.Join(dir, "freshness.csv")))(t)
	defer f.Close()
	d := must.Get(ReadData(f))(t)
	runs := 0
	for _, l := range changeLaws {
		for _, policy := range []string{recrawlPolicy, fixedPolicy} {
			n := func(e string) float64 {
				v := must.Get((&page{d: d}).num(e, "day=, plan=, class=, law="+l.name+", policy="+policy))(t)
				return v
			}
			visits, fresh, found := n("visits_per_page_and_day"), n("fresh"), n("visits_with_a_change")
			if n("pages") < 20 || visits <= 0 || fresh <= 0 || fresh > 1 || n("age_days") < 0 || found <= 0 ||
				found > 1 || (policy == fixedPolicy) != (n("least_days") == n("most_days")) {
				t.Errorf("%s, %s: %g visits, %g fresh, %g found", l.name, policy, visits, fresh, found)
			}
			runs++
		}
	}
	if runs != 2*len(changeLaws) {
		t.Fatalf("%d crawls", runs)
	}
}
