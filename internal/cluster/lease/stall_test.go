package lease

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A tail is a crawl in which only a few addresses and domains have work: the end of a crawl, or a
// resumed crawl. A host has some pages, then rests. It has its own delay besides those of its
// address and its domain.
//
// A tail measures stalls. A host could begin if it is due, no agent uses its address
// and its domain, and their quiet times are over. A stall is the time for which a host
// could begin and no agent begins it. Two periods do not count:
//
//   - The time in which the agents' views differ, or name an agent that is dead or
//     stopped. Gossip and the failure detector need it.
//   - After an agent was killed or stopped: a point that it held, and a point that
//     has another grantor since, for Config.grace from when all views are without
//     that agent. It may only be cut off and use the point, so no other agent may.
//     This ends at once if the agent's next life begins. It does not apply to an
//     agent that has said that it is gone.
type tail struct {
	*crawl
	losses  []*loss
	quiet   []time.Duration          // of the points, from 1
	moved   map[*host]time.Duration  // when a host moved to its agent
	settled time.Duration            // the last time at which the agents were not settled
	last    time.Duration            // the last page of all
	heldAt  map[uint64]time.Duration // the last time at which a point was held
	unclear map[uint64]time.Duration // the last time at which a lost agent might use a point

	all    stall // no agent begins a visit
	unheld stall // no agent holds a point that a stalled agent wants
	own    stall // an agent begins no visit
}

type loss struct {
	agent  AgentID
	held   map[uint64]bool
	before *picture
	end    time.Duration // 0: still in a view
}

func newTail(t *testing.T, seed uint64, agents, addresses, domains, hosts int) *tail {
	c := &tail{crawl: newCrawl(t, seed, agents, Config{}, time.Second), moved: map[*host]time.Duration{},
		unclear: map[uint64]time.Duration{}, heldAt: map[uint64]time.Duration{}}
	w := c.w
	w.delay = 0.01
	w.quiet = func(p uint64) time.Duration { return c.quiet[p] }
	for range 1 + addresses + domains {
		c.quiet = append(c.quiet, 200*time.Millisecond+w.within(800*time.Millisecond))
	}
	c.drained, c.stepped = c.refill, c.follow
	for range hosts {
		place, address, domain := w.rand.IntN(agents), 1+w.rand.IntN(addresses), 1+addresses+w.rand.IntN(domains)
		delay := max(c.quiet[address], c.quiet[domain]) + w.within(3*time.Second)
		if w.chance(0.1) {
			delay = 10*time.Second + w.within(20*time.Second)
		}
		h := c.add(uint64(address), uint64(domain), delay, func(int) int { return 0 })
		h.due = delay
		c.refill(h, place)
	}
	return c
}

// refill gives a host pages at an agent: some now, most later.
func (c *tail) refill(h *host, place int) {
	h.left[place] = 1 + c.w.rand.IntN(12)
	if c.w.chance(0.5) {
		h.due += c.w.within(time.Minute)
	}
}

// move moves a host to an agent.
func (c *tail) move(h *host, to *agent) {
	k, from := c.of(to), h.place()
	for _, o := range c.agents {
		o.hosts = slices.DeleteFunc(o.hosts, func(o *host) bool { return o == h })
	}
	pages := h.left[from]
	h.left[from] = 0
	h.left[to.place] = pages
	c.give(to, k, h)
	c.moved[h] = c.w.now
}

// place returns the place of the only agent that has pages of h.
func (h *host) place() int { return slices.IndexFunc(h.left, func(n int) bool { return n > 0 }) }

// follow moves the hosts of agents that are gone, and measures the stalls. Now and then a frontier forgets points that
// no host wants.
func (c *tail) follow() {
	w := c.w
	living := c.living()
	for _, h := range c.hosts {
		if h.user != nil || len(living) == 0 {
			continue
		}
		if a := w.agents[h.place()]; a == nil || a.idle {
			c.move(h, living[w.rand.IntN(len(living))])
		}
	}
	for _, a := range living {
		if k := c.of(a); a.view != nil && w.chance(0.01) {
			wanted := map[uint64]bool{}
			for _, h := range k.hosts {
				if h.user == nil && h.due <= w.now {
					wanted[h.address], wanted[h.domain] = true, true
				}
			}
			for _, h := range c.hosts {
				for j, p := range h.points {
					if i := h.indexes[j]; !wanted[p] && k.barred[i] != never {
						a.peer.Leave(p, a.clock())
						k.barred[i] = 0
					}
				}
			}
		}
	}
	c.measure()
}

