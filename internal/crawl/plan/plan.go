// Package plan answers: which URLs does the strategy want the crawl to fetch now, and which of them are in the queues?
//
//	Planner.Next -> new: as if a page had named it
//	             -> again: back to the queue of its host, or put off; Before has the earlier response
//	             -> of another agent's host: its state goes there
//	visit has ended -> Visited -> Planner.Visited -> its new state, in the URL's finish
//
// Polybot, a crawler (Shkapenyuk and Suel, ICDE 2002, section 2), divides the work in the same way between its crawling
// application and its crawling system. Package strategy has Planners.
//
// The dispatcher owns a Plan. At most 32,768 URLs are in the queues again at a time, some 500 bytes each; no host takes
// all of these places.
package plan

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// AgainMax bounds the URLs in the queues that are to be fetched again. Each takes some 500
// bytes of RAM. It is a variable so that tests can make it small.
var AgainMax = 1 << 15

// Bounds of such URLs per host. A few queued URLs keep a host busy. Without these bounds, a
// host with more due pages than it can answer would take all places, and the other hosts
// would wait for its delay.
const (
	hostAgainMax  = 64 // while at least half of AgainMax is free
	hostAgainLess = 2  // otherwise
)

// quotaMax bounds the URLs that are put off or sent away before the dispatcher does other work.
const quotaMax = 1024

// Parts are what a Plan works with. The zero Parts have no Planner, which wants nothing.
type Parts struct {
	Planner visit.Planner
	Run     *run.Run
	Ledger  Ledger
	Queues  Queues
	Archive Archive
	Owners  visit.Owners // nil: there are no other agents
	Moves   Moves        // likewise
}

// A Ledger keeps records.
type Ledger interface {
	Add(kind byte, p []byte)
}

// Queues have the URLs that are to be visited.
type Queues interface {
	// Requeue queues a link that was accepted before.
	Requeue(l link.Link, number uint64) error
}

// An Archive refers to earlier records of a content.
type Archive interface {
	RememberRecord(digest [20]byte, at warc.Original)
}

// Moves carry a Planner's states and questions to other agents.
type Moves interface {
	// Carry sends a Planner's state of a URL, which take returns, to the owner of its host. It keeps l and the state.
	// taken is false if that is not possible now: the owner is not known, or too many states wait.
	Carry(l link.Link, take func() ([]byte, error)) (taken bool, err error)
	// Recall takes a link that the Planner wants, if the Planner is a Sharer. The cluster asks the agents what they
	// know of the URL, and lets the owner fetch it if needed.
	Recall(l link.Link) (taken bool)
}

// A Plan is the Planner of a crawl, with the URLs that it wants.
type Plan struct {
	Parts
	// Restored is the number of URLs with a state from an earlier run.
	Restored int64
	// Kept reports that the journal has a state of an earlier run, or of another agent.
	Kept bool
	// Wake is when the Planner wants the next URL. Zero means not before a visit has ended.
	Wake  time.Time
	again map[link.Key]*visit.Before // URLs that the Planner wants again and that are not finished
	hosts map[string]*hostAgain      // of these
}

// New returns a Plan whose Planner has wanted nothing so far.
func New(parts Parts) Plan {
	return Plan{Parts: parts, again: map[link.Key]*visit.Before{}, hosts: map[string]*hostAgain{}}
}

// A hostAgain is a host with queued URLs that are to be fetched again.
type hostAgain struct {
	queued int
	ended  int       // requests since began
	began  time.Time // the older half of what ended is forgotten now and then
	off    time.Time // when the last of the URLs put off is wanted
}

