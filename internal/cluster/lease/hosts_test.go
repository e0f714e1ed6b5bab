package lease

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A hostCrawl is a crawl in which every agent may have pages of every host. A host has an address and a domain, and a
// delay of its own that is longer than theirs. Now and then it answers that it wants a pause, which doubles each time.
// An agent knows of a host what it has seen itself, and what came with the lease of the domain.
type hostCrawl struct {
	w      *world
	hosts  []*sharedHost
	index  map[uint64]int // of points, from 0
	agents map[*agent]*hostAgent
	slow   float64 // share of answers that demand a pause
	faults int     // events in which an agent may be lost with what only it knows
	most   int     // pages in flight at an agent

	pauses, kept int // number of pauses, and of those that other agents had to keep
}

type sharedHost struct {
	address, domain uint64
	points          []uint64
	indexes         []int // of points
	key             uint64
	delay           time.Duration
	left            []int // pages, by the agent's place

	// What the judge knows.
	user      *agent
	ended     time.Duration
	last      Agent
	slow      int
	pausedBy  Agent
	paused    time.Duration // end of the pause
	faultsWas int
}

type hostAgent struct {
	barred []time.Duration // by index of a point: when to ask again; never while it is in use
	states []hostState     // by host
	next   int
	flying int
}

type hostState struct {
	at, paused time.Duration // true times: this agent's clock is as good here
	slow       uint8
}

const (
	hostPause = 20 * time.Second
	never     = time.Duration(math.MaxInt64)
)

func newHostCrawl(t testing.TB, seed uint64, agents int, cfg Config) *hostCrawl {
	cfg.Batch = 200
	c := &hostCrawl{
		w: newWorld(t, seed, agents, cfg), index: map[uint64]int{}, agents: map[*agent]*hostAgent{}, most: 100,
	}
	c.w.few = true
	for _, a := range c.w.agents {
		a.look()
	}
	c.w.quiet = func(uint64) time.Duration { return 500 * time.Millisecond }
	c.w.after(time.Second, c.step)
	return c
}

func (c *hostCrawl) add(address, domain uint64, delay time.Duration, pages func(place int) int) {
	h := &sharedHost{
		address: address, domain: domain, key: uint64(len(c.hosts)) + 1, delay: delay, ended: -time.Hour,
		left: make([]int, 32),
	}
	for place := range h.left {
		h.left[place] = pages(place)
	}
	if h.points = []uint64{address, domain}; address == 0 {
		h.points = h.points[1:]
	}
	for _, p := range h.points {
		if _, there := c.index[p]; !there {
			c.index[p] = len(c.index)
		}
		h.indexes = append(h.indexes, c.index[p])
	}
	c.hosts = append(c.hosts, h)
}

func (c *hostCrawl) of(a *agent) *hostAgent {
	k := c.agents[a]
	if k == nil {
		k = &hostAgent{
			barred: make([]time.Duration, len(c.index)), states: make([]hostState, len(c.hosts)),
		}
		c.agents[a] = k
	}
	return k
}

// unsettled reports whether an agent may lose its leases now: it is stopped, or the views do not agree.
func (c *hostCrawl) unsettled() bool {
	truth := &picture{members: slices.Sorted(slices.Values(c.w.members))}
	there := 0
	for _, a := range c.w.agents {
		if a == nil {
			continue
		}
		if there++; a.stopped || a.idle || a.view == nil || a.view.Digest() != truth.Digest() {
			return true
		}
	}
	return there != len(truth.members)
}

func (c *hostCrawl) step() {
	c.w.after(20*time.Millisecond, c.step)
	if c.unsettled() {
		c.faults++
	}
	for _, a := range c.w.agents {
		if a != nil && !a.stopped && !a.idle && a.view != nil {
			c.begin(a, c.of(a))
		}
	}
}