func (c *tail) living() (as []*agent) {
	for _, a := range c.w.agents {
		if a != nil && !a.stopped && !a.idle {
			as = append(as, a)
		}
	}
	return as
}

// whole reports whether every agent sees exactly all agents, and all of them run.
func (c *tail) whole() bool {
	w := c.w
	truth := &picture{members: slices.Sorted(slices.Values(w.members))}
	there := 0
	for _, a := range w.agents {
		if a == nil || a.stopped && !slices.Contains(w.members, a.id) {
			continue
		}
		if there++; a.stopped || a.view == nil || a.view.Digest() != truth.Digest() {
			return false
		}
	}
	return there == len(w.members)
}

// lose notes that an agent is killed, or stopped for long, without an announcement.
func (c *tail) lose(a *agent) {
	l := &loss{agent: a.id, held: map[uint64]bool{}, before: a.view}
	for p, lot := range a.peer.holder.holdings {
		l.held[p] = lot.state != without || lot.using || lot.back != 0
	}
	for _, o := range c.w.agents { // also points that are on their way to it
		if o != nil {
			for p, r := range o.peer.grantor.points {
				l.held[p] = l.held[p] || r.holder == a.id
			}
		}
	}
	c.losses = append(c.losses, l)
}

// unsure reports whether a lost agent may use a point.
func (c *tail) unsure(p uint64) bool {
	for _, l := range c.losses {
		if l.end != 0 && c.w.now >= l.end {
			continue
		}
		now := &picture{members: c.w.members}
		if l.held[p] || l.before.Owner(p) != now.Owner(p) {
			return true
		}
	}
	return false
}

func (c *tail) measure() {
	w := c.w
	if !c.whole() {
		c.settled = w.now
	}
	for _, l := range c.losses {
		switch {
		case w.over[l.agent]:
			l.end = w.now
		case slices.Contains(w.members, l.agent):
			if l.end = 0; c.settled != w.now {
				l.end = w.now // it is back
			}
		case l.end == 0 || c.settled == w.now && w.now < l.end:
			l.end = w.now + w.cfg.grace() + w.cfg.grace()/50
		}
	}
	c.losses = slices.DeleteFunc(c.losses, func(l *loss) bool { return l.end != 0 && w.now >= l.end })
	for p := range c.index {
		if c.unsure(p) {
			c.unclear[p] = w.now
		}
	}
	if c.settled == w.now {
		return
	}
	for _, k := range c.agents {
		c.last = max(c.last, k.began)
	}
	for _, a := range c.living() {
		k := c.of(a)
		for _, h := range c.hosts {
			if h.left[a.place] == 0 || h.user != nil || h.due > w.now {
				continue
			}
			since := max(h.due, c.moved[h], c.settled, a.born) // since when it could have begun
			for _, p := range []uint64{h.address, h.domain} {
				j := w.judged(p)
				if j.user != nil {
					since = w.now
				}
				since = max(since, j.ended+c.quiet[p], c.unclear[p])
			}
			c.all.note(w, max(since, c.last), "no agent begins a visit, and agent %d not host %d", a.id, h.key)
			c.own.note(w, max(since, k.began), "agent %d begins nothing, and not host %d", a.id, h.key)
			// It wants the address first, and then the domain.
			p := h.address
			if l := a.peer.holder.holdings[p]; l != nil && l.state == held {
				p = h.domain
				since = max(since, w.now-(a.peer.clock-l.since))
			}
			if c.held(p) {
				c.heldAt[p] = w.now
			}
			c.unheld.note(w, max(since, k.began, c.heldAt[p]), "no agent holds %d, which agent %d wants", p, a.id)
		}
	}
}

