package lab

import (
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/sim"
)

// A Rate says how often a plan failed.
type Rate struct {
	Failed int `json:"failed"`
	Told   int `json:"told"`
}

// A shrinker looks for the smallest plan that fails about as often as another.
type shrinker struct {
	// tell runs the story of a plan at most most times. It stops when enough stories have failed,
	// or when enough cannot be reached any more. Zero means that it never stops early.
	tell func(p sim.Plan, most, enough int) Rate
	// budget bounds the number of stories in all.
	budget int
}

// reruns is the number of reruns of a plan that failed.
const reruns = 20

// shrink returns the smallest plan that it finds, and how often it fails. rate says how often p
// failed in reruns; it is not zero. tell decides which failures count.
//
// A smaller plan replaces a larger one if it fails at least half as often. The seed does not fix
// the order of goroutines, so shrink counts failures.
func (s *shrinker) shrink(p sim.Plan, rate Rate) (sim.Plan, Rate) {
	enough := max(1, (rate.Failed+1)/2)
	smaller := false
	for again := true; again; {
		again = false
		for _, c := range lessened(p) {
			if s.budget <= 0 {
				break
			}
			r := s.tell(c, min(rate.Told, s.budget), enough)
			s.budget -= r.Told
			if r.Failed >= enough {
				p, smaller, again = c, true, true
				break
			}
		}
	}
	if smaller {
		rate = s.tell(p, reruns, 0)
	}
	return p, rate
}

// shortest bounds the time of faults that are made shorter.
const shortest = 100 * time.Millisecond

// lessened returns the plans that are a step smaller than p, the largest steps first.
func lessened(p sim.Plan) (ps []sim.Plan) {
	for i := range p.Faults {
		ps = append(ps, p.Without(i))
	}
	change := func(is bool, f func(p *sim.Plan)) {
		if is {
			c := p
			c.Faults = slices.Clone(p.Faults)
			f(&c)
			ps = append(ps, c)
		}
	}
	for n := p.Agents + p.Spare; n > 0 && p.Agents+p.Spare > 2; n-- {
		if n == 1 && p.Agents == 1 || slices.ContainsFunc(p.Faults, func(f sim.Fault) bool { return f.Agent == n }) {
			continue
		}
		change(p.Agents > 1 || n > p.Agents, func(p *sim.Plan) {
			if n > p.Agents {
				p.Spare--
			} else {
				p.Agents--
			}
			for i := range p.Faults {
				if p.Faults[i].Agent > n {
					p.Faults[i].Agent--
				}
			}
		})
	}
	change(p.Hosts > 3, func(p *sim.Plan) { p.Hosts = max(3, p.Hosts/2) })
	change(p.Pages > 4, func(p *sim.Plan) { p.Pages = max(4, float64(int(p.Pages/2))) })
	change(p.Partition != "", func(p *sim.Plan) { p.Partition = "" })
	change(p.Mirrors, func(p *sim.Plan) { p.Mirrors = false })
	change(p.Replicas > 1, func(p *sim.Plan) { p.Replicas-- })
	for _, share := range []func(p *sim.Plan) *float64{
		func(p *sim.Plan) *float64 { return &p.Busy }, func(p *sim.Plan) *float64 { return &p.Failing },
		func(p *sim.Plan) *float64 { return &p.Broken }, func(p *sim.Plan) *float64 { return &p.Redirects },
		func(p *sim.Plan) *float64 { return &p.Delays },
	} {
		change(*share(&p) > 0, func(p *sim.Plan) { *share(p) = 0 })
	}
	change(p.Pause > 0 && p.Busy == 0 && p.Failing == 0, func(p *sim.Plan) { p.Pause = 0 })
	change(p.Kappa > 0, func(p *sim.Plan) { p.Kappa = 0 })
	change(p.Capacity > 0, func(p *sim.Plan) { p.Capacity = 0 })
	change(p.Addresses > 0, func(p *sim.Plan) { p.Addresses = 0 })
	change(p.Latency > 0, func(p *sim.Plan) { p.Latency = 0 })
	for i, f := range p.Faults {
		change(f.After > 0, func(p *sim.Plan) { p.Faults[i].After = 0 })
	}
	change(p.Hosts > 3, func(p *sim.Plan) { p.Hosts = max(3, p.Hosts*3/4) })
	for i, f := range p.Faults {
		change(f.For.Abs() >= shortest, func(p *sim.Plan) { p.Faults[i].For = (f.For / 2).Round(time.Millisecond) })
	}
	return ps
}
