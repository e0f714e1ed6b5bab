package cost

import (
	"math/rand/v2"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// fitOne fits one kind of overhead.
func fitOne(share Share, samples []Sample) (*FittedParts, error) {
	return FitParts(Model{Name: "x", Single: 1000, PageBytes: 1000},
		[]Part{{Overhead{Kind: "x", Share: share}, true, true, samples}})
}

// samplesOf returns what an overhead is in crawls of several numbers of agents. All samples of a crawl are off by the
// same error, which has a standard deviation.
func samplesOf(o Overhead, rng *rand.Rand, sigma float64) (samples []Sample) {
	for _, n := range []int{1, 2, 3, 5, 7} {
		off := sigma * rng.NormFloat64()
		for _, pages := range []float64{1e5, 1e6, 3e7} {
			samples = append(samples, Sample{n, pages, o.At(n, pages) + off})
		}
	}
	return samples
}

// TestShares: an agent without others exchanges nothing, and keeps no replicas.
func TestShares(t *testing.T) {
	for _, test := range []struct {
		share      Share
		one, three float64
	}{{Always, 1, 1}, {Each, 1, 3}, {Others, 0, 2.0 / 3}, {Cluster, 0, 1}} {
		o := Overhead{Share: test.share, Base: 5, Agent: 2, Doubling: 1}
		near(t, "one agent "+string(test.share), o.At(1, 2e6), 8*test.one, 1e-12)
		near(t, "three agents "+string(test.share), o.At(3, 2e6), 12*test.three, 1e-12)
	}
	own := Overhead{Own: true, Base: 5, Doubling: 1}
	near(t, "pages of one agent", own.At(4, 8e6), 6, 1e-12)
}

// TestFitParts: without errors a fit gives the overhead from which the samples come, also far from them.
func TestFitParts(t *testing.T) {
	// The exchange in figure 10. The paper takes the greatest difference, 5.5, for a doubling of the pages.
	f, err := fitOne(Always, []Sample{{7, 1e6, 24.97}, {7, 2e6, 30.47}, {7, 4e6, 35.15}, {7, 8e6, 40.06}})
	must.Do(t, err)
	o := f.Overheads[0]
	near(t, "base", o.Base, 25.1695, 1e-4)
	near(t, "agent", o.Agent, 0, 0)
	near(t, "doubling", o.Doubling, 4.995, 1e-3)

	for _, share := range []Share{Always, Each, Others, Cluster} {
		want := Overhead{Kind: "x", Share: share, Base: 3, Agent: 0.5, Doubling: 2}
		samples := samplesOf(want, rand.New(rand.NewPCG(1, 2)), 0)
		if f, err = fitOne(share, samples); err != nil {
			t.Fatal(share, err)
		}
		near(t, "at a large size", f.Overheads[0].At(100, 1e9), want.At(100, 1e9), 1e-9)
		near(t, "speed", f.Speed(2, 2e6), 2*(1000-want.At(2, 2e6)), 1e-9)
	}
	for _, few := range [][]Sample{
		{{1, 1e6, 1}, {2, 2e6, 1}}, {{1, 1e6, 1}, {2, 2e6, 1}, {3, 4e6, 1}},
	} {
		if _, err := fitOne(Always, few); err == nil {
			t.Errorf("%v: no error", few)
		}
	}
	if f, err = fitOne(Always, nil); err != nil || f.Speed(3, 1e6) != 3000 {
		t.Errorf("no samples: %v, %v pages/s", err, f.Speed(3, 1e6))
	}
}

// TestMostPages: beyond the largest crawl that was measured, and beyond an agent's part of it, more pages change
// nothing.
func TestMostPages(t *testing.T) {
	for _, own := range []bool{false, true} {
		o := Overhead{Own: own, Base: 30, Doubling: -2}
		m := Model{Single: 1000, Overheads: []Overhead{o}, MostPages: 8e6, MostAgents: 4}
		most := 1000 - o.At(4, 8e6)
		near(t, "four agents", m.Speed(4, 8e6)/4, most, 1e-12)
		near(t, "more pages", m.Speed(4, 1e12)/4, most, 1e-12)
		near(t, "more agents and pages", m.Speed(400, 1e12)/400, most, 1e-12)
		if m.Speed(4, 1e6) >= m.Speed(4, 8e6) {
			t.Error("fewer pages cost no more")
		}
	}
}

// TestNoKindIsNegative: one kind cannot pay for another.
func TestNoKindIsNegative(t *testing.T) {
	m := Model{Single: 1000, Overheads: []Overhead{{Base: 10}, {Base: 5, Agent: -1}}}
	near(t, "overhead of ten", m.Overhead(10, 1e6), 10, 1e-12)
	near(t, "overhead of two", m.Overhead(2, 1e6), 13, 1e-12)
}

// TestPartsBand: of many fits to samples with errors, about 95 % have the true speed in their band, also with two
// kinds.
func TestPartsBand(t *testing.T) {
	a := Overhead{Kind: "a", Base: 30, Agent: 1, Doubling: 2}
	b := Overhead{Kind: "b", Share: Others, Own: true, Base: 50, Doubling: -3}
	truth := Model{Single: 1000, PageBytes: 1000, Overheads: []Overhead{a, b}}
	rng := rand.New(rand.NewPCG(3, 4))
	const rounds = 1000
	inside := 0
	for range rounds {
		f := must.Get(FitParts(Model{Single: 1000, PageBytes: 1000},
			[]Part{{a, true, true, samplesOf(a, rng, 5)}, {b, false, true, samplesOf(b, rng, 3)}}))(t)
		low, high, ok := f.Band(12, 1e8)
		if !ok {
			t.Fatal("no band")
		}
		if s := truth.Speed(12, 1e8); low <= s && s <= high {
			inside++
		}
	}
	if inside < 900 || inside > 990 {
		t.Errorf("%d of %d bands have the true speed", inside, rounds)
	}
	f := must.Get(FitParts(Model{Single: 1000}, []Part{{a, false, true, samplesOf(a, rng, 5)[:6]}}))(t)
	if _, _, ok := f.Band(12, 1e8); ok {
		t.Error("a band of two runs")
	}
}
