package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
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

// links are the links on their way between agents. The dispatcher owns them.
type links struct {
	*base
	shipping *shipping
	receipts *receipts

	failing map[string]bool // "links" or "pages", and agents whose last batch of them failed
	begun   bool            // the run has begun

	received, sent, passed int64 // numbers of links in this run
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
func (o *links) post(number uint64, l link.Link, hops int, enc []byte) error {
	agent, mine, ok := o.directed(l)
	if !ok {
		agent, mine = o.Placement.Owner(l.URL.Host())
	}
	switch {
	case mine:
		return o.Outbox.Push("", number, 0, enc)
	case agent == "":
		return o.Outbox.PushWaiting(link.HostKey(l.URL.Host()), number, enc)
	}
	return o.Outbox.Push(agent, number, hops, enc)
}

// routeSlice bounds the links that the dispatcher routes in one turn.
const routeSlice = 256

// begin tells, in the first turn of a run, that the first view has come before.
func (o *links) begin() {
	if !o.begun {
		o.begun = true
		o.Outbox.Changed()
	}
}

// lingerFor is how long links for another agent are gathered after a batch. Larger batches take
// fewer calls. But a page is shipped to its heir only when its links have arrived, so the loss of a
// machine repeats the pages of this time, too. It is also shorter than the delay between two
// requests to a host, so the order of the visits hardly changes. An agent with fewer than lingerFrom
// pending links sends at once, because the others may have no work either.
const (
	lingerFor  = 500 * time.Millisecond
	lingerFrom = 256
)

// Linger returns how long links, pages and records for heirs are gathered now.
func (b *base) Linger() time.Duration {
	if b.run.Stopping() || b.loop.Frontier.Pending() < lingerFrom {
		return 0
	}
	return lingerFor
}

// routeSome routes some of the links that have no agent yet. wake is the time of the next work.
func (o *links) routeSome(now time.Time) (wake time.Time) {
	o.Outbox.Linger(o.Linger())
	if o.run.Fail(o.Outbox.Route(routeSlice, o.wayOf)) || o.Outbox.Loose() {
		return now
	}
	return time.Time{}
}

// send sends links to other agents. wake is the time of the next work.
func (o *links) send(work context.Context, now time.Time) (wake time.Time) {
	for !o.run.Failed() {
		b, next, err := o.Outbox.Next(now, o.wayOf)
		switch {
		case o.run.Fail(err):
		case b == nil:
			return next
		case b.Agent == "":
			o.takeBack(b)
		default:
			boot := o.Exchange.Boot(b.Agent)
			o.run.Go(func() {
				q := &pb.PushRequest{Hops: uint32(b.Hops), Count: uint32(len(b.Numbers)), Links: b.Links}
				err := o.Exchange.Push(work, b.Agent, q)
				o.run.Tell(func(now time.Time) { o.pushed(b, boot, err, now) })
			})
		}
	}
	return time.Time{}
}

// wayOf returns the destination of a link. If its host was dropped, the link is finished like waiting
// links.
func (o *links) wayOf(number uint64, enc []byte) (to outbox.To, err error) {
	host, ok := link.PeekHost(enc)
	if !ok {
		return to, fmt.Errorf("link from the outbox: %w", link.ErrDamaged)
	}
	if o.loop.Gate.Drops() && o.loop.Gate.Dropped(host, number) {
		l, _, err := link.Decode(enc)
		if err != nil {
			return to, fmt.Errorf("link from the outbox: %w", err)
		}
		o.shipping.arrivedElsewhere(number)
		gone := []frontier.Waiting{{Link: l, Number: number}}
		if err := o.loop.Frontier.PushWithdrawn(gone); err != nil {
			return to, fmt.Errorf("frontier: %w", err)
		}
		return outbox.To{Way: outbox.Gone}, nil
	}
	agent, mine := o.Placement.Owner(host)
	if o.byPages() {
		l, _, err := link.Peek(enc)
		if err != nil {
			return to, fmt.Errorf("link from the outbox: %w", err)
		}
		if keeper, here, ok := o.directed(l); ok {
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

// pushed records the result of sending a batch to an agent, whose start before the sending had the number boot.
func (o *links) pushed(b *outbox.Batch, boot uint64, err error, now time.Time) {
	o.run.Stir()
	if err == nil {
		o.sent += int64(len(b.Numbers))
		if o.Kept == nil {
			o.finishSent(b.Numbers, false)
		} else {
			o.run.Fail(o.Kept.AddBatch(b, boot))
			o.shipping.arrivedElsewhere(b.Numbers...)
		}
	}
	o.tellPush(b, inLinks, err)
	o.Outbox.Done(b, err == nil, now)
}

// What a batch has.
const inLinks, inPages = "links", "pages"

// TellPages is tellPush for pages.
func (o *links) TellPages(b *outbox.Batch, err error) { o.tellPush(b, inPages, err) }

// tellPush writes an event when batches to an agent begin to fail, and when one arrives again. what is in the batch.
func (o *links) tellPush(b *outbox.Batch, what string, err error) {
	lane := what + " " + b.Agent
	was := o.failing[lane]
	switch {
	case err == nil:
		delete(o.failing, lane)
		if was {
			o.loop.Events.Write("push-again", report.F("agent", b.Agent))
		}
	case o.run.Stopping():
	case !was:
		if o.failing == nil {
			o.failing = map[string]bool{}
		}
		o.failing[lane] = true
		if what == inPages {
			o.loop.Events.Write("push-failed", report.F("agent", b.Agent), report.F("pages", len(b.Numbers)),
				report.F("error", err))
			return
		}
		o.loop.Events.Write("push-failed", report.F("agent", b.Agent), report.F("links", len(b.Numbers)),
			report.F("error", err))
	}
}

// takeBack accepts links that another agent owned and this agent owns now.
func (o *links) takeBack(b *outbox.Batch) {
	var ls visit.Links
	for rest := b.Links; len(rest) > 0; {
		l, n, err := link.Peek(rest)
		if err != nil {
			o.run.Fail(fmt.Errorf("link from the outbox: %w", err))
			return
		}
		enc := rest[:n]
		if _, ok := l.Destination(); ok {
			enc = l.AsLink().AppendTo(nil)
		}
		ls.AddOwn(l.Key(), enc)
		rest = rest[n:]
	}
	o.shipping.intakeSafely(&ls)
	o.receipts.whenDurable(func(now time.Time) {
		o.run.Stir()
		o.finishSent(b.Numbers, true)
		o.Outbox.Done(b, true, now)
	})
}

// finishSent ends links that other agents have, or that this agent has accepted again. They were
// counted as outgoing.
func (o *links) finishSent(numbers []uint64, returned bool) {
	o.run.Fail(o.loop.Ledger.EndOutgoing(numbers, returned))
	o.shipping.arrivedElsewhere(numbers...)
}

// settle ends the links that the saved states of other agents have, and sends those again that an agent has lost.
func (o *links) settle(saved map[string]outbox.Saved) error {
	var numbers []uint64
	err := o.Kept.Settle(saved, func(e outbox.Entry) error {
		numbers = append(numbers, e.Number)
		return nil
	}, func(e outbox.Entry) error {
		o.shipping.leavesFor(e.Number)
		return o.Outbox.PushLoose(e.Number, e.Link)
	})
	for part := range slices.Chunk(numbers, endSlice) {
		if err := o.loop.Ledger.EndOutgoing(part, false); err != nil {
			return err
		}
	}
	return err
}

// endSlice bounds the links that one record ends.
const endSlice = 4096