// Want asks the Planner for URLs and queues them. takeIn accepts one that is not known yet. wake is the time to ask
// again; zero means when a visit has ended.
func (p *Plan) Want(now time.Time, takeIn func(l link.Link)) (wake time.Time) {
	quota := quotaMax
	for p.Planner != nil && !p.Run.Failed() && len(p.again) < AgainMax {
		w, wake, err := p.Planner.Next(now)
		p.Wake = wake
		if err != nil {
			p.Run.Fail(fmt.Errorf("strategy: %w", err))
			return time.Time{}
		}
		if w == nil {
			return wake
		}
		if w.Before == nil {
			if m := p.Moves; m == nil || !m.Recall(w.Link) {
				takeIn(w.Link)
			}
			continue
		}
		off, err := p.moveState(w, now)
		if !off && err == nil {
			off, err = p.wantAgain(w, now)
		}
		if p.Run.Fail(err); off {
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
func (p *Plan) moveState(w *visit.Wanted, now time.Time) (off bool, err error) {
	m, ok := p.Planner.(visit.Mover)
	if !ok || p.Moves == nil {
		return false, nil
	}
	if _, mine := p.Owners.Owner(w.Link.URL.Host()); mine {
		return false, nil
	}
	taken, err := p.Moves.Carry(w.Link, func() ([]byte, error) { return m.TakeOut(w) })
	if err == nil && !taken {
		err = m.PutOff(w, now.Add(carryWait))
	}
	if err != nil {
		err = fmt.Errorf("strategy: %w", err)
	}
	return true, err
}

// Refuse tells the Planner that a link will not be fetched, although it is in scope and new.
func (p *Plan) Refuse(l link.Link) error {
	if p.Planner == nil || l.App() != "" {
		return nil
	}
	if _, err := p.Planner.Visited(&visit.Visit{Link: l, Outcome: visit.Refused}); err != nil {
		return fmt.Errorf("strategy: %w", err)
	}
	return nil
}

// Visited tells the Planner how the visits to a URL ended, and puts the Planner's state of the
// URL into the finish.
func (p *Plan) Visited(v *visit.Attempt, f *state.Finish, now time.Time) {
	if p.Planner == nil || v.Task.Link.App() != "" {
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
	state, err := p.Planner.Visited(&told)
	if err != nil {
		p.Run.Fail(fmt.Errorf("strategy: %w", err))
		return
	}
	f.State = state
}

// wantAgain queues a URL that a Planner wants again, or puts it off. off reports the latter.
func (p *Plan) wantAgain(w *visit.Wanted, now time.Time) (off bool, err error) {
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
	if len(p.again) >= AgainMax/2 {
		room = hostAgainLess
	}
	// A URL that has just become due waits behind those that were put off.
	if pp, ok := p.Planner.(visit.Postponer); ok && (h.queued >= room || !w.Returned && h.off.After(now)) {
		if err := pp.PutOff(w, h.next(now)); err != nil {
			return true, fmt.Errorf("strategy: %w", err)
		}
		return true, nil
	}
	h.queued++
	p.again[k] = w.Before
	if w.Before.Original.URL != "" {
		// The archive may have forgotten it, however recently it was visited.
		p.Archive.RememberRecord(w.Before.Digest, w.Before.Original)
	}
	if err := p.Queues.Requeue(w.Link, 0); err != nil {
		return false, fmt.Errorf("frontier: %w", err)
	}
	return false, nil
}

// ended records the end of a visit to a URL that a Planner wanted again.
func (p *Plan) ended(l link.Link) {
	delete(p.again, l.Key())
	h := p.hosts[l.URL.Host()]
	if h.queued--; h.queued == 0 {
		delete(p.hosts, l.URL.Host())
	}
}

// Before returns the earlier response of a URL that the Planner wants again; otherwise nil.
func (p *Plan) Before(k link.Key) *visit.Before { return p.again[k] }

// PutOff gives a URL that the Planner wants again back to it. It reports false if the URL is none, or if the Planner
// is no Postponer.
func (p *Plan) PutOff(l link.Link, until time.Time) (off bool, err error) {
	before := p.Before(l.Key())
	pp, ok := p.Planner.(visit.Postponer)
	if before == nil || !ok {
		return false, nil
	}
	p.ended(l)
	return true, pp.PutOff(&visit.Wanted{Link: l, Before: before}, until)
}

// Leaves gives a URL that leaves this agent back to the Planner, if that wants it again.
func (p *Plan) Leaves(l link.Link, now time.Time) {
	off, err := p.PutOff(l, now)
	if p.Run.Fail(err); !off && p.Before(l.Key()) != nil {
		p.ended(l)
	}
}

// Remember gives the Planner its state of a URL, which another agent had. It reports whether the Planner could read it.
func (p *Plan) Remember(l link.Link, planned []byte) (ok bool) {
	if p.Planner == nil {
		return false
	}
	if err := p.Planner.Restore(l, planned); err != nil {
		if !errors.Is(err, visit.ErrState) {
			p.Run.Fail(fmt.Errorf("strategy: %s: %w", l.URL, err))
		}
		return false
	}
	p.Ledger.Add(state.Told, state.AppendVisited(nil, l, planned))
	p.Kept = true
	p.Run.Stir()
	return true
}

// Restore gives the Planner its state of a URL from an earlier run.
func (p *Plan) Restore(l link.Link, state []byte) error {
	p.Restored++
	if err := p.Planner.Restore(l, state); err != nil {
		return fmt.Errorf("strategy: %s: %w", l.URL, err)
	}
	return nil
}

// Forget makes the Planner forget the URLs of a host that the operator has dropped.
func (p *Plan) Forget(host string, at time.Time) {
	if f, ok := p.Planner.(visit.Forgetter); ok {
		f.Forget(host, at)
	}
}

// Retry makes the Planner forget a URL that had no response.
func (p *Plan) Retry(u weburl.URL) {
	if r, ok := p.Planner.(visit.Retrier); ok {
		r.Retry(u)
	}
}

// Served records an answer of a host to any request.
func (p *Plan) Served(host string, now time.Time) {
	h := p.hosts[host]
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

// Queued returns the number of URLs in the queues that the Planner wants again.
func (p *Plan) Queued() int { return len(p.again) }
