package crawl

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An inquiry is a host that waits until the agents that may have owned it have answered, or until
// the view changes.
type inquiry struct {
	view   uint64 // Tenancy.View of the first question; all answers must be of this view
	since  uint64
	others []string // more agents to ask if needed
	open   []string // asked, and not answered finally
	enough int      // answers still wanted
}

// A line is the list of hosts to ask one agent for.
type line struct {
	hosts    []string
	again    []string // to ask for again when due
	due      time.Time
	failures int
	busy     bool // a question is under way
}

const (
	claimHosts = 256 // in one question
	// claimWait is the pause before the agent asks for a host again. It doubles after errors.
	claimWait    = 100 * time.Millisecond
	claimWaitMax = 5 * time.Second
)

// hold stops visits to a host. If this agent owns the host, it asks other agents about it.
func (c *Crawler) hold(host string, mine bool, since uint64) {
	c.Frontier.Block(host)
	t := &c.tenants
	if t.held[host] != nil {
		return
	}
	c.remote.activity++
	host = strings.Clone(host)
	w := &inquiry{view: c.Tenancy.View(), since: since, enough: 1} // a foreign host gets no answers
	t.held[host] = w
	if !mine {
		return
	}
	w.others, w.enough = c.Tenancy.Before(host)
	c.askFor(host, w, c.cfg.Now())
}

// askFor asks as many agents about a host as answers are needed. If no agent is left to ask, this
// agent may crawl the host.
func (c *Crawler) askFor(host string, w *inquiry, now time.Time) {
	for len(w.others) > 0 && len(w.open) < w.enough {
		agent := w.others[0]
		w.others = w.others[1:]
		w.open = append(w.open, agent)
		c.lineOf(agent).hosts = append(c.lineOf(agent).hosts, host)
	}
	if len(w.open) == 0 {
		c.settleHere(host, w, now)
	}
}

func (c *Crawler) lineOf(agent string) *line {
	l := c.tenants.lines[agent]
	if l == nil {
		l = &line{}
		c.tenants.lines[agent] = l
	}
	return l
}

// askAround sends questions. wake is the time to send more.
func (c *Crawler) askAround(work context.Context, now time.Time) (wake time.Time) {
	t, asked := &c.tenants, c.Tenancy.View()
	for agent, l := range t.lines {
		if l.busy {
			continue
		}
		if len(l.again) > 0 && !l.due.After(now) {
			l.hosts, l.again = append(l.hosts, l.again...), nil
		}
		if l.failures > 0 && l.due.After(now) {
			wake = earlier(wake, l.due)
			continue
		}
		var hosts []string
		for len(l.hosts) > 0 && len(hosts) < claimHosts {
			host := l.hosts[0]
			l.hosts = l.hosts[1:]
			switch w := t.held[host]; {
			case w == nil || !slices.Contains(w.open, agent) || slices.Contains(hosts, host):
			case w.view != asked: // the view has changed: all agents are asked again when the host is due
				c.unhold(host)
				wake = now
			default:
				hosts = append(hosts, host)
			}
		}
		if len(hosts) == 0 {
			if len(l.again) > 0 {
				wake = earlier(wake, l.due)
			}
			continue
		}
		l.busy = true
		view := t.view
		c.inFlight.Go(func() {
			vs, err := c.Tenancy.Claim(work, agent, asked, hosts)
			c.tell(func(now time.Time) {
				if l.busy = false; view == t.view {
					c.answered(agent, asked, hosts, vs, err, now)
				}
			})
		})
	}
	return wake
}

