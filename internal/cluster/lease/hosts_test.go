package lease

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// newSharedCrawl returns a crawl in which all agents may have pages of all hosts.
func newSharedCrawl(t testing.TB, seed uint64, agents int) *crawl {
	c := newCrawl(t, seed, agents, Config{Batch: 200}, time.Second)
	c.w.quiet = func(uint64) time.Duration { return 500 * time.Millisecond }
	return c
}

// TestSharedHostsAreSafe: no two requests to a host at once, and none before the delay is over, the host's own
// delay and pauses of other agents included, also while agents die, stop, leave and come back.
func TestSharedHostsAreSafe(t *testing.T) {
	// Agent 5 loses its leases for lack of contact after a request to host 1, and its grantor still takes it for the
	// holder. The point must not come back without the rest of that host's delay of 15 s.
	const lapsed = 2
	pages, pauses, kept, cut := 0, 0, 0, 0
	seeds(t, testtier.Rounds(1, 8), func(t *testing.T, seed uint64) {
		c := newSharedCrawl(t, seed, 3+int(seed%4))
		w := c.w
		c.slow = 0.03
		for i := range uint64(12) {
			delay := 600*time.Millisecond + w.within(2*time.Second)
			if i%4 == 0 {
				delay = 10*time.Second + w.within(20*time.Second)
			}
			address := 1000 + i%5
			if i%3 == 0 {
				address = 0
			}
			c.add(address, 2000+i/2, delay, func(int) int { return 1 << 20 })
		}
		w.run(10 * time.Minute) // nothing is lost, so all pauses hold
		w.loss, w.twice = 0.1*w.rand.Float64(), 0.1
		w.trouble(15*time.Second, 20*time.Minute)
		w.run(25 * time.Minute)
		pages, pauses, kept, cut = pages+w.pages, pauses+c.pauses, kept+c.kept, cut+w.cut
	}, lapsed)
	t.Logf("%d pages, %d pauses, of which other agents kept %d; %d visits cut off", pages, pauses, kept, cut)
	if kept == 0 {
		t.Error("no agent kept a pause that another agent was told of")
	}
}

// TestSharedHosts measures what it costs that all agents crawl the same hosts: messages a page, and the rate as a share
// of the rate of one agent that has all pages. Crawls that end, or that have few hosts, pay for their beginning and
// their end, when many agents want what is left.
func TestSharedHosts(t *testing.T) {
	long, counts := 6*time.Minute, []int{1, 3, 7, 16}
	if !testtier.Soak() {
		long, counts = 2*time.Minute, []int{1, 7}
	}
	for _, tc := range []struct {
		name  string
		most  float64 // messages a page
		least float64 // share of one agent's rate
		hosts func(c *crawl, agents int)
	}{
		{"200 hosts", 0.1, 0.9, func(c *crawl, _ int) {
			for i := range uint64(200) {
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return 1 << 20 })
			}
		}},
		{"200 hosts, skewed", 1, 0.6, func(c *crawl, agents int) {
			for i := range uint64(200) { // the first has a thousand pages, the last five
				pages := 40000 / int(i+1)
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return max(pages/40, 5) * 16 / agents })
			}
		}},
		{"200 hosts in 20 domains", 0.1, 0.9, func(c *crawl, _ int) {
			for i := range uint64(200) {
				c.add(1000+i%20, 2000+i%20, 2*time.Second, func(int) int { return 1 << 20 })
			}
		}},
		{"3 hosts", 1, 0.9, func(c *crawl, _ int) {
			for i := range uint64(3) {
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return 1 << 20 })
			}
		}},
		{"200 hosts, 200 pages each", 0.1, 0.8, func(c *crawl, agents int) {
			for i := range uint64(200) {
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return 200 / agents })
			}
		}},
		{"many hosts, few pages", 0.5, 0.15, func(c *crawl, agents int) {
			for i := range uint64(testtier.Rounds(500, 2000)) {
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return 48 / agents })
			}
		}},
		{"200 hosts on 20 addresses", 0.1, 0.9, func(c *crawl, _ int) {
			for i := range uint64(200) {
				c.add(1000+i%20, 2000+i, 2*time.Second, func(int) int { return 1 << 20 })
			}
		}},
	} {
		alone := 0.0
		for _, agents := range counts {
			c := newSharedCrawl(t, 1, agents)
			tc.hosts(c, agents)
			w := c.w
			end := time.Duration(0)
			for w.now < long && !w.dead {
				w.run(w.now + 10*time.Second)
				if end = w.now; c.done() {
					break
				}
			}
			rate := float64(w.pages) / (end - 10*time.Second).Seconds()
			if agents == 1 {
				alone = rate
			}
			perPage := float64(w.calls+w.answers) / float64(w.pages)
			t.Logf("%-28s %2d agents: %6d pages, %6.2f pages/s, %.2f of one agent's rate, %.3f messages a page",
				tc.name, agents, w.pages, rate, rate/alone, perPage)
			if perPage > tc.most || rate < tc.least*alone {
				t.Errorf("%s, %d agents: want at most %.2f messages a page, and at least %.2f of one agent's rate",
					tc.name, agents, tc.most, tc.least)
			}
		}
	}
}
