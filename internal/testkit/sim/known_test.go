package sim

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestKnown has stories that failed when the simulation found a mistake by chance. Each is named
// after that mistake. TestStories and TestAlone log the Plan of a new one.
func TestKnown(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name  string
		plan  Plan
		stall time.Duration // the longest time without a page; 0: the judge's bound
	}{
		{"an agent held back all hosts that were left and asked for no lease", quiet(4), stallMost},
		{"the agent that ended the crawl went on alone when its view changed", Plan{
			Seed: 12, Agents: 3, Spare: 1, Hosts: 18, Pages: 4, Delay: 111 * ms, Latency: 16 * ms,
			Faults: []Fault{
				{Kind: Full, Agent: 2, At: 0.01, For: 1414 * ms},
				{Kind: Join, Agent: 4, At: 0.27},
			},
		}, 0},
		{"an outage took most tries of a page, and the web refused the last one", Plan{
			Seed: 810187, Agents: 1, Hosts: 6, Pages: 5, Delay: 94 * ms, Busy: 0.06, Pause: 1000 * ms,
			Faults: []Fault{{Kind: Offline, Agent: 1, At: 0.01, For: 13064 * ms}},
		}, 0},
		{"an agent left that had the only replica of an agent with a full disk", Plan{
			Seed: 830046, Agents: 3, Hosts: 9, Pages: 4, Delay: 384 * ms, Replicas: 2,
			Faults: []Fault{
				{Kind: Full, Agent: 2, At: 0.01, For: 46532 * ms},
				{Kind: Leave, Agent: 3, At: 0.24},
			},
		}, 0},
		{"one agent refused to end after another had agreed", Plan{
			Seed: 207, Agents: 4, Hosts: 11, Pages: 10, Delay: 192 * ms, Latency: 12 * ms,
			Faults: []Fault{
				{Kind: Kill, Agent: 2, At: 0.46, For: 53497 * ms},
				{Kind: Slow, Agent: 1, At: 0.73, For: 21091 * ms},
				{Kind: Lossy, At: 0.81, For: 19205 * ms},
			},
		}, 0},
		{"one agent refused to end while two were away", Plan{
			Seed: 116, Agents: 5, Hosts: 24, Pages: 4, Delay: 120 * ms, Latency: 8 * ms,
			Faults: []Fault{
				{Kind: Slow, Agent: 3, At: 0.27, For: 20374 * ms},
				{Kind: Power, Agent: 3, At: 0.74, For: 31959 * ms},
				{Kind: Lose, Agent: 1, At: 0.74},
			},
		}, 0},
		{"all were killed and the first to come back crawled the hosts of the others", Plan{
			Seed: 135, Agents: 3, Spare: 2, Hosts: 25, Pages: 13, Delay: 216 * ms, Latency: 18 * ms,
			Faults: []Fault{
				{Kind: Join, Agent: 4, At: 0.04},
				{Kind: KillAll, At: 0.04, After: 8752 * ms, For: 4451 * ms},
				{Kind: Join, Agent: 5, At: 0.04, After: 5180 * ms},
			},
		}, 0},
		{"an agent whose clock was set back as it stopped waited for an hour", Plan{
			Seed: 40286, Agents: 1, Hosts: 3, Pages: 7, Delay: 48 * ms,
			Faults: []Fault{
				{Kind: Stop, Agent: 1, At: 0.53, For: 2769 * ms},
				{Kind: Clock, Agent: 1, At: 0.57, For: -4472805 * ms},
			},
		}, 0},
		{"an agent that went on waited for a replaced one that waited for it", Plan{
			Seed: 10682, Agents: 2, Hosts: 22, Pages: 4, Delay: 266 * ms, Latency: ms,
			Faults: []Fault{
				{Kind: Replace, Agent: 1, At: 0.5, For: 1012 * ms},
				{Kind: Kill, Agent: 2, At: 0.5, After: 1500 * ms, For: 50 * ms},
			},
		}, 30 * time.Second},
		{"pages with links to a lost agent are not finished until the loss is noticed", Plan{
			Seed: 21089, Agents: 5, Hosts: 38, Pages: 14, Delay: 210 * ms, Latency: 12 * ms, Partition: "ring",
			Faults: []Fault{
				{Kind: Power, Agent: 4, At: 0.29, For: 1900 * ms},
				{Kind: Kill, Agent: 1, At: 0.29, After: 3872 * ms, For: 58154 * ms},
			},
		}, 0},
		{"contents were asked of a lost agent when all were killed", Plan{
			Seed: 10217, Agents: 3, Hosts: 6, Pages: 9, Delay: 265 * ms, Partition: "hash",
			Faults: []Fault{
				{Kind: Lose, Agent: 3, At: 0.04},
				{Kind: KillAll, At: 0.04, After: 3381 * ms, For: 9245 * ms},
			},
		}, 0},
		{"one replica of hosts that came from an agent that left", Plan{
			Seed: 10862, Agents: 3, Hosts: 12, Pages: 8, Delay: 309 * ms, Replicas: 1, Latency: 13 * ms,
			Faults: []Fault{
				{Kind: Full, Agent: 2, At: 0.37, For: 2281 * ms},
				{Kind: Leave, Agent: 3, At: 0.5},
			},
		}, 0},
		{"the last agent said that the loss of one more loses nothing", Plan{
			Seed: 20041, Agents: 2, Hosts: 14, Pages: 7, Delay: 298 * ms, Latency: 6 * ms,
			Faults: []Fault{
				{Kind: NoWeb, At: 0.51, For: 4344 * ms},
				{Kind: Lose, Agent: 2, At: 0.62},
				{Kind: Replace, Agent: 1, At: 0.62, After: 5878 * ms, For: 4232 * ms},
			},
		}, 0},
		{"an agent forgot who waits for its leases in a view without them", Plan{
			Seed: 20076, Agents: 3, Hosts: 18, Pages: 13, Delay: 190 * ms, Latency: 6 * ms,
			Faults: []Fault{
				{Kind: Old, Agent: 1, At: 0.38, For: 6768 * ms},
				{Kind: OneWay, Agent: 3, At: 0.54, For: 28854 * ms},
				{Kind: Full, Agent: 2, At: 0.56, For: 18905 * ms},
			},
		}, 60 * time.Second},
		{"an agent that started again met nobody, because the others ended while it was cut off", Plan{
			Seed: 700116, Agents: 2, Hosts: 19, Pages: 13, Delay: 135 * ms, Latency: 8 * ms,
			Faults: []Fault{
				{Kind: Lossy, At: 0.42, For: 12831 * ms},
				{Kind: Kill, Agent: 1, At: 0.45, For: 63 * ms},
				{Kind: Cut, Agent: 1, At: 0.72, For: 20650 * ms},
			},
		}, 0},
		{"the coordinators ended the crawl while most agents, with all copies of a host, were cut off", Plan{
			Seed: 700002, Agents: 4, Hosts: 11, Pages: 4, Delay: 399 * ms, Replicas: 2, Latency: ms, Crosslinked: 0.1,
			HostPages: 3, HostDepth: 1, SeedRoots: true, Partition: sites, Coordinators: 1,
			Faults: []Fault{
				{Kind: NoWeb, At: 0.19, For: 6396 * ms},
				{Kind: Full, Agent: 2, At: 0.19, After: 273 * ms, For: 1750 * ms},
				{Kind: Cut, Agent: 3, At: 0.19, After: 93 * ms, For: 37686 * ms},
				{Kind: KillLeader, At: 0.69, For: 2909 * ms},
			},
		}, 0},
		{"an agent was stopped until the others, of which one had been cut off, had ended", Plan{
			Seed: 710000, Agents: 5, Hosts: 33, Pages: 11, Delay: 294 * ms, Replicas: 1, Latency: 13 * ms,
			Partition: sites, Coordinators: 3,
			Faults: []Fault{
				{Kind: KillLeader, At: 0.04, For: 13253 * ms},
				{Kind: OneWay, Agent: 4, At: 0.59, For: 23018 * ms},
				{Kind: KillLeader, At: 0.61, For: 5030 * ms},
				{Kind: NoWeb, At: 0.83, For: 4956 * ms},
				{Kind: Stop, Agent: 5, At: 0.86, For: 22906 * ms},
			},
		}, 0},
		{"an agent was cut off until the others, which had been apart, had ended", Plan{
			Seed: 710004, Agents: 3, Hosts: 30, Pages: 9, Delay: 128 * ms, Replicas: 2, Latency: 15 * ms, Addresses: 10,
			Partition: sites, Coordinators: 5,
			Faults: []Fault{
				{Kind: NoCoordinators, At: 0.45, For: 818 * ms},
				{Kind: CutCoordinator, Agent: 5, At: 0.48, For: 12169 * ms},
				{Kind: Cut, Agent: 2, At: 0.51, For: 6901 * ms},
				{Kind: OneWay, Agent: 1, At: 0.51, After: 11526 * ms, For: 26593 * ms},
				{Kind: Clock, Agent: 1, At: 0.51, After: 9491 * ms, For: -5823896 * ms},
			},
		}, 0},
		{"hosts rested twice as long after the second outage of the web", Plan{
			Seed: 700157, Agents: 2, Hosts: 15, Pages: 10, Delay: 229 * ms, Latency: 2 * ms,
			Faults: []Fault{
				{Kind: NoWeb, At: 0.04, For: 16918 * ms},
				{Kind: NoWeb, At: 0.7, For: 17383 * ms},
			},
		}, 0},
		{"an old disk lacked what others had told the new agent", Plan{
			Seed: 700574, Agents: 5, Hosts: 36, Pages: 5, Delay: 267 * ms, Latency: 7 * ms,
			Faults: []Fault{
				{Kind: Replace, Agent: 1, At: 0.55, For: 7507 * ms},
				{Kind: Old, Agent: 1, At: 0.88, For: 7547 * ms},
			},
		}, 0},
		{"an agent that could not store what others shipped went on, and nobody ended", Plan{
			Seed: 710058, Agents: 5, Hosts: 11, Pages: 13, Delay: 258 * ms, Latency: 13 * ms,
			Faults: []Fault{{Kind: Fail, Agent: 2, At: 0.28, For: 58539 * ms}},
		}, 0},
		{"two starts of an agent had one number, because its disk came back old", Plan{
			Seed: 710336, Agents: 5, Hosts: 36, Pages: 9, Delay: 61 * ms, Latency: 5 * ms, Addresses: 12,
			Faults: []Fault{
				{Kind: Old, Agent: 5, At: 0.35, For: 7146 * ms},
				{Kind: Old, Agent: 5, At: 0.84, For: 9182 * ms},
				{Kind: NoWeb, At: 0.84, After: 540 * ms, For: 26035 * ms},
			},
		}, 0},
		{"a power failure lost records of pages that an heir took for done", Plan{
			Seed: 710417, Agents: 5, Hosts: 35, Pages: 6, Delay: 356 * ms, Latency: 8 * ms,
			Faults: []Fault{{Kind: Power, Agent: 5, At: 0.49, For: 42534 * ms}},
		}, 0},
		{"two agents were away, one after the other", Plan{
			Seed: 710736, Agents: 5, Hosts: 33, Pages: 8, Delay: 181 * ms, Latency: 18 * ms,
			Faults: []Fault{
				{Kind: Full, Agent: 1, At: 0.08, For: 21719 * ms},
				{Kind: Power, Agent: 5, At: 0.08, After: 8250 * ms, For: 34739 * ms},
			},
		}, 0},
		{"a clock set forward before a restart ended pauses", Plan{
			Seed: 710482, Agents: 1, Hosts: 7, Pages: 18, Delay: 35 * ms, Busy: 0.05, Pause: time.Second,
			Faults: []Fault{
				{Kind: Clock, Agent: 1, At: 0.38, For: 4680482 * ms},
				{Kind: Kill, Agent: 1, At: 0.42, For: 115 * ms},
			},
		}, 0},
		{"the last agent was lost while the other one left", Plan{
			Seed: 730472, Agents: 2, Hosts: 32, Pages: 9, Delay: 295 * ms, Latency: 12 * ms,
			Faults: []Fault{
				{Kind: Leave, Agent: 1, At: 0.41},
				{Kind: Replace, Agent: 2, At: 0.45, For: 4049 * ms},
			},
		}, 0},
		{"an agent stopped before the loss of another was noticed", Plan{
			Seed: 730596, Agents: 3, Hosts: 37, Pages: 10, Delay: 339 * ms, Latency: 8 * ms,
			Faults: []Fault{
				{Kind: Replace, Agent: 3, At: 0.21, For: 9279 * ms},
				{Kind: Stop, Agent: 2, At: 0.4, For: 46144 * ms},
			},
		}, 0},
		{"connections to an agent that lost power were silent for 9 s", Plan{
			Seed: 740159, Agents: 4, Hosts: 20, Pages: 14, Delay: 60 * ms, Latency: 8 * ms, Partition: "hash",
			Faults: []Fault{
				{Kind: Power, Agent: 3, At: 0.38, For: 1282 * ms},
				{Kind: Fail, Agent: 4, At: 0.38, After: 6191 * ms, For: 42100 * ms},
			},
		}, 5 * time.Second},
		{"a new agent was cut off while it asked for what others knew of its hosts", Plan{
			Seed: 14099, Agents: 3, Spare: 1, Hosts: 38, Pages: 12, Delay: 301 * ms, Replicas: 1, Latency: 18 * ms,
			Capacity: 4,
			Faults: []Fault{
				{Kind: Join, Agent: 4, At: 0.63},
				{Kind: Cut, Agent: 2, At: 0.67, For: 16332 * ms},
			},
		}, 0},
		{"an agent was killed while its disk was full", Plan{
			Seed: 730698, Agents: 2, Hosts: 25, Pages: 10, Delay: 247 * ms, Latency: 19 * ms,
			Faults: []Fault{
				{Kind: Full, Agent: 1, At: 0.61, For: 1764 * ms},
				{Kind: Fail, Agent: 2, At: 0.61, After: 481 * ms, For: 18509 * ms},
				{Kind: KillAll, At: 0.61, After: 870 * ms, For: 8884 * ms},
			},
		}, 0},
		{"an agent that left lost a lease, because the next grantor had an older view", Plan{
			Seed: 920134, Agents: 2, Hosts: 21, Pages: 10, Delay: 89 * ms, Busy: 0.07, Failing: 0.02, Broken: 0.03,
			Pause: time.Second, Replicas: 2, Partition: "rendezvous", Addresses: 7, Latency: 4 * ms,
			Faults: []Fault{{Kind: Leave, Agent: 1, At: 0.6}},
		}, 0},
	} {
		for range testtier.Rounds(1, 3) { // runs of one plan may differ
			runStory(t, c.name, func(t *testing.T) {
				if v := tell(t, c.plan); c.stall > 0 && v.Stall > c.stall {
					t.Errorf("no page for %s, at most %s", v.Stall, c.stall)
				}
			})
		}
	}
}
