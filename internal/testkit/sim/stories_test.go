package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
)

// A bound has the limits of a named story. Every story must have coverage 1, keep all delays, and
// never stall without a reason: see Verdict.Bad.
type bound struct {
	twice   int64         // repeated fetches; an agent may repeat its last second
	excused int           // violations among agents that cannot hear each other
	stall   time.Duration // zero: 30 s
	took    time.Duration // virtual time; zero: any
	lost    bool          // agents are lost within seconds; all pages must be fetched all the same
	ends    map[string]crawl.Stop
	more    func(t *testing.T, v *Verdict)
}

// TestNamedStories runs stories of clusters. Each shows a promise of docs/cluster-days.md.
func TestNamedStories(t *testing.T) {
	long := Plan{Seed: 31, Agents: 4, Hosts: 60, Pages: 30, Delay: 200 * time.Millisecond, Latency: time.Millisecond}
	shared := Plan{ // many hosts share addresses and sites
		Seed: 32, Agents: 3, Hosts: 45, Pages: 20, Delay: 120 * time.Millisecond, Addresses: 15,
	}
	mirrors := Plan{Seed: 41, Agents: 3, Hosts: 30, Pages: 20, Partition: "hash", Mirrors: true}
	bounded := Plan{Seed: 51, Agents: 3, Hosts: 30, Pages: 30, HostPages: 12, HostDepth: 2, SeedRoots: true,
		Crosslinked: 0.1}
	with := func(p Plan, fs ...Fault) Plan { p.Faults = fs; return p }
	onRing := func(p Plan) Plan { p.Partition, p.Kappa = "ring", 20; return p }
	spare := func(p Plan, n int) Plan { p.Spare = n; return p }
	one := func(p Plan) Plan { p.Replicas = 1; return p }
	agents := func(p Plan, n int) Plan { p.Agents = n; return p }
	const s = time.Second
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct {
		name string
		plan Plan
		may  bound
	}{
		{"two agents", agents(long, 2), bound{more: divided}},
		{"no fault", long, bound{more: func(t *testing.T, v *Verdict) {
			divided(t, v)
			if each := v.Shipped / max(v.Unique, 1); each < 20 || each > 400 {
				t.Errorf("%d bytes shipped of each URL, want some hundred", each)
			}
		}}},
		{"no fault, one replica", one(agents(long, 3)), bound{more: func(t *testing.T, v *Verdict) {
			if v.Shipped > 0 {
				t.Errorf("%d bytes shipped", v.Shipped)
			}
		}}},
		{"no fault, ring", onRing(long), bound{more: divided}},
		{"no fault, hash", Plan{Seed: 4, Agents: 3, Partition: "hash"}, bound{}},
		{"no fault, mirrors", mirrors, bound{more: questions}},
		{"each killed, mirrors", with(mirrors, Fault{Kind: Kill, Agent: 1, At: 0.1, For: ms(300)},
			Fault{Kind: Kill, Agent: 2, At: 0.3, For: ms(300)}, Fault{Kind: Kill, Agent: 3, At: 0.5, For: ms(300)}),
			bound{twice: 40, lost: true}},
		{"power failure, mirrors", with(mirrors, Fault{Kind: Power, Agent: 2, At: 0.2, For: 20 * s}), bound{twice: 40}},
		{"join and death, mirrors", with(spare(agents(mirrors, 2), 1), Fault{Kind: Join, Agent: 3, At: 0.1},
			Fault{Kind: Kill, Agent: 2, At: 0.1, After: 2 * s, For: time.Hour}), bound{twice: 40}},
		{"no fault, shared addresses", shared, bound{}},
		{"death", with(onRing(long), Fault{Kind: Lose, Agent: 3, At: 0.3}), bound{twice: 25}},
		{"two deaths", with(agents(long, 6), Fault{Kind: Lose, Agent: 5, At: 0.2},
			Fault{Kind: Lose, Agent: 2, At: 0.5, After: 30 * s}), bound{twice: 40, lost: true}},
		{"death, shared addresses", with(shared, Fault{Kind: Kill, Agent: 2, At: 0.3, For: time.Hour}),
			bound{twice: 25}},
		{"bad network", with(onRing(long), Fault{Kind: Lossy, At: 0.05, For: time.Hour}), bound{twice: 25}},
		{"bad network, shared addresses", with(shared, Fault{Kind: Lossy, At: 0.2, For: time.Hour}),
			bound{twice: 25, more: sharedKept}},
		// The suspected agent comes back and fetches its own hosts' pages again that others have fetched:
		// it never lost these hosts in its own view. In this web 670 pages are on its hosts.
		{"false suspicion", with(long, Fault{Kind: Offline, Agent: 3, At: 0.2, For: 30 * s}),
			bound{twice: 670, excused: 150}},
		// Here it is twice away for so long that it has also taken over the hosts of the others when it
		// comes back. Until the views agree, it fetches pages of all hosts.
		{"false suspicion, shared addresses", with(shared, Fault{Kind: Offline, Agent: 2, At: 0.2, For: 22 * s},
			Fault{Kind: Offline, Agent: 2, At: 0.2, For: 22 * s, After: 30 * s}),
			bound{twice: 877, excused: 30}}, // all pages of this web
		// Each half notices the loss of the other one after 4 s at the earliest, and waits for 20 s until it
		// takes over the second agent's hosts. The cut ends before that, and nothing is fetched twice but
		// what was under way at the cut. From 12 s after the cut on, both halves have leases of all addresses.
		// They agree again 2 s after its end. In these 10 s, they make some 50 requests a second.
		{"partition", with(onRing(long), Fault{Kind: Cut, Agent: 2, At: 0.2, For: 20 * s}),
			bound{twice: 25, excused: 500}},
		// Each half may fetch all pages, each of them too early after the other half's request to the same
		// host, address and site.
		{"long partition", with(onRing(long), Fault{Kind: Cut, Agent: 2, At: 0.2, For: 45 * s}),
			bound{twice: 1765, excused: 3 * 1765}},
		{"slow agent", with(long, Fault{Kind: Slow, Agent: 3, At: 0.01, For: 30 * s}), bound{}},
		{"far apart", func() Plan { p := long; p.Latency = ms(150); return p }(), bound{}},
		{"full disk", with(long, Fault{Kind: Full, Agent: 2, At: 0.2, For: time.Hour}), bound{twice: 25}},
		{"join", with(spare(agents(onRing(long), 3), 1), Fault{Kind: Join, Agent: 4, At: 0.4}),
			bound{more: fetchedBy("a4")}},
		{"join, one replica", with(spare(agents(one(long), 2), 1), Fault{Kind: Join, Agent: 3, At: 0.1}),
			bound{more: fetchedBy("a3")}},
		{"join, shared addresses", with(spare(agents(shared, 2), 1), Fault{Kind: Join, Agent: 3, At: 0.3}),
			bound{more: fetchedBy("a3")}},
		{"rolling restart", with(long, Fault{Kind: Stop, Agent: 1, At: 0.1, For: ms(200)},
			Fault{Kind: Stop, Agent: 2, At: 0.2, For: ms(200), After: 5 * s},
			Fault{Kind: Stop, Agent: 3, At: 0.3, For: ms(200), After: 5 * s},
			Fault{Kind: Stop, Agent: 4, At: 0.4, For: ms(200), After: 5 * s}), bound{lost: true}},
		{"stop and return", with(long, Fault{Kind: Stop, Agent: 2, At: 0.3, For: 15 * s}), bound{}},
		{"stop, shared addresses", with(shared, Fault{Kind: Stop, Agent: 2, At: 0.3, For: time.Hour}),
			bound{stall: 5 * s}},
		{"kill and return", with(onRing(long), Fault{Kind: Kill, Agent: 4, At: 0.2, For: 20 * s}), bound{twice: 25}},
		{"kill, join and return on a ring", func() Plan {
			p := with(spare(agents(onRing(long), 3), 1), Fault{Kind: Kill, Agent: 2, At: 0.15, For: 30 * s},
				Fault{Kind: Join, Agent: 4, After: 20 * s})
			p.Capacity = 2
			return p
		}(), bound{twice: 25, more: fetchedBy("a4")}},
		{"the founder is killed and meets the others", with(agents(long, 2),
			Fault{Kind: Kill, Agent: 1, At: 0.1, For: ms(200)}), bound{twice: 25}},
		// Without a fault the crawl takes up to 34 s. Agents that start together crawl after 20 s at most.
		{"all stopped, shared addresses", with(shared, Fault{Kind: Stop, Agent: 1, At: 0.3, For: s},
			Fault{Kind: Stop, Agent: 2, At: 0.3, For: s}, Fault{Kind: Stop, Agent: 3, At: 0.3, For: s}),
			bound{took: 60 * s, lost: true}},
		{"all killed, shared addresses", with(shared, Fault{Kind: KillAll, At: 0.3, For: ms(500)}),
			bound{twice: 40, took: 60 * s}},
		{"leave", with(one(agents(long, 3)), Fault{Kind: Leave, Agent: 2, At: 0.2}),
			bound{ends: map[string]crawl.Stop{"a2": crawl.Left}}},
		{"leave, shared addresses", with(shared, Fault{Kind: Leave, Agent: 2, At: 0.3}),
			bound{stall: 5 * s, ends: map[string]crawl.Stop{"a2": crawl.Left}}},
		// It tells the others also what it took over from a lost agent.
		{"leave after a takeover, and a newcomer", with(spare(agents(long, 3), 1), Fault{Kind: Lose, Agent: 2, At: 0.3},
			Fault{Kind: Leave, Agent: 3, After: 12 * s}, Fault{Kind: Join, Agent: 4, After: 12 * s}),
			bound{twice: 25, more: fetchedBy("a4")}},
		{"leave when the only other agent is lost", with(agents(long, 2), Fault{Kind: Lose, Agent: 1, At: 0.3},
			Fault{Kind: Leave, Agent: 2, After: ms(100)}),
			bound{twice: 25, ends: map[string]crawl.Stop{"a2": crawl.Finished}}},
		{"another machine in the place of a lost one", with(spare(agents(long, 3), 1),
			Fault{Kind: Lose, Agent: 2, At: 0.125}, Fault{Kind: Join, Agent: 4, After: s}),
			bound{twice: 25, more: fetchedBy("a4")}},
		{"the same name while another restarts", with(agents(long, 3),
			Fault{Kind: Replace, Agent: 2, At: 0.125, For: ms(1500)},
			Fault{Kind: Kill, Agent: 3, After: s}), bound{twice: 25, lost: true}},
		{"the same name before another restarts", with(onRing(agents(long, 3)),
			Fault{Kind: Replace, Agent: 2, At: 0.125, For: s},
			Fault{Kind: Kill, Agent: 3, After: 2 * s}), bound{twice: 25, lost: true}},
		{"two new machines while another restarts", with(spare(agents(long, 3), 2),
			Fault{Kind: Lose, Agent: 2, At: 0.125}, Fault{Kind: Join, Agent: 4, After: 4 * s},
			Fault{Kind: Join, Agent: 5, After: s}, Fault{Kind: Kill, Agent: 3, After: s}),
			bound{twice: 25, lost: true}},
		// To start and to say goodbye takes some seconds more.
		{"time limit", func() Plan { p := agents(long, 3); p.TimeLimit = 20 * s; return p }(), bound{took: 40 * s}},
		{"pages of hosts, join and leave", with(spare(agents(bounded, 2), 1), Fault{Kind: Join, Agent: 3, At: 0.3},
			Fault{Kind: Leave, Agent: 1, At: 0.6}), bound{more: reachesBounds}},
		{"pages of hosts, death", with(bounded, Fault{Kind: Lose, Agent: 2, At: 0.4}),
			bound{twice: 25, more: reachesBounds}},
		{"page limit", func() Plan { p := agents(long, 3); p.PageLimit = 400; return p }(),
			bound{more: func(t *testing.T, v *Verdict) {
				if v.Pages != 400 || v.Fetched != 400 {
					t.Errorf("%d pages, the web counts %d; want 400", v.Pages, v.Fetched)
				}
			}}},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			c.may.hold(t, tell(t, c.plan))
		})
	}
}

