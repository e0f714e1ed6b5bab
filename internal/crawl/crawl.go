package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/applications/delivery"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/plan"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/dns"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// Config tunes a Crawler. The zero Config crawls everything in scope, politely.
type Config struct {
	visit.Config
	// PageLimit and HostPageLimit bound the pages (2xx responses) of the whole
	// crawl and of each host, over all its runs. Zero means no limit.
	PageLimit, HostPageLimit int64
	// SizeLimit bounds the bytes received, over all runs. The crawl may exceed it by the
	// responses in progress. Zero means no limit.
	SizeLimit int64
	// TimeLimit bounds the time of this run. Zero means no limit.
	TimeLimit time.Duration
	// MinFreeDisk is how many bytes the crawl leaves free on Disk: it stops before. Zero means none. A nil Disk, or a
	// size of 0, means that the room is unknown.
	MinFreeDisk int64
	Disk        interface{ Space() disk.Space }
	Claim       Claim   // nil: no other process can take over the crawl
	Backlog     Backlog // nil: the archive stays here, or has all the room it needs
	// DrainTimeout bounds how long a stop waits for the visits in progress. After that it
	// leaves their URLs to the next run. Zero means 30 s.
	DrainTimeout time.Duration
	// ResumeWait is the quiet time of all hosts at the start of a resumed run, because the journal does not tell
	// which requests were in progress at a kill. It should be at least the Frontier's largest delay. Zero means none.
	ResumeWait time.Duration
	Delays
	// CommitEvery bounds how long a finish is only in memory: a kill can repeat the visits of that time. Zero means
	// 100 ms. SyncEvery is the same for a power failure. Zero means 1 s.
	CommitEvery, SyncEvery time.Duration
	// SnapshotBytes is the least growth of the journal between two snapshots. Zero means 64 MiB.
	SnapshotBytes int64
	// AckWritten acknowledges links from other agents when the journal is written, not when it
	// is synced. A power failure may then lose links that their senders have forgotten.
	AckWritten bool
	// Uncollected bounds the pages of an application that wait to be collected: then its links wait. Zero means 10,000.
	Uncollected int
	// Seed is the random seed of the jitter of waits.
	Seed uint64
}

func (c Config) withDefaults() Config {
	c.Config = c.Config.WithDefaults()
	c.SnapshotBytes = cmp.Or(c.SnapshotBytes, 64<<20)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 30*time.Second)
	c.CommitEvery = cmp.Or(c.CommitEvery, 100*time.Millisecond)
	c.SyncEvery = cmp.Or(c.SyncEvery, time.Second)
	if c.Uncollected <= 0 {
		c.Uncollected = 10_000
	}
	return c
}

// A Resolver looks up the addresses of a host. Safe for concurrent use.
type Resolver interface {
	Lookup(ctx context.Context, host string) (dns.Answer, error)
}

// Parts are the parts that a Crawler uses. The caller owns them, and closes them when Run has
// returned.
type Parts struct {
	Cluster  Cluster
	Strategy visit.Strategy // nil: breadth-first
	Pages    visit.Pages    // nil: no callback
	PagesTo  string         // what receives the pages, in words; empty: "the program that receives the pages"
	Scope    *scope.Scope
	Queries  *scope.Queries // nil: no bound on the queries of a path
	Seen     *keyset.Store
	Journal  *journal.Journal
	Frontier *frontier.Frontier
	Robots   *robots.Cache
	Sheets   *sheet.Live // nil: no settings of hosts
	DNS      Resolver    // nil: the proxy looks names up
	Fetch    visit.Fetcher
	Archive  *warc.Writer
	Near     visit.NearDuplicates // nil: the crawl does not look for near-duplicates
	Rate     *rate.Limiter        // nil: no limit of requests or bits a second
	Log      *report.Log
	Events   *report.Events
	Skipped  *report.Skipped
	LinkLog  *linklog.Writer // nil: no link log
	Delivery *delivery.Store // nil: no application's pages are collected
	Tally    *report.Tally
}