// answered processes the answer to a question of the view asked.
func (c *Crawler) answered(agent string, asked uint64, hosts []string, vs []Verdict, err error, now time.Time) {
	t, l := &c.tenants, c.lineOf(agent)
	if c.stop != notStopping || c.fatal != nil {
		return
	}
	if err != nil || len(vs) != len(hosts) {
		for _, host := range hosts {
			if others, _ := c.Tenancy.Before(host); slices.Contains(others, agent) {
				l.hosts = append(l.hosts, host)
			} else if w := t.held[host]; w != nil { // the agent is gone: do not wait for it
				w.open = slices.DeleteFunc(w.open, func(a string) bool { return a == agent })
				c.askFor(host, w, now)
			}
		}
		l.due = now.Add(min(claimWait<<min(l.failures, 10), claimWaitMax))
		l.failures++
		return
	}
	l.failures = 0
	for i, host := range hosts {
		w := t.held[host]
		if w == nil || !slices.Contains(w.open, agent) {
			continue
		}
		verdict := vs[i]
		if w.view != asked {
			verdict = Again // the answer is for an older question
		}
		switch verdict {
		case Nothing, Stranger:
			c.remote.activity++
			w.open = slices.DeleteFunc(w.open, func(a string) bool { return a == agent })
			if verdict == Nothing {
				w.enough--
			}
			c.askFor(host, w, now)
		default:
			if len(l.again) == 0 {
				l.due = now.Add(claimWait)
			}
			l.again = append(l.again, host)
		}
		if c.fatal != nil {
			return
		}
	}
}

// settleHere starts visits to a host that this agent owns.
func (c *Crawler) settleHere(host string, w *inquiry, now time.Time) {
	t := &c.tenants
	key := weburl.HostKey(host)
	c.remote.activity++
	if _, mine, since := c.Tenancy.Tenure(host); !mine || since != w.since || w.view != c.Tenancy.View() {
		c.unhold(host) // when it is due, the agent decides again
		return
	}
	if c.Tenancy.Inheriting() {
		return // the takeover may bring more finished URLs; the next view starts again
	}
	if c.unite(key); c.fatal != nil {
		return
	}
	t.claimed[key] = w.since
	delete(t.given, key)
	t.n.Claimed++
	clock := t.inherited[host]
	delete(t.inherited, host)
	if st, ok := t.clocks[host]; ok { // this agent owned it before
		old := quietOf(st, false, now)
		clock.Delay, clock.Quiet = max(clock.Delay, old.Delay), max(clock.Quiet, old.Quiet)
		delete(t.clocks, host)
	}
	// The last owner may have died just after a request to the host.
	clock.Quiet = max(clock.Quiet, c.cfg.ResumeWait)
	clock.Blocked = true // held still blocks it; unhold lifts that
	c.Frontier.Restore(clock.state(host, now))
	c.append()
	c.unhold(host)
}

// unite moves the done keys of a host that was handed over before into the host's own range.
func (c *Crawler) unite(key uint64) {
	h, ok := c.tenants.handed[key]
	if !ok || !h.apart {
		return
	}
	done := c.rangeOf(doneKey(weburl.Key{Host: key}).Host)
	c.foundElsewhere(key, &done)
	own := h.key(weburl.Key{Host: key}).Host
	if c.learn([]ranged{{own, kindKeys, done}}); c.fatal != nil {
		return
	}
	h.apart = false
	c.setHanded(key, h)
	c.append()
}

// foundElsewhere records which waiting links are finished on other agents. The paths must not
// contain URLs finished here.
func (c *Crawler) foundElsewhere(key uint64, finished *paths) {
	if finished.n == 0 || c.fatal != nil {
		return
	}
	own := c.rangeOf(c.ownKey(weburl.Key{Host: key}).Host)
	twice := own.within(finished)
	if twice.n == 0 {
		return
	}
	c.tenants.absent(key, func(s *paths) {
		for _, l := range twice.lists {
			s.add(l)
		}
	})
	for _, l := range twice.lists {
		for part := range slices.Chunk(l.Paths, keysPiece) {
			c.batch.add(kindAbsent, appendList(nil, key, keyset.List{Width: l.Width, Paths: part}))
		}
	}
	c.append()
}

// handedKeys is the number of keys that are processed at once, unless one host has more. Each takes
// 8 bytes of RAM.
const handedKeys = 1 << 18

// A handedHost is another agent's state of a host.
type handedHost struct {
	host  string
	paths paths
	clock *Clock
}

// ErrNotHeir reports a Hand of a host that this agent does not own by its view. The sender checks
// its own view, and may send the host again.
var ErrNotHeir = errors.New("this agent does not own all of these hosts")