// begin begins what a may begin now, as a frontier would.
func (c *hostCrawl) begin(a *agent, k *hostAgent) {
	w := c.w
	for _, p := range a.peer.Freed() {
		if i, there := c.index[p]; there && k.barred[i] != never {
			k.barred[i] = 0
		}
	}
	k.next = (k.next + 1) % len(c.hosts)
	for i := range c.hosts {
		if i += k.next; i >= len(c.hosts) {
			i -= len(c.hosts)
		}
		h, s := c.hosts[i], &k.states[i]
		if h.left[a.place] == 0 || s.at > w.now || k.flying >= c.most {
			continue
		}
		free := true
		for _, i := range h.indexes {
			free = free && k.barred[i] <= w.now
		}
		if !free {
			continue
		}
		for j, p := range h.points {
			ok, at := a.peer.Ready(p, max(w.quiet(p), h.delay), a.clock())
			if !ok {
				k.barred[h.indexes[j]] = w.now + 5*time.Second
				if !at.IsZero() {
					k.barred[h.indexes[j]] = w.now + max(at.Sub(a.clock()), time.Millisecond)
				}
				free = false
				break
			}
		}
		if !free {
			continue
		}
		if n, ago, ok := a.peer.Kept(h.domain, h.key, a.clock()); ok {
			if ago >= 0 {
				s.at = max(s.at, w.now-ago+h.delay*102/100)
			}
			if until := w.now + n.Pause; n.Slow > 0 && until >= s.paused {
				s.slow, s.paused = n.Slow, until
			}
			if s.at = max(s.at, w.now+n.Rest); s.at > w.now {
				continue
			}
		}
		c.visit(a, k, h, s)
	}
}

// visit begins a page of h, and judges whether it may.
func (c *hostCrawl) visit(a *agent, k *hostAgent, h *sharedHost, s *hostState) {
	w, points := c.w, h.points
	if !a.peer.Begin(a.clock(), points...) {
		w.t.Fatal("a ready page cannot begin")
	}
	if h.user != nil {
		w.violation("host %d: agent %d begins while %d uses it", h.key, a.id, h.user.id)
	}
	slack := 1 + w.rates
	if gap, least := w.now-h.ended, time.Duration(float64(h.delay)/slack)-time.Millisecond; gap < least {
		w.violation("host %d: agent %d begins %v after %d's end, not %v", h.key, a.id, gap, h.last, least)
	}
	if h.paused > 0 && h.faultsWas == c.faults {
		pause := h.paused - h.ended
		if gap, least := w.now-h.ended, time.Duration(float64(pause)/slack)-time.Millisecond; gap < least {
			w.violation("host %d: agent %d begins %v after %d's end, in spite of a pause of %v", h.key, a.id, gap,
				h.last, pause)
		}
		if h.pausedBy != a.id {
			c.kept++
		}
	}
	h.user, h.last, h.paused = a, a.id, 0
	h.left[a.place]--
	w.pages++
	k.flying++
	for _, i := range h.indexes {
		k.barred[i] = never
	}
	took := 20*time.Millisecond + w.within(160*time.Millisecond)
	slow := w.chance(c.slow)
	a.nextUse++
	id := a.nextUse
	a.uses[id] = &use{points, w.now + took}
	var over func()
	over = func() {
		_, there := a.uses[id]
		if there && !a.stopped && w.now < a.uses[id].end {
			w.after(a.uses[id].end-w.now, over)
			return
		}
		if h.user == a {
			h.user, h.ended = nil, w.now
		}
		if !there || a.gone { // cut off, or killed
			h.slow = 0
		} else if slow {
			c.pauses++
			if h.faultsWas != c.faults {
				h.slow = 0 // what earlier pauses there were may be lost
			}
			h.slow++
			h.paused, h.pausedBy, h.faultsWas = w.now+hostPause<<(min(h.slow, 5)-1), a.id, c.faults
		}
		delete(a.uses, id)
		end := a.clock()
		a.do(func() {
			k.flying--
			for _, i := range h.indexes {
				k.barred[i] = 0
			}
			s.at = w.now + h.delay*102/100
			if there && slow {
				s.slow++
				s.paused = w.now + hostPause<<(min(s.slow, 5)-1)*102/100
				s.at = max(s.at, s.paused)
			}
			n := Note{Key: h.key, Rest: s.at - w.now, Delay: h.delay, Slow: s.slow}
			if s.slow > 0 {
				n.Pause = s.paused - w.now
			}
			a.peer.Keep(h.domain, n, a.clock())
			for _, p := range points {
				if h.left[a.place] > 0 {
					a.peer.Expect(p, a.clock().Add(s.at-w.now), a.clock())
				}
				a.peer.Used(p, end, w.quiet(p), there, a.clock())
			}
			if h.left[a.place] == 0 {
				for _, p := range points {
					a.peer.Leave(p, a.clock())
				}
			}
		})
	}
	w.after(took, over)
}

