package lab

import (
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// The deviation agrees with a count by hand: of 8 hosts, expected 2 and 6.
func TestDeviation(t *testing.T) {
	d := deviation([]placement.Owner{{Name: "a", Capacity: 1}, {Name: "b", Capacity: 3}}, []float64{3, 5})
	want := Deviation{MAD: (0.5 + 1.0/6) / 2, RMS: math.Sqrt((0.25 + 1.0/36) / 2), Max: 0.5}
	for _, v := range [][2]float64{{d.MAD, want.MAD}, {d.RMS, want.RMS}, {d.Max, want.Max}} {
		if math.Abs(v[0]-v[1]) > 1e-12 {
			t.Errorf("deviation %+v, want %+v", d, want)
		}
	}
}

func TestGrowthPoints(t *testing.T) {
	if got, want := steps(1000, 20_000), []int64{1000, 2000, 5000, 10_000, 20_000}; !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
	if got := steps(1000, 500); !slices.Equal(got, []int64{500}) {
		t.Errorf("got %d", got)
	}
}

// A way without stable owners moves hosts; a ring and rendezvous do not.
func TestMoves(t *testing.T) {
	keys := hostKeys(1, 20_000)
	for _, w := range []way{ring200, rendezvousWay(16), moduloWay} {
		ms := must.Get(movesOf(w, 1, keys))(t)
		for _, m := range ms {
			if w.name == moduloWay.name {
				if m.Moved < 0.9 || m.Astray < 0.8 {
					t.Errorf("%+v: a remainder moves nearly all", m)
				}
			} else if m.Astray != 0 || m.Moved < m.Ideal*0.7 || m.Moved > m.Ideal*1.3 {
				t.Errorf("%+v", m)
			}
		}
	}
}

// The ring's deviation agrees with the theory, and that of rendezvous hashing with n random draws.
func TestRingExperiment(t *testing.T) {
	testtier.OnlySoak(t, "computes for ten seconds; the script ring runs it on a small input")
	x := &Ring{Hosts: 30_000, Agents: 20, Sets: 20}
	run, err := x.run(context.Background(), (&Trial{Quick: true, Seed: 5, Screen: io.Discard}).with(t.TempDir()))
	must.Do(t, err)
	limits := run.limits
	if len(limits) != len(allWays)*5*2 {
		t.Fatalf("%d limits", len(limits))
	}
	for _, l := range limits {
		if l.Agents != 20 || l.Capacities != "equal" {
			continue
		}
		others := math.Sqrt(1 - 1.0/20)
		want := map[string]float64{
			"ring, κ=100":      others / math.Sqrt(2*100),
			"ring, κ=200":      others / math.Sqrt(2*200),
			"rendezvous, 2^16": others * math.Sqrt(20.0/(1<<16)),
			"rendezvous, 2^18": others * math.Sqrt(20.0/(1<<18)),
			"rendezvous, 2^20": others * math.Sqrt(20.0/(1<<20)),
		}[l.Way]
		// The expected root mean square is 1/sqrt(2n), with a tolerance.
		if n := float64(l.Sets * 20); math.Abs(l.Mean.RMS/want-1) > 5/math.Sqrt(2*n) {
			t.Errorf("%s: RMS %.4f, theory %.4f", l.Way, l.Mean.RMS, want)
		}
		if !(l.Mean.MAD < l.Mean.RMS && l.Mean.RMS < l.Mean.Max && l.Mean.Max <= l.Worst.Max) {
			t.Errorf("%+v", l)
		}
	}
	for _, g := range run.growth {
		if first, last := g.By[0].MAD, g.By[len(g.By)-1].MAD; len(g.By) != len(steps(1000, 30_000)) ||
			g.Agents == 20 && first <= last {
			t.Errorf("%s, %d agents: from %.4f to %.4f", g.Way, g.Agents, first, last)
		}
	}
	for _, m := range run.times {
		if m.Owner <= 0 || m.Next <= 0 || m.New <= 0 || m.With <= 0 || m.Without <= 0 || m.Bytes < 2000 {
			t.Errorf("%+v", m)
		}
	}
	if text := rendered(t, x.result(run)); !strings.Contains(text, "| ring, κ=200      |     20 |") {
		t.Error(text)
	}
}

// The paper's bound fits in part if only the hosts that were met exceed it.
func TestRingFits(t *testing.T) {
	grown := func(mads ...float64) (g []RingGrowth) {
		for i, m := range mads {
			g = append(g, RingGrowth{Agents: i + 2, Hosts: []int64{9, 10},
				By: []Deviation{{MAD: 0.5, RMS: 0.5, Max: 0.5},
					{MAD: m, RMS: m, Max: m}}, k: ring100.k},
				RingGrowth{Agents: i + 2, Hosts: []int64{10},
					By: []Deviation{{MAD: 0.01, RMS: 0.01, Max: 0.01}}, k: ring200.k})
		}
		return g
	}
	limit := func(k int, d Deviation) RingLimit { return RingLimit{Capacities: "equal", Mean: d, k: k} }
	r := &ringRun{
		growth: grown(0.0665, 0.05),
		limits: []RingLimit{
			limit(ring100.k, Deviation{0.05, 0.07, 0.2}), limit(ring100.k, Deviation{0.04, 0.05, 0.1}),
			limit(ring200.k, Deviation{0.03, 0.03, 0.03}),
		},
	}
	want := [][]any{
		{"2 of 2", "1 of 2", "in part"}, {"1 of 2", "1 of 2", "no"}, {"0 of 2", "1 of 2", "no"},
		{"1 of 1", "2 of 2", "yes"}, {"1 of 1", "2 of 2", "yes"}, {"1 of 1", "2 of 2", "yes"},
	}
	s := subset{d: new(Ring).result(r).Rows}
	for i, name := range []string{"below", "below_met", "fits"} {
		got, err := s.named(name)
		for row := range want {
			if err != nil || len(got) != len(want) || got[row] != want[row][i] {
				t.Errorf("%s: got %v, want %v of %v, %v", name, got, i, want, err)
			}
		}
	}
	if got, err := s.value("max(greatest_met)"); err != nil || got.one() != 0.0665 {
		t.Errorf("greatest of the hosts met: %v, want 0.0665, %v", got, err)
	}
}
