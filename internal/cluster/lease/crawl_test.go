package lease

import (
	"math"
	"slices"
	"testing"
	"time"
)

// A crawl is agents with hosts. A host has an address and a domain, and a delay of its own. Each agent begins pages
// like a frontier: it takes the due host first that has waited longest.
//
// With Config.Batch, several agents may have pages of a host. Then hosts want pauses now and then, each of which is
// twice as long as the one before. An agent knows of a host what it has seen itself, and what came with the lease of
// the domain. The crawl judges that an agent keeps the delay and the pauses of each host.
type crawl struct {
	w      *world
	hosts  []*host
	index  map[uint64]int // of points, from 0
	agents map[*agent]*crawler
	every  time.Duration // between two attempts of an agent to begin pages
	rate   float64       // pages a second of an agent; 0: as many as politeness allows
	slow   float64       // share of answers that demand a pause
	// eager makes hosts ask for points that another host of the agent uses, and only once. Otherwise they ask again
	// after a while, like the frontier.
	eager   bool
	faults  int                      // events in which an agent may be lost with what only it knows
	drained func(h *host, place int) // called when an agent has no more pages of h
	stepped func()                   // called after each attempt

	pauses, kept int // number of pauses, and of those that other agents had to keep
}

type host struct {
	address, domain uint64
	points          []uint64
	indexes         []int // of points
	key             uint64
	delay           time.Duration
	left            []int         // pages, by the agent's place
	due             time.Duration // when the next page may begin

	// What the judge knows.
	user      *agent
	ended     time.Duration
	last      AgentID
	slow      int
	pausedBy  AgentID
	paused    time.Duration // end of the pause
	faultsWas int
}

// A crawler is the frontier of one run of an agent.
type crawler struct {
	barred []time.Duration // by index of a point: when to ask again; never while it is in use
	states []hostState     // by host
	hosts  []*host         // with pages, in the order of their turns
	flying int
	began  time.Duration // the last page; before the first one, when it was new
	due    time.Duration // when it may begin a page, if the crawl has a rate
}

type hostState struct {
	at, paused time.Duration // true times: this agent's clock is as good here
	slow       uint8
}

const (
	hostPause  = 20 * time.Second
	never      = time.Duration(math.MaxInt64)
	mostFlying = 100
)

// newCrawl returns a crawl whose agents begin at start.
func newCrawl(t testing.TB, seed uint64, agents int, cfg Config, start time.Duration) *crawl {
	c := &crawl{w: newWorld(t, seed, agents, cfg), index: map[uint64]int{}, agents: map[*agent]*crawler{},
		every: 20 * time.Millisecond}
	if c.w.few = cfg.Batch > 0; c.w.few {
		for _, a := range c.w.agents {
			a.look()
		}
	}
	c.w.struck = func() { c.faults++ }
	c.w.after(start, c.step)
	return c
}

// add adds a host. pages returns how many pages the agent at a place has.
func (c *crawl) add(address, domain uint64, delay time.Duration, pages func(place int) int) *host {
	h := &host{address: address, domain: domain, key: uint64(len(c.hosts)) + 1, delay: delay, ended: -time.Hour,
		left: make([]int, 32)}
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
	return h
}

func (c *crawl) of(a *agent) *crawler {
	k := c.agents[a]
	if k == nil {
		k = &crawler{barred: make([]time.Duration, len(c.index)), states: make([]hostState, len(c.hosts)),
			began: c.w.now}
		c.agents[a] = k
		for _, h := range c.hosts {
			if h.left[a.place] > 0 {
				c.give(a, k, h)
			}
		}
	}
	return k
}

// give gives a host to an agent.
func (c *crawl) give(a *agent, k *crawler, h *host) {
	k.hosts = append(k.hosts, h)
	if c.w.few {
		return
	}
	k.states[h.key-1].at = h.due
	for _, p := range h.points {
		a.peer.Want(p, c.w.quiet(p), a.clock())
	}
}

