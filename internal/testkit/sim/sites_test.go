package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSites runs the random faults of clusters, and faults of coordinators, in clusters with coordinators.
func TestSites(t *testing.T) {
	for i := range *assigned {
		p := Random(*first + uint64(i)).Divided(sites)
		runStory(t, fmt.Sprint(p.Seed), func(t *testing.T) {
			tell(t, p)
		})
	}
}

// TestSitesPlans: a plan with coordinators has what it needs, and without them it has none of their faults.
func TestSitesPlans(t *testing.T) {
	kinds := map[Kind]int{}
	for seed := range uint64(300) {
		p := Random(seed).Divided(sites)
		if _, err := Parse(p.JSON()); err != nil {
			t.Fatalf("%s\n%v", p, err)
		}
		for _, f := range p.Faults {
			if _, are := ofCoordinators[f.Kind]; are {
				kinds[f.Kind]++
			}
		}
		if back := p.Divided("ring"); back.check() != nil || back.Coordinators != 0 {
			t.Errorf("%s\n%v", back, back.check())
		}
	}
	if len(kinds) != len(ofCoordinators)-1 { // all but LoseCoordinator
		t.Errorf("only these faults of coordinators: %v", kinds)
	}
}

// TestNamedSites runs stories of clusters with coordinators. Each shows a promise of docs/cluster-modes.md.
func TestNamedSites(t *testing.T) {
	const s = time.Second
	// Its hosts are found during the first half of the crawl, many of them after 0.05.
	long := Plan{Seed: 61, Agents: 4, Hosts: 80, Pages: 8, Delay: 300 * time.Millisecond, Latency: time.Millisecond,
		Partition: sites, Coordinators: 3}
	with := func(p Plan, fs ...Fault) Plan { p.Faults = fs; return p }
	coordinators := func(p Plan, n int) Plan { p.Coordinators = n; return p }
	spare := func(p Plan, n int) Plan { p.Spare = n; return p }
	for _, c := range []struct {
		name string
		plan Plan
		may  bound
	}{
		{"no fault", long, bound{more: divided}},
		{"one coordinator", coordinators(long, 1), bound{more: divided}},
		{"the leader is killed", with(long, Fault{Kind: KillLeader, At: 0.1, For: 20 * s}), bound{more: divided}},
		{"two are killed in turn", with(long, Fault{Kind: KillLeader, At: 0.1, For: 5 * s},
			Fault{Kind: KillLeader, At: 0.1, After: 15 * s, For: 5 * s}), bound{more: divided}},
		{"two are killed in turn and stay away", with(coordinators(long, 5),
			Fault{Kind: KillLeader, At: 0.05, For: time.Hour},
			Fault{Kind: KillLeader, At: 0.1, After: 10 * s, For: time.Hour}), bound{more: divided}},
		{"half of the agents do not reach the coordinators", with(long,
			Fault{Kind: Blind, Agent: 2, At: 0.05, For: 30 * s}), bound{more: divided}},
		{"no coordinator for a minute", with(long, Fault{Kind: NoCoordinators, At: 0.05, For: 60 * s}),
			bound{stall: 90 * s, more: divided}},
		{"no coordinator for the rest of the crawl", with(long, Fault{Kind: NoCoordinators, At: 0.05, For: time.Hour}),
			bound{stall: 2 * time.Hour, more: divided}},
		{"a coordinator with a full disk", with(long, Fault{Kind: FullCoordinator, Agent: 1, At: 0.05, For: time.Hour}),
			bound{more: divided}},
		{"the only coordinator has a full disk", with(coordinators(long, 1),
			Fault{Kind: FullCoordinator, Agent: 1, At: 0.05, For: 20 * s}), bound{stall: 60 * s, more: divided}},
		{"the only coordinator loses power", with(coordinators(long, 1),
			Fault{Kind: PowerCoordinator, Agent: 1, At: 0.05, For: 5 * s}), bound{stall: 60 * s, more: divided}},
		// The others need the vote of the coordinator that has lost its directory, as soon as each of them is killed.
		{"a coordinator loses its directory", with(long, Fault{Kind: LoseCoordinator, Agent: 1, At: 0.05, For: 2 * s},
			Fault{Kind: KillCoordinator, Agent: 2, At: 0.05, After: 12 * s, For: 5 * s},
			Fault{Kind: KillCoordinator, Agent: 3, At: 0.05, After: 12 * s, For: 5 * s}),
			bound{more: func(t *testing.T, v *Verdict) {
				divided(t, v)
				loggedAt(t, v, "c1: consensus-caught-up")
			}}},
		{"death", with(long, Fault{Kind: Lose, Agent: 3, At: 0.3}), bound{twice: 25}},
		// For 5 s, links to new hosts wait at a3, and so do the finishes of their pages, and of pages before them. It
		// fetches about ten pages a second for 12 s. The order of goroutines decides how many of these it loses with
		// its disk: 9 to 88 in 60 runs.
		{"death while no coordinator runs", with(long, Fault{Kind: NoCoordinators, At: 0.2, For: 30 * s},
			Fault{Kind: Lose, Agent: 3, At: 0.2, After: 5 * s}), bound{twice: 120, stall: 90 * s}},
		{"death of an agent and of the leader", with(long, Fault{Kind: Kill, Agent: 3, At: 0.3, For: time.Hour},
			Fault{Kind: KillLeader, After: s, For: 30 * s}), bound{twice: 25}},
		{"kill and return", with(long, Fault{Kind: Kill, Agent: 2, At: 0.2, For: 30 * s}), bound{twice: 25}},
		{"join", with(spare(long, 1), Fault{Kind: Join, Agent: 5, At: 0.05}), bound{more: fetchedBy("a5")}},
		{"leave", with(long, Fault{Kind: Leave, Agent: 2, At: 0.2}), bound{}},
		{"rolling restart", with(long, Fault{Kind: Stop, Agent: 1, At: 0.1, For: 200 * time.Millisecond},
			Fault{Kind: KillCoordinator, Agent: 1, At: 0.2, For: 200 * time.Millisecond},
			Fault{Kind: Stop, Agent: 2, At: 0.3, For: 200 * time.Millisecond},
			Fault{Kind: KillCoordinator, Agent: 2, At: 0.4, For: 200 * time.Millisecond},
			Fault{Kind: Stop, Agent: 3, At: 0.5, For: 200 * time.Millisecond}), bound{lost: true}},
		{"all killed", with(long, Fault{Kind: KillAll, At: 0.3, For: 3 * s},
			Fault{Kind: NoCoordinators, At: 0.3, For: 3 * s}), bound{twice: 40}},
		// The agents on the side without coordinators go on for 6 s. They fetch about ten pages a second, and cannot
		// tell the heirs on the other side. When the network is well again, the coordinators take these agents back at
		// once, but each side leases addresses and domains for itself until the views of gossip agree. This takes up
		// to 2 s. Meanwhile four agents make about 40 requests a second, each too early for an address and a domain.
		{"partition of the agents", with(long, Fault{Kind: Cut, Agent: 2, At: 0.2, For: 30 * s}),
			bound{twice: 80, excused: 160, more: keptDuringCut}},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			v := tell(t, c.plan)
			c.may.hold(t, v)
			if len(v.Struck) != len(c.plan.Faults) {
				t.Errorf("the faults %v happened, of %v", v.Struck, c.plan.Faults)
			}
			if slices.Contains(v.Struck, NoCoordinators) && c.may.stall >= time.Hour && v.Took < time.Hour {
				t.Errorf("the crawl took %s although no coordinator ran for an hour", v.Took)
			}
		})
	}
}

