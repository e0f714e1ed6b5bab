package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An arrival is a batch of links that another agent has sent.
type arrival struct {
	links visit.Links
	n     int
	hops  int
	done  chan error // buffered: sending never blocks
}

// MaxHops bounds how often agents pass a link on because they see another agent as its owner.
// After that the link waits at its present agent for a while, or until that agent's view
// changes.
const MaxHops = 3

// reasonErrand is the reason to refuse a link that only this agent itself can have made.
const reasonErrand = "notALink"

// Receive accepts links from another agent. It returns when they are as durable as links that
// this agent finds: in the synced journal (see Config.AckWritten), or in the files in which
// the seen-set holds links back. Receive counts links out of scope and drops them. It passes
// on links that a third agent owns; hops is how often they were passed on before. Safe for
// concurrent use, also before Run. It blocks until the dispatcher has accepted the links or
// ctx is done. After an error, the caller does not know which links were accepted, and may
// send the same links again.
func (cl *Clustered) Receive(ctx context.Context, links []link.Link, hops int) error {
	return cl.receive(ctx, links, hops, func(l link.Link) link.Link {
		if cl.byPages() { // it has reached its destination
			return l.AsLink()
		}
		return l
	})
}

// Refetch accepts links of this agent that fetch pages again, as Receive does. If every agent may crawl any host, each
// goes to the agent where a seed of its host begins, so that several agents do not fetch the same page.
func (cl *Clustered) Refetch(ctx context.Context, links []link.Link) error {
	return cl.receive(ctx, links, 0, func(l link.Link) link.Link {
		cl.Direct(&l)
		return l
	})
}

// receive does the work of Receive for the links that as makes of links.
func (cl *Clustered) receive(ctx context.Context, links []link.Link, hops int,
	as func(l link.Link) link.Link) error {
	generation := cl.Durable.now()
	a := &arrival{n: len(links), hops: hops + 1, done: make(chan error, 1)}
	for _, l := range links {
		if l.URL.IsZero() || visit.IsErrand(l) {
			a.links.Skip(l, reasonErrand)
			continue
		}
		cl.loop.Judge(&a.links, as(l))
	}
	if err := cl.run.Do(ctx, func(now time.Time) { cl.arrive(a, now) }); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	select {
	case err := <-a.done:
		return cl.received(a, generation, err)
	case <-ctx.Done():
		return fmt.Errorf("receive: %w", ctx.Err())
	case <-cl.run.Ended():
	}
	select {
	case err := <-a.done:
		return cl.received(a, generation, err)
	default:
		return run.ErrNotRunning
	}
}

// arrive accepts received links.
func (cl *Clustered) arrive(a *arrival, now time.Time) {
	if cl.refuses() {
		a.done <- run.ErrNotRunning
		return
	}
	cl.run.Stir()
	cl.remote.received += int64(a.n)
	// The seen-set is not asked about links of other agents. Even if such a link was sent on before, its
	// owner may not have it, because two agents may take each other for the owner.
	if cl.run.Fail(a.links.TakeForeign(func(enc []byte) error { return cl.pass(enc, a.hops, now) })) {
		return
	}
	cl.shipping.intakeSafely(&a.links)
	cl.receiptWhenDurable(receipt{from: a})
}

// refuses reports that this agent takes no links any more. An agent that stops and has pages for others takes their
// links for a while: they acknowledge a page only when its links have arrived.
func (cl *Clustered) refuses() bool {
	return cl.run.Failed() || cl.run.Stopping() && (cl.pagesOut() == 0 || cl.shipping.lingering.IsZero())
}

// pass accepts a link and sends it on to another agent. Its sender forgets the link when the
// arrival is acknowledged. So the link is also shipped to a replica, like links of this agent's
// hosts: to the host's owner by the view here. If this agent is lost before it has passed the link
// on, the owner takes it over.
func (cl *Clustered) pass(enc []byte, hops int, now time.Time) error {
	l, _, err := link.Peek(enc)
	if err != nil {
		return fmt.Errorf("link received: %w", err)
	}
	number := cl.loop.Ledger.Accept(byte(crawl.Passed), enc)
	cl.shipping.copyAccept(number, link.HostKey(l.URL.Host()), enc)
	cl.remote.passed++
	cl.shipping.countOutgoing()
	if hops > MaxHops {
		return cl.Outbox.Park(number, enc, now)
	}
	return cl.post(number, l, hops, enc)
}

// receiptWhenDurable queues a receipt that is sent after the next sync.
func (cl *Clustered) receiptWhenDurable(d receipt) {
	cl.run.Fail(cl.loop.Ledger.AppendForSync())
	d.safe = cl.shipping.now()
	cl.remote.unsynced = append(cl.remote.unsynced, d)
}

// whenFinishesSafe calls then when all finishes so far are durable and, with replication, may go to
// the heirs. From that time on nothing can undo them, and the loss of this machine loses none
// of their links.
func (cl *Clustered) whenFinishesSafe(then func()) {
	cl.run.Fail(cl.loop.Ledger.AppendForSync())
	cl.remote.unsynced = append(cl.remote.unsynced, receipt{then: then, finish: cl.shipping.begun()})
}

// whenNamed calls then when whenFinishesSafe would, and the heirs have the finishes. From that time on, the loss of
// this machine loses no name of a page in its archive. It may wait for other agents that take pages of this one.
func (cl *Clustered) whenNamed(then func()) {
	cl.run.Fail(cl.loop.Ledger.AppendForSync())
	cl.remote.unsynced = append(cl.remote.unsynced, receipt{then: then, finish: cl.shipping.begun(), named: true})
}

// sendReceipts sends the receipts for everything that is durable here and in the replicas. It reports
// whether it has sent any.
func (cl *Clustered) sendReceipts(now time.Time) (sent bool) {
	before := len(cl.remote.due)
	left := cl.remote.due[:0]
	for _, d := range cl.remote.due {
		switch {
		case !cl.run.Failed() && (!cl.shipping.copied(d.safe) || d.finish > cl.shipping.released ||
			d.named && !cl.shipping.named(d.finish)):
			left = append(left, d)
		case cl.run.Failed():
		case d.then != nil:
			d.then()
		case d.from != nil:
			d.from.done <- nil
		default:
			cl.run.Stir()
			cl.finishSent(d.back.Numbers, true)
			cl.Outbox.Done(d.back, true, now)
		}
	}
	clear(cl.remote.due[len(left):])
	cl.remote.due = left
	return len(left) < before
}
