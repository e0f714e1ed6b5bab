package lease

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A crawl simulates agents with hosts. Each agent begins pages like a frontier: it takes the due
// host that was found first. It keeps a number of hosts active, and is not faster than its share of
// the crawl's rate.
type crawl struct {
	w      *world
	rate   float64 // pages a second, of an agent; 0: as many as politeness allows
	active int
	agents []*crawler
}

type crawler struct {
	a      *agent
	hosts  []*site  // not active yet, in order
	ready  byNumber // to try next
	parked map[uint64]*byNumber
	timers byTime
	flying int
	number int
	left   int // hosts with pages left
}

type site struct {
	address, domain uint64
	pages           int
	number          int
}

type byNumber []*site

func (s byNumber) Len() int           { return len(s) }
func (s byNumber) Less(i, j int) bool { return s[i].number < s[j].number }
func (s byNumber) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *byNumber) Push(x any)        { *s = append(*s, x.(*site)) }
func (s *byNumber) Pop() any          { x := (*s)[len(*s)-1]; *s = (*s)[:len(*s)-1]; return x }

// A timer wakes the best host that is parked at a point.
type timer struct {
	at    time.Duration
	point uint64
}

type byTime []timer

func (s byTime) Len() int           { return len(s) }
func (s byTime) Less(i, j int) bool { return s[i].at < s[j].at }
func (s byTime) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *byTime) Push(x any)        { *s = append(*s, x.(timer)) }
func (s *byTime) Pop() any          { x := (*s)[len(*s)-1]; *s = (*s)[:len(*s)-1]; return x }

const crawlQuiet = 2 * time.Second

func (c *crawl) points(s *site) []uint64 { return []uint64{s.address, s.domain} }

// unpark makes the best host that waits for a point try again.
func (k *crawler) unpark(point uint64) {
	if q := k.parked[point]; q != nil {
		heap.Push(&k.ready, heap.Pop(q).(*site))
		if len(*q) == 0 {
			delete(k.parked, point)
		}
	}
}

func (k *crawler) park(s *site, point uint64) {
	if k.parked[point] == nil {
		k.parked[point] = &byNumber{}
	}
	heap.Push(k.parked[point], s)
}

// wake returns hosts whose time has come, and adds new ones while too few are ready.
func (c *crawl) wake(k *crawler) {
	for len(k.timers) > 0 && k.timers[0].at <= c.w.now {
		k.unpark(heap.Pop(&k.timers).(timer).point)
	}
	for _, p := range k.a.peer.Freed() {
		k.unpark(p)
	}
	for len(k.hosts) > 0 && len(k.ready) < c.active {
		s := k.hosts[0]
		k.hosts = k.hosts[1:]
		k.number++
		s.number = k.number
		heap.Push(&k.ready, s)
		for _, p := range c.points(s) {
			k.a.peer.Want(p, crawlQuiet, k.a.clock())
		}
	}
}

// obstacle returns the first point at which s may not begin.
func (c *crawl) obstacle(k *crawler, s *site) (point uint64, at time.Time, barred bool) {
	for _, p := range c.points(s) {
		if ok, at := k.a.peer.Ready(p, crawlQuiet, k.a.clock()); !ok {
			return p, at, true
		}
	}
	return 0, time.Time{}, false
}

// next begins at most one page.
func (c *crawl) next(k *crawler) bool {
	c.wake(k)
	for len(k.ready) > 0 {
		s := heap.Pop(&k.ready).(*site)
		if p, at, barred := c.obstacle(k, s); barred {
			k.park(s, p)
			if !at.IsZero() {
				heap.Push(&k.timers, timer{c.w.now + at.Sub(k.a.clock()) + 10*time.Millisecond, p})
			}
			continue
		}
		took := 20*time.Millisecond + c.w.within(160*time.Millisecond)
		if !k.a.try(took, c.points(s)...) {
			c.w.t.Fatal("a ready page cannot begin")
		}
		s.pages--
		k.number++
		s.number = k.number
		k.flying++
		c.w.after(took, func() {
			k.flying--
			for _, p := range c.points(s) {
				heap.Push(&k.timers, timer{c.w.now + crawlQuiet*101/100, p})
				if s.pages == 0 && p >= 1<<32 { // a point of its own
					k.a.peer.Leave(p, k.a.clock())
				}
			}
			if s.pages > 0 {
				k.park(s, s.domain)
			} else {
				k.left--
			}
		})
		return true
	}
	return false
}

func (c *crawl) step(k *crawler) {
	if k.left == 0 {
		return
	}
	gap := 50 * time.Millisecond
	if c.rate > 0 {
		// A page is due, but no host can begin. It begins as soon as a host can.
		if c.next(k) {
			gap = time.Duration(float64(time.Second) / c.rate * (0.5 + c.w.rand.Float64()))
		}
	} else {
		for n := 0; n < 50 && k.flying < 100 && c.next(k); n++ {
		}
	}
	c.w.after(gap, func() { c.step(k) })
}

// newCrawl divides hosts among agents. A share of the hosts is on a few addresses.
func newCrawl(t testing.TB, seed uint64, agents, hosts, shared, addresses, pages int) *crawl {
	w := newWorld(t, seed, agents, Config{})
	c := &crawl{w: w, active: 500}
	r := rand.New(rand.NewPCG(seed, 2))
	for _, a := range w.agents {
		c.agents = append(c.agents, &crawler{a: a, parked: map[uint64]*byNumber{}})
	}
	for i := range hosts {
		s := &site{address: 1<<32 + uint64(i), domain: 1<<33 + uint64(i), pages: pages}
		if r.IntN(hosts) < shared {
			s.address = 1 + r.Uint64N(uint64(addresses))
		}
		k := c.agents[r.IntN(agents)]
		k.hosts = append(k.hosts, s)
		k.left++
	}
	for _, k := range c.agents {
		w.after(20*time.Second, func() { c.step(k) })
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
			c := newCrawl(t, 1, agents, hosts, tc.shared, hosts/200, tc.pages)
			begin := time.Minute
			if c.rate = tc.rate / agents; c.rate > 0 && !testtier.Soak() {
				begin = 30 * time.Minute // the pages of an hour are few for the calls with which each agent begins
				c.w.run(begin)
				c.w.pages, c.w.calls, c.w.answers, c.w.bytes = 0, 0, 0, 0
			}
			for left := true; left && c.w.now < tc.until; {
				c.w.run(c.w.now + time.Minute)
				left = slices.ContainsFunc(c.agents, func(k *crawler) bool { return k.left > 0 })
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
		c := newCrawl(t, 1, agents, 100*agents, 100*agents, 1, 400)
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
		for place := range c.agents {
			if share := float64(j.byPlace[place]*agents) / float64(j.begins); share < 0.8 || share > 1.25 {
				t.Errorf("%d agents: agent %d has %.2f of its share", agents, place, share)
			}
		}
		if perPage > 0.5 { // no other pages pay for the calls
			t.Errorf("%d agents: %.3f messages a page", agents, perPage)
		}
	}
}
