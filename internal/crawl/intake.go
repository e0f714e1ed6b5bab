package crawl

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Seed accepts the crawl's seeds. Those in bare were given without a scheme. Seeds known from an
// earlier run change nothing. Call it after Recover and before Run.
func (c *Crawler) Seed(us []weburl.URL, bare map[weburl.URL]bool) error {
	var ls visit.Links
	for _, u := range us {
		c.visits.Links.Judge(&ls, c.seedLink(u, bare[u]), link.KeyOf(u))
	}
	for _, k := range ls.Skipped {
		c.skips.add(k)
	}
	c.intake(&ls)
	// The next run must know in any case that this run existed and may have sent requests.
	c.run.Fail(c.ledger.Secure())
	return c.run.Err()
}

// intake accepts new links. The seen-set drops known ones. The worker has checked the scope already.
func (c *Crawler) intake(ls *visit.Links) {
	if len(ls.Found) == 0 {
		return
	}
	c.items, c.stamped = c.items[:0], c.stamped[:0]
	keys := c.ledger.Keys()
	for _, f := range ls.Found {
		var aux []byte
		aux, c.stamped = c.gate.Stamp(ls.Encoded[f.From:f.To], c.stamped)
		c.items = append(c.items, keyset.Item{Key: keys.Of(f.Key, f.Foreign), Aux: aux})
	}
	if c.run.Fail(c.ledger.Offer(c.items)) {
		return
	}
	// From now on a page that names one of these links may finish without it. If the link is new,
	// the journal has its accept before that finish. If the seen-set holds the link back, it is in
	// a file that is written before the finish.
	for _, f := range ls.Found {
		c.visits.Know(f.Key)
	}
}

// takeIn accepts one link that does not come from a page.
func (c *Crawler) takeIn(l link.Link) {
	var ls visit.Links
	ls.Add(l, l.Key(), c.visits.Links.NotOurs(l.URL))
	c.intake(&ls)
	c.append()
}

// Accept accepts new URLs from the seen-set. It adds them to the batch of the present visit,
// which makes them durable. It shuffles them, so that the links of a page to one host are not
// fetched in a burst. The seen-set calls it on the dispatcher's goroutine.
func (c *Crawler) Accept(items []keyset.Item) error {
	c.fresh, c.numbers, c.arrived = c.fresh[:0], c.numbers[:0], c.arrived[:0]
	for _, it := range items {
		l, _, err := link.Peek(it.Aux) // valid only here: clone what is kept
		if err != nil {
			return fmt.Errorf("link from seen: %w", err)
		}
		c.arrived = append(c.arrived, l)
	}
	order, keys := frontier.Scramble(c.arrived), c.ledger.Keys()
	for i := range items {
		if order != nil {
			i = order[i]
		}
		l := c.arrived[i]
		kind := keys.Kind(items[i].Key, l)
		// The owner of a foreign link counts it. The query of a page that is fetched again was counted before.
		if l.Hops != "" && c.Queries != nil && kind == state.Accept && !visit.IsRefetch(l) {
			if d := c.Queries.AdmitFor(l.App(), l.URL); !d.In {
				c.skips.add(visit.Skip{Link: l, Reason: string(d.Reason)})
				if err := c.plan.refuse(l); err != nil {
					return err
				}
				continue
			}
		}
		if l.Hops != "" && retry.IsSeed(l) {
			c.widened.add(l.URL.Clone())
			c.ledger.Add(state.Seed, []byte(l.URL.String()))
		}
		if kind == state.Accept && l.Hops == "" {
			c.Tally.Found(1)
		}
		if c.seeding != nil {
			c.seeding[l.Key()] = true
		}
		enc, dropped, err := c.gate.Unstamp(items[i].Aux, l)
		if err != nil {
			return err
		}
		if kind == state.Accept {
			c.apps.accepted(&l)
		}
		if dropped {
			if err := c.acceptDropped(enc, c.ledger.AcceptUnlisted(kind, enc)); err != nil {
				return err
			}
		} else if number := c.ledger.Accept(kind, enc); kind == state.Accept {
			c.fresh, c.numbers = append(c.fresh, l), append(c.numbers, number)
		}
		if err := c.ledger.AppendLarge(); err != nil || c.run.Failed() {
			c.run.Fail(err)
			return c.run.Err()
		}
	}
	return c.Frontier.PushAt(c.fresh, c.numbers)
}
