package sim

import (
	"flag"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// gate lists the named stories of the gate, by test. Each shows something that no other story of the gate shows. The
// soak tells all stories, and so does go test with -run.
var gate = map[string]string{
	"TestApplications":          `a-death-and-its-restart; a-join; sites,-a-leave; topic,-a-leave; recrawl; keep`,
	"TestCachesAndClocks":       `-2h0m0s`,
	"TestClockIsSetBetweenRuns": `kill-3--2h0m0s; power-1-2h0m0s`,
	"TestClocksOfHeirs":         `join--2h0m0s`,
	"TestDisasters": `three-times; topic; left-before; coordinators,-too; one-of-three; lost-for-good; one-goes-on;
		one-goes-on,-keep; adopter-killed,-late; replaced,-then-all,-hash; replaced,-then-all,-twice,-keep`,
	"TestDomainRate": `deaths`,
	"TestFaults": `killed-while-it-joins; killed-while-it-leaves;
		an-heir-is-killed-during-the-takeover; disk-old; no-dns`,
	"TestKeptArchivesAreNotNamed": `leave-with-an-heir-away,-the-other-one-restarts;
		leave,-and-another-agent-gets-the-name,-with-an-heir-away; stop; killed-and-back;
		leave,-the-heir-restarts-after-400ms; leave,-the-heir-restarts-after-1.8s`,
	"TestLostArchivesAreFetchedAgain": `late; hash,-pages-move; back-in-time`,
	"TestLostArchivesAreNamed":        `an-heir-first; an-heir-leaves-at-once`,
	"TestNamedBoundary":               `no-fault,-mirrors; join-and-death,-urls; each-killed; leave`,
	"TestNamedDeadPorts":              `join; the-owner-is-killed`,
	"TestNamedExclusions":             `the-agent-that-was-told-is-killed`,
	"TestNamedPauses":                 `another-one-loses-its-power; join`,
	"TestNamedSeeds":                  `the-agent-that-was-told-is-lost; leave`,
	"TestNamedSites": `the-leader-is-killed; death-while-no-coordinator-runs; partition-of-the-agents;
		half-of-the-agents-do-not-reach-the-coordinators; the-only-coordinator-loses-power;
		a-coordinator-loses-its-directory; rolling-restart`,
	"TestNamedStories": `no-fault; power-failure,-mirrors; death; partition; stop,-shared-addresses;
		leave-after-a-takeover,-and-a-newcomer; time-limit; pages-of-hosts,-death; page-limit`,
	"TestRate":                  `each-is-killed`,
	"TestStoredPagesAreNotLost": `late; away`,
	"TestWalks":                 `join; death; kill-and-return`,
	"TestWrongClock":            `2h0m0s`,
}

// chosen is true if the user has chosen tests, or the soak runs. Then all named stories are told.
var chosen bool

// told has the named stories that this process has told.
var told = map[string]bool{}

// prepare is called before the tests. In the gate goroutines run one at a time, and stories one after the other. So the
// load of the machine has next to no influence on the order of goroutines: see the package's comment.
func prepare() {
	chosen = testtier.Soak()
	for _, name := range []string{"test.run", "test.skip", "test.list"} {
		chosen = chosen || flag.Lookup(name).Value.String() != ""
	}
	if !testtier.Soak() {
		runtime.GOMAXPROCS(1)
		debug.SetGCPercent(200) // one story at a time needs little memory
	}
}

// untold returns the stories that the gate lists and no test has told, when all tests have ended.
func untold() (names []string) {
	if chosen {
		return nil
	}
	for test := range gate {
		for _, name := range inGate(test) {
			if name = test + "/" + name; !told[name] {
				names = append(names, name)
			}
		}
	}
	return names
}

// inGate returns the names of a test's stories in the gate.
func inGate(test string) []string { return strings.Fields(strings.ReplaceAll(gate[test], ";", " ")) }

// runNamed runs f as a subtest, unless the gate runs and does not list it.
func runNamed(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	name = strings.ReplaceAll(name, " ", "-")
	if chosen || slices.Contains(inGate(t.Name()), name) {
		told[t.Name()+"/"+name] = true
		runStory(t, name, f)
	}
}

// runStory runs f as a subtest. In the soak, it runs at the same time as others.
func runStory(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
		if testtier.Soak() {
			t.Parallel()
		}
		f(t)
	})
}
