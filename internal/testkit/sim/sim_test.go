package sim

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

var (
	stories    = flag.Int("stories", testtier.Rounds(6, 60), "how many random stories TestStories tells")
	first      = flag.Uint64("first", testseed.First(1), "seed of the first of them")
	waits      = flag.Int("waits", testtier.Rounds(2, 10), "how many stories each test of waits tells")
	alone      = flag.Int("alone", testtier.Rounds(6, 60), "how many random stories of a single agent TestAlone tells")
	moving     = flag.Int("moving", testtier.Rounds(1, 8), "how many stories each test with moving pages tells")
	assigned   = flag.Int("assigned", testtier.Rounds(1, 8), "how many random stories TestSites tells")
	refetching = flag.Int("refetching", testtier.Rounds(1, 10), "how many random stories TestRandomRefetch tells")
	applied    = flag.Int("applications", testtier.Rounds(0, 4), "how many random stories TestRandomApplications tells")
	many       = flag.Int("many", 16, "how many agents TestManyTopicAgents has")
	quorums    = flag.Int("coordinated", testtier.Rounds(2, 10), "how many random stories TestCoordinators tells")
)

// tell runs a story and fails if the verdict is bad. The file of openEvents has the events meanwhile.
func tell(t *testing.T, p Plan) (v *Verdict) {
	t.Helper()
	t.Log(p)
	events := openEvents(t, p)
	synctest.Test(t, func(t *testing.T) {
		v = Tell(t, p, events)
		os.Remove(events.Name())
		t.Log(v)
		if !v.Bad() {
			return
		}
		t.Error("the story broke a promise: see its verdict")
		for _, l := range v.Log {
			l, _, _ = strings.Cut(l, "\n")
			t.Log(l)
		}
		t.Logf("events of the agents:\n%s", strings.Join(v.AgentEvents, "\n"))
	})
	return v
}

// TestStories runs random faults in clusters.
func TestStories(t *testing.T) {
	for i := range *stories {
		p := Random(*first + uint64(i))
		runStory(t, fmt.Sprint(p.Seed), func(t *testing.T) {
			tell(t, p)
		})
	}
}

// TestAlone runs random faults of single agents.
func TestAlone(t *testing.T) {
	for i := range *alone {
		p := RandomAlone(*first + uint64(i))
		runStory(t, fmt.Sprint(p.Seed), func(t *testing.T) {
			tell(t, p)
		})
	}
}
