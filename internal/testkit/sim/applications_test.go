package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// TestApplications: whatever happens to the agents, each URL that an application gives comes back to its process, and
// so do the pages to which it leads. A URL that both applications and the crawl want is requested once, except for what
// a death excuses.
func TestApplications(t *testing.T) {
	const s = time.Second
	base := Plan{Seed: 91, Agents: 3, Hosts: 12, Pages: 8, Delay: 200 * time.Millisecond, Latency: time.Millisecond}
	with := func(fs ...Fault) Plan { p := base; p.Faults = fs; return p }
	by := func(p Plan, partition, boundary string) Plan {
		p = p.Divided(partition)
		if p.Boundary = boundary; partition == topic {
			p.Topics = 8
		}
		return p
	}
	join := with(Fault{Kind: Join, Agent: 4, At: 0.4})
	join.Spare = 1
	death := with(Fault{Kind: Kill, Agent: 2, At: 0.3, For: 10 * s})
	leave := with(Fault{Kind: Leave, Agent: 3, At: 0.4})
	recrawl, keep, focused := base, base, by(base, topic, "")
	recrawl.Rounds, keep.Keep, focused.Focused = 2, "[02468]([.]html)?$", true
	for name, c := range map[string]struct {
		plan Plan
		may  bound
		two  bool
		late time.Duration
	}{
		"no fault":                {plan: base},
		"two processes":           {plan: base, two: true},
		"a death and its restart": {plan: death, may: bound{twice: 30}},
		"a join":                  {plan: join},
		"a leave":                 {plan: leave, may: bound{twice: 20}},
		"a leave, late":           {plan: leave, may: bound{twice: 60, more: leftInTime}, late: 12 * time.Minute},
		"all": {plan: with(Fault{Kind: Kill, Agent: 2, At: 0.2, For: 5 * s},
			Fault{Kind: Leave, Agent: 3, At: 0.5}), may: bound{twice: 30}},
		"sites":          {plan: by(base, sites, "")},
		"sites, a leave": {plan: by(leave, sites, ""), may: bound{twice: 20}},
		"hash":           {plan: by(base, membership.PartitionHash, "")},
		"hash, a join":   {plan: by(join, membership.PartitionHash, "")},
		"contents":       {plan: by(base, membership.PartitionHash, membership.BoundaryContents)},
		"contents, a leave": {plan: by(leave, membership.PartitionHash, membership.BoundaryContents),
			may: bound{twice: 20}},
		"topic":              {plan: by(base, topic, "")},
		"topic, a death":     {plan: by(death, topic, ""), may: bound{twice: 30}},
		"topic, a leave":     {plan: by(leave, topic, ""), may: bound{twice: 20}},
		"topic, links alone": {plan: by(base, topic, membership.BoundaryURLs)},
		"recrawl":            {plan: recrawl},
		"focused":            {plan: focused},
		"keep":               {plan: keep},
	} {
		runNamed(t, name, func(t *testing.T) {
			a := &appStory{t: t, two: c.two, late: c.late, wait: c.plan.Spare > 0, down: len(c.plan.Faults) > 0}
			v := a.tell(c.plan, !c.two && len(c.plan.Faults) == 0)
			c.may.hold(t, v)
			n, taken := a.gaveAll(3), a.taken(3)
			if v.Ends["a3"] == crawl.Left && (n < 0 || n == 0 && taken > 0) {
				t.Errorf("a3 says that it gave %d hosts to others, which say that they took %d", n, taken)
			}
			if a.moved() == 0 && c.plan.Spare > 0 {
				t.Error("no agent has read a page in the archive of another one")
			}
		})
	}
}

// TestRandomApplications runs random faults of clusters with applications. No disk is lost: with it the pages would be
// lost that were not collected.
func TestRandomApplications(t *testing.T) {
	if *applied == 0 {
		testtier.OnlySoak(t, "TestApplications has named stories")
	}
	for i := range *applied {
		p := Random(*first + uint64(i)).Divided("")
		p.HostPages, p.HostDepth, p.SeedRoots, p.Delay = 0, 0, false, max(p.Delay, 200*time.Millisecond)
		p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool {
			return slices.Contains([]Kind{Lose, Replace, Old}, f.Kind)
		})
		switch p.Seed % 6 {
		case 1:
			p = p.Divided(sites)
		case 2:
			p.Partition = membership.PartitionHash
		case 3:
			p.Partition, p.Boundary = membership.PartitionHash, membership.BoundaryContents
		case 4:
			p.Partition, p.Topics, p.Crosslinked = topic, 8, 0
		case 5:
			p.Partition, p.Topics, p.Crosslinked, p.Boundary = topic, 8, 0, membership.BoundaryURLs
		}
		runStory(t, fmt.Sprint(p.Seed), func(t *testing.T) {
			t.Log(p)
			(&appStory{t: t, two: p.Seed%4 == 0, down: true}).tell(p, false)
		})
	}
}

// leftInTime fails if a3 has not left.
func leftInTime(t *testing.T, v *Verdict) {
	t.Helper()
	if v.Ends["a3"] != crawl.Left {
		t.Errorf("a3 ended as %q", v.Ends["a3"])
	}
}
