package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An arrival is a batch of links that another agent has sent.
type arrival struct {
	v    visit // what is in scope
	n    int
	hops int
	done chan error // buffered: sending never blocks
}

// MaxHops bounds how often agents pass a link on because they see another agent as its owner.
// After that the link waits at its present agent for a while, or until that agent's view
// changes.
const MaxHops = 3

// reasonErrand is the reason to refuse a link that only this agent itself can have made.
const reasonErrand = "notALink"

// ErrAlone reports a link from another agent to a crawl without other agents.
var ErrAlone = errors.New("this crawl has no other agents")

// Receive accepts links from another agent. It returns when they are as durable as links that
// this agent finds: in the synced journal (see Config.AckWritten), or in the files in which
// the seen-set holds links back. Receive counts links out of scope and drops them. It passes
// on links that a third agent owns; hops is how often they were passed on before. Safe for
// concurrent use, also before Run. It blocks until the dispatcher has accepted the links or
// ctx is done. After an error, the caller does not know which links were accepted, and may
// send the same links again.
func (c *Crawler) Receive(ctx context.Context, links []weburl.Link, hops int) error {
	if c.Partition == nil {
		return ErrAlone
	}
	a := &arrival{n: len(links), hops: hops + 1, done: make(chan error, 1)}
	for _, l := range links {
		if l.URL.IsZero() || isErrand(l) {
			a.v.skipped = append(a.v.skipped, skip{l, reasonErrand})
			continue
		}
		c.judge(&a.v, l, l.URL.Key())
	}
	select {
	case c.commands <- func(now time.Time) { c.arrive(a, now, nil) }:
	case <-c.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return fmt.Errorf("receive: %w", ctx.Err())
	}
	select {
	case err := <-a.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("receive: %w", ctx.Err())
	case <-c.ended:
	}
	select {
	case err := <-a.done:
		return err
	default:
		return ErrNotRunning
	}
}

// arrive accepts received links. It calls then, if not nil, before it reports to anybody that
// the links are durable.
func (c *Crawler) arrive(a *arrival, now time.Time, then func()) {
	if c.stop != notStopping || c.fatal != nil {
		a.done <- ErrNotRunning
		return
	}
	c.remote.activity++
	c.remote.received += int64(a.n)
	ours := a.v.found[:0]
	for _, f := range a.v.found {
		if !f.foreign {
			ours = append(ours, f)
			continue
		}
		// The seen-set is not asked. Even if the link was sent on before, its owner may not have
		// it, because two agents may take each other for the owner.
		if c.fatal = c.pass(a.v.enc[f.from:f.to], a.hops, now); c.fatal != nil {
			return
		}
	}
	a.v.found = ours
	c.intakeSafely(&a.v)
	for _, s := range a.v.skipped {
		c.skip(s)
	}
	if then != nil {
		then()
	}
	c.receiptWhenDurable(receipt{from: a})
}

// pass accepts a link and sends it on to another agent. Its sender forgets the link when the
// arrival is acknowledged. So the link is also shipped to a replica, like links of this agent's
// hosts: to the host's owner by the view here. If this agent is lost before it has passed the link
// on, the owner takes it over.
func (c *Crawler) pass(enc []byte, hops int, now time.Time) error {
	l, _, err := weburl.PeekLink(enc)
	if err != nil {
		return fmt.Errorf("link received: %w", err)
	}
	c.batch.add(kindPassed, enc)
	c.accepted++
	c.copyAccept(c.accepted, weburl.HostKey(l.URL.Host()), enc)
	c.Tally.Accepted(1)
	c.remote.passed++
	c.countOutgoing()
	if hops > MaxHops {
		return c.Outbox.Park(c.accepted, enc, now)
	}
	return c.post(c.accepted, l.URL, hops, enc)
}

// receiptWhenDurable queues a receipt that is sent after the next sync.
func (c *Crawler) receiptWhenDurable(d receipt) {
	c.append()
	d.safe = c.shipping.now()
	c.remote.unsynced = append(c.remote.unsynced, d)
	c.dirty = true // even if the seen-set holds all links back
}

// whenFinishesSafe calls then when all finishes so far are durable and, with replication, may go to
// the heirs. From that time on nothing can undo them, and the loss of this machine loses none
// of their links.
func (c *Crawler) whenFinishesSafe(then func()) {
	c.append()
	c.remote.unsynced = append(c.remote.unsynced, receipt{then: then, finish: c.shipping.begun()})
	c.dirty = true
}

// ackAt returns the time of the next sync for callers that wait for one.
func (c *Crawler) ackAt() time.Time { return c.synced.Add(c.cfg.CommitEvery) }

// commitReceipts writes the journal for callers that do not wait for a sync.
func (c *Crawler) commitReceipts(now time.Time) error {
	if len(c.remote.unsynced) > 0 {
		// The seen-set's held-back links must be written, too: give the journal a record to write.
		c.batch.add(kindSpan, c.span(now))
		c.append()
	}
	if c.fatal != nil {
		return c.fatal
	}
	if err := c.Journal.Commit(); err != nil {
		return err
	}
	if c.cfg.AckWritten {
		c.remote.due, c.remote.unsynced = append(c.remote.due, c.remote.unsynced...), nil
	}
	return nil
}

// sendReceipts sends the receipts for everything that is durable here and in the replicas.
func (c *Crawler) sendReceipts(now time.Time) {
	left := c.remote.due[:0]
	for _, d := range c.remote.due {
		switch {
		case c.fatal == nil && (!c.shipping.copied(d.safe) || d.finish > c.shipping.released):
			left = append(left, d)
		case c.fatal != nil:
		case d.then != nil:
			d.then()
		case d.from != nil:
			d.from.done <- nil
		default:
			c.remote.activity++
			c.finishSent(d.back.Numbers, true)
			c.Outbox.Done(d.back, true, now)
		}
	}
	clear(c.remote.due[len(left):])
	c.remote.due = left
}