// Handed processes another agent's state of hosts. It returns the number of hosts when that is
// durable. It skips hosts that this agent does not own by its view; then the error is an
// ErrNotHeir. Safe for concurrent use; ctx bounds the wait.
func (c *Crawler) Handed(ctx context.Context, from string, parts iter.Seq2[Part, error]) (hosts int, err error) {
	if c.Tenancy == nil {
		return 0, ErrAlone
	}
	var es []handedHost
	e, n := handedHost{}, 0
	flush := func() error {
		if len(es) == 0 {
			return nil
		}
		taken := 0
		durable := make(chan struct{})
		if err := c.ask(ctx, "handed", func() {
			taken = c.takeHanded(from, es)
			c.receiptWhenDurable(receipt{then: func() { close(durable) }})
		}); err != nil {
			return err
		}
		select {
		case <-durable:
		case <-ctx.Done():
			return fmt.Errorf("handed: %w", ctx.Err())
		case <-c.ended:
			return ErrNotRunning
		}
		hosts += taken
		if taken < len(es) {
			return ErrNotHeir
		}
		es, n = nil, 0
		return nil
	}
	for p, err := range parts {
		if err != nil {
			return hosts, err
		}
		if p.Host != e.host {
			e = handedHost{host: p.Host}
		}
		if len(p.Keys.Paths) > 0 {
			e.paths.add(p.Keys)
			n += len(p.Keys.Paths)
		}
		if p.Clock != nil {
			e.clock = p.Clock
		}
		if p.Last {
			e.paths.order()
			es = append(es, e)
			e = handedHost{}
			if n >= handedKeys || len(es) == claimHosts {
				if err := flush(); err != nil {
					return hosts, err
				}
			}
		}
	}
	return hosts, flush()
}

// news appends to dst the unknown ones of the finished URLs of a host, for learn, and ships them to
// the host's heir.
func (c *Crawler) news(dst []ranged, key uint64, finished *paths) []ranged {
	if c.unite(key); c.fatal != nil {
		return dst
	}
	done := doneKey(weburl.Key{Host: key}).Host
	known := c.rangeOf(done)
	fresh := finished.without(&known)
	if c.foundElsewhere(key, &fresh); c.fatal != nil || fresh.n == 0 {
		return dst
	}
	c.tenants.newlyDone(key)
	for _, l := range fresh.lists {
		for _, p := range l.Paths {
			if l.Width == keyset.WholeKey {
				c.copyKnown(weburl.Key{Host: key, Path: p})
			}
		}
	}
	own := c.ownKey(weburl.Key{Host: key}).Host
	return append(dst, ranged{done, kindDoneKeys, fresh}, ranged{own, kindKeys, fresh})
}

// takeHanded processes the states of hosts.
func (c *Crawler) takeHanded(from string, es []handedHost) (taken int) {
	t := &c.tenants
	now := c.cfg.Now()
	var news []ranged // up to two of each host
	keys := int64(0)
	for i := range es {
		if c.stop != notStopping || c.fatal != nil {
			return taken
		}
		e := &es[i]
		_, mine, since := c.Tenancy.Tenure(e.host)
		if !mine {
			continue
		}
		c.remote.activity++
		taken++
		key := weburl.HostKey(e.host)
		was := len(news)
		if news = c.news(news, key, &e.paths); c.fatal != nil {
			return taken
		}
		if len(news) > was {
			keys += int64(news[was].n)
		}
		if k := e.clock; k != nil {
			if k.Blocked {
				c.takeBlock(e.host)
				c.copyBlock(e.host, now)
			}
			if c.isTenant(key, since) {
				clock := *k
				clock.Blocked = c.isBlocked(e.host)
				c.Frontier.Restore(clock.state(e.host, now))
			} else {
				t.inherited[strings.Clone(e.host)] = *k
			}
		}
	}
	if c.fatal == nil {
		c.learn(news)
	}
	t.n.KeysIn += keys
	c.tellMoves("hosts-taken", from, taken, keys)
	// The agent that this one waited for has sent its part. Ask again at once.
	if l := t.lines[from]; l != nil {
		l.hosts, l.again = append(l.hosts, l.again...), nil
	}
	return taken
}
