package cost

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// runsOf returns runs of a model, each with an error of the given standard deviation.
func runsOf(m *Model, rng *rand.Rand, sigma float64, alone bool, pages ...float64) (runs []Run) {
	noise := func() float64 { return sigma * rng.NormFloat64() }
	for _, p := range pages {
		if alone {
			runs = append(runs, Run{Pages: p, Bytes: p * 22_300, Speed: m.Single + noise()})
		}
		for _, n := range []int{1, 2, 3, 5, 7} {
			runs = append(runs, Run{Agents: n, Pages: p, Bytes: p * 22_300, Speed: m.Speed(n, p)/float64(n) + noise()})
		}
	}
	return runs
}

// TestFitFindsTheModel: without errors, a fit gives the speeds of the model from which the runs come, also far from the
// runs.
func TestFitFindsTheModel(t *testing.T) {
	m := Paper()
	for _, alone := range []bool{true, false} {
		f := must.Get(Fit(runsOf(m, rand.New(rand.NewPCG(1, 2)), 0, alone, 1e6, 2e6, 4e6, 8e6)))(t)
		if f.NoAlone == alone || f.OneSize || f.Error() > 1e-6 {
			t.Errorf("alone %v: %+v", alone, f)
		}
		for _, n := range []int{1, 7, 31, 180} {
			near(t, "speed", f.Speed(n, 30e9), m.Speed(n, 30e9), 1e-6)
		}
		near(t, "page bytes", f.PageBytes, 22_300, 1e-9)
		if n, ok := f.Peak(30e9); n != 179 || !ok {
			t.Errorf("peak at %d, want 179", n)
		}
		if alone {
			near(t, "single", f.Single, m.Single, 1e-6)
		}
	}
}

// TestBand: of many fits to runs with errors, about 95 % have the true speed in their band.
func TestBand(t *testing.T) {
	m, rng := Paper(), rand.New(rand.NewPCG(3, 4))
	const rounds = 1000
	inside := 0
	for range rounds {
		f := must.Get(Fit(runsOf(m, rng, 5, true, 1e6, 4e6)))(t)
		low, high, ok := f.Band(31, 30e9)
		if !ok {
			t.Fatal("no band")
		}
		if want := m.Speed(31, 30e9); low <= want && want <= high {
			inside++
		}
	}
	if t.Logf("%d of %d", inside, rounds); inside < 920 || inside > 980 {
		t.Errorf("%d of %d bands have the true speed, want about 950", inside, rounds)
	}
}

func TestFitOfFewRuns(t *testing.T) {
	run := func(n int, pages, speed float64) Run { return Run{Agents: n, Pages: pages, Bytes: pages, Speed: speed} }
	for _, test := range []struct {
		name string
		runs []Run
		want string
	}{
		{"none", nil, "at least two different numbers of agents"},
		{"alone", []Run{run(0, 1e6, 100), run(0, 2e6, 100)}, "at least two different numbers of agents"},
		{"one number", []Run{run(3, 1e6, 100), run(3, 2e6, 99), run(0, 1e6, 110)}, "at least two different numbers"},
		{"too few", []Run{run(2, 1e6, 100), run(3, 8e6, 99)}, "2 runs are too few for 3 constants"},
		{"agents grow with pages", []Run{run(1, 1e6, 100), run(2, 2e6, 99), run(3, 4e6, 98), run(4, 8e6, 97)},
			"cannot tell apart"},
		{"absurd", []Run{run(8, 1e6, 100), run(9, 1e6, 150)}, "contradict each other"},
	} {
		if _, err := Fit(test.runs); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want an error with %q", test.name, err, test.want)
		}
	}
	f, err := Fit([]Run{run(2, 1e6, 100), run(4, 1.5e6, 90)})
	if err != nil || !f.OneSize || !f.NoAlone {
		t.Fatalf("two runs of about the same size: %+v, %v", f, err)
	}
	near(t, "agent", f.Speed(6, 30e9)/6, 80, 1e-9)
	if _, _, ok := f.Band(6, 1e6); ok || !math.IsNaN(f.Error()) {
		t.Error("two runs for two constants: there is a band, want none")
	}
}
