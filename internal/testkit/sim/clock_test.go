package sim

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSetClock checks the clock that the other tests rely on.
func TestSetClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		for _, by := range []time.Duration{0, 2 * time.Hour, -2 * time.Hour, time.Second} {
			before := c.Now()
			c.set(by)
			time.Sleep(time.Millisecond)
			if got, want := c.Now().Round(0), time.Now().Add(by).Round(0); !got.Equal(want) {
				t.Errorf("wrong by %s: %s, want %s", by, got, want)
			}
			if d := c.Now().Sub(before); d != time.Millisecond {
				t.Errorf("wrong by %s: %s have passed, want 1ms", by, d)
			}
			if d := until(c.Now().Add(time.Second)); d != time.Second {
				t.Errorf("wrong by %s: a deadline in 1s is in %s", by, d)
			}
		}
	})
}

// clocked returns the plan of three agents whose hosts share addresses and sites.
func clocked(seed uint64, faults ...Fault) Plan {
	return Plan{Seed: seed, Agents: 3, Hosts: 30, Pages: 12, Delay: 100 * time.Millisecond, Faults: faults}
}

// tellClocked runs a story in which agents share addresses and sites. Unless agents go down, each
// page must be fetched and archived once. No page may be archived with a time that the agent's
// clock never showed.
func tellClocked(t *testing.T, p Plan) *Verdict {
	t.Helper()
	v := tell(t, p)
	if p.Agents > 1 && v.Shared == 0 {
		t.Error("no address and no site was shared by agents")
	}
	repeats := false
	for _, f := range p.Faults {
		repeats = repeats || f.Kind != Clock
	}
	records := 0
	for u, by := range v.Archived {
		if !strings.HasSuffix(u, "/robots.txt") {
			records += len(by)
		}
	}
	if !repeats && (v.Twice > 0 || records != int(v.Reachable) && p.Busy == 0) {
		t.Errorf("%d pages fetched twice; %d records of %d pages", v.Twice, records, v.Reachable)
	}
	return v
}

// TestWrongClock sets one agent's clock two hours ahead or back. Agents exchange only durations, so
// the crawl must be the same as with right clocks.
func TestWrongClock(t *testing.T) {
	for _, by := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		runNamed(t, by.String(), func(t *testing.T) {
			for agent := range 2 {
				tellClocked(t, clocked(1, Fault{Kind: Clock, Agent: agent + 1, For: by}))
			}
		})
	}
}

// TestClocksApart has one clock an hour slow and another one an hour fast.
func TestClocksApart(t *testing.T) {
	for _, partition := range []string{"", "hash", "ring"} {
		p := clocked(2, Fault{Kind: Clock, Agent: 1, For: -time.Hour}, Fault{Kind: Clock, Agent: 3, For: time.Hour})
		p.Partition = partition
		tellClocked(t, p)
	}
}

// TestClockIsSet sets clocks ahead, back and right again while agents crawl. Pauses that hosts
// demand must be kept.
func TestClockIsSet(t *testing.T) {
	p := clocked(3,
		Fault{Kind: Clock, Agent: 1, At: 0.2, For: 2 * time.Hour},
		Fault{Kind: Clock, Agent: 2, At: 0.3, For: -2 * time.Hour},
		Fault{Kind: Clock, Agent: 1, At: 0.6}, Fault{Kind: Clock, Agent: 2, At: 0.7})
	tellClocked(t, p)
	p.Busy = 0.05
	tellClocked(t, p)
	p.Agents = 1
	p.Faults = []Fault{p.Faults[0], {Kind: Clock, Agent: 1, At: 0.5, For: -2 * time.Hour}}
	tellClocked(t, p)
}

// TestClockIsSetBetweenRuns sets a clock while its agent is down, or just before.
func TestClockIsSetBetweenRuns(t *testing.T) {
	for _, kind := range []Kind{Kill, Power, Stop} {
		for _, by := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			for _, agents := range []int{1, 3} {
				runNamed(t, fmt.Sprintf("%s %d %s", kind, agents, by), func(t *testing.T) {
					end := Fault{Kind: kind, Agent: 1, At: 0.4, For: 2 * time.Second}
					p := clocked(4, end, Fault{Kind: Clock, Agent: 1, At: 0.4, After: time.Second, For: by})
					if p.Agents = agents; agents == 1 {
						p.Hosts = 15
					}
					tellClocked(t, p)
					p.Faults = []Fault{{Kind: Clock, Agent: 1, At: 0.3, For: by}, end}
					tellClocked(t, p)
				})
			}
		}
	}
}