// hold fails the test if the story exceeds its bounds.
func (b bound) hold(t *testing.T, v *Verdict) {
	t.Helper()
	t.Logf("%d violations excused", len(v.Excused))
	if len(v.Missed) > 0 || v.Unexcused > 0 {
		t.Errorf("missed: %v; %d pages fetched again without a reason", v.Missed, v.Unexcused)
	}
	if v.Lost > 0 && !b.lost {
		t.Error("more was lost than this story may lose")
	}
	if v.Twice > b.twice {
		t.Errorf("%d pages of %d fetched twice, want at most %d", v.Twice, v.Reachable, b.twice)
	}
	if len(v.Excused) > b.excused {
		t.Errorf("%d requests too early, want at most %d; the first is %s", len(v.Excused), b.excused, v.Excused[0])
	}
	if b.stall > 0 && v.Stall > b.stall {
		t.Errorf("no page for %s from %s on, want at most %s", v.Stall, v.StallAt, b.stall)
	}
	if b.took > 0 && v.Took > b.took {
		t.Errorf("the crawl took %s, want at most %s", v.Took, b.took)
	}
	for name, want := range b.ends {
		if got := v.Ends[name]; got != want {
			t.Errorf("%s ended for %q, want %q", name, got, want)
		}
	}
	if b.more != nil {
		b.more(t, v)
	}
}

