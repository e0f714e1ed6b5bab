package sim

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestWalks: the walkers of all agents together make the visits that those of a single agent make,
// whatever happens to the agents.
func TestWalks(t *testing.T) {
	alone := Plan{Seed: 51, Agents: 1, Hosts: 25, Pages: 8, Delay: time.Second, Walk: 3000}
	wanted := tell(t, alone)
	if sum(wanted.Visits) < 2000 || len(wanted.Visits) < 50 {
		t.Fatalf("%d visits to %d pages", sum(wanted.Visits), len(wanted.Visits))
	}
	plan := func(agents, spare int, fs ...Fault) Plan {
		p := alone
		p.Agents, p.Spare, p.Latency, p.Faults = agents, spare, 5*time.Millisecond, fs
		return p
	}
	const s = time.Second
	for _, c := range []struct {
		name string
		plan Plan
	}{
		{"two agents", plan(2, 0)},
		{"no fault", plan(4, 0)},
		{"ring", func() Plan { p := plan(3, 0); p.Partition = "ring"; return p }()},
		{"one replica", func() Plan { p := plan(3, 0); p.Replicas = 1; return p }()},
		{"join", plan(2, 1, Fault{Kind: Join, Agent: 3, At: 0.2})},
		{"kill and return", plan(3, 0, Fault{Kind: Kill, Agent: 2, At: 0.2, For: 100 * time.Millisecond})},
		{"kill and late return", plan(3, 0, Fault{Kind: Kill, Agent: 2, At: 0.2, For: 20 * s})},
		{"all killed", plan(3, 0, Fault{Kind: KillAll, At: 0.2, For: 2 * s})},
		{"stop and return", plan(3, 0, Fault{Kind: Stop, Agent: 1, At: 0.2, For: 15 * s})},
		{"leave", plan(3, 0, Fault{Kind: Leave, Agent: 2, At: 0.2})},
		{"death", plan(3, 0, Fault{Kind: Lose, Agent: 3, At: 0.2})},
		{"bad network", plan(3, 0, Fault{Kind: Lossy, At: 0.05, For: time.Hour})},
		{"false suspicion", plan(3, 0, Fault{Kind: Offline, Agent: 3, At: 0.2, For: 30 * s})},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			v := tell(t, c.plan)
			if diff := cmp.Diff(wanted.Visits, v.Visits); diff != "" {
				t.Errorf("%d visits (-one agent +cluster):\n%.2000s", sum(v.Visits), diff)
			}
		})
	}
}

func sum(visits map[string]int) (n int) {
	for _, v := range visits {
		n += v
	}
	return n
}
