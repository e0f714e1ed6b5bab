package sim

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// The bounds of what a cluster may wait with the program's defaults: a host has a delay of 2 s, and
// an address and a registered domain have a quarter of it.
const (
	deathMedian, deathMost = 10 * time.Second, 15 * time.Second // from a kill until a host of the dead agent is crawled
	resumeMost             = 5 * time.Second                    // from the last start of all agents until a page
	// stallMost bounds the time without a page, while there is work and no fault. At the start, agents
	// meet, survey all points and wait for one delay. Later a frontier tells the leases within 2 s that
	// they hold back all its hosts, and another agent keeps a point without use for 2 s at most (package lease).
	stallMost   = 4 * time.Second
	sharedLeast = 0.9 // of the rate of one agent at an address
)

func waitsPlan(seed uint64) Plan {
	return Plan{Seed: seed, Agents: 3 + int(seed%3), Hosts: 40, Pages: 25, Delay: 2 * time.Second,
		Shared: 500 * time.Millisecond, Latency: 2 * time.Millisecond}
}

// measure tells the stories of some seeds, and returns in order what f finds in them.
func measure(t *testing.T, plan func(seed uint64) Plan, f func(s *story, v *Verdict) time.Duration) []time.Duration {
	t.Helper()
	var all []time.Duration
	for i := range *waits {
		p := plan(uint64(i + 1))
		t.Run(fmt.Sprint(p.Seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, v := tellAll(t, p, nil)
				if v.Bad() {
					t.Errorf("%s\n%s", p, v)
				}
				d := f(s, v)
				t.Logf("%s in %s", d, p.JSON())
				all = append(all, d)
			})
		})
	}
	slices.Sort(all)
	t.Logf("median %s, at most %s", all[len(all)/2], all[len(all)-1])
	return all
}

// fetches calls f for each fetch of a page.
func (j *judge) fetches(f func(p page, f fetched)) {
	for p, fs := range j.pages {
		for _, e := range fs {
			f(p, e)
		}
	}
}

// TestWaitAfterDeath measures the time from a kill to the first page on a host that the dead agent
// was crawling.
func TestWaitAfterDeath(t *testing.T) {
	all := measure(t, func(seed uint64) Plan {
		p := waitsPlan(seed)
		p.Faults = []Fault{{Kind: Kill, Agent: 2, At: 0.2, For: time.Hour}}
		return p
	}, func(s *story, _ *Verdict) time.Duration {
		down, busy, first := s.actors[1].down, map[int64]bool{}, time.Time{}
		s.judge.fetches(func(p page, f fetched) {
			busy[p.host] = busy[p.host] || f.agent == 2 && f.at.After(down.Add(-6*time.Second))
		})
		s.judge.fetches(func(p page, f fetched) {
			if busy[p.host] && f.at.After(down) && (first.IsZero() || f.at.Before(first)) {
				first = f.at
			}
		})
		return first.Sub(down)
	})
	if m := all[len(all)/2]; testtier.Soak() && m > deathMedian { // the median of few seeds depends on chance
		t.Errorf("%s in the median, want at most %s", m, deathMedian)
	}
	if m := all[len(all)-1]; m > deathMost {
		t.Errorf("%s at worst, want at most %s", m, deathMost)
	}
}

// TestWaitAfterResume measures the time from the last start of agents that were all killed to the
// first page.
func TestWaitAfterResume(t *testing.T) {
	testtier.OnlySoak(t, "it looks for the worst of many seeds")
	all := measure(t, func(seed uint64) Plan {
		p := waitsPlan(seed)
		p.Faults = []Fault{{Kind: KillAll, At: 0.2, For: 20 * time.Millisecond << (seed % 8)}}
		return p
	}, func(s *story, _ *Verdict) time.Duration {
		var began, first time.Time
		for _, a := range s.actors {
			began = later(began, a.run.began)
		}
		s.judge.fetches(func(_ page, f fetched) {
			if f.at.After(began) && (first.IsZero() || f.at.Before(first)) {
				first = f.at
			}
		})
		return first.Sub(began)
	})
	if m := all[len(all)-1]; m > resumeMost {
		t.Errorf("%s at worst, want at most %s", m, resumeMost)
	}
}

// quiet returns a random plan without faults, and without hosts that ask for pauses.
func quiet(seed uint64) Plan {
	p := Random(seed)
	p.Faults, p.Spare = nil, 0
	p.Busy, p.Failing, p.Delays = 0, 0, 0
	return p
}

// TestNoStall measures the longest time without a page in stories without faults.
func TestNoStall(t *testing.T) {
	all := measure(t, quiet, func(_ *story, v *Verdict) time.Duration { return v.Stall })
	if m := all[len(all)-1]; m > stallMost {
		t.Errorf("no page for %s, want at most %s", m, stallMost)
	}
}

// TestSharedRate compares two agents with one agent, when all hosts share one address.
func TestSharedRate(t *testing.T) {
	testtier.OnlySoak(t, "it looks for the worst of many seeds")
	took := map[uint64]time.Duration{}
	for agents := 1; agents <= 2; agents++ {
		measure(t, func(seed uint64) Plan {
			p := waitsPlan(seed)
			p.Agents, p.Hosts, p.Pages, p.Addresses = agents, 12, 40, 1
			return p
		}, func(s *story, _ *Verdict) time.Duration {
			ends := slices.SortedFunc(slices.Values(s.judge.ends), func(a, b time.Time) int { return a.Compare(b) })
			// At first few hosts are known, and at last few are left: they keep their own delays.
			d := ends[len(ends)/2].Sub(ends[30])
			if share := float64(took[s.plan.Seed]) / float64(d); agents == 2 && share < sharedLeast {
				t.Errorf("seed %d: %.2f of the rate of one agent, want %.2f", s.plan.Seed, share, sharedLeast)
			}
			took[s.plan.Seed] = d
			return d
		})
	}
}
