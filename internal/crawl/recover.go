package crawl

import (
	"path/filepath"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/plan"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// Recovered has the counts that Recover found.
type Recovered = ledger.Recovered

// Recover rebuilds seen-set, frontier, robots cache and counts from the journal in dir. Call it
// before Seed and Run. intact reports whether a WARC file still has all bytes up to end, because a
// power failure can destroy records of finished URLs.
func (c *Crawler) Recover(fs disk.FS, dir string, intact func(file string, end int64) bool,
	now time.Time) (Recovered, error) {
	tail, err := c.logs.crawl.Tail()
	if err != nil {
		return Recovered{}, err
	}
	links, err := c.logs.links.Tail()
	if err != nil {
		return Recovered{}, err
	}
	pages, err := c.Applications.Tails()
	if err != nil {
		return Recovered{}, err
	}
	evidence := ledger.Evidence{Log: tail}
	if links != nil {
		evidence.Others = append(evidence.Others, linkLines{links})
	}
	if len(pages) > 0 {
		evidence.Others = append(evidence.Others, pages)
	}
	r := &recovery{now: now, past: &c.past, tally: c.tally, queries: c.queries, gate: c.gate,
		limits: &c.limits, plan: &c.plan, apps: c.Applications, frontier: c.frontier, robots: c.robots,
		origins: &c.origins, view: c.View,
		progress: &c.progress, wait: c.cfg.ResumeWait, events: c.events, ledger: c.ledger}
	c.past.delays = map[string]time.Duration{}
	found, err := c.ledger.Recover(fs, dir, intact, evidence, r)
	if err != nil {
		return found, err
	}
	c.past.hosts, c.past.delays = nil, nil
	c.View.before = c.tally.Counts()
	return found, c.run.Err()
}

// linkLines is the end of the link log.
type linkLines struct{ of *linklog.Tail }

// Has implements ledger.Witness. A robots.txt has no line, so it says nothing of the finishes before it.
func (l linkLines) Has(f *state.Finish, all, _ bool) bool {
	if f.IsRobots() {
		return all
	}
	return l.of.Has(f.Link.URL.String(), f.Code)
}

// A recovery gives what the ledger finds in the journal to the parts of the crawl. It implements ledger.Past.
type recovery struct {
	now      time.Time
	past     *pastClock
	tally    *report.Tally
	queries  *scope.Queries // nil: the spellings of queries do not count
	gate     *orders.Gate
	limits   *limits
	plan     *plan.Plan
	apps     *applications.Set
	frontier *frontier.Frontier
	robots   *robots.Cache
	origins  *retry.Origins
	view     *View
	progress *progress
	wait     time.Duration // until the first visit
	events   *report.Events
	ledger   *ledger.Ledger
	batch    []link.Link
	numbers  []uint64
}

func (r *recovery) Accepted(kind byte, l link.Link) {
	if kind != state.Accept {
		return
	}
	if l.Hops == "" {
		r.tally.Found(1)
	}
	if r.queries != nil && !visit.IsRefetch(l) {
		r.queries.AdmitFor(l.App(), l.URL)
	}
}

// Saw implements ledger.Past. What a finish says of the host and of the time holds even if it does not count.
func (r *recovery) Saw(f *state.Finish) {
	if !f.Began.IsZero() && f.Began.Unix() > 0 {
		r.past.touch(f.Link.URL.Host(), f.Delay)
		r.past.saw(f.Began.Add(f.Took))
	}
}

func (r *recovery) Read() {
	r.gate.EachDrop(r.plan.Forget)
}

func (r *recovery) Dropped(number uint64, l link.Link) (taken bool, err error) {
	if _, page := l.Stored(); page || !r.gate.Dropped(l.URL.Host(), number) {
		return false, nil
	}
	r.apps.Accepted(&l)
	return true, r.frontier.PushWithdrawn([]frontier.Waiting{{Link: l, Number: number}})
}

// Pending implements ledger.Past. It queues the link.
func (r *recovery) Pending(number uint64, l link.Link) error {
	r.apps.Accepted(&l)
	r.limits.accepted(&l)
	if r.batch, r.numbers = append(r.batch, l), append(r.numbers, number); len(r.batch) == 1024 {
		return r.Queued()
	}
	return nil
}

// Planned implements ledger.Past. The last run may have ended during a request to the host, which the journal does not
// tell.
func (r *recovery) Planned(l link.Link, state []byte) error {
	r.past.touch(l.URL.Host(), r.robots.Ask(l.URL, r.now).Delay)
	return r.plan.Restore(l, state)
}

func (r *recovery) Queued() error {
	err := r.frontier.PushAt(r.batch, r.numbers)
	r.batch, r.numbers = r.batch[:0], r.numbers[:0]
	return err
}

// Restored implements ledger.Past. Hosts rest: the last run may have ended during a request to any of them, without a
// record.
func (r *recovery) Restored(n *ledger.Recovered, planned bool) {
	p := r.past
	r.plan.Kept = r.plan.Kept || planned
	p.restore(r.frontier, r.now)
	for i := range p.hosts {
		st := &p.hosts[i]
		r.origins.ForgetHost(st.Host) // the last state counts
		r.origins.Restore(st, r.now)
	}
	if r.ledger.Accepted() > 0 {
		r.frontier.Hush(r.now)
	}
	for host, d := range p.delays {
		r.frontier.Touched(host, d, r.now)
	}
	sum := r.tally.Summary(0, "")
	n.Accepted, n.Finished, n.Pending = sum.Unique, sum.Finished, r.view.Pending()
	if n.Pending > 0 || r.plan.Restored > 0 {
		r.progress.rests = r.now.Add(r.wait)
	}
	if n.Lost > 0 {
		r.events.Write("seen-lost", report.F("links", n.Lost))
		for range n.Lost {
			r.tally.Skipped(reasonLost)
		}
	}
}

// Waiting counts the URLs of the crawl in dir that are accepted and not finished. It reads the
// journal and changes nothing. After a power failure the crawl itself may find that more URLs
// wait, because it compares the journal with the archive and the logs.
func Waiting(dir string) (int64, error) {
	h := state.NewHistory(nil)
	waiting := roaring64.New()
	_, err := journal.Replay(disk.OS, filepath.Join(dir, "state", "journal"), func(kind byte, p []byte) error {
		switch kind {
		case state.Number:
			return h.Number(kind, p)
		case state.Done:
			return h.Runs(kind, p)
		case state.Sent:
			return h.Ended(kind, p)
		case state.Pending:
			number, _, err := state.SplitPending(p)
			waiting.Add(number)
			return err
		case state.Accept:
			h.Last++
			waiting.Add(h.Last)
		case state.Outgoing, state.Passed:
			h.Last++
		case state.Finished:
			f, err := state.DecodeFinish(p)
			if err != nil || f.IsRobots() {
				return err
			}
			return h.Finish(f.Number)
		}
		return nil
	})
	waiting.AndNot(h.Done)
	return int64(waiting.GetCardinality()), err
}
