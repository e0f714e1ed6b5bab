package crawl

import (
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
)

// A FailedSeed is a seed, or the target of a seed's redirects, that brought no HTTP response.
type FailedSeed = retry.FailedSeed

// FailedSeeds returns the first 100 seeds that brought no response in this run, and their
// number. For a seed that redirects, it returns the target of the redirects. Call it after
// Run.
func (v *View) FailedSeeds() (first []FailedSeed, count int64) {
	return v.failures.Seeds()
}

// A Standstill says why a run has fetched nothing before it was stopped.
type Standstill struct {
	// Last is the last visit that failed; nil: none.
	Last *FailedSeed
	// Waited is what the crawl waited for when it was stopped, in words; empty: not known.
	Waited string
}

// Standstill returns why the crawl has fetched nothing. It is empty if it has. Call it after Run.
func (v *View) Standstill() (s Standstill) {
	if v.parts.Tally.Fetched() > 0 {
		return s
	}
	return Standstill{v.failures.Last(), v.shown.waited}
}
