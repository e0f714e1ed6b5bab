package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// When the agents of the cluster change, hosts get new owners. One agent at a time crawls a host.
// The new owner starts when the agents that may have owned the host before have told it what they
// know.
//
//	old owner: the host is due, but another agent's -> give it away: links -> outbox
//	new owner: the host is due and newly ours -> hold it -> Claim to old owners
//	old owner: in process: "again, later"; else give it away, finished URLs -> Hand
//	new owner: all have answered -> crawl
//
// The old owner sends the pending links of the host like any links to another agent. The new owner
// asks for the finished URLs (Claim) and receives them (Hand). Both steps may be repeated: the old
// owner keeps its knowledge of the finished URLs, and the new owner ignores what it knows already.
// So a kill on either side costs only time. After a start the agent claims all its hosts again,
// because other agents may have owned them meanwhile.
//
// A blocked host is never due. The agent gives it away when the owners change. All agents have the block, which is an
// order.
//
// If a waiting link turns out to be finished on another agent, the agent drops it when it is due
// (elsewhere).

// The verdicts of a Claim on a host.
const (
	// claimNothing: the agent has nothing more to send. It has crawled the host, so it knew all
	// finished URLs at that time.
	claimNothing byte = 1 + iota
	// claimComing: a Hand is on its way; ask again.
	claimComing
	// claimAgain: the host is in process, the agent has another view than the asker, or it still has
	// to take over from a lost agent. Ask again.
	claimAgain
	// claimStranger: the agent has nothing to send, and has not crawled the host in this run. Ask
	// another agent as well.
	claimStranger
)

// tenants is the state of hosts that move between agents. The dispatcher owns it.
type tenants struct {
	*base
	ranges   *ranges
	counts   *pageCounts
	shipping *shipping
	receipts *receipts
	links    *links

	// For hosts that this agent gets:
	view      uint64                // counts changes
	claimed   map[uint64]uint64     // hosts that may be crawled, with since of Tenure at that time
	held      map[string]*inquiry   // hosts that must not be visited yet
	lines     map[string]*line      // agents to be asked
	elsewhere map[uint64]*elsewhere // waiting links that are finished on other agents

	// For hosts that this agent gives away:
	taught bool              // other agents have told of hosts, which this one may never have owned
	given  map[uint64]string // the agent that has been told all finished URLs of a host
	clocks map[string]frontier.HostState
	giving map[string]*handoffQueue // by agent
	blocks bool                     // blocked hosts of other agents may be here
	before uint64                   // number of the last link that was accepted before this start
	tried  time.Time                // when the blocked hosts were last given away

	n report.Moves
}

// moves returns the counts of moved hosts.
func (t *tenants) moves() *report.Moves {
	n := t.n
	n.Held, n.CountsLeftOut = len(t.held), t.counts.leftOut
	return &n
}

func newTenants(b *base, r *ranges, n *pageCounts, s *shipping, d *receipts, l *links) *tenants {
	return &tenants{
		base: b, ranges: r, counts: n, shipping: s, receipts: d, links: l,
		claimed: map[uint64]uint64{}, held: map[string]*inquiry{}, lines: map[string]*line{},
		elsewhere: map[uint64]*elsewhere{}, given: map[uint64]string{}, clocks: map[string]frontier.HostState{},
		giving: map[string]*handoffQueue{},
		blocks: true, // an earlier run may have left blocked hosts
	}
}

// settled reports that no host is moving.
func (t *tenants) settled() bool {
	if len(t.held) > 0 || t.blocks {
		return false
	}
	for _, g := range t.giving {
		if g.busy || len(g.hosts) > 0 || len(g.states) > 0 {
			return false
		}
	}
	return true
}

// elsewhere holds the waiting links of one host that are finished on other agents.
type elsewhere struct {
	keyset.Paths
	left int
}

// isElsewhere reports, once for each link, that a waiting link is finished on another agent.
func (t *tenants) isElsewhere(k link.Key) bool {
	e := t.elsewhere[k.Host]
	if e == nil || !e.Has(keyset.WholeKey, k.Path) {
		return false
	}
	if e.left--; e.left <= 0 {
		delete(t.elsewhere, k.Host)
	}
	return true
}

// absent adds links of a host that are finished on other agents.
func (t *tenants) absent(host uint64, add func(*keyset.Paths)) {
	e := t.elsewhere[host]
	if e == nil {
		e = &elsewhere{}
		t.elsewhere[host] = e
	}
	add(&e.Paths)
	e.Order()
	e.left = e.N
}

