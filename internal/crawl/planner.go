package crawl

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// againMax bounds the URLs in the queues that are to be fetched again. Each takes some 500
// bytes of RAM. It is a variable so that tests can make it small.
var againMax = 1 << 15

// Bounds of such URLs per host. A few queued URLs keep a host busy. Without these bounds, a
// host with more due pages than it can answer would take all places, and the other hosts
// would wait for its delay.
const (
	hostAgainMax  = 64 // while at least half of againMax is free
	hostAgainLess = 2  // otherwise
)

// A plan is the Planner of a crawl, with the URLs that it wants.
type plan struct {
	run     *run.Run
	ledger  *ledger.Ledger
	origins *retry.Origins
	archive *warc.Writer
	owners  visit.Owners // nil: there are no other agents
	moves   Moves        // likewise

	planner  visit.Planner              // nil: the Strategy is none
	restored int64                      // number of URLs with a state from an earlier run
	kept     bool                       // the journal has a state of an earlier run, or of another agent
	again    map[link.Key]*visit.Before // URLs that the Planner wants again and that are not finished
	hosts    map[string]*hostAgain      // of these
	next     time.Time                  // when the Planner wants the next URL
}

// A hostAgain is a host with queued URLs that are to be fetched again.
type hostAgain struct {
	queued int
	ended  int       // requests since began
	began  time.Time // the older half of what ended is forgotten now and then
	off    time.Time // when the last of the URLs put off is wanted
}

// want asks the Planner for URLs and queues them. takeIn accepts one that is not known yet. wake is the time to ask
// again; zero means when a visit has ended.
func (p *plan) want(now time.Time, takeIn func(l link.Link)) (wake time.Time) {
	quota := quotaMax
	for p.planner != nil && !p.run.Failed() && len(p.again) < againMax {
		w, wake, err := p.planner.Next(now)
		p.next = wake
		if err != nil {
			p.run.Fail(fmt.Errorf("strategy: %w", err))
			return time.Time{}
		}
		if w == nil {
			return wake
		}
		if w.Before == nil {
			if m := p.moves; m == nil || !m.Recall(w.Link) {
				takeIn(w.Link)
			}
			continue
		}
		off, err := p.moveState(w, now)
		if !off && err == nil {
			off, err = p.wantAgain(w, now)
		}
		if p.run.Fail(err); off {
			if quota--; quota == 0 {
				return now // let other work of the dispatcher run first
			}
		}
	}
	return time.Time{}
}

// carryWait is the pause before a Planner's state that cannot be sent to its agent is looked at again.
const carryWait = time.Second

// moveState sends the Planner's state of a URL to the agent that crawls the URL's host. off reports
// that it is not this agent.
func (p *plan) moveState(w *visit.Wanted, now time.Time) (off bool, err error) {
	m, ok := p.planner.(visit.Mover)
	if !ok || p.moves == nil {
		return false, nil
	}
	if _, mine := p.owners.Owner(w.Link.URL.Host()); mine {
		return false, nil
	}
	taken, err := p.moves.Carry(w.Link, func() ([]byte, error) { return m.TakeOut(w) })
	if err == nil && !taken {
		err = m.PutOff(w, now.Add(carryWait))
	}
	if err != nil {
		err = fmt.Errorf("strategy: %w", err)
	}
	return true, err
}

// refuse tells the Planner that a link will not be fetched, although it is in scope and new.
func (p *plan) refuse(l link.Link) error {
	if p.planner == nil || l.App() != "" {
		return nil
	}
	if _, err := p.planner.Visited(&visit.Visit{Link: l, Outcome: visit.Refused}); err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	return nil
}

// visited tells the Planner how the visits to a URL ended, and puts the Planner's state of the
// URL into the finish.
func (p *plan) visited(v *visit.Attempt, f *state.Finish, now time.Time) {
	if p.planner == nil || v.Task.Link.App() != "" {
		return
	}
	l := v.Task.Link
	told := visit.Visit{
		Link: l, Outcome: v.Outcome, Status: v.Response.Status, Began: v.Response.Began, Now: now,
		Again: v.Plan().Before != nil, Unchanged: v.Unchanged(), Compared: v.Compared(),
		Response: visit.Before{If: v.Plan().Validators, Print: v.Plan().Print}, Modified: v.Plan().Modified,
		Offered: v.Plan().Offered,
		Plain:   v.Plain,
	}
	told.Response.Original, told.Response.Digest = v.Record.Written.Original, v.Record.Written.BodyDigest
	if v.Plan().Before != nil {
		p.ended(l)
		f.Flags |= state.FlagAgain
		switch {
		case told.Unchanged:
			f.Flags |= state.FlagUnchanged
		case v.Outcome == visit.Fetched && !told.Compared:
			f.Flags |= state.FlagUnknown
		}
		if v.Response.Status == 304 {
			told.Response = *v.Plan().Before
			told.Response.If = v.Plan().Before.If.Renew(v.Plan().Validators)
		}
	}
	state, err := p.planner.Visited(&told)
	if err != nil {
		p.run.Fail(fmt.Errorf("strategy: %w", err))
		return
	}
	f.State = state
}