// Stop is the reason why a run ended.
type Stop string

// The reasons. Only Finished leaves no work. OnlyBlocked leaves only the links of hosts that
// the operator has blocked.
const (
	Finished      Stop = "finished"
	OnlyBlocked   Stop = "blocked"
	Signal        Stop = "signal"
	ByOperator    Stop = "operator"      // ctl stop
	OutputClosed  Stop = "output-closed" // see ErrOutputClosed
	PageLimit     Stop = "page-limit"
	SizeLimit     Stop = "size-limit"
	TimeLimit     Stop = "time-limit"
	DiskLow       Stop = "disk-low" // see Config.MinFreeDisk
	ByPages       Stop = "callback" // Parts.Pages has stopped the run
	Left          Stop = "left"     // the agent has handed its hosts to other agents
	notStopping   Stop = ""
	resolversMax       = 128
	unresolvedMax      = 4096
	quotaMax           = 1024
)

// ErrOutputClosed is the cause with which Run's context ends if the reader of the program's output has closed it. The
// run then stops with OutputClosed.
var ErrOutputClosed = errors.New("the output is closed")

// stopOf returns the reason why a run stops whose context has ended.
func stopOf(ctx context.Context) Stop {
	if errors.Is(context.Cause(ctx), ErrOutputClosed) {
		return OutputClosed
	}
	return Signal
}

// A Crawler crawls from seeds into the archive. Call New, then Recover, Intake.Seed and Run. It is the loop of the
// dispatcher, and owns the order of things; its parts own the rest. Methods are for one goroutine unless their comment
// says that they are safe for concurrent use.
type Crawler struct {
	Intake       *Intake           // accepts links
	Orders       *Orders           // of operators
	Applications *applications.Set // which share the crawl
	View         *View             // what a person asks

	cfg      Config
	cluster  *Cluster
	frontier *frontier.Frontier
	seen     *keyset.Store
	robots   *robots.Cache
	rate     *rate.Limiter
	queries  *scope.Queries
	tally    *report.Tally
	events   *report.Events

	run       *run.Run
	ledger    *ledger.Ledger
	visits    *visit.Pool
	gate      *orders.Gate
	retries   *retry.Book
	origins   retry.Origins
	failures  retry.Failures
	plan      plan.Plan
	progress  progress
	limits    limits
	delays    delays
	lookups   lookups
	proxy     proxy
	errands   errands
	plain     plain
	logs      logs
	skips     skips
	past      pastClock // of earlier runs
	obstacles obstacles
	pagesStop bool // Pages has stopped the run
}

