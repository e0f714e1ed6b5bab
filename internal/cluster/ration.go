package cluster

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/limits"
)

// The limits of a crawl hold for all of its agents together. One agent counts the pages of all and
// divides them into rations. A visit begins only if the page that it may bring is in the ration, so
// the crawl never exceeds the limit. The time limit counts from the start of the first agent.

// A ration is the number of pages that this agent may fetch if the agents share a limit.
type ration struct {
	shared  bool
	allowed int64 // pages over all runs
}

// ShareLimit makes Config.PageLimit a limit of several agents together: the crawl fetches as
// many pages as Ration allows. Call it before Run.
func (cl *Clustered) ShareLimit() { cl.ration = ration{shared: cl.loop.Config.PageLimit > 0} }

// Ration calls f with the present Need on the dispatcher, and sets the ration to the result of
// f, or to what is used of it if that is more. Safe for concurrent use; ctx bounds the wait.
func (cl *Clustered) Ration(ctx context.Context, f func(limits.Need) (allowed int64)) error {
	return cl.run.Do(ctx, "ration", func(time.Time) {
		used := cl.loop.Tally.Pages() + int64(cl.loop.Busy())
		r := &cl.ration
		r.allowed = max(r.allowed, used)
		r.allowed = max(used, f(limits.Need{Pages: cl.loop.Tally.Pages(), Busy: int64(cl.loop.Busy()),
			Allowed: r.allowed, Pending: cl.loop.Frontier.Pending()}))
	})
}

// rationWait is the interval at which a crawl without a rest of its ration looks again.
const rationWait = 100 * time.Millisecond
