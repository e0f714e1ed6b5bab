package sim

import (
	"testing"
	"time"
)

// TestNamedDeadPorts: each host has many URLs on a port that refuses connections. The crawl ends, misses no page, and
// tries the port as often as one URL, however many there are. An agent that gets a host tries it anew.
func TestNamedDeadPorts(t *testing.T) {
	const s, tries = time.Second, 5
	base := Plan{Seed: 81, Agents: 3, Hosts: 12, Pages: 20, Delay: s, Latency: time.Millisecond, DeadURLs: 50}
	alone := base
	alone.Agents = 1
	with := func(p Plan, fs ...Fault) Plan { p.Faults = fs; return p }
	spare := base
	spare.Spare = 1
	hash := base
	hash.Partition, hash.Boundary = "hash", "contents"
	byTopic := base
	byTopic.Partition = topic
	for _, c := range []struct {
		name   string
		plan   Plan
		may    bound
		owners int // that try a dead port, at most
	}{
		{"one agent", alone, bound{}, 1},
		{"one agent, killed", with(alone, Fault{Kind: Kill, Agent: 1, At: 0.3, For: s}), bound{twice: 5}, 2},
		{"three agents", base, bound{}, 1},
		{"the owner is killed", with(base, Fault{Kind: Kill, Agent: 2, At: 0.3, For: s}), bound{twice: 10}, 2},
		{"the owner is lost", with(base, Fault{Kind: Lose, Agent: 2, At: 0.3}), bound{twice: 25, lost: true}, 2},
		{"join", with(spare, Fault{Kind: Join, Agent: 4, At: 0.3}), bound{}, 2},
		{"leave", with(base, Fault{Kind: Leave, Agent: 2, At: 0.3}), bound{}, 2},
		{"hash, a death", with(hash, Fault{Kind: Lose, Agent: 2, At: 0.3}), bound{twice: 25, lost: true}, 2},
		{"topic", byTopic, bound{twice: 200}, 3},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			v := tell(t, c.plan)
			c.may.hold(t, v)
			if len(v.Struck) != len(c.plan.Faults) {
				t.Errorf("the faults %v happened, of %v", v.Struck, c.plan.Faults)
			}
			hosts := int(c.plan.Hosts)
			if least, most := hosts*tries, hosts*tries*c.owners; v.DeadTries < least || v.DeadTries > most {
				t.Errorf("%d tries of dead ports, want %d to %d", v.DeadTries, least, most)
			}
		})
	}
}