// New returns a Crawler of the parts. It does not touch the disk.
func New(cfg Config, parts Parts) *Crawler {
	cfg = cfg.withDefaults()
	p := &parts
	c := &Crawler{
		cfg: cfg, cluster: &p.Cluster, frontier: p.Frontier, seen: p.Seen, robots: p.Robots, rate: p.Rate,
		queries: p.Queries, tally: p.Tally, events: p.Events,
		run: run.New(), retries: retry.NewBook(cfg.Seed), plain: plain{},
		failures: retry.Failures{Tally: p.Tally, Rules: p.Robots},
		skips:    skips{tally: p.Tally, log: p.Skipped, clock: cfg.Clock},
	}
	planner, _ := p.Strategy.(visit.Planner)
	widened := &widened{scope: p.Scope}
	rated := &rateLimit{&c.cfg, p.Rate, p.Frontier}
	c.Applications = &applications.Set{Run: c.run, Frontier: p.Frontier, Pages: p.Delivery, Cluster: c.cluster,
		MostUncollected: cfg.Uncollected}
	c.gate = orders.NewGate(c.run, gateLoop{c.cluster, p.Seen, &c.origins, &c.plan}, p.Frontier, p.Events)
	c.visits = visit.New(cfg.Config, visit.Parts{Scope: p.Scope, Robots: p.Robots, Sheets: p.Sheets,
		Fetch: p.Fetch, Archive: p.Archive, Near: p.Near, Rate: p.Rate, Events: p.Events,
		LinkLog: p.LinkLog, Strategy: p.Strategy, Pages: p.Pages, Applications: c.Applications, Gate: c.gate,
		Owners: p.Cluster.Owners, Contents: p.Cluster.Contents, Boundary: p.Cluster.Boundary,
		Sharing: p.Cluster.Sharing}, resolversMax)
	c.progress = progress{cfg: &c.cfg, visits: c.visits}
	c.ledger = newLedger(c, p, widened, planner != nil)
	c.Applications.Ledger = c.ledger
	c.origins = retry.NewOrigins(cfg.Config, retry.Parts{Run: c.run, Book: c.retries, Frontier: p.Frontier,
		Robots: p.Robots, Tally: p.Tally, Events: p.Events, Visits: c.visits, Gate: c.gate, Ledger: c.ledger})
	c.plan = plan.New(plan.Parts{Planner: planner, Run: c.run, Ledger: c.ledger, Queues: &c.origins, Archive: p.Archive,
		Owners: p.Cluster.Owners, Moves: p.Cluster.Moves})
	c.limits = limits{cfg: &c.cfg, sheets: p.Sheets, tally: p.Tally, cluster: c.cluster, gate: c.gate,
		progress: &c.progress, space: space{cfg: &c.cfg, events: p.Events},
		parting: c.cfg.Requisites && planner == nil && c.cluster.Turns == nil, hosts: p.Frontier}
	c.delays = delays{&c.cfg, p.Frontier, p.Robots}
	c.lookups = lookups{run: c.run, visits: c.visits, fetch: p.Fetch, dns: p.DNS, cfg: &c.cfg}
	c.proxy = proxy{run: c.run, book: c.retries, events: p.Events, wait: cfg.RetryWait,
		bound: cfg.RetryWait<<cfg.Retries - cfg.RetryWait}
	c.errands = errands{run: c.run, gate: c.gate, frontier: p.Frontier, robots: p.Robots, failures: &c.failures,
		queued: map[string]int{}}
	c.logs = logs{crawl: p.Log, links: p.LinkLog, visits: c.visits, failures: &c.failures}
	c.Intake = &Intake{run: c.run, gate: c.gate, visits: c.visits, ledger: c.ledger,
		frontier: p.Frontier, seen: p.Seen, tally: p.Tally, queries: p.Queries, strategy: p.Strategy,
		cluster: c.cluster, apps: c.Applications, origins: &c.origins, failures: &c.failures, plan: &c.plan,
		limits: &c.limits, skips: &c.skips, widened: widened, loop: c}
	c.Orders = &Orders{cfg: &c.cfg, run: c.run, gate: c.gate, frontier: p.Frontier, book: c.retries,
		origins: &c.origins, ledger: c.ledger, events: p.Events, scope: p.Scope, cluster: c.cluster, plan: &c.plan,
		apps: c.Applications, progress: &c.progress}
	c.View = &View{cfg: &c.cfg, parts: p, run: c.run, ledger: c.ledger, gate: c.gate, book: c.retries,
		origins: &c.origins, failures: &c.failures, visits: c.visits, apps: c.Applications, plan: &c.plan,
		limits: &c.limits, delays: &c.delays, rateLimit: rated, lookups: &c.lookups, proxy: &c.proxy,
		errands: &c.errands, logs: &c.logs, progress: &c.progress, obstacles: &c.obstacles}
	var others []Obstacle
	if p.Cluster.Turns != nil { // the loop has all of its parts now
		others = p.Cluster.Turns.Bind(newLoop(c))
	}
	c.obstacles = obstacles{
		ofRound: []Obstacle{condition{c.progress.stops, c.progress.whyStops},
			condition{c.Orders.paused, c.Orders.whyPaused}, claimed{c.cfg.Claim},
			heldBack{c.cfg.Claim}},
		ofVisit: slices.Concat(
			[]Obstacle{condition{c.progress.crowded, c.progress.whyCrowded},
				condition{c.lookups.full, c.lookups.whyFull}},
			others,
			[]Obstacle{condition{c.limits.limited, c.limits.whyLimited},
				condition{c.limits.space.backlogged, c.limits.space.whyBacklogged},
				condition{c.progress.resumes, c.progress.whyResumes}, condition{rated.tooFast, rated.whyTooFast}}),
		others: others,
	}
	return c
}

