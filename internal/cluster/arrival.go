package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
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

// answer accepts the links that another agent pushes.
func (o *links) answer(ctx context.Context, _ rpc.Caller, q *pb.PushRequest) (*pb.PushResponse, error) {
	links, err := decodeLinks(q.Links, q.Count)
	if err == nil {
		err = o.fromAgent(ctx, links, int(q.Hops))
	}
	return new(pb.PushResponse), err
}

// fromAgent does the work of Clustered.Receive.
func (o *links) fromAgent(ctx context.Context, links []link.Link, hops int) error {
	return o.receive(ctx, links, hops, func(l link.Link) link.Link {
		if o.byPages() { // it has reached its destination
			return l.AsLink()
		}
		return l
	})
}

// again does the work of Clustered.Refetch.
func (o *links) again(ctx context.Context, links []link.Link) error {
	return o.receive(ctx, links, 0, func(l link.Link) link.Link {
		boundary.Direct(o.Boundary, &l)
		return l
	})
}

// receive does the work of fromAgent and again for the links that as makes of links.
func (o *links) receive(ctx context.Context, links []link.Link, hops int,
	as func(l link.Link) link.Link) error {
	generation := o.Durable.Now()
	a := &arrival{n: len(links), hops: hops + 1, done: make(chan error, 1)}
	for _, l := range links {
		o.loop.Links.JudgeSent(&a.links, as(l))
	}
	if err := o.run.Do(ctx, "receive", func(now time.Time) { o.arrive(a, now) }); err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	select {
	case err := <-a.done:
		return o.receipts.received(a, generation, err)
	case <-ctx.Done():
		return fmt.Errorf("receive: %w", ctx.Err())
	case <-o.run.Ended():
	}
	select {
	case err := <-a.done:
		return o.receipts.received(a, generation, err)
	default:
		return run.ErrNotRunning
	}
}

// arrive accepts received links.
func (o *links) arrive(a *arrival, now time.Time) {
	if o.refuses() {
		a.done <- run.ErrNotRunning
		return
	}
	o.run.Stir()
	o.received += int64(a.n)
	// The seen-set is not asked about links of other agents. Even if such a link was sent on before, its
	// owner may not have it, because two agents may take each other for the owner.
	if o.run.Fail(a.links.TakeForeign(func(enc []byte) error { return o.pass(enc, a.hops, now) })) {
		return
	}
	o.shipping.intakeSafely(&a.links)
	o.receipts.whenDurable(func(time.Time) { a.done <- nil })
}

// refuses reports that this agent takes no links any more. An agent that stops and has pages for others takes their
// links for a while: they acknowledge a page only when its links have arrived.
func (o *links) refuses() bool {
	return o.run.Failed() || o.run.Stopping() && (o.pagesOut() == 0 || o.shipping.lingering.IsZero())
}

// pass accepts a link and sends it on to another agent. Its sender forgets the link when the
// arrival is acknowledged. So the link is also shipped to a replica, like links of this agent's
// hosts: to the host's owner by the view here. If this agent is lost before it has passed the link
// on, the owner takes it over.
func (o *links) pass(enc []byte, hops int, now time.Time) error {
	l, _, err := link.Peek(enc)
	if err != nil {
		return fmt.Errorf("link received: %w", err)
	}
	number := o.loop.Ledger.AcceptUnlisted(state.Passed, enc)
	o.shipping.CopyAccept(number, link.HostKey(l.URL.Host()), enc)
	o.passed++
	o.shipping.countOutgoing()
	if hops > MaxHops {
		return o.Outbox.Park(number, enc, now)
	}
	return o.post(number, l, hops, enc)
}