// wantAgain queues a URL that a Planner wants again, or puts it off. off reports the latter.
func (p *plan) wantAgain(w *visit.Wanted, now time.Time) (off bool, err error) {
	k, host := w.Link.Key(), w.Link.URL.Host()
	if _, twice := p.again[k]; twice {
		return false, nil
	}
	h := p.hosts[host]
	if h == nil {
		h = &hostAgain{began: now}
		p.hosts[strings.Clone(host)] = h
	}
	room := hostAgainMax
	if len(p.again) >= againMax/2 {
		room = hostAgainLess
	}
	// A URL that has just become due waits behind those that were put off.
	if pp, ok := p.planner.(visit.Postponer); ok && (h.queued >= room || !w.Returned && h.off.After(now)) {
		if err := pp.PutOff(w, h.next(now)); err != nil {
			return true, fmt.Errorf("strategy: %w", err)
		}
		return true, nil
	}
	h.queued++
	p.again[k] = w.Before
	if w.Before.Original.URL != "" {
		// The archive may have forgotten it, however recently it was visited.
		p.archive.RememberRecord(w.Before.Digest, w.Before.Original)
	}
	if err := p.origins.Requeue(w.Link, 0); err != nil {
		return false, fmt.Errorf("frontier: %w", err)
	}
	return false, nil
}

// ended records the end of a visit to a URL that a Planner wanted again.
func (p *plan) ended(l link.Link) {
	delete(p.again, l.Key())
	h := p.hosts[l.URL.Host()]
	if h.queued--; h.queued == 0 {
		delete(p.hosts, l.URL.Host())
	}
}

// before returns the earlier response of a URL that the Planner wants again; otherwise nil.
func (p *plan) before(k link.Key) *visit.Before { return p.again[k] }

// putOff gives a URL that the Planner wants again back to it. It reports false if the URL is none, or if the Planner
// is no Postponer.
func (p *plan) putOff(l link.Link, until time.Time) (off bool, err error) {
	before := p.before(l.Key())
	pp, ok := p.planner.(visit.Postponer)
	if before == nil || !ok {
		return false, nil
	}
	p.ended(l)
	return true, pp.PutOff(&visit.Wanted{Link: l, Before: before}, until)
}

// leaves gives a URL that leaves this agent back to the Planner, if that wants it again.
func (p *plan) leaves(l link.Link, now time.Time) {
	off, err := p.putOff(l, now)
	if p.run.Fail(err); !off && p.before(l.Key()) != nil {
		p.ended(l)
	}
}

// remember gives the Planner its state of a URL, which another agent had. It reports whether the Planner could read it.
func (p *plan) remember(l link.Link, planned []byte) (ok bool) {
	if p.planner == nil {
		return false
	}
	if err := p.planner.Restore(l, planned); err != nil {
		if !errors.Is(err, visit.ErrState) {
			p.run.Fail(fmt.Errorf("strategy: %s: %w", l.URL, err))
		}
		return false
	}
	p.ledger.Add(state.Told, state.AppendVisited(nil, l, planned))
	p.kept = true
	p.run.Stir()
	return true
}

// restore gives the Planner its state of a URL from an earlier run.
func (p *plan) restore(l link.Link, state []byte) error {
	p.restored++
	if err := p.planner.Restore(l, state); err != nil {
		return fmt.Errorf("strategy: %s: %w", l.URL, err)
	}
	return nil
}

// forget makes the Planner forget the URLs of a host that the operator has dropped.
func (p *plan) forget(host string, at time.Time) {
	if f, ok := p.planner.(visit.Forgetter); ok {
		f.Forget(host, at)
	}
}

// retry makes the Planner forget a URL that had no response.
func (p *plan) retry(u weburl.URL) {
	if r, ok := p.planner.(visit.Retrier); ok {
		r.Retry(u)
	}
}

// served records an answer of the host to any request.
func (h *hostAgain) served(now time.Time) {
	if h == nil {
		return
	}
	if h.ended++; h.ended >= hostAgainMax {
		h.ended /= 2
		h.began = h.began.Add(now.Sub(h.began) / 2)
	}
}

// next returns when to look again at one more URL of a host with enough URLs in its queue.
// URLs come back twice as fast as the host has answered so far. So the queue does not run
// empty, and each URL is put off about twice.
func (h *hostAgain) next(now time.Time) time.Time {
	gap := min(max(now.Sub(h.began)/time.Duration(max(h.ended, 1)), 10*time.Millisecond), time.Hour)
	h.off = run.Later(h.off, now.Add(gap)).Add(gap / 2)
	return h.off
}