// Run crawls until no work is left, the crawl reaches a limit, or ctx is done. Then it waits for the visits in progress
// (see Config.DrainTimeout), saves the state, and returns the reason. An error is a failure of this machine, such as a
// full disk: then no accepted URL is lost, and the next run repeats the visits whose finish could not be written.
func (c *Crawler) Run(ctx context.Context) (Stop, error) {
	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	c.visits.Start(work)
	c.progress.began = c.cfg.Clock.Now()
	c.ledger.Begin(c.progress.began)
	c.View.publish(c.progress.began)
	c.run.Begin()
	c.gate.HeedPaces(c.progress.began)
	c.dispatch(ctx, work, abandon)
	c.run.End()
	c.View.shown.saving = true
	c.View.publish(c.cfg.Clock.Now())

	// Stop the workers first, so that no goroutine writes to the archive any more. The channel has space
	// for their results, so no worker blocks.
	abandon()
	c.visits.End()
	c.run.Wait()
	c.run.Fail(c.ledger.End(func() { c.cluster.deliver(work, c.cfg.Clock.Now()) })) // the first error counts
	c.View.shown.over = true
	c.View.publish(c.cfg.Clock.Now())
	return c.progress.stop, c.run.Err()
}

// dispatch is the loop of the dispatcher: it settles ended visits, starts new ones, and does the
// work that is due.
func (c *Crawler) dispatch(ctx, work context.Context, abandon func()) {
	done := ctx.Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var patience <-chan time.Time // runs while a stop waits for visits in progress
	for !c.run.Failed() {
		now := c.cfg.Clock.Now()
		switch {
		case c.pagesStop && ctx.Err() != nil:
			c.halt(stopOf(ctx))
		case c.pagesStop:
			c.halt(ByPages)
		case c.progress.stop == notStopping:
			if why := c.limits.reached(now); why != notStopping {
				c.halt(why)
			}
		}
		switch {
		case c.progress.stop == notStopping:
		case c.pagesStop && c.progress.stop == ByPages:
			abandon()
		case patience == nil:
			patience = time.After(c.cfg.DrainTimeout)
		}
		wake := c.send(work, now)
		if c.cluster.Turns != nil {
			wake = run.Earlier(wake, c.cluster.Turns.Tick(work, now))
		}
		reviewed, moved := c.review(), c.origins.MoveSome(now, c.failUntried)
		if c.giveUp(now) || reviewed || moved {
			wake = now
		}
		if c.run.Failed() {
			break
		}
		if c.progress.busy == 0 && c.lookups.open == 0 {
			if c.progress.stop != notStopping && (c.progress.isDone() || !c.cluster.mustWait(now)) {
				return
			}
			if c.progress.stop == notStopping && wake.IsZero() && !c.cluster.mustWait(now) && c.idle() {
				continue
			}
		}
		c.run.Fail(c.ledger.Save(now))
		wake = run.Earlier(wake, c.cluster.deliver(work, now))
		c.View.publishEvery(now)
		timer.Reset(c.sleep(now, wake))
		select {
		case v := <-c.visits.Results():
			c.settleAll(v)
		case <-timer.C:
		case f := <-c.run.Calls():
			f(c.cfg.Clock.Now())
		case <-c.visits.More():
			// A worker is free again.
		case <-c.seen.Ready():
			c.run.Fail(c.ledger.Emit())
		case <-done:
			done = nil
			c.halt(stopOf(ctx))
		case <-patience:
			abandon()
		}
	}
}

