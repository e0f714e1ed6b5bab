package sim

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/membership"
)

// TestLostArchivesAreFetchedAgain: with --on-loss refetch, every page is in the archive of an agent that has its disk
// at the end, whatever happens while the pages of a lost archive are fetched again. If the agent is back before, no
// page is fetched again.
func TestLostArchivesAreFetchedAgain(t *testing.T) {
	const s, restart = time.Second, 200 * time.Millisecond
	const into = refetchWait + 12*s // from a loss at the end of the crawl until its pages are fetched again
	p := Plan{Seed: 61, Agents: 3, Hosts: 45, Pages: 20, Delay: 400 * time.Millisecond, Latency: time.Millisecond,
		OnLoss: membership.LossRefetch}
	with := func(fs ...Fault) Plan { p := p; p.Faults = fs; return p }
	agents := func(p Plan, n, spare int) Plan { p.Agents, p.Spare = n, spare; return p }
	divided := func(p Plan, by string) Plan { return p.Divided(by) }
	early := Fault{Kind: Lose, Agent: 2, At: 0.2}
	late := Fault{Kind: Lose, Agent: 2, At: 0.98}
	moving := func(p Plan, partition, boundary string) Plan {
		if p.Partition, p.Boundary = partition, boundary; partition == topic {
			p.Topics = 8
		}
		return p
	}
	back := func(p Plan) Plan { // the heirs of the last agent know of pages of the first one
		p.Agents, p.Faults = 4, []Fault{{Kind: Kill, Agent: 2, At: 0.5, For: 20 * s}, {Kind: Lose, Agent: 3, At: 0.95}}
		return p
	}
	twice := agents(with(late, Fault{Kind: Lose, Agent: 3, After: into}), 4, 0)
	for _, c := range []struct {
		name  string
		plan  Plan
		lists int // lists of lost archives whose URLs were accepted, at least
	}{
		{"late", with(late), 2},
		{"early", with(early), 2},
		{"one of two", agents(with(late), 2, 0), 1},
		{"ring", divided(with(late), "ring"), 2},
		{"sites", divided(with(late), sites), 2},
		{"replaced", with(Fault{Kind: Replace, Agent: 2, At: 0.9, For: 1500 * time.Millisecond}), 1},
		{"kills", agents(with(late, Fault{Kind: Kill, Agent: 1, After: into, For: restart},
			Fault{Kind: Kill, Agent: 3, After: 6 * s, For: restart}), 5, 0), 3},
		{"a kill as the wait ends", with(late,
			Fault{Kind: Kill, Agent: 3, After: into - 4*s, For: restart}), 1},
		{"second loss", twice, 4},
		{"hash", moving(with(late), membership.PartitionHash, ""), 2},
		{"hash, early", moving(with(early), membership.PartitionHash, ""), 2},
		{"hash, pages move", moving(with(late), membership.PartitionHash, membership.BoundaryContents), 2},
		{"hash, pages move, early", moving(with(early), membership.PartitionHash, membership.BoundaryContents), 2},
		{"hash, pages move, second loss", moving(twice, membership.PartitionHash, membership.BoundaryContents), 4},
		{"topic", moving(with(late), topic, ""), 2},
		{"topic, early", moving(with(early), topic, ""), 2},
		{"topic, second loss", moving(twice, topic, ""), 4},
		{"topic, links move", moving(with(late), topic, membership.BoundaryURLs), 2},
		{"second loss before the first archive is fetched again", agents(with(Fault{Kind: Lose, Agent: 2, At: 0.5},
			Fault{Kind: Lose, Agent: 3, After: 40 * s}), 4, 0), 4},
		{"second loss, the first agent is back", back(p), 2},
		{"topic, second loss, the first agent is back", back(moving(p, topic, "")), 2},
		{"an heir leaves before", agents(with(early, Fault{Kind: Leave, Agent: 1, After: 30 * s}), 4, 0), 2},
		{"join and leave", agents(with(late, Fault{Kind: Join, Agent: 4, After: into},
			Fault{Kind: Leave, Agent: 1, After: 10 * s}), 3, 1), 2},
		{"topic, second loss of the pages", moving(agents(with(late, Fault{Kind: Lose, Agent: 1, After: into + 20*s},
			Fault{Kind: Lose, Agent: 3, After: into}), 5, 0), topic, ""), 4},
		{"back, then left", with(Fault{Kind: Kill, Agent: 2, At: 0.4, For: 20 * s},
			Fault{Kind: Leave, Agent: 2, At: 0.95}), 0},
		{"back in time", with(Fault{Kind: Kill, Agent: 2, At: 0.98, For: 30 * s}), 0},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				story, v := tellAll(t, c.plan, nil)
				story.checkRefetched(t, v, c.lists)
			})
		})
	}
}

