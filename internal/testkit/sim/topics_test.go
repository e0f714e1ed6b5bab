package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestFocusedCluster: agents that want their own topics first fetch all pages, as breadth-first agents do. More of the
// first fetches are of pages that stay with the agent. The seed decides how many, up to the order of goroutines within
// an instant, which moves the shares by about 0.01. The two orders differ by 0.17 or more, and the test wants 0.05.
func TestFocusedCluster(t *testing.T) {
	testtier.OnlySoak(t, "TestTopic is shorter")
	const margin = 0.05
	p := Plan{Seed: 72, Agents: 3, Hosts: 80, Pages: 8, Delay: 50 * time.Millisecond, Partition: topic,
		Latency: time.Millisecond, Topics: 11, Rate: "10/s"}
	share := func(p Plan) (stays float64) {
		t.Log(p)
		synctest.Test(t, func(t *testing.T) {
			s, v := tellAll(t, p, nil)
			bound{more: keptOnce}.hold(t, v)
			if t.Log(v); v.Bad() {
				t.Errorf("the story broke a promise:\n%s", strings.Join(v.Log, "\n"))
			}
			stays = s.stays(v, int(v.Reachable)*2/3)
		})
		return stays
	}
	plain := share(p)
	p.Focused = true
	focused := share(p)
	t.Logf("of the first pages %.3f stay with their agent, breadth-first %.3f", focused, plain)
	if focused < plain+margin {
		t.Errorf("want at least %.2f more than breadth-first", margin)
	}
}

// stays returns the share of the first n fetches of pages that are in the archive of the agent that fetched them.
func (s *story) stays(v *Verdict, n int) float64 {
	type fetch struct {
		at    time.Time
		stays bool
	}
	var all []fetch
	s.judge.mu.Lock()
	defer s.judge.mu.Unlock()
	for p, fs := range s.judge.pages {
		keepers := v.Archived[s.made.URL(p.host, p.number)]
		for _, f := range fs {
			all = append(all, fetch{f.at, slices.Contains(keepers, fmt.Sprintf("a%d", f.agent))})
		}
	}
	slices.SortStableFunc(all, func(a, b fetch) int { return a.at.Compare(b.at) })
	kept := 0
	for _, f := range all[:n] {
		if f.stays {
			kept++
		}
	}
	return float64(kept) / float64(n)
}

// keptOnce fails unless each page is kept by exactly one of the agents.
func keptOnce(t *testing.T, v *Verdict) {
	t.Helper()
	pages := int64(0)
	for u, agents := range v.Archived {
		if strings.HasSuffix(u, "/robots.txt") {
			continue
		}
		// An agent may have the page twice: it has fetched the page, and gets it from another agent that has as well.
		if pages++; len(slices.Compact(agents)) != 1 {
			t.Errorf("%s is archived by %v", u, agents)
		}
	}
	if pages != v.Reachable {
		t.Errorf("%d pages are archived, want %d", pages, v.Reachable)
	}
}

// TestManyTopicAgents: with more agents than categories each category has several parts. All pages are fetched, and
// each is kept by one agent. If an agent joins and another dies, a page may be fetched for the earlier and for the
// later agent of its category, but no page is kept by more agents than have fetched it.
func TestManyTopicAgents(t *testing.T) {
	quiet := Plan{Seed: 81, Agents: *many, Hosts: 6, Pages: 4, Delay: 200 * time.Millisecond, Partition: topic,
		Latency: time.Millisecond, Topics: 11}
	changing := quiet
	changing.Spare = 1
	changing.Faults = []Fault{{Kind: Join, Agent: *many + 1, At: 0.1}, {Kind: Lose, Agent: 2, At: 0.2}}
	for _, c := range []struct {
		name string
		plan Plan
		may  bound
	}{
		{"no fault", quiet, bound{more: keptOnce}},
		{"join and death", changing, bound{twice: 40}},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, v := tellAll(t, c.plan, nil)
				c.may.hold(t, v)
				s.keptByFetch(t, v)
				if t.Log(v); v.Bad() || len(v.Struck) != len(c.plan.Faults) {
					t.Errorf("the story broke a promise, or lacks a fault:\n%s", strings.Join(v.Log, "\n"))
				}
			})
		})
	}
}

// keptByFetch fails if more agents keep a page than have fetched it.
func (s *story) keptByFetch(t *testing.T, v *Verdict) {
	t.Helper()
	s.judge.mu.Lock()
	defer s.judge.mu.Unlock()
	for p, fs := range s.judge.pages {
		u := s.made.URL(p.host, p.number)
		keepers := slices.Clone(v.Archived[u])
		slices.Sort(keepers)
		if len(slices.Compact(keepers)) > len(fs) {
			t.Errorf("%s was fetched %d times, and is archived by %v", u, len(fs), keepers)
		}
	}
}