// finished ends the run if no work is left: no visit is in progress, and no URL waits for a
// time.
func (c *Crawler) finished() {
	before := c.frontier.Pending()
	if c.run.Fail(c.ledger.Flush()) {
		return
	}
	switch err := c.frontier.Err(); {
	case c.run.Failed() || c.frontier.Pending() > before || c.cluster.mustWait(c.cfg.Clock.Now()):
	case err != nil:
		c.run.Fail(fmt.Errorf("frontier: %w", err))
	case c.frontier.Pending() > 0:
		c.run.Fail(fmt.Errorf("frontier: %d links pending, and nothing to wait for", c.frontier.Pending()))
	case c.cluster.Turns != nil:
		c.cluster.Turns.Rest()
	case c.limits.parts():
		c.end(PageLimit)
	case c.frontier.Len() > 0:
		c.end(OnlyBlocked)
	default:
		c.end(Finished)
	}
}

// idle ends the run if no work is left, and no pages of an application are collected. It reports whether the dispatcher
// has to look for work again.
func (c *Crawler) idle() bool {
	if !c.Applications.Collected() {
		c.finished()
		return true
	}
	before := c.frontier.Pending()
	c.run.Fail(c.ledger.Flush())
	return c.run.Failed() || c.frontier.Pending() > before
}

// end says why the run ends.
func (c *Crawler) end(why Stop) {
	c.progress.stop = why
	c.run.Halt()
}

// send starts visits while there are free workers and due hosts. wake is the time of the next
// work; zero means not before a result arrives.
func (c *Crawler) send(work context.Context, now time.Time) (wake time.Time) {
	if c.progress.stop != notStopping {
		return time.Time{}
	}
	if wake = run.Earlier(c.origins.Release(now), c.plan.Want(now, c.Intake.takeIn)); c.run.Failed() {
		return wake
	}
	c.lookups.begin(work)
	if held, ask := obstructed(c.obstacles.ofRound, now); held {
		return run.Earlier(wake, ask)
	}
	c.gate.HeedBars()
	c.gate.HeedExclusions()
	c.Applications.Heed()
	quota := quotaMax
	for {
		if held, ask := obstructed(c.obstacles.ofVisit, now); held {
			return run.Earlier(wake, ask)
		}
		t, due, ok := c.frontier.Next(now)
		if !ok {
			return run.Earlier(wake, due)
		}
		if others := c.cluster.Turns; others != nil && !others.MayVisit(&t, now) {
			c.origins.Open(c.origins.Of(t.Link.URL)) // it may have been the one to try
			if c.run.Failed() {
				return wake
			}
			continue
		}
		origin, held := c.origins.Hold(t.Link.URL, now)
		if held != retry.VisitIt && c.needsNoTry(&t) {
			held = retry.VisitIt
		}
		kept := c.bar(&t, now) || c.setAside(&t, now) || c.Applications.Awaits(&t, now)
		if kept || held == retry.AwaitIt {
			if !kept {
				wake = run.Earlier(wake, c.origins.Await(origin, &t, now))
			} else if held == retry.VisitIt {
				c.origins.Open(origin)
			}
			if quota--; quota == 0 || c.run.Failed() {
				return now // let other work of the dispatcher run first
			}
			continue
		}
		key := t.Link.Key()
		t.Attempt += c.retries.Attempts(key)
		t.Number = c.retries.Number(key, t.Number)
		v := c.visits.New(t)
		v.Plan().Before = c.plan.Before(key)
		v.App().Elsewhere = c.Applications.Any() &&
			(c.cluster.pagesElsewhere(t.Host) > 0 || c.cluster.isSpread(t.Link))
		c.begins(v)
		host := t.Host
		switch {
		case c.gate.Dropped(host, t.Number) || c.Applications.Without(&t.Link):
			// The operator dropped the host, and the URL came back to the queue after that; or removed the application.
			v.Outcome = visit.Dropped
			c.settle(v, now)
		case c.limits.bars(&t.Link) && v.Plan().Before == nil && !visit.IsErrand(t.Link) && !visit.IsRefetch(t.Link):
			v.Outcome = visit.OverQuota
			if c.settle(v, now); !c.run.Failed() {
				if quota--; quota == 0 {
					return now // let other work of the dispatcher run first
				}
			}
		case held == retry.FailIt:
			origin.GiveTo(v)
			if c.settle(v, now); !c.run.Failed() {
				if quota--; quota == 0 {
					return now
				}
			}
		case c.lookups.dns != nil && !t.Addr.IsValid():
			c.lookups.waiting = append(c.lookups.waiting, v)
			c.lookups.begin(work)
		default:
			v.Last = c.retries.FailedLookUps(host) > c.cfg.Retries || origin.Dead()
			v.Within, v.HostLives = c.origins.Patience(t.Link.URL, now), c.tally.HostServes(host)
			c.progress.count(v, 1)
			v.Turn = c.rate.Begin()
			v.Turn.Held = func() bool { return c.gate.HeldBack(v) }
			c.View.shown.begun = v.Task.Link.URL
			c.visits.Begin(v)
		}
		if c.run.Failed() {
			return wake
		}
	}
}