// divided fails unless each page has one record, and each host is crawled by one agent.
func divided(t *testing.T, v *Verdict) {
	t.Helper()
	by, pages, all := map[string]string{}, int64(0), map[string]bool{}
	for u, agents := range v.Archived {
		if strings.HasSuffix(u, "/robots.txt") {
			continue
		}
		if pages++; len(agents) > 1 {
			t.Errorf("%s is archived by %v", u, agents)
		}
		host := strings.SplitN(u, "/", 4)[2]
		if other, ok := by[host]; ok && other != agents[0] {
			t.Fatalf("%s is crawled by %s and %s", host, other, agents[0])
		}
		by[host], all[agents[0]] = agents[0], true
	}
	if pages != v.Reachable || len(all) != len(v.Ends) {
		t.Errorf("%d agents archived %d pages; want %d agents and %d pages", len(all), pages, len(v.Ends), v.Reachable)
	}
}

// fetchedBy fails unless an agent has fetched pages.
func fetchedBy(name string) func(t *testing.T, v *Verdict) {
	return func(t *testing.T, v *Verdict) {
		t.Helper()
		for _, agents := range v.Archived {
			if slices.Contains(agents, name) {
				return
			}
		}
		t.Errorf("%s has fetched nothing", name)
	}
}

// sharedKept fails if an agent contacted an address or a site too early after a request to another
// host of it. Leases must prevent that in any network.
func sharedKept(t *testing.T, v *Verdict) {
	t.Helper()
	for _, w := range v.Excused {
		if !w.Host && w.Group != groupNames[byHost] {
			t.Error(w)
		}
	}
}

// questions fails unless each of three agents judges about a third of the contents, and asks
// another one for the rest at most once per page, plus once for each attempt that had to wait.
func questions(t *testing.T, v *Verdict) {
	t.Helper()
	n := v.Contents
	if share := float64(n.Elsewhere) / float64(n.Pages); share < 2.0/3-0.1 || share > 2.0/3+0.1 {
		t.Errorf("%.3f of the contents belong to another agent than the page, want two thirds", share)
	}
	const tries = 40 // of a page at most
	if n.Asked == 0 || n.Asked > n.Elsewhere+(n.Unanswered+n.Waited)*tries {
		t.Errorf("%d questions: %+v", n.Asked, n)
	}
	if n.Pages != v.Pages || v.Twice > 0 {
		t.Errorf("%d pages have contents, want %d; %d fetched twice", n.Pages, v.Pages, v.Twice)
	}
}

// reachesBounds checks that the bounds of the hosts have left out pages.
func reachesBounds(t *testing.T, v *Verdict) {
	if v.Fetched >= v.Reachable {
		t.Errorf("%d of %d pages: no bound was reached", v.Fetched, v.Reachable)
	}
}