// TestTwoLevel: without the exchange of links, agents reach all pages that the root pages of the hosts lead to, each
// once. They drop links to hosts of each other.
func TestTwoLevel(t *testing.T) {
	for seed := range uint64(3) {
		runStory(t, fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := Plan{Seed: seed, Agents: 3, Hosts: 40, Pages: 8, Delay: 200 * time.Millisecond,
					Latency: time.Millisecond, Partition: sites, Coordinators: 1, Crosslinked: 0.2, TwoLevel: true}
				s, v := tellAll(t, p, nil)
				bound{}.hold(t, v)
				dropped := int64(0)
				for _, a := range s.actors {
					dropped += a.run.result.Summary.Skipped["otherAgent"]
				}
				if t.Log(v); v.Bad() || v.Fetched < v.Reachable || dropped == 0 {
					t.Errorf("%d of %d pages, %d links dropped:\n%s", v.Fetched, v.Reachable, dropped,
						strings.Join(v.Log, "\n"))
				}
			})
		})
	}
}

// keptDuringCut fails if a request was too early while one side of a cut had no right to start visits. This is from
// 7 s after the cut on: the right lasts for 6 s after the last answer of the other side, and a visit that began just
// before its end takes less than a second.
func keptDuringCut(t *testing.T, v *Verdict) {
	t.Helper()
	from, to := loggedAt(t, v, "fault: "), loggedAt(t, v, "the network is well again")
	if to-from < 20*time.Second {
		t.Fatalf("the network was cut from %s to %s, want at least 20s", from, to)
	}
	for _, w := range v.Excused {
		if w.At > from+7*time.Second && w.At < to {
			t.Errorf("cut from %s to %s: %s", from, to, w)
		}
	}
}

// loggedAt returns when a story logged a line that begins with text.
func loggedAt(t *testing.T, v *Verdict, text string) time.Duration {
	t.Helper()
	for _, line := range v.Log {
		at, rest, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if d, err := time.ParseDuration(at); err == nil && strings.HasPrefix(rest, text) {
			return d
		}
	}
	t.Fatalf("no line begins with %q in\n%s", text, strings.Join(v.Log, "\n"))
	return 0
}
