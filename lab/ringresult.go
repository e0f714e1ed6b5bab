package lab

import (
	"fmt"
	"math"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
)

// percent converts a share to percent.
const percent = 100

// result returns the measurements: the deviations as hosts are met (growth) and with ever more hosts (limit), the
// times, the moves, and the comparison with the paper's figure.
func (x *Ring) result(r *ringRun) *Result {
	d := newData("part", "way", "case", "agents", "capacities", "hosts")
	d.Fact("buckets", placement.Buckets)
	d.Fact("most_hosts", x.Hosts)
	d.Fact("most_sets", x.Sets)
	d.Fact("growth_sets", min(x.Sets, growthSets))
	d.Fact("lookup_rounds", lookupRounds)
	d.Fact("lookups", ringLookups)
	d.Fact("rounds", ringRounds)
	for _, g := range r.growth {
		for i, dev := range g.By {
			d.At("growth", g.Way, "", g.Agents, "", g.Hosts[i]).All(dev)
		}
	}
	for _, l := range r.limits {
		d.At("limit", l.Way, "", l.Agents, l.Capacities).All(l)
	}
	for _, m := range r.times {
		d.At("time", m.Way, "", m.Agents).All(m)
	}
	for _, m := range r.moves {
		d.At("move", m.Way, m.What).All(m)
	}
	r.paper(d)
	return &Result{Name: "ring", Rows: d}
}

// paper compares the ring with the paper's bounds by each metric, for the shares themselves
// and for the hosts.
func (r *ringRun) paper(d *Data) {
	for _, w := range []struct {
		k     int
		bound float64
	}{{ring100.k, paper100}, {ring200.k, paper200}} {
		rms := 1 / math.Sqrt(2*float64(w.k))
		for _, m := range []struct {
			name   string
			of     func(Deviation) float64
			theory any
		}{
			{"mean absolute (MAD)", func(d Deviation) float64 { return d.MAD }, rms * math.Sqrt(2/math.Pi)},
			{"root mean square (RMS)", func(d Deviation) float64 { return d.RMS }, rms},
			{"maximum", func(d Deviation) float64 { return d.Max }, nil},
		} {
			var shares, met []float64
			for _, l := range r.limits {
				if l.k == w.k && l.Capacities == "equal" {
					shares = append(shares, m.of(l.Mean))
				}
			}
			for _, g := range r.growth {
				if g.k == w.k {
					met = append(met, m.of(g.By[len(g.By)-1]))
				}
			}
			fits := "yes"
			switch {
			case slices.Max(shares) >= w.bound:
				fits = "no"
			case slices.Max(met) >= w.bound: // the shares are below it, and the counts of hosts are not
				fits = "in part"
			}
			d.At("paper", w.k, m.name).Set("least", slices.Min(shares)).Set("greatest", slices.Max(shares)).
				Set("theory", m.theory).Set("paper", w.bound).Set("below", below(shares, w.bound)).
				Set("greatest_met", slices.Max(met)).Set("below_met", below(met, w.bound)).Set("fits", fits)
		}
	}
}

// below says how many values are below a bound.
func below(values []float64, bound float64) string {
	n := 0
	for _, v := range values {
		if v < bound {
			n++
		}
	}
	return fmt.Sprintf("%d of %d", n, len(values))
}
