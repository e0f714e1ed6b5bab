package cluster

import (
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A receipt is a report that is due when the present journal is durable.
type receipt struct {
	then func(now time.Time)
	safe uint64 // the last epoch whose accepts the heirs must have
	// finish is the last epoch whose finishes must be released to the heirs; 0: none.
	finish uint64
	named  bool // the heirs must have these finishes, too
}

// receipts are the reports that wait for a sync, or for the heirs. The dispatcher owns them.
type receipts struct {
	*base
	ranges   *ranges
	shipping *shipping

	unsynced []receipt  // waiting for the next sync
	due      []receipt  // durable, not sent yet
	syncing  int        // number of receipts that the sync under way makes durable
	fresh    []link.Key // of URLs that this agent has accepted since the last sync
	kept     []link.Key // of pages that this agent has fetched and keeps, since the last sync
}

// waiting returns how many there are.
func (r *receipts) waiting() int {
	return len(r.unsynced) + r.syncing + len(r.due)
}

// await lets a receipt wait for the next sync. All that it is for must be in the journal, or in the batch that Seal
// looks at.
func (r *receipts) await(d receipt) {
	r.unsynced = append(r.unsynced, d)
	if !r.loop.Config.AckWritten {
		r.loop.Ledger.SyncSoon()
	}
}

// committed is told that all records so far are written.
func (r *receipts) committed() {
	if r.loop.Config.AckWritten {
		r.due, r.unsynced = append(r.due, r.unsynced...), nil
	}
}

// beginSync is told that a sync begins. The caller calls durable at its end.
func (r *receipts) beginSync() (durable func()) {
	synced := slices.Concat(r.unsynced, r.freshDurable(), r.keptDurable())
	epoch := r.shipping.closed()
	r.unsynced = nil
	r.syncing += len(synced)
	return func() {
		r.due = append(r.due, synced...)
		r.syncing -= len(synced)
		r.shipping.synced = max(r.shipping.synced, epoch)
	}
}

// whenDurable calls then when all accepts so far are durable and, with replication, at the heirs.
func (r *receipts) whenDurable(then func(now time.Time)) {
	r.run.Fail(r.loop.Ledger.AppendForSync())
	r.await(receipt{then: then, safe: r.shipping.now()})
}

// WhenFinishesSafe calls then when all finishes so far are durable and, with replication, may go to
// the heirs. From that time on nothing can undo them, and the loss of this machine loses none
// of their links.
func (r *receipts) WhenFinishesSafe(then func(now time.Time)) {
	r.run.Fail(r.loop.Ledger.AppendForSync())
	r.await(receipt{then: then, finish: r.shipping.begun()})
}

// whenNamed calls then when WhenFinishesSafe would, and the heirs have the finishes. From that time on, the loss of
// this machine loses no name of a page in its archive. It may wait for other agents that take pages of this one.
func (r *receipts) whenNamed(then func(now time.Time)) {
	r.run.Fail(r.loop.Ledger.AppendForSync())
	r.await(receipt{then: then, finish: r.shipping.begun(), named: true})
}

// deliver sends the receipts for everything that is durable here and in the replicas. It reports
// whether it has sent any.
func (r *receipts) deliver(now time.Time) (sent bool) {
	before := len(r.due)
	left := r.due[:0]
	for _, d := range r.due {
		switch {
		case r.run.Failed():
		case !r.shipping.copied(d.safe) || d.finish > r.shipping.released || d.named && !r.shipping.named(d.finish):
			left = append(left, d)
		default:
			d.then(now)
		}
	}
	clear(r.due[len(left):])
	r.due = left
	return len(left) < before
}

// freshMax bounds the URLs that wait until they are durable.
const freshMax = 1 << 16

// received notes that links of this agent's hosts, which another agent has sent, are durable.
func (r *receipts) received(a *arrival, generation uint64, err error) error {
	if err == nil {
		a.links.EachOwn(func(k link.Key, _ []byte) { r.Durable.Add(k, generation) })
	}
	return err
}

// found notes that this agent has accepted a URL of its own. The URL is durable after a sync.
func (r *receipts) found(k link.Key) {
	if r.Durable != nil && len(r.fresh) < freshMax {
		r.fresh = append(r.fresh, k)
	}
}

// freshDurable returns the receipt for the URLs that the next sync makes durable.
func (r *receipts) freshDurable() []receipt {
	if len(r.fresh) == 0 {
		return nil
	}
	keys, generation := r.fresh, r.Durable.Now()
	r.fresh = nil
	return []receipt{{safe: r.shipping.now(), then: func(time.Time) {
		for _, k := range keys {
			r.Durable.Add(k, generation)
		}
	}}}
}

// noteKept notes that this agent has fetched a page that it keeps, so that no other agent need send it.
func (r *receipts) noteKept(f *state.Finish) {
	if r.PageBox == nil || !f.IsPage() || f.Exported() || f.Link.App() != "" {
		return
	}
	r.ranges.NotePage(f.Link)
	if len(r.kept) < freshMax {
		r.kept = append(r.kept, boundary.DurableKey(f.Link))
	}
}

// keptDurable returns the receipt for the pages that this agent keeps. Their links must be as safe as those of a page
// that another agent has sent, and the heirs must have their names: that agent forgets its copy.
func (r *receipts) keptDurable() []receipt {
	keys, generation := r.kept, r.Durable.Now()
	if len(keys) == 0 {
		return nil
	}
	r.kept = nil
	return []receipt{{finish: r.shipping.begun(), named: true, then: func(time.Time) {
		for _, k := range keys {
			r.Durable.Add(k, generation)
		}
	}}}
}

// forget empties the cache of durable URLs.
func (r *receipts) forget() {
	r.fresh, r.kept = nil, nil
	r.Durable.Forget()
}
