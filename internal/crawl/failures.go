package crawl

import (
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
)

// A FailedSeed is a seed, or the target of a seed's redirects, that brought no HTTP response.
type FailedSeed = retry.FailedSeed

// FailedSeeds returns the first 100 seeds that brought no response in this run, and their
// number. For a seed that redirects, it returns the target of the redirects. Call it after
// Run.
func (c *Crawler) FailedSeeds() (first []FailedSeed, count int64) {
	return c.failures.Seeds()
}

// A Standstill says why a run has fetched nothing before it was stopped.
type Standstill struct {
	// Last is the last visit that failed; nil: none.
	Last *FailedSeed
	// Waited is what the crawl waited for when it was stopped, in words; empty: not known.
	Waited string
}

// Standstill returns why the crawl has fetched nothing. It is empty if it has. Call it after Run.
func (c *Crawler) Standstill() (s Standstill) {
	if c.Tally.Fetched() > 0 {
		return s
	}
	return Standstill{c.failures.Last(), c.shown.waited}
}

// SeedAgain accepts the first 10,000 failed seeds once more if no run of the crawl got an
// answer other than a redirect, because the operator may have changed flags. Call it after
// Recover and before Run.
func (c *Crawler) SeedAgain() error {
	again := c.failures.Again()
	for _, enc := range again {
		// Both records are in one batch: only Accept may append it, after its own record.
		c.ledger.Add(state.Again, enc)
		l, err := c.failures.TakeBack(enc)
		if err != nil {
			return err
		}
		c.origins.ForgetHost(l.URL.Host()) // the tries of its origin are counted anew, too
		c.origins.Record(l.URL.Host())
		c.plan.retry(l.URL)
		var aux []byte
		aux, c.stamped = c.gate.Stamp(enc, c.stamped[:0])
		key := c.ledger.Keys().Of(l.Key(), false)
		if err := c.Accept([]keyset.Item{{Key: key, Aux: aux}}); err != nil {
			return err
		}
	}
	if len(again) > 0 {
		c.run.Fail(c.ledger.Secure())
	}
	return c.run.Err()
}
