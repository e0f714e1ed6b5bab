package sim

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestKnownRefetches has stories of lost archives that failed when TestRandomRefetch found a mistake by chance. Each is
// named after that mistake.
func TestKnownRefetches(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name string
		plan Plan
	}{
		{"a page of a lost archive counted as a seed when it was fetched again", Plan{
			Seed: 2005, Agents: 4, Hosts: 23, Pages: 15, Delay: 351 * ms, Busy: 0.0347121695757277, Failing: 0.02,
			Broken: 0.03, Delays: 0.3, Pause: time.Second, Partition: membership.PartitionHash, Latency: 7 * ms,
			HostDepth: 2,
			Faults: []Fault{
				{Kind: Lossy, At: 0.48, For: 34123 * ms},
				{Kind: Lose, Agent: 3, At: 0.911, After: 3 * time.Second},
			},
		}},
	} {
		for range testtier.Rounds(1, 3) { // runs of one plan may differ
			runStory(t, c.name, func(t *testing.T) {
				p := c.plan
				p.OnLoss = membership.LossRefetch
				tell(t, p)
			})
		}
	}
}