// checkRefetched fails if a page of the web is in no archive, or if the agents have accepted the URLs of fewer lists
// of lost archives. If lists is zero, they must have accepted none.
func (s *story) checkRefetched(t *testing.T, v *Verdict, lists int) {
	t.Helper()
	t.Log(s.plan)
	t.Log(v)
	if v.Bad() || len(v.Struck) < len(s.plan.Faults) {
		t.Errorf("the story broke a promise, or had only the faults %v", v.Struck)
	}
	accepted := 0
	for _, a := range s.actors {
		if a.mem == nil { // it never joined
			continue
		}
		entries, err := a.mem.ReadDir(crawlDir + "/reports")
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a lost disk
			t.Error(err)
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "refetched-") {
				accepted++
			}
		}
	}
	switch {
	case lists == 0 && (accepted > 0 || v.Twice > 25): // of the last moments before the kill
		t.Errorf("%d lists were accepted, and %d pages fetched twice", accepted, v.Twice)
	case accepted < lists:
		t.Errorf("%d lists were accepted, want %d", accepted, lists)
	}
	has, missing := s.archives().has, 0
	s.judge.truth.Each(func(host, number int64) {
		if url := s.judge.truth.URL(host, number); !has[url] {
			if missing++; missing <= 5 {
				t.Errorf("no archive has %s", url)
			}
		}
	})
	t.Logf("%d of %d pages are in no archive, %d lists accepted", missing, v.Reachable, accepted)
	if t.Failed() {
		t.Log(strings.Join(v.Log, "\n"))
		t.Log(strings.Join(s.agentEvents(), "\n"))
	}
}

// TestRandomRefetch runs random faults in clusters that fetch the pages of lost archives again.
func TestRandomRefetch(t *testing.T) {
	for i := range *refetching {
		seed := *first + uint64(i)
		p := Random(seed).Divided("")
		p.Replicas, p.OnLoss, p.Delay = 2, membership.LossRefetch, max(p.Delay, 300*time.Millisecond)
		p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool { // a disk that lost less than all has no list
			return slices.Contains([]Kind{Power, Old, Full, Fail}, f.Kind)
		})
		switch seed % 4 {
		case 1:
			p.Partition = membership.PartitionHash
		case 2:
			p.Partition, p.Boundary = membership.PartitionHash, membership.BoundaryContents
		case 3:
			p.Partition, p.Topics, p.Crosslinked, p.HostPages = topic, 8, 0, 0
		}
		if seed%3 == 0 {
			p.FileBytes = 30_000
		}
		rng := rand.New(rand.NewPCG(seed, 0x6c6f7373))
		p.Faults = append(p.Faults, Fault{Kind: Lose, Agent: 1 + rng.IntN(p.Agents), After: 3 * time.Second,
			At: 0.9 + rng.Float64()/10})
		if rng.IntN(2) == 0 {
			p.Faults = append(p.Faults, Fault{Kind: Kill, Agent: 1 + rng.IntN(p.Agents),
				After: refetchWait + time.Duration(rng.IntN(30_000))*time.Millisecond, For: 200 * time.Millisecond})
		}
		runStory(t, fmt.Sprint(p.Seed), func(t *testing.T) {
			tell(t, p)
		})
	}
}