// needsNoTry reports that a URL whose origin fails need not wait for a try: it ends without a request, or another URL
// takes its place.
func (c *Crawler) needsNoTry(t *frontier.Task) bool {
	return visit.IsErrand(t.Link) || c.gate.Dropped(t.Host, t.Number) || c.Applications.Without(&t.Link) ||
		c.limits.bars(&t.Link) || c.plain.replaces(t.Link)
}

// failUntried finishes a URL of a dead origin that is in no queue.
func (c *Crawler) failUntried(t frontier.Task, by *retry.Origin, now time.Time) {
	v := c.visits.New(t)
	v.Plan().Before = c.plan.Before(t.Link.Key())
	by.GiveTo(v)
	c.finish(v, now)
	c.visits.Recycle(v)
}

// settleAll settles v and all other ended visits.
func (c *Crawler) settleAll(v *visit.Attempt) {
	c.run.Stir()
	c.View.shown.lastEnd = c.cfg.Clock.Now()
	for {
		if v.Lookup.Done {
			c.lookups.open--
		} else {
			c.progress.count(v, -1)
			v.Turn.End()
		}
		// Read the clock for each visit. Settling one takes time, in which the response of the
		// next may end. Its quiet time begins then.
		c.settle(v, c.cfg.Clock.Now())
		select {
		case v = <-c.visits.Results():
		default:
			return
		}
	}
}

// append appends the present batch to the journal, unless the run has failed.
func (c *Crawler) append() { c.run.Fail(c.ledger.Append()) }

func (c *Crawler) halt(why Stop) {
	if c.progress.stop == notStopping {
		if c.tally.Fetched() == 0 {
			c.View.shown.waited = c.View.waits(c.cluster.status(c.cfg.Clock.Now()), c.cfg.Clock.Now())
		}
		c.end(why)
		c.visits.Refuse()
		c.events.Write("stopping", report.F("reason", string(why)), report.F("open_requests", c.progress.underWay()))
	}
}

// Halt stops the run for a reason that another agent has found. Safe for concurrent use; ctx
// bounds the wait.
func (c *Crawler) Halt(ctx context.Context, why Stop) error {
	return c.run.Do(ctx, "halt", func(time.Time) { c.halt(why) })
}

// RanBefore makes Config.TimeLimit count from d before Run, because other agents started so
// much earlier. Call it before Run.
func (c *Crawler) RanBefore(d time.Duration) {
	if c.cfg.TimeLimit > 0 {
		c.cfg.TimeLimit = max(c.cfg.TimeLimit-max(d, 0), 1)
	}
}

// sleep returns how long the dispatcher may wait for a result.
func (c *Crawler) sleep(now, wake time.Time) time.Duration {
	d := publishInterval
	if wake = run.Earlier(wake, c.ledger.Due()); !wake.IsZero() {
		d = min(d, wake.Sub(now))
	}
	if c.cfg.TimeLimit > 0 && c.progress.stop == notStopping {
		d = min(d, c.cfg.TimeLimit-c.limits.active(now))
	}
	return max(d, 0)
}
