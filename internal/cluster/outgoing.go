package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A link that another agent crawls is accepted like any other. It gets a number, a record in the
// journal (state.Outgoing, in the batch of the visit that found it), and a key in the seen-set. So it
// is sent once, however many pages name it. It stays in the outbox, pending, until its owner has it
// durably; then it ends (state.Sent). So no link is lost between two agents, whichever of them dies.
//
//	found -> seen-set -> E in the journal -> outbox -> Push -> S in the journal
//
// Push first asks the owner which of the URLs it has (see Durable). Their links are not sent, and end
// like those that are.
//
// The key differs from the key of the same URL at its owner. So if this agent becomes the owner,
// the link counts as new here, unless the previous owner reports it as finished.
//
// When the view changes, the agent routes everything in the outbox again. It accepts links that it
// owns now as if another agent had sent them; their first numbers then end as returned, and do not
// count. For whole hosts see tenancy.go.

// remote is the state of the exchange with other agents.
type remote struct {
	failing  map[string]bool // "links" or "pages", and agents whose last batch of them failed
	unsynced []receipt       // waiting for the next sync
	due      []receipt       // durable, not sent yet
	syncing  int             // number of receipts that the sync under way makes durable
	begun    bool            // the run has begun

	received, sent, passed int64  // numbers of links in this run
	pages, pagesAgain      int64  // pages of other agents in this run: taken, and known already
	pagesDamaged           int64  // pages for other agents that could not be read, and are fetched again
	pagesRefused           int64  // pages that other agents refused
	pagesBefore            int64  // pages of earlier runs
	resting                bool   // no work is left here
	restedAt               uint64 // activity at that time
	ration                 ration

	pagesFrom map[string]report.PagesFrom // the pages that were taken, by the agents that have sent them
}

// A receipt is a report that is due when the present journal is durable.
type receipt struct {
	from *arrival      // received links
	back *outbox.Batch // links that this agent owns again
	then func()        // nil with one of these
	safe uint64        // the last epoch whose accepts the heirs must have
	// finish is the last epoch whose finishes must be released to the heirs; 0: none.
	finish uint64
	named  bool // the heirs must have these finishes, too
}

// foreignKey returns the key in the seen-set for a URL that another agent crawls. No host has
// its host part (with a probability of 1 in 2^64), so the keys of an own host stay one range.
func foreignKey(k link.Key) link.Key { return link.Key{Host: ^k.Host, Path: k.Path} }

// isForeign reports whether a key is the foreignKey of l.
func isForeign(k link.Key, l link.Link) bool {
	to, _ := l.Destination()
	return k.Host == foreignKey(link.Key{Host: link.HostKey(l.URL.Host())}.To(to)).Host
}

// post puts an accepted link into the outbox.
func (cl *Clustered) post(number uint64, l link.Link, hops int, enc []byte) error {
	agent, mine, ok := cl.directed(l)
	if !ok {
		agent, mine = cl.Peers.Owner(l.URL.Host())
	}
	switch {
	case mine:
		return cl.Outbox.Push("", number, 0, enc)
	case agent == "":
		return cl.Outbox.PushWaiting(link.HostKey(l.URL.Host()), number, enc)
	}
	return cl.Outbox.Push(agent, number, hops, enc)
}

// routeSlice bounds the links that the dispatcher routes in one turn.
const routeSlice = 256

// ViewChanged tells the Crawler that the answers of the Placement may have changed. It returns when
// the dispatcher knows, or when the run has ended. Safe for concurrent use.
func (cl *Clustered) ViewChanged() {
	cl.run.Tell(func(time.Time) {
		if cl.Outgoing() > 0 {
			cl.run.Stir()
		}
		cl.Outbox.Changed()
		cl.pagesChanged()
		cl.Forget()
		cl.shipping.newHeirs()
		cl.resettle()
		cl.recalls.stale = cl.loop.Sharer != nil
		cl.loop.Frontier.ReviewAside()
	})
}

// Assigned tells the Crawler that the owners of hosts may be known now, and were not before. It costs as
// much as the links that wait for the owners. If a host gets another owner, call ViewChanged.
// Otherwise Assigned is like ViewChanged.
func (cl *Clustered) Assigned(hosts ...string) {
	cl.run.Tell(func(time.Time) {
		cl.run.Stir()
		for _, host := range hosts {
			cl.Outbox.Assigned(link.HostKey(host))
			if cl.tenants.held[host] != nil {
				cl.unhold(host)
			}
		}
		cl.tenants.blocks = cl.tenants.blocks || len(cl.loop.Gate.BlockedHosts()) > 0
		cl.recalls.stale = cl.loop.Sharer != nil
	})
}

// Unanswered tells the Crawler that Assigned was not called for some hosts whose owner is not known, and that the
// Placement is to be asked for them again. Otherwise it is like ViewChanged. It costs as much as all links that wait
// for an owner.
func (cl *Clustered) Unanswered() {
	cl.run.Tell(func(time.Time) {
		cl.run.Stir()
		cl.Outbox.Changed()
		for host, w := range cl.tenants.held {
			if len(w.open) == 0 { // nobody is asked
				cl.unhold(host)
			}
		}
		cl.tenants.blocks = true
	})
}