// held reports whether an agent holds a point.
func (c *tail) held(p uint64) bool {
	return slices.ContainsFunc(c.living(), func(a *agent) bool {
		l := a.peer.holder.holdings[p]
		return l != nil && (l.state == held || l.using)
	})
}

// A stall is the longest stall of a kind.
type stall struct {
	longest time.Duration
	what    string
}

func (s *stall) note(w *world, since time.Duration, format string, args ...any) {
	if d := w.now - since; d > s.longest {
		s.longest, s.what = d, fmt.Sprintf("from %v for %v: ", since, d)+fmt.Sprintf(format, args...)
	}
}

// events causes faults of agents, one after the other.
func (c *tail) events(until time.Duration) {
	w := c.w
	if w.now > until || w.dead {
		return
	}
	w.after(20*time.Second+w.within(40*time.Second), func() { c.events(until) })
	living := c.living()
	if len(living) == 0 || len(living) < len(w.agents) {
		return // an agent is not back yet
	}
	for _, h := range c.hosts { // new agents get their share of the hosts
		if h.user == nil && w.chance(0.5) {
			c.move(h, living[w.rand.IntN(len(living))])
		}
	}
	a := living[w.rand.IntN(len(living))]
	what := w.rand.IntN(6)
	if len(living) < 3 && what != 5 {
		what = 0 // not for a single agent, which would be a partition
	}
	switch what {
	case 0:
		if len(living) > 6 {
			return
		}
		w.agents = append(w.agents, nil)
		w.start(len(w.agents) - 1).look()
		w.viewed()
	case 1: // SIGTERM, and a restart
		w.part(a, false)
		var back func()
		back = func() {
			if !a.gone {
				w.after(time.Second, back)
				return
			}
			w.after(w.within(20*time.Second), func() { w.resume(a.place, a) })
		}
		back()
	case 2: // kill -9, and a restart, perhaps before the others have noticed
		c.kill(a)
		w.after(w.within(10*time.Second), func() { w.resume(a.place, a) })
	case 3: // kill -9, and a new agent in its place
		c.kill(a)
		w.after(10*time.Second+w.within(10*time.Second), func() {
			w.start(a.place).look()
			w.viewed()
		})
	case 4:
		d := w.within(30 * time.Second)
		if d > 5*time.Second {
			c.lose(a)
		}
		w.stop(a, d)
	case 5: // all are killed and restarted
		for _, a := range living {
			c.kill(a)
			w.after(w.within(5*time.Second), func() { w.resume(a.place, a) })
		}
	}
}

func (c *tail) kill(a *agent) {
	c.lose(a)
	c.w.kill(a)
}

// TestStalls: if every agent can reach every other, a stall of all agents lasts less
// than five seconds, and so does the time for which no agent holds a point that a
// stalled agent wants. The stalls of a single agent depend on how many others want the
// same points. The test only logs them.
func TestStalls(t *testing.T) {
	for _, c := range []struct {
		name   string
		events bool
	}{{"settled", false}, {"agents come and go", true}} {
		t.Run(c.name, func(t *testing.T) {
			last := uint64(testtier.Rounds(6, 20))
			var all, unheld, own time.Duration
			pages, messages := 0, 0
			for seed := uint64(1); seed <= last; seed++ {
				k := newTail(t, seed, 3+int(seed%3), 4, 3, 14)
				w := k.w
				if c.events {
					w.after(20*time.Second, func() { k.events(5 * time.Minute) })
				}
				w.run(6 * time.Minute)
				for _, s := range []stall{k.all, k.unheld} {
					if s.longest >= 5*time.Second {
						t.Errorf("seed %d: %s", seed, s.what)
					}
				}
				all, unheld, own = max(all, k.all.longest), max(unheld, k.unheld.longest), max(own, k.own.longest)
				pages, messages = pages+w.pages, messages+w.calls+w.answers
			}
			t.Logf("no agent began a visit for %v; no agent held a wanted point for %v", all, unheld)
			t.Logf("one agent began nothing for %v; %d pages, %.2f messages a page", own, pages,
				float64(messages)/float64(pages))
		})
	}
}
