package retry

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// errEarlier stands for the error of a failure that an earlier run, or another agent, has had.
var errEarlier = errors.New("at an earlier try")

// State returns what must survive of a host: what the frontier knows, and its failing origins.
func (o *Origins) State(host string) frontier.HostState {
	st := o.Frontier.Host(host)
	st.Origins = o.States(host)
	return st
}

// EachHost calls fn for each host with something that must survive. It stops at the first error.
func (o *Origins) EachHost(now time.Time, fn func(frontier.HostState) error) error {
	told := map[string]bool{}
	err := o.Frontier.EachHost(now, func(st frontier.HostState) error {
		if st.Origins = o.States(st.Host); st.Origins != nil {
			told[st.Host] = true
		}
		return fn(st)
	})
	for host := range o.byHost {
		if err != nil {
			return err
		}
		if !told[host] && len(o.States(host)) > 0 {
			err = fn(o.State(host))
		}
	}
	return err
}

// States returns the failing origins of a host, those with the most failures if there are too many.
func (o *Origins) States(host string) (all []frontier.OriginState) {
	for _, e := range o.byHost[host] {
		if e.failures == 0 {
			continue // it waits for a robots.txt on another host, or its links go back to the queue
		}
		all = append(all, frontier.OriginState{Origin: e.name, Cause: e.Cause(),
			Failures: uint8(min(e.failures, math.MaxUint8)), Until: e.until})
	}
	slices.SortStableFunc(all, func(a, b frontier.OriginState) int { return cmp.Compare(b.Failures, a.Failures) })
	return all[:min(len(all), frontier.MaxOrigins)]
}

// Cause returns why the last try failed, in a word; "" if e does not fail. e may be nil.
func (e *Origin) Cause() string {
	if e == nil || e.failures == 0 {
		return ""
	}
	if e.fail != nil {
		return e.fail.Kind.String()
	}
	return e.outcome.String()
}

// Dead reports that the URLs of e get no retries. e may be nil.
func (e *Origin) Dead() bool { return e != nil && e.dead }

// NextTry returns the time before which no URL of e is tried; zero: each may be tried, or fails without a try. e may be
// nil.
func (e *Origin) NextTry(now time.Time) time.Time {
	if e == nil || e.dead || !e.until.After(now) {
		return time.Time{}
	}
	return e.until
}

// Record journals the state of a host.
func (o *Origins) Record(host string) frontier.HostState {
	st := o.State(host)
	o.Ledger.AddHost(st)
	return st
}

// Restore takes over the failing origins of a host from the journal, or from another agent. An origin of which this
// agent has met more failures keeps its own state.
func (o *Origins) Restore(st *frontier.HostState, now time.Time) {
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
		} else if known, ok := o.Robots.Entry(s.Origin); !ok {
			// The wait is that of the origin. The next failure of its robots.txt follows those before.
			o.Robots.Restore(robots.Entry{Origin: s.Origin, Agent: o.Robots.Agent(), Fetched: now, Expires: now,
				Class: robots.ClassUnreachable, Failures: s.Failures})
		} else if known.Class != robots.ClassUnreachable {
			continue // it was read after that
		}
		e := o.need(u, now)
		if e.failures >= int(s.Failures) {
			continue
		}
		e.failures, e.until = int(s.Failures), now.Add(s.Until.Sub(now)) // from now on whatever the wall clock shows
		if end := now.Add(visit.Backoff(o.wait, e.failures-1)); e.until.After(end) {
			e.until = end // the operator has made the wait shorter, or the clock was set back
		}
		e.dead = e.failures > o.retries
		if e.outcome, e.fail = visit.Failed, fail; fail == nil {
			e.outcome = visit.RobotsUnreachable
		}
	}
}

// ForgetHost forgets the origins of a host.
func (o *Origins) ForgetHost(host string) {
	for _, e := range slices.Clone(o.byHost[host]) {
		if e.waiting.Len() == 0 {
			o.forget(e)
		}
	}
}