// Tick sends links to other agents, and moves hosts.
func (cl *Clustered) Tick(work context.Context, now time.Time) (wake time.Time) {
	if cl.run.Halted() && cl.shipping.lingering.IsZero() || cl.run.Failed() {
		return time.Time{}
	}
	if !cl.remote.begun { // the first view came before the run
		cl.remote.begun = true
		cl.Outbox.Changed()
	}
	cl.Outbox.Linger(cl.linger())
	if err := cl.Outbox.Route(routeSlice, cl.wayOf); err != nil {
		cl.run.Fail(err)
		return time.Time{}
	}
	if cl.Outbox.Loose() {
		wake = now
	}
	wake = earlier(wake, cl.askStates(work, now))
	wake = earlier(wake, cl.settleIn(work, now))
	wake = earlier(wake, cl.sendPages(work, now))
	for {
		b, next, err := cl.Outbox.Next(now, cl.wayOf)
		switch {
		case err != nil:
			cl.run.Fail(err)
			return wake
		case b == nil:
			return earlier(wake, next)
		case b.Agent == "":
			cl.takeBack(b)
		default:
			cl.run.Go(func() {
				err := cl.Peers.Push(work, b.Agent, b.Links, len(b.Numbers), b.Hops)
				cl.run.Tell(func(now time.Time) { cl.pushed(b, err, now) })
			})
		}
		if cl.run.Failed() {
			return wake
		}
	}
}

// wayOf returns the destination of a link. If its host was dropped, the link is finished like waiting
// links.
func (cl *Clustered) wayOf(number uint64, enc []byte) (to outbox.To, err error) {
	host, ok := link.PeekHost(enc)
	if !ok {
		return to, fmt.Errorf("link from the outbox: %w", link.ErrDamaged)
	}
	if cl.loop.Gate.Drops() && cl.loop.Gate.Dropped(host, number) {
		l, _, err := link.Decode(enc)
		if err != nil {
			return to, fmt.Errorf("link from the outbox: %w", err)
		}
		cl.shipping.arrivedElsewhere(number)
		gone := []frontier.Waiting{{Link: l, Number: number}}
		return outbox.To{Way: outbox.Gone}, cl.loop.Frontier.PushWithdrawn(gone)
	}
	agent, mine := cl.Peers.Owner(host)
	if cl.byPages() {
		l, _, err := link.Peek(enc)
		if err != nil {
			return to, fmt.Errorf("link from the outbox: %w", err)
		}
		if keeper, here, ok := cl.directed(l); ok {
			agent, mine = keeper, here
		}
	}
	if agent == "" && !mine {
		return outbox.To{Way: outbox.Wait, Key: link.HostKey(host)}, nil
	}
	if mine {
		agent = ""
	}
	return outbox.To{Agent: agent}, nil
}

// pushed records the result of sending a batch.
func (cl *Clustered) pushed(b *outbox.Batch, err error, now time.Time) {
	cl.run.Stir()
	if err == nil {
		cl.remote.sent += int64(len(b.Numbers))
		cl.finishSent(b.Numbers, false)
	}
	cl.tellPush(b, inLinks, err)
	cl.Outbox.Done(b, err == nil, now)
}

// What a batch has.
const inLinks, inPages = "links", "pages"

// tellPush writes an event when batches to an agent begin to fail, and when one arrives again. what is in the batch.
func (cl *Clustered) tellPush(b *outbox.Batch, what string, err error) {
	lane := what + " " + b.Agent
	was := cl.remote.failing[lane]
	switch {
	case err == nil:
		delete(cl.remote.failing, lane)
		if was {
			cl.loop.Events.Write("push-again", report.F("agent", b.Agent))
		}
	case cl.run.Stopping():
	case !was:
		if cl.remote.failing == nil {
			cl.remote.failing = map[string]bool{}
		}
		cl.remote.failing[lane] = true
		if what == inPages {
			cl.loop.Events.Write("push-failed", report.F("agent", b.Agent), report.F("pages", len(b.Numbers)),
				report.F("error", err))
			return
		}
		cl.loop.Events.Write("push-failed", report.F("agent", b.Agent), report.F("links", len(b.Numbers)),
			report.F("error", err))
	}
}

// takeBack accepts links that another agent owned and this agent owns now.
func (cl *Clustered) takeBack(b *outbox.Batch) {
	var ls visit.Links
	for rest := b.Links; len(rest) > 0; {
		l, n, err := link.Peek(rest)
		if err != nil {
			cl.run.Fail(fmt.Errorf("link from the outbox: %w", err))
			return
		}
		enc := rest[:n]
		if _, ok := l.Destination(); ok {
			enc = l.AsLink().AppendTo(nil)
		}
		ls.AddOwn(l.Key(), enc)
		rest = rest[n:]
	}
	cl.shipping.intakeSafely(&ls)
	cl.receiptWhenDurable(receipt{back: b})
}

// finishSent ends links that other agents have, or that this agent has accepted again. They were
// counted as outgoing.
func (cl *Clustered) finishSent(numbers []uint64, returned bool) {
	cl.run.Fail(cl.loop.Ledger.EndOutgoing(numbers, returned))
	cl.shipping.arrivedElsewhere(numbers...)
}
