package crawl

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/plan"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// An Intake accepts links: what seeds, pages, Planners and other agents bring. The seen-set drops those that are known.
// Only the dispatcher may use it, except for what is safe for concurrent use.
type Intake struct {
	run      *run.Run
	gate     *orders.Gate
	visits   *visit.Pool
	ledger   *ledger.Ledger
	frontier *frontier.Frontier
	seen     *keyset.Store
	tally    *report.Tally
	queries  *scope.Queries // nil: no bound on the queries of a path
	strategy visit.Strategy
	cluster  *Cluster
	apps     *applications.Set
	origins  *retry.Origins
	failures *retry.Failures
	limits   *limits
	plan     *plan.Plan
	skips    *skips
	widened  *widened
	loop     dropper

	items   []keyset.Item     // reused memory for links on their way to the seen-set
	stamped []byte            // likewise
	arrived []link.Link       // reused memory for links from the seen-set
	fresh   []link.Link       // new links of the current batch
	numbers []uint64          // of their accepts
	seeding map[link.Key]bool // what is accepted while seeds are added; nil otherwise
}

// A dropper accepts and finishes a link that was found before its host was dropped.
type dropper interface {
	acceptDropped(enc []byte, number uint64) error
}

// take accepts new links. The seen-set drops known ones. The worker has checked the scope already.
func (n *Intake) take(ls *visit.Links) {
	if len(ls.Found) == 0 {
		return
	}
	n.items, n.stamped = n.items[:0], n.stamped[:0]
	keys := n.ledger.Keys()
	for _, f := range ls.Found {
		var aux []byte
		aux, n.stamped = n.gate.Stamp(ls.Encoded[f.From:f.To], n.stamped)
		n.items = append(n.items, keyset.Item{Key: keys.Of(f.Key, f.Foreign), Aux: aux})
	}
	if n.run.Fail(n.ledger.Offer(n.items)) {
		return
	}
	// From now on a page that names one of these links may finish without it. If the link is new,
	// the journal has its accept before that finish. If the seen-set holds the link back, it is in
	// a file that is written before the finish.
	for _, f := range ls.Found {
		n.visits.Know(f.Key)
	}
}

// takeAll accepts the new links of ls, and logs the skipped ones.
func (n *Intake) takeAll(ls *visit.Links) {
	n.take(ls)
	for _, s := range ls.Skipped {
		n.skips.add(s)
	}
}

// takeIn accepts one link that does not come from a page.
func (n *Intake) takeIn(l link.Link) {
	var ls visit.Links
	ls.Add(l, l.Key(), n.visits.Links.NotOurs(l.URL))
	n.take(&ls)
	n.run.Fail(n.ledger.Append())
}

// Accept accepts new URLs from the seen-set. It adds them to the batch of the present visit,
// which makes them durable. It shuffles them, so that the links of a page to one host are not
// fetched in a burst. The seen-set calls it on the dispatcher's goroutine.
func (n *Intake) Accept(items []keyset.Item) error {
	n.fresh, n.numbers, n.arrived = n.fresh[:0], n.numbers[:0], n.arrived[:0]
	for _, it := range items {
		l, _, err := link.Peek(it.Aux) // valid only here: clone what is kept
		if err != nil {
			return fmt.Errorf("link from seen: %w", err)
		}
		n.arrived = append(n.arrived, l)
	}
	order, keys := frontier.Scramble(n.arrived), n.ledger.Keys()
	for i := range items {
		if order != nil {
			i = order[i]
		}
		l := n.arrived[i]
		kind := keys.Kind(items[i].Key, l)
		// The owner of a foreign link counts it. The query of a page that is fetched again was counted before.
		if l.Hops != "" && n.queries != nil && kind == state.Accept && !visit.IsRefetch(l) {
			if d := n.queries.AdmitFor(l.App(), l.URL); !d.In {
				n.skips.add(visit.Skip{Link: l, Reason: string(d.Reason)})
				if err := n.plan.Refuse(l); err != nil {
					return err
				}
				continue
			}
		}
		if l.Hops != "" && retry.IsSeed(l) {
			n.widened.add(l.URL.Clone())
			n.ledger.Add(state.Seed, []byte(l.URL.String()))
		}
		if kind == state.Accept && l.Hops == "" {
			n.tally.Found(1)
		}
		if n.seeding != nil {
			n.seeding[l.Key()] = true
		}
		enc, dropped, err := n.gate.Unstamp(items[i].Aux, l)
		if err != nil {
			return err
		}
		if kind == state.Accept {
			n.apps.Accepted(&l)
			n.limits.accepted(&l)
		}
		if dropped {
			if err := n.loop.acceptDropped(enc, n.ledger.AcceptUnlisted(kind, enc)); err != nil {
				return err
			}
		} else if number := n.ledger.Accept(kind, enc); kind == state.Accept {
			n.fresh, n.numbers = append(n.fresh, l), append(n.numbers, number)
		}
		if err := n.ledger.AppendLarge(); err != nil || n.run.Failed() {
			n.run.Fail(err)
			return n.run.Err()
		}
	}
	return n.frontier.PushAt(n.fresh, n.numbers)
}
