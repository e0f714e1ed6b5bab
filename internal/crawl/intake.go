package crawl

import (
	"errors"
	"fmt"
	"slices"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Seed accepts the crawl's seeds. Those in bare were given without a scheme. Seeds known from an
// earlier run change nothing. Call it after Recover and before Run.
func (c *Crawler) Seed(us []weburl.URL, bare map[weburl.URL]bool) error {
	var ls Links
	for _, u := range us {
		c.judge(&ls, c.seedLink(u, bare[u]), link.KeyOf(u))
	}
	for _, k := range ls.skipped {
		c.skip(k)
	}
	c.intake(&ls)
	c.append()
	if c.fatal == nil {
		// The next run must know in any case that this run existed and may have sent requests.
		c.fatal = c.sync()
	}
	return c.fatal
}

// intake accepts new links. The seen-set drops known ones. The worker has
// checked the scope already.
func (c *Crawler) intake(ls *Links) {
	if len(ls.found) == 0 {
		return
	}
	c.items, c.stamped = c.items[:0], c.stamped[:0]
	keys := c.cluster.Keys()
	for _, f := range ls.found {
		c.items = append(c.items, keyset.Item{Key: keys.Of(f.key, f.foreign), Aux: c.stamp(ls.enc[f.from:f.to])})
	}
	if c.repair(c.Seen.Add(c.items)); c.fatal != nil {
		return
	}
	c.holds()
	// From now on a page that names one of these links may finish without it. If the link is new,
	// the journal has its accept before that finish. If the seen-set holds the link back, it is in
	// a file that is written before the finish.
	for _, f := range ls.found {
		c.known.add(f.key)
	}
}

// emit accepts the held-back links that the seen-set has found to be new.
func (c *Crawler) emit() {
	if c.repair(c.Seen.Emit()); c.fatal == nil {
		c.append()
	}
}

// flushTries is more than the number of parts of the seen-set that may be damaged.
const flushTries = 100

// flushSeen accepts all new links that the seen-set holds back.
func (c *Crawler) flushSeen() {
	err := c.Seen.Flush()
	for tries := 0; err != nil && tries < flushTries; tries++ {
		if c.repair(err); c.fatal != nil {
			return
		}
		err = c.Seen.Flush() // damage stopped it before all links were answered
	}
	if c.repair(err); c.fatal == nil {
		c.append()
	}
}

// repair handles an error of the seen-set. If a part of the seen-set is damaged, it rebuilds the
// part from the journal and emits the new links again. It tries that three times. Any other error
// ends the run.
func (c *Crawler) repair(err error) {
	defer c.lostLinks()
	for tries := 0; err != nil; tries++ {
		if _, damage := errors.AsType[*drum.Damage](err); !damage || tries > 2 {
			c.fatal = fmt.Errorf("seen: %w", err)
			return
		}
		if c.append(); c.fatal != nil {
			return
		}
		// rebuildSeen writes the rebuilt part to disk at once. The seen-set must never be ahead of
		// the journal, so the journal is synced first. A sync in progress must end before, because
		// it names the seen-set's runs, too.
		if c.fatal = c.endSync(true); c.fatal != nil {
			return
		}
		if c.fatal = c.sync(); c.fatal != nil {
			return
		}
		if err = c.rebuildSeen(); err == nil {
			err = c.Seen.Emit()
		}
	}
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
	order, before := frontier.Scramble(c.arrived), c.accepted
	for i := range items {
		if order != nil {
			i = order[i]
		}
		l := c.arrived[i]
		class := c.cluster.Class(items[i].Key, l)
		// The owner of a foreign link counts it. The query of a page that is fetched again was counted before.
		if l.Hops != "" && c.Queries != nil && class == Own && !isRefetch(l) {
			if d := c.Queries.AdmitFor(l.App(), l.URL); !d.In {
				c.skip(skip{l, string(d.Reason)})
				if err := c.refuse(l); err != nil {
					return err
				}
				continue
			}
		}
		if l.Hops != "" && isSeed(l) {
			c.widen(l.URL.Clone())
			c.batch.add(state.Seed, []byte(l.URL.String()))
		}
		if class == Own && l.Hops == "" {
			c.Tally.Found(1)
		}
		if c.seeding != nil {
			c.seeding[l.Key()] = true
		}
		enc, dropped, err := c.unstamp(items[i].Aux, l)
		if err != nil {
			return err
		}
		c.batch.add(byte(class), enc)
		c.accepted++
		if class == Own {
			c.apps.accepted(&l)
		}
		if dropped {
			err = c.acceptDropped(enc, c.accepted)
		} else {
			err = c.cluster.Accepted(class, c.accepted, l, enc)
		}
		if err != nil {
			return err
		}
		if class == Own && !dropped {
			c.fresh, c.numbers = append(c.fresh, l), append(c.numbers, c.accepted)
		}
		if len(c.batch.arena) > batchBytes {
			if c.append(); c.fatal != nil {
				return c.fatal
			}
		}
	}
	c.Tally.Accepted(int64(c.accepted - before))
	return c.Frontier.PushAt(c.fresh, c.numbers)
}

// widen adds the target of a seed's redirects to the seeds of the scope.
func (c *Crawler) widen(u weburl.URL) {
	c.Scope.AddSeed(u)
	c.widened = append(c.widened, u)
}

// skip logs a URL that is not crawled. If the URL is found again soon, it is not logged again.
func (c *Crawler) skip(s skip) {
	c.skipCounted(s.reason)
	if c.skips.add(link.KeyOf(s.link.URL)) {
		reason, rule := report.SplitReason(s.reason)
		c.Skipped.Write(report.Skip{URL: s.link.URL.String(), Via: s.link.Via, Hops: s.link.Hops, Seed: s.link.Seed,
			Reason: reason, Rule: rule})
	}
}

// skipCounted counts a URL that is not crawled, now and in the next finish.
func (c *Crawler) skipCounted(reason string) {
	c.Tally.Skipped(reason)
	i := slices.IndexFunc(c.skipped, func(k state.Skip) bool { return k.Reason == reason })
	if i < 0 {
		i, c.skipped = len(c.skipped), append(c.skipped, state.Skip{Reason: reason})
	}
	c.skipped[i].N++
}

// recent is a set of at most 2*recentMax keys that forgets older keys.
type recent struct{ now, before map[link.Key]struct{} }

const recentMax = 1 << 16

// add adds k and reports whether it is new.
func (r *recent) add(k link.Key) bool {
	if _, ok := r.now[k]; ok {
		return false
	}
	_, ok := r.before[k]
	if len(r.now) >= recentMax || r.now == nil {
		r.now, r.before = make(map[link.Key]struct{}), r.now
	}
	r.now[k] = struct{}{}
	return !ok
}
