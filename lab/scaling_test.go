package lab

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// The counts of an agent are interpolated between its lines of progress.
func TestAgentAt(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(0, int64(s*1e9)) }
	a := &scaled{progress: []paged{{at: at(1)}, {at: at(2), pages: 10, bytes: 100}, {at: at(4), pages: 50, bytes: 500}}}
	for _, c := range []struct {
		at, want float64
		ok       bool
	}{{0.5, 0, false}, {1, 0, true}, {1.5, 5, true}, {2, 10, true}, {3, 30, true}, {4, 50, false}} {
		got, ok := a.at(at(c.at)), a.crawledAt(at(c.at))
		if ok != c.ok || math.Abs(got.pages-c.want) > 1e-9 || math.Abs(got.received-10*c.want) > 1e-9 {
			t.Errorf("at %v s: %+v, %v, want %v, %v", c.at, got, ok, c.want, c.ok)
		}
	}
}

// The result compares each run with the run of one agent beside it, and says whether the aim is reached.
func TestScalingResult(t *testing.T) {
	x := &Scaling{Agents: []int{1, 7}, Bandwidth: 1_000_000, Runs: 3}
	text := rendered(t, x.result([]ScalingRun{
		{Kind: kindLine, Agents: 1, Run: 1, Line: 1, PagesPerS: 100},
		{Kind: kindLine, Agents: 7, Run: 1, Line: 0.9, PagesPerS: 90,
			costs: costs{Overhead: 4, Exchanged: 500, CPU: 2000, Peak: 9e6, Pages: 10}},
		{Kind: kindLine, Agents: 1, Run: 2, Line: 0.5, PagesPerS: 50},
		{Kind: kindLine, Agents: 7, Run: 2, Line: 0.51, PagesPerS: 53,
			costs: costs{Overhead: 2, Exchanged: 700, CPU: 1000, Peak: 5e6, Pages: 40}},
		{Kind: kindLine, Agents: 1, Run: 3, Line: 1, PagesPerS: 100},
		{Kind: kindLine, Agents: 7, Run: 3, Line: 0.98, PagesPerS: 98,
			costs: costs{Overhead: 3, Exchanged: 600, CPU: 3000, Peak: 7e6, Pages: 40}},
		{Kind: kindWhole, Agents: 7, Run: 1, costs: costs{Overhead: 0.5}},
		{Kind: kindThreads, Agents: 2, Run: 1, Threads: 8, PagesPerS: 60, costs: costs{Overhead: 3, CPU: 1000}},
		{Kind: kindThreads, Agents: 2, Run: 2, Threads: 8, PagesPerS: 66, costs: costs{Overhead: 3, CPU: 1000}},
	}))
	for _, want := range []string{
		"7 agents 3.00 links and 600 bytes a page, which is 6.0 % of the 10,000 bytes that a page takes",
		"is missed: 98.0 %.",
		"|      7 |         90.0 |       98.0 |      90.0 |        102.0 |",
		"|      7 |    29 |             3.000 |                   0.000 |                    600 |" +
			"               2,000 |           9 |",
		"|      7 |     0 |             0.500 |", "|       8 |     7.87 |                    9.5 |              0.13 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
}

// The whole experiment, with two agents for a short time.
func TestScalingExperiment(t *testing.T) {
	testtier.OnlySoak(t, "measures the speed for some seconds")
	finishes(t, &Scaling{Agents: []int{1, 2}, Warm: time.Second, Measured: 2 * time.Second, Hosts: 20},
		buildTrial(t))
}
