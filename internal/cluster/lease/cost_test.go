package lease

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

const crawlQuiet = 2 * time.Second

// newDivided returns a crawl whose hosts are divided among agents. A share of the hosts is on a few addresses.
func newDivided(t testing.TB, seed uint64, agents, hosts, shared, addresses, pages int) *crawl {
	c := newCrawl(t, seed, agents, Config{}, 20*time.Second)
	c.every, c.eager = 50*time.Millisecond, true
	c.w.quiet = func(uint64) time.Duration { return crawlQuiet }
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range hosts {
		address, its := 1<<32+uint64(i), r.IntN(agents)
		if r.IntN(hosts) < shared {
			address = 1 + r.Uint64N(uint64(addresses))
		}
		c.add(address, 1<<33+uint64(i), crawlQuiet, func(place int) int {
			if place == its {
				return pages
			}
			return 0
		})
	}
	return c
}

func (c *crawl) report(t *testing.T, what string) float64 {
	w := c.w
	perPage := float64(w.calls+w.answers) / float64(w.pages)
	t.Logf("%s: %d pages in %v, %.1f pages/s, %d calls and %d answers: %.4f messages a page, %d bytes a page",
		what, w.pages, w.now.Round(time.Second), float64(w.pages)/w.now.Seconds(), w.calls, w.answers, perPage,
		w.bytes/w.pages)
	return perPage
}

func TestCost(t *testing.T) {
	hosts := testtier.Rounds(4000, 10_000)
	for _, tc := range []struct {
		name   string
		shared int
		pages  int
		rate   float64 // pages a second of all agents
		until  time.Duration
	}{
		{"each its own address", 0, 1, 0, time.Hour},
		{"each its own address, 4 pages", 0, 4, 0, time.Hour},
		{"a fifth on a few addresses", hosts / 5, 4, 0, time.Hour},
		{"each its own address, slow", 0, 4, 2, time.Hour},
		{"a fifth on a few addresses, slow", hosts / 5, 4, 2, time.Duration(testtier.Rounds(1, 3)) * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.rate > 0 && tc.shared == 0 {
				testtier.OnlySoak(t, "the crawl with shared addresses needs more messages")
			}
			const agents = 8
			c := newDivided(t, 1, agents, hosts, tc.shared, hosts/200, tc.pages)
			begin := time.Minute
			if c.rate = tc.rate / agents; c.rate > 0 && !testtier.Soak() {
				begin = 30 * time.Minute // the pages of an hour are few for the calls with which each agent begins
				c.w.run(begin)
				c.w.pages, c.w.calls, c.w.answers, c.w.bytes = 0, 0, 0, 0
			}
			for !c.done() && c.w.now < tc.until {
				c.w.run(c.w.now + time.Minute)
			}
			if got := c.report(t, tc.name); got >= 0.1 {
				t.Errorf("%.4f messages a page, want less than 0.1", got)
			}
			if want := tc.rate * (c.w.now - begin).Seconds() * 0.95; tc.rate > 0 && float64(c.w.pages) < want {
				t.Errorf("%d pages, want %.0f: the leases slow the crawl", c.w.pages, want)
			}
		})
	}
}

// TestTurns has agents that share one address. Each has more pages than it can fetch.
func TestTurns(t *testing.T) {
	for _, agents := range []int{2, 8}[:testtier.Rounds(1, 2)] {
		c := newDivided(t, 1, agents, 100*agents, 100*agents, 1, 400)
		long := time.Duration(testtier.Rounds(2, 4)) * time.Hour
		c.w.run(long)
		perPage := c.report(t, "one address")
		j := c.w.points[1]
		// 100 ms for a page, and 50 ms until the agent notices that the delay is over.
		best := long.Seconds() / (crawlQuiet + 100*time.Millisecond).Seconds()
		if got := float64(j.begins) / best; got < 0.8 {
			t.Errorf("%d agents: %d pages at one address, %.2f of the possible pages", agents, j.begins, got)
		} else {
			t.Logf("%d agents: %.2f of the possible pages, %d changes of hand, %v", agents, got, j.changes,
				j.byPlace)
		}
		for place := range agents {
			if share := float64(j.byPlace[place]*agents) / float64(j.begins); share < 0.8 || share > 1.25 {
				t.Errorf("%d agents: agent %d has %.2f of its share", agents, place, share)
			}
		}
		if perPage > 0.5 { // no other pages pay for the calls
			t.Errorf("%d agents: %.3f messages a page", agents, perPage)
		}
	}
}