// TestClockIsSetAlone kills a single crawl and sets its clock an hour ahead. Before the next start
// it sets the clock two hours back. The crawl must keep the hosts' delays, and must not wait for
// hours.
func TestClockIsSetAlone(t *testing.T) {
	for seed := range uint64(4) {
		p := clocked(seed,
			Fault{Kind: Kill, Agent: 1, At: 0.2, For: time.Second},
			Fault{Kind: Clock, Agent: 1, At: 0.2, After: 500 * time.Millisecond, For: time.Hour},
			Fault{Kind: Kill, Agent: 1, At: 0.5, For: time.Second},
			Fault{Kind: Clock, Agent: 1, At: 0.5, After: 500 * time.Millisecond, For: -time.Hour},
			Fault{Kind: Kill, Agent: 1, At: 0.8, For: time.Second})
		p.Agents, p.Hosts, p.Busy = 1, 12, 0.05
		tellClocked(t, p)
	}
}

// TestClockIsSetBackAfterAnOutage sets the clock back after no host could be reached: no URL waits for the difference.
func TestClockIsSetBackAfterAnOutage(t *testing.T) {
	for seed := range uint64(3) {
		p := clocked(970240+seed, Fault{Kind: NoWeb, At: 0.09, For: 29 * time.Second},
			Fault{Kind: Clock, Agent: 1, At: 0.67, For: -35 * time.Minute})
		p.Agents, p.Hosts, p.Pages, p.HostPages, p.HostDepth, p.SeedRoots = 1, 11, 4, 4, 2, true
		tellClocked(t, p)
	}
}

// TestClocksOfHeirs moves hosts to agents with other clocks: when an agent is lost, leaves or
// joins.
func TestClocksOfHeirs(t *testing.T) {
	for _, f := range []Fault{{Kind: Lose, Agent: 2}, {Kind: Leave, Agent: 2}, {Kind: Join, Agent: 4},
		{Kind: Replace, Agent: 2, For: 2 * time.Second}} {
		for _, by := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			runNamed(t, string(f.Kind)+" "+by.String(), func(t *testing.T) {
				agent := f.Agent
				f.At = 0.4
				p := clocked(5, Fault{Kind: Clock, Agent: agent, For: by}, Fault{Kind: Clock, Agent: 1, For: -by}, f)
				if f.Kind == Join {
					p.Spare = 1
				}
				tellClocked(t, p)
				// The clock of the agent that takes over is set before.
				p.Faults = []Fault{{Kind: Clock, Agent: agent, At: 0.2, For: by},
					{Kind: Clock, Agent: 1, At: 0.2, For: -by}, f}
				tellClocked(t, p)
			})
		}
	}
}

// TestCachesAndClocks checks that a set clock does not confuse caches. Each robots.txt may be
// fetched at most once more, addresses expire in time, and unreachable hosts are retried in time.
func TestCachesAndClocks(t *testing.T) {
	plain := clocked(6)
	plain.Agents, plain.Hosts, plain.Pages, plain.Delay = 1, 20, 40, 2*time.Second
	want := tellClocked(t, plain)
	for _, by := range []time.Duration{2 * time.Hour, -2 * time.Hour, 48 * time.Hour} {
		runNamed(t, by.String(), func(t *testing.T) {
			p := plain
			p.Faults = []Fault{{Kind: Clock, Agent: 1, At: 0.3, For: by}}
			v := tellClocked(t, p)
			if v.Robots > want.Robots+p.Hosts || max(v.Queries-want.Queries, want.Queries-v.Queries) > 2*p.Hosts {
				t.Errorf("%d robots.txt and %d queries; with a right clock %d and %d",
					v.Robots, v.Queries, want.Robots, want.Queries)
			}
			for _, kind := range []Kind{NoWeb, NoDNS} {
				p.Faults = []Fault{{Kind: Clock, Agent: 1, At: 0.2, For: by},
					{Kind: kind, At: 0.3, For: 20 * time.Second},
					{Kind: Clock, Agent: 1, At: 0.3, After: 5 * time.Second}}
				tellClocked(t, p)
			}
		})
	}
}
