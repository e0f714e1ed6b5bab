package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/membership"
)

// TestBoundary runs the random faults of clusters whose agents send pages to each other.
func TestBoundary(t *testing.T) {
	for i := range *moving {
		p := Random(*first + uint64(i)).Divided("hash")
		if p.Boundary = "contents"; p.alone() {
			continue
		}
		runStory(t, fmt.Sprint(p.Seed), func(t *testing.T) {
			tell(t, p)
		})
	}
}

// TestTopic runs the random faults of clusters that divide pages by topic.
func TestTopic(t *testing.T) {
	for i := range *moving {
		p := Random(*first + uint64(i)).Divided(topic)
		if p.HostPages = 0; p.alone() { // no agent knows how many pages of a host the others have
			continue
		}
		runStory(t, fmt.Sprint(p.Seed), func(t *testing.T) {
			tell(t, p)
		})
	}
}

// TestURLs runs the random faults of clusters that divide pages by topic and send links alone.
func TestURLs(t *testing.T) {
	for i := range *moving {
		p := Random(*first + uint64(i)).Divided(topic)
		p.HostPages, p.Boundary = 0, membership.BoundaryURLs
		if p.alone() {
			continue
		}
		runStory(t, fmt.Sprint(p.Seed), func(t *testing.T) {
			tell(t, p)
		})
	}
}

// TestNamedBoundary runs stories of agents that send pages to each other.
// Agents return before the others have finished the crawl: after that they would crawl alone.
func TestNamedBoundary(t *testing.T) {
	const s = time.Second
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	hash := Plan{Seed: 71, Agents: 3, Hosts: 30, Pages: 20, Partition: "hash", Boundary: "contents",
		Latency: time.Millisecond}
	byTopic := hash
	byTopic.Partition, byTopic.Boundary = topic, ""
	urls := byTopic
	urls.Boundary = membership.BoundaryURLs
	mirrors := hash
	mirrors.Mirrors = true
	with := func(p Plan, fs ...Fault) Plan { p.Faults = fs; return p }
	spare := func(p Plan, n int) Plan { p.Spare = n; return p }
	one := func(p Plan) Plan { p.Replicas = 1; return p }
	for _, c := range []struct {
		name string
		plan Plan
		may  bound
	}{
		{"no fault", hash, bound{more: keptByContent}},
		{"no fault, topic", byTopic, bound{}},
		{"no fault, mirrors", mirrors, bound{}},
		{"no fault, urls", urls, bound{}},
		{"death, urls", with(urls, Fault{Kind: Lose, Agent: 3, At: 0.3}), bound{twice: 40}},
		{"join and death, urls", with(spare(urls, 1), Fault{Kind: Join, Agent: 4, At: 0.2},
			Fault{Kind: Lose, Agent: 1, At: 0.5}), bound{twice: 40}},
		{"all killed, urls", with(urls, Fault{Kind: KillAll, At: 0.4, For: s}), bound{twice: 40, lost: true}},
		{"each killed", with(hash, Fault{Kind: Kill, Agent: 1, At: 0.1, For: ms(300)},
			Fault{Kind: Kill, Agent: 2, At: 0.3, For: ms(300)}, Fault{Kind: Kill, Agent: 3, At: 0.5, For: ms(300)}),
			bound{twice: 40, lost: true}},
		{"power failure", with(hash, Fault{Kind: Power, Agent: 2, At: 0.3, For: 6 * s}), bound{twice: 40}},
		{"death", with(hash, Fault{Kind: Lose, Agent: 3, At: 0.3}), bound{twice: 40}},
		{"away", with(hash, Fault{Kind: Stop, Agent: 2, At: 0.3, For: 6 * s}), bound{}},
		{"join", with(spare(hash, 1), Fault{Kind: Join, Agent: 4, At: 0.3}), bound{}},
		{"join and death", with(spare(hash, 1), Fault{Kind: Join, Agent: 4, At: 0.2},
			Fault{Kind: Lose, Agent: 1, At: 0.5}), bound{twice: 40}},
		{"one replica", with(one(hash), Fault{Kind: Kill, Agent: 2, At: 0.3, For: 6 * s}),
			bound{twice: 40, lost: true}},
		{"all killed", with(hash, Fault{Kind: KillAll, At: 0.4, For: s}), bound{twice: 40, lost: true}},
		{"cut", with(hash, Fault{Kind: Cut, Agent: 2, At: 0.3, For: 8 * s}), bound{twice: 100, excused: 100}},
		{"full disk", with(hash, Fault{Kind: Full, Agent: 2, At: 0.3, For: 6 * s}), bound{twice: 60}},
		{"leave", with(hash, Fault{Kind: Leave, Agent: 2, At: 0.3}), bound{more: func(t *testing.T, v *Verdict) {
			loggedAt(t, v, "a2 leaves: a2 hands its hosts to the other agents (2), then ends")
		}}},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			c.may.hold(t, tell(t, c.plan))
		})
	}
}

// keptByContent fails unless each page has one record, and each agent has about as many as the others.
func keptByContent(t *testing.T, v *Verdict) {
	t.Helper()
	by, pages := map[string]int{}, 0
	for u, agents := range v.Archived {
		if strings.HasSuffix(u, "/robots.txt") {
			continue
		}
		if len(agents) != 1 {
			t.Errorf("%s is archived by %v", u, agents)
		}
		pages++
		by[agents[0]]++
	}
	if len(by) != len(v.Ends) || int64(pages) != v.Reachable {
		t.Errorf("%d pages with a record of %d, by agent: %v", pages, v.Reachable, by)
	}
	for agent, n := range by {
		if share := float64(n) / float64(pages); share < 0.2 || share > 0.5 {
			t.Errorf("%s has %.2f of the pages", agent, share)
		}
	}
}