// trouble causes faults of agents. What only a lost agent knew of a pause is lost.
func (c *hostCrawl) trouble(every, until time.Duration) {
	w := c.w
	if w.now > until {
		return
	}
	w.after(w.within(2*every), func() { c.trouble(every, until) })
	living := 0
	for _, o := range w.agents {
		if o != nil && !w.troubled[o.id] {
			living++
		}
	}
	a := w.agents[w.rand.IntN(len(w.agents))]
	if a == nil || w.troubled[a.id] || living < 3 {
		return
	}
	place := a.place
	switch w.rand.IntN(5) {
	case 0, 1:
		c.faults++
		w.kill(a)
		w.after(w.within(40*time.Second), func() { w.again(place, a) })
	case 2:
		c.faults++
		w.stop(a, w.within(40*time.Second))
	case 3:
		c.faults++
		w.suspect(a, w.within(30*time.Second))
	case 4:
		c.faults++
		w.part(a, false)
		w.after(w.within(time.Minute), func() {
			if a.gone {
				w.again(place, a)
			}
		})
	}
}

func (c *hostCrawl) done() bool {
	for _, h := range c.hosts {
		for _, a := range c.w.agents {
			if a != nil && h.left[a.place] > 0 {
				return false
			}
		}
	}
	return true
}

// TestSharedHostsAreSafe: no two requests to a host at once, and none before the delay is over, the host's own
// delay and pauses of other agents included, also while agents die, stop, leave and come back.
func TestSharedHostsAreSafe(t *testing.T) {
	// Agent 5 loses its leases for lack of contact 1.1 s after a request to host 1, and agent 7 still takes it for the
	// holder and recalls the point, which must not come back without the rest of that host's delay of 12.9 s.
	const lapsed = 13052193207412281709
	pages, pauses, kept, cut := 0, 0, 0, 0
	seeds(t, testtier.Rounds(1, 8), func(t *testing.T, seed uint64) {
		c := newHostCrawl(t, seed, 3+int(seed%4), Config{})
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
		c.trouble(15*time.Second, 20*time.Minute)
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
		hosts func(c *hostCrawl, agents int)
	}{
		{"200 hosts", 0.1, 0.9, func(c *hostCrawl, _ int) {
			for i := range uint64(200) {
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return 1 << 20 })
			}
		}},
		{"200 hosts, skewed", 1, 0.6, func(c *hostCrawl, agents int) {
			for i := range uint64(200) { // the first has a thousand pages, the last five
				pages := 40000 / int(i+1)
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return max(pages/40, 5) * 16 / agents })
			}
		}},
		{"200 hosts in 20 domains", 0.1, 0.9, func(c *hostCrawl, _ int) {
			for i := range uint64(200) {
				c.add(1000+i%20, 2000+i%20, 2*time.Second, func(int) int { return 1 << 20 })
			}
		}},
		{"3 hosts", 1, 0.9, func(c *hostCrawl, _ int) {
			for i := range uint64(3) {
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return 1 << 20 })
			}
		}},
		{"200 hosts, 200 pages each", 0.1, 0.8, func(c *hostCrawl, agents int) {
			for i := range uint64(200) {
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return 200 / agents })
			}
		}},
		{"many hosts, few pages", 0.5, 0.15, func(c *hostCrawl, agents int) {
			for i := range uint64(testtier.Rounds(500, 2000)) {
				c.add(1000+i, 2000+i, 2*time.Second, func(int) int { return 48 / agents })
			}
		}},
		{"200 hosts on 20 addresses", 0.1, 0.9, func(c *hostCrawl, _ int) {
			for i := range uint64(200) {
				c.add(1000+i%20, 2000+i, 2*time.Second, func(int) int { return 1 << 20 })
			}
		}},
	} {
		alone := 0.0
		for _, agents := range counts {
			c := newHostCrawl(t, 1, agents, Config{})
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