// put writes the links that are finished elsewhere into a checkpoint.
func (t *tenants) put(put func(kind byte, p []byte) error) error {
	for host, e := range t.elsewhere {
		for _, l := range e.Lists {
			for part := range slices.Chunk(l.Paths, state.KeysPiece) {
				list := state.AppendList(nil, host, keyset.List{Width: l.Width, Paths: part})
				if err := put(state.Absent, list); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// mayVisit reports whether a task, just taken from the frontier, may be visited. If not, it has put the task away.
func (t *tenants) mayVisit(task *frontier.Task, now time.Time) bool {
	if visit.IsErrand(task.Link) { // a host of this agent needs the robots.txt
		return true
	}
	k := task.Link.Key()
	owner, mine, since := t.Placement.Tenure(task.Host)
	done := frontier.Done{NoRequest: true}
	switch {
	case mine && t.isTenant(k.Host, since):
		again := t.loop.Retries.Number(k, task.Number) == 0 // a page that is due again
		if again || !t.isElsewhere(k) && !t.isKept(task.Link) {
			return true
		}
		t.giveUpElsewhere(task)
	default:
		back := task.Link
		done.Again, done.Attempt = &back, task.Attempt
	}
	if !t.run.Failed() {
		t.run.Fail(t.loop.Frontier.Done(task.Host, done, now))
	}
	switch {
	case t.run.Failed() || done.Again == nil:
	case mine || owner == "":
		if t.Coordinators != nil && !mine && task.Number <= t.before {
			t.Coordinators.Keep(task.Host)
		}
		t.hold(task.Host, mine, since)
	default:
		t.giveAway(strings.Clone(task.Host), owner, now)
	}
	return false
}

// isTenant reports that this agent may crawl a host, which it owns since then.
func (t *tenants) isTenant(host, since uint64) bool {
	return since == 0 || t.claimed[host] == since
}

// isKept reports, if every agent may crawl any host, that a waiting URL needs no visit: another agent has fetched it,
// and the page is here, or this agent has fetched it before it gave its hosts away.
//
// An application's URL is visited all the same: the application wants the page, too, and its visit finds the page in
// the archive. So is a page of a lost archive. Its finish says that it was fetched again, and the heirs could name it
// for that time only after a visit: they would take it for fetched when this agent is lost, too.
func (t *tenants) isKept(l link.Link) bool {
	if !t.byPages() {
		return false
	}
	_, gave := t.ranges.handed[l.Key().Host]
	isPage := l.App() == "" && l.Refetches() == 0 && t.ranges.HasKey(boundary.PageKey(link.KeyOf(l.URL)))
	return isPage || gave && t.ranges.HasKey(doneKey(l.Key()))
}

// giveUpElsewhere drops a link that is finished on another agent. It is not counted.
func (t *tenants) giveUpElsewhere(task *frontier.Task) {
	t.run.Stir()
	number := t.loop.Forget(task.Link, task.Number)
	if number > 0 {
		t.run.Fail(t.loop.Ledger.EndOutgoing([]uint64{number}, true))
	}
}

// giveAway hands a host to another agent, unless it is in process. The links go to the outbox, some
// at a time. The host's keys stay here.
func (t *tenants) giveAway(host, to string, now time.Time) (given bool) {
	key := link.HostKey(host)
	st, err := t.loop.Hosts.HandOver(host)
	if err != nil {
		if !errors.Is(err, frontier.ErrInProcess) {
			t.run.Fail(fmt.Errorf("frontier: %w", err))
		}
		return false
	}
	t.run.Stir()
	h := t.ranges.handed[key]
	h.gen, h.apart, h.last = h.gen+1, true, t.loop.Ledger.Accepted()
	t.ranges.setHanded(key, h)
	t.run.Fail(t.loop.Ledger.Append())
	if !restless(politenessOf(st, now)) {
		t.clocks[host] = st
	}
	delete(t.elsewhere, key)
	delete(t.given, key)
	delete(t.held, host)
	t.n.Given++
	t.give(host, to)
	return true
}

// sendAway puts a link of a host that was handed over into the outbox.
func (t *tenants) sendAway(w frontier.Waiting) (sent bool, err error) {
	k := w.Link.Key()
	if t.loop.Gate.Dropped(w.Link.URL.Host(), cmp.Or(t.loop.Retries.Number(k, w.Number), w.Number)) {
		return false, nil
	}
	number := t.loop.Forget(w.Link, w.Number)
	if number == 0 {
		return true, nil // the link is finished
	}
	t.n.LinksOut++
	t.shipping.leavesFor(number)
	return true, t.links.post(number, w.Link, 0, w.Link.AppendTo(nil))
}

// resettle starts the moves of hosts again after a change of the view.
func (t *tenants) resettle() {
	t.view++
	t.blocks = true
	t.run.Stir()
	for host := range t.held {
		t.unhold(host)
	}
	for _, l := range t.lines {
		l.hosts, l.again = nil, nil
	}
	// Accept links again that were found before: the agent that had them may be gone.
	t.loop.Links.ForgetKnown()
}

// unhold allows visits to a host again.
func (t *tenants) unhold(host string) {
	delete(t.held, host)
	t.loop.Gate.Unblock(host)
}

// settleIn asks for hosts and hands hosts over. wake is the time of the next work.
func (t *tenants) settleIn(work context.Context, now time.Time) (wake time.Time) {
	wake = run.Earlier(t.giveBlocked(now), t.askAround(work, now))
	return run.Earlier(wake, t.giveOut(work, now))
}

// giveBlocked hands blocked hosts to their new owners. Other hosts are handed over when they are
// due, which a blocked host never is. wake is the time to try again.
func (t *tenants) giveBlocked(now time.Time) (wake time.Time) {
	if !t.blocks || t.run.Failed() {
		return time.Time{}
	}
	if next := t.tried.Add(claimWait); next.After(now) {
		return next
	}
	t.blocks, t.tried = false, now
	for _, host := range t.loop.Gate.BlockedHosts() {
		owner, mine, _ := t.Placement.Tenure(host)
		switch {
		case mine || owner == "":
		case t.ranges.hasNone(t.ranges.OwnKey(link.Key{Host: link.HostKey(host)}).Host):
			t.loop.Gate.Unblock(host)
		case !t.giveAway(host, owner, now): // a request to the host is under way
			t.blocks, wake = true, now.Add(claimWait)
		}
		if t.run.Failed() {
			return time.Time{}
		}
	}
	return wake
}

func (t *tenants) tellMoves(name string, agent string, hosts int, keys int64) {
	t.loop.Events.Write(name, report.F("agent", agent), report.F("hosts", hosts), report.F("keys", keys))
}
