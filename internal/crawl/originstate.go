package crawl

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// errEarlier stands for the error of a failure that an earlier run, or another agent, has had.
var errEarlier = errors.New("at an earlier try")

// Hosts lets the hosts of a crawl move between agents: it makes the state of a host that goes to the next owner, and
// takes such a state over. Only the dispatcher may use it.
type Hosts struct{ c *Crawler }

// State returns what the next owner of a host must know: the state in the frontier, and the failing origins.
func (h Hosts) State(host string) frontier.HostState {
	return h.c.origins.hostState(h.c.Frontier, host)
}

// Each calls fn for each host with such a state. It stops at the first error.
func (h Hosts) Each(now time.Time, fn func(frontier.HostState) error) error {
	return h.c.origins.eachHost(h.c.Frontier, now, fn)
}

// Take takes over such a state, and returns it as it is then.
func (h Hosts) Take(st frontier.HostState, now time.Time) frontier.HostState {
	h.c.Frontier.Restore(st)
	h.c.origins.restore(h.c, &st, now)
	return h.State(st.Host)
}

// HandOver gives a host away, and returns its state. All of its URLs are withdrawn, those that wait for a retry, too:
// Moves.SendAway gets them. The error is frontier.ErrInProcess if a request to the host is under way, otherwise one
// of the disk.
func (h Hosts) HandOver(host string) (frontier.HostState, error) {
	st, err := h.c.Frontier.HandOver(host)
	if err != nil {
		return st, err
	}
	st.Origins = h.c.origins.states(host)
	h.c.visits.LetGo(host)
	h.c.gate.Unblock(host)
	err = h.c.withdrawLater(host)
	h.c.origins.forgetHost(host)
	return st, err
}

// hostState returns what must survive of a host: what the frontier knows, and its failing origins.
func (o *origins) hostState(f *frontier.Frontier, host string) frontier.HostState {
	st := f.Host(host)
	st.Origins = o.states(host)
	return st
}

// eachHost calls fn for each host with something that must survive. It stops at the first error.
func (o *origins) eachHost(f *frontier.Frontier, now time.Time, fn func(frontier.HostState) error) error {
	told := map[string]bool{}
	err := f.EachHost(now, func(st frontier.HostState) error {
		if st.Origins = o.states(st.Host); st.Origins != nil {
			told[st.Host] = true
		}
		return fn(st)
	})
	for host := range o.byHost {
		if err != nil {
			return err
		}
		if !told[host] && len(o.states(host)) > 0 {
			err = fn(o.hostState(f, host))
		}
	}
	return err
}

// states returns the failing origins of a host, those with the most failures if there are too many.
func (o *origins) states(host string) (all []frontier.OriginState) {
	for _, e := range o.byHost[host] {
		if e.failures == 0 {
			continue // it waits for a robots.txt on another host, or its links go back to the queue
		}
		all = append(all, frontier.OriginState{Origin: e.name, Cause: e.cause(),
			Failures: uint8(min(e.failures, math.MaxUint8)), Until: e.until})
	}
	slices.SortStableFunc(all, func(a, b frontier.OriginState) int { return cmp.Compare(b.Failures, a.Failures) })
	return all[:min(len(all), frontier.MaxOrigins)]
}

// cause returns why the last try failed, in a word.
func (e *origin) cause() string {
	if e.fail != nil {
		return e.fail.Kind.String()
	}
	return e.outcome.String()
}

// record journals the state of a host, and ships it to other agents.
func (o *origins) record(c *Crawler, host string, now time.Time) frontier.HostState {
	st := o.hostState(c.Frontier, host)
	c.ledger.Add(state.Host, st.AppendTo(nil))
	if c.Cluster.Moves != nil {
		c.Cluster.Moves.Rests(st, now)
	}
	return st
}

// restore takes over the failing origins of a host from the journal, or from another agent. An origin of which this
// agent has met more failures keeps its own state.
func (o *origins) restore(c *Crawler, st *frontier.HostState, now time.Time) {
	for _, s := range st.Origins {
		u, err := weburl.Parse(s.Origin + "/")
		if err != nil || u.Host() != st.Host || u.Origin() != s.Origin {
			continue
		}
		var fail *fetch.Failure
		if s.Cause != visit.RobotsUnreachable.String() {
			kind := fetch.Connect
			for _, k := range [...]fetch.Kind{fetch.ConnectTimeout, fetch.TLS, fetch.Proxy} {
				if s.Cause == k.String() {
					kind = k
				}
			}
			fail = &fetch.Failure{Kind: kind, Err: errEarlier}
		} else if known, ok := c.Robots.Entry(s.Origin); !ok {
			// The wait is that of the origin. The next failure of its robots.txt follows those before.
			c.Robots.Restore(robots.Entry{Origin: s.Origin, Agent: c.Robots.Agent(), Fetched: now, Expires: now,
				Class: robots.ClassUnreachable, Failures: s.Failures})
		} else if known.Class != robots.ClassUnreachable {
			continue // it was read after that
		}
		e := o.need(c, u, now)
		if e.failures >= int(s.Failures) {
			continue
		}
		e.failures, e.until = int(s.Failures), s.Until
		if end := now.Add(visit.Backoff(c.cfg.RetryWait, e.failures-1)); e.until.After(end) {
			e.until = end // the operator has made the wait shorter, or the clock was set back
		}
		e.dead = e.failures > c.cfg.Retries
		if e.outcome, e.fail = visit.Failed, fail; fail == nil {
			e.outcome = visit.RobotsUnreachable
		}
	}
}

// forgetHost forgets the origins of a host.
func (o *origins) forgetHost(host string) {
	for _, e := range slices.Clone(o.byHost[host]) {
		if e.waiting.Len() == 0 {
			o.forget(e)
		}
	}
}