// unsettled reports whether an agent may lose its leases now: it is stopped, or the views do not agree.
func (c *crawl) unsettled() bool {
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

func (c *crawl) step() {
	c.w.after(c.every, c.step)
	if c.w.few && c.unsettled() {
		c.faults++
	}
	for _, a := range c.w.agents {
		if a != nil && a.runs() {
			if k := c.of(a); k.due <= c.w.now {
				c.begin(a, k)
			}
		}
	}
	if c.stepped != nil {
		c.stepped()
	}
}

// begin begins what a may begin now.
func (c *crawl) begin(a *agent, k *crawler) {
	for _, p := range a.peer.Freed() {
		if i, there := c.index[p]; there && k.barred[i] != never {
			k.barred[i] = 0
		}
	}
	var begun []*host
	k.hosts = slices.DeleteFunc(k.hosts, func(h *host) bool {
		if c.rate > 0 && len(begun) > 0 || !c.may(a, k, h) {
			return false
		}
		c.visit(a, k, h)
		begun = append(begun, h)
		return true
	})
	if k.hosts = append(k.hosts, begun...); len(begun) > 0 && c.rate > 0 {
		k.due = c.w.now + time.Duration(float64(time.Second)/c.rate*(0.5+c.w.rand.Float64()))
	}
}

// may reports whether a may begin a page of h.
func (c *crawl) may(a *agent, k *crawler, h *host) bool {
	w, s := c.w, &k.states[h.key-1]
	if h.left[a.place] == 0 || s.at > w.now || k.flying >= mostFlying {
		return false
	}
	for _, i := range h.indexes {
		if k.barred[i] > w.now {
			return false
		}
	}
	for j, p := range h.points {
		quiet := w.quiet(p)
		if w.few {
			quiet = max(quiet, h.delay)
		}
		if ok, at := a.peer.Ready(p, quiet, a.clock()); !ok {
			i := h.indexes[j]
			if k.barred[i] = w.now + 5*time.Second; c.eager { // the frontier's leaseAgain
				k.barred[i] = w.now + time.Hour
			}
			if !at.IsZero() {
				k.barred[i] = w.now + max(at.Sub(a.clock()), time.Millisecond)
			}
			return false
		}
	}
	if !w.few {
		return true
	}
	if n, ago, ok := a.peer.Kept(h.domain, h.key, a.clock()); ok {
		if ago >= 0 {
			s.at = max(s.at, w.now-ago+h.delay*102/100)
		}
		if until := w.now + n.Pause; n.Slow > 0 && until >= s.paused {
			s.slow, s.paused = n.Slow, until
		}
		s.at = max(s.at, w.now+n.Rest)
	}
	return s.at <= w.now
}

// visit begins a page of h.
func (c *crawl) visit(a *agent, k *crawler, h *host) {
	w, s := c.w, &k.states[h.key-1]
	if !a.peer.Begin(a.clock(), h.points...) {
		w.t.Fatal("a ready page cannot begin")
	}
	if w.few {
		c.judge(a, h)
	}
	h.user, h.last, h.paused = a, a.id, 0
	h.left[a.place]--
	k.flying++
	k.began = w.now
	for _, i := range h.indexes {
		if !c.eager {
			k.barred[i] = never
		}
	}
	took, slow := 20*time.Millisecond+w.within(160*time.Millisecond), w.chance(c.slow)
	a.begin(took, h.points, func(cut bool) func() {
		if h.user == a {
			h.user, h.ended = nil, w.now
		}
		if h.due = w.now + h.delay*102/100; h.left[a.place] == 0 && c.drained != nil {
			c.drained(h, a.place)
		}
		switch {
		case cut:
			h.slow = 0
		case slow:
			c.pauses++
			if h.faultsWas != c.faults {
				h.slow = 0 // what earlier pauses there were may be lost
			}
			h.slow++
			h.paused, h.pausedBy, h.faultsWas = w.now+hostPause<<(min(h.slow, 5)-1), a.id, c.faults
		}
		return func() { c.over(a, k, h, s, slow && !cut) }
	})
}

// judge fails if a must not begin a page of h now.
func (c *crawl) judge(a *agent, h *host) {
	w := c.w
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
}

// over notes the end of a page, before the Peer does.
func (c *crawl) over(a *agent, k *crawler, h *host, s *hostState, slow bool) {
	w := c.w
	k.flying--
	for j, i := range h.indexes {
		if k.barred[i] = 0; c.eager {
			k.barred[i] = w.now + w.quiet(h.points[j])*101/100
		}
	}
	if s.at = w.now + h.delay*102/100; !w.few {
		s.at = h.due
	}
	if slow {
		s.slow++
		s.paused = w.now + hostPause<<(min(s.slow, 5)-1)*102/100
		s.at = max(s.at, s.paused)
	}
	if w.few {
		n := Note{Key: h.key, Rest: s.at - w.now, Delay: h.delay, Slow: s.slow}
		if s.slow > 0 {
			n.Pause = s.paused - w.now
		}
		a.peer.Keep(h.domain, n, a.clock())
	}
	if h.left[a.place] > 0 || c.drained != nil {
		for _, p := range h.points {
			if w.few {
				a.peer.Expect(p, a.clock().Add(s.at-w.now), a.clock())
			}
		}
		return
	}
	k.hosts = slices.DeleteFunc(k.hosts, func(o *host) bool { return o == h })
	w.after(0, func() { // when the point is no longer in use
		for _, p := range h.points {
			if !slices.ContainsFunc(k.hosts, func(o *host) bool { return slices.Contains(o.points, p) }) {
				a.do(func() { a.peer.Leave(p, a.clock()) })
			}
		}
	})
}

func (c *crawl) done() bool {
	for _, h := range c.hosts {
		for _, a := range c.w.agents {
			if a != nil && h.left[a.place] > 0 {
				return false
			}
		}
	}
	return true
}
