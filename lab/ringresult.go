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
			var shares, met bounded
			for _, l := range r.limits {
				if l.k == w.k && l.Capacities == "equal" {
					shares.add(m.of(l.Mean), w.bound)
				}
			}
			for _, g := range r.growth {
				if g.k == w.k {
					met.add(m.of(g.By[len(g.By)-1]), w.bound)
				}
			}
			d.At("paper", w.k, m.name).Set("least", slices.Min(shares.all)).Set("greatest", slices.Max(shares.all)).
				Set("theory", m.theory).Set("paper", w.bound).Set("below", shares.String()).
				Set("greatest_met", slices.Max(met.all)).Set("below_met", met.String()).Set("fits", fits(shares, met))
		}
	}
}

// bounded holds values, and how many of them are below a bound.
type bounded struct {
	all   []float64
	below int
}

func (b *bounded) add(v, bound float64) {
	b.all = append(b.all, v)
	if v < bound {
		b.below++
	}
}

func (b bounded) String() string { return fmt.Sprintf("%d of %d", b.below, len(b.all)) }

// fits returns whether all values of both are below the bound. "In part" means that the shares
// themselves are, and the counts of hosts of some sets of names are not.
func fits(shares, met bounded) string {
	switch {
	case shares.below < len(shares.all):
		return "no"
	case met.below < len(met.all):
		return "in part"
	}
	return "yes"
}
