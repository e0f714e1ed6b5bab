// Package node answers: how does an agent open, run and close its crawl?
//
//	Config -> Open -> Agent -> Run -> Result
//
// Open opens the parts of an agent in the order in which they depend on each other:
// state, archive, frontier, fetcher, cluster. It wires them into a crawl.Crawler. Run runs it, and Close closes the
// parts in reverse order. The package knows the crawl directory:
//
//	crawl.yaml   effective configuration
//	archive/     WARC files
//	indexes/     index.cdxj
//	links/       the link log (Config.Links)
//	logs/        crawl.log, crawl.jsonl, events.jsonl
//	reports/     summary.json, *.csv, skipped.jsonl; in a cluster also lost-*.txt
//	state/       journal, frontier's spill files, index runs, strategy's files, lock;
//	             in a cluster also agent.json (the agent's identity), the outbox's files,
//	             replicas, contents, sites (which agent owns which host), and boundary (pages for
//	             other agents)
//
// If Open returns an error before it has written crawl.yaml, the directory holds no crawl.
// One goroutine owns an Agent and calls Serve, Run and Close. Status and Leave are safe for
// concurrent use.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/applications/delivery"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/node/standing"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/dns"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An Agent is an open crawl on this machine. Run may be called once.
type Agent struct {
	cfg, given Config              // given: what Open was given
	bare       map[weburl.URL]bool // the seeds that were given without a scheme
	fs         disk.FS
	budget     budget
	crawler    *crawl.Crawler
	parts      crawl.Parts
	fetcher    *fetch.Fetcher
	resolver   *dns.Resolver // nil: the proxy looks names up
	phases     *prometheus.HistogramVec
	membership *membership.Membership // nil: this agent is alone
	near       *index.Index           // nil: the agent does not look for near-duplicates
	earlier    *earlierCrawls
	keeper     *keeper          // nil: the state is not saved in a store
	orders     *standing.Orders // the operators' orders
	history    *local.History
	archive    *local.Archive
	segments   *past.Segments // nil: the archive has none
	local      *operate.Local
	operator   *operate.Operator
	sheets     sheet.Live     // Config.Hosts, or what SetHosts has given since
	closers    []func() error // Close calls them in reverse order
	shortages  atomic.Int64   // how often a file could not be opened for want of descriptors
	// Recovered counts what Open found of earlier runs.
	Recovered crawl.Recovered
	// NotBlocked lists the hosts of Config.Unblock that were not blocked.
	NotBlocked []string
	began      time.Time
	staying    []string // the agents that were present when this one had stopped
	bareBefore bool     // the run before fetched no requisites; see repair
}

// Result says how a run ended.
type Result struct {
	Stop    crawl.Stop
	Summary report.Summary
	// Nothing reports that no run of this crawl, on any of its agents, has fetched
	// anything but redirects.
	Nothing bool
	// Failed lists the first seeds of this run that brought no response, and FailedCount
	// counts all of them. In a cluster, each agent lists the seeds of its own hosts.
	Failed      []crawl.FailedSeed
	FailedCount int64
	// Standstill says why a run that was stopped has fetched nothing.
	Standstill crawl.Standstill
	// EmptyArchive reports that the archive has no record.
	EmptyArchive bool
	// OnlyRedirects reports that this agent has fetched only redirects, and that no seed failed: the redirects lead in
	// a circle, out of scope, or to something that is not a URL.
	OnlyRedirects bool
	Others        []string // agents that continue the crawl without this one
	Barred                 // if Stop is OnlyBlocked
}

// Open opens the crawl in cfg.Dir, or creates it. It reads the crawl's whole state, which
// takes time for a large crawl. The error is an *input.ConfigError, a full disk (disk.IsFull),
// disk.ErrLocked, a *crawldir.StateError, or another error of the disk.
func Open(cfg Config) (_ *Agent, err error) {
	a, seeds, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err := a.claim(); err != nil {
		return nil, crawldir.Denied(a.cfg.Dir, err)
	}
	if err := a.open(seeds); err != nil {
		return nil, &crawldir.StateError{Err: crawldir.Denied(a.cfg.Dir, err)}
	}
	return a, nil
}

// prepare checks cfg and returns an agent that has opened nothing, and its seeds.
func prepare(cfg Config) (*Agent, []weburl.URL, error) {
	cfg.FS = cmp.Or(cfg.FS, disk.OS)
	cfg.MemoryBytes = cmp.Or(cfg.MemoryBytes, defaultMemory)
	seeds, bare, err := cfg.seeds()
	if err != nil {
		return nil, nil, err
	}
	if err := cfg.check(seeds); err != nil {
		return nil, nil, err
	}
	if err := cfg.rehearse(seeds); err != nil {
		return nil, nil, err
	}
	cfg.Clock = clock.Or(cfg.Clock)
	a := &Agent{cfg: cfg, given: cfg, bare: bare, budget: cfg.newBudget()}
	a.cfg.divide(a.budget)
	if c := cfg.Cluster; c != nil && c.TwoLevel {
		a.cfg.Crawl.TwoLevel, a.cfg.Crawl.SeedRoots = true, true
	}
	a.fs = a.files()
	return a, seeds, nil
}

// now returns the time by Config.Clock.
func (a *Agent) now() time.Time {
	return a.cfg.Clock.Now()
}

func (a *Agent) dir(elem ...string) string {
	return filepath.Join(append([]string{a.cfg.Dir}, elem...)...)
}

// layout lists the directories of a crawl directory. The marker file, which shows that there is a
// crawl, is written last and deleted last.
var layout = []string{"archive", "indexes", "logs", "reports", "state/seen", "state/journal", "state/queues",
	"state/index", "state/spill", "state/strategy"}

// extras are files and directories that not every crawl has.
var extras = append([]string{warc.CrawlData, tablesDir, linklog.Folder, nearDir, earlierDir, ordersFile, historyFile,
	seedsFile, strategyFile, past.AdoptedDir}, membership.Files...)

const seedsFile = "state/seeds.txt"

// claim locks the crawl directory and creates its layout. It requires or deletes an earlier crawl
// as Resume and Overwrite say. If it refuses the directory, it has changed nothing in it.
func (a *Agent) claim() error {
	if err := a.inspect(); err != nil {
		return err
	}
	if c := a.cfg.Cluster; c != nil && !a.cfg.Resume {
		if _, err := c.TryPort(a.fs, a.cfg.Clock); err != nil {
			return err
		}
	}
	if err := a.fs.MkdirAll(a.dir("state"), 0o755); err != nil {
		return fmt.Errorf("crawl directory: %w", err)
	}
	lock, err := disk.Lock(a.fs, a.dir("state"))
	if errors.Is(err, disk.ErrLocked) {
		if busy := a.vacant(); busy != nil {
			return busy
		}
	}
	if err != nil {
		return fmt.Errorf("crawl directory: %w", err)
	}
	a.onClose(lock.Close)
	if err := a.suits(); err != nil { // another process may have changed the directory before we had the lock
		return err
	}
	if err := a.forgetAccess(); err != nil {
		return err
	}
	if a.cfg.Overwrite {
		for _, d := range append(slices.Concat(layout, extras), crawldir.Marker) {
			if err := a.fs.RemoveAll(a.dir(d)); err != nil {
				return fmt.Errorf("overwrite: %w", err)
			}
		}
	} else if !a.cfg.Resume { // a run that was killed before it wrote the marker may have left files
		for _, name := range extras {
			if err := a.fs.RemoveAll(a.dir(name)); err != nil {
				return fmt.Errorf("crawl directory: %w", err)
			}
		}
	}
	for _, d := range layout {
		if err := a.fs.MkdirAll(a.dir(d), 0o755); err != nil {
			return fmt.Errorf("crawl directory: %w", err)
		}
	}
	if err := a.makePrivate(); err != nil {
		return err
	}
	for _, d := range []string{a.dir("state"), a.dir(), filepath.Dir(a.dir())} {
		if err := a.fs.SyncDir(d); err != nil {
			return fmt.Errorf("crawl directory: %w", err)
		}
	}
	return nil
}

// mark writes the strategy's name and the seeds, so that a later run needs no seeds. Then it writes
// the marker, unless repair will.
func (a *Agent) mark(seeds []weburl.URL) error {
	if err := disk.WriteFile(a.fs, a.dir(strategyFile), []byte(strategyName(a.parts.Strategy)+"\n")); err != nil {
		return err
	}
	if err := a.rememberSeeds(seeds); err != nil {
		return err
	}
	if len(a.cfg.Effective) == 0 {
		a.cfg.Effective = []byte("{}\n")
	}
	if a.bareBefore {
		return nil
	}
	return disk.WriteFile(a.fs, a.dir(crawldir.Marker), a.cfg.Effective)
}

// inspect checks that no other process has the directory open, and that it suits this run.
func (a *Agent) inspect() error {
	if err := a.vacant(); err != nil {
		return err
	}
	return a.suits()
}

// suits checks that the directory agrees with Resume and Overwrite, and that it has no files of
// others.
func (a *Agent) suits() error {
	exists, err := crawldir.HoldsCrawl(a.fs, a.cfg.Dir)
	switch {
	case err != nil:
		return err
	case exists && !a.cfg.Resume && !a.cfg.Overwrite && a.barren():
		a.cfg.Overwrite = true
		return nil
	case exists && !a.cfg.Resume && !a.cfg.Overwrite:
		return input.Errorf("%s already holds a crawl: continue it with {resume}, delete it with {overwrite}, "+
			"or choose another {dir}", a.cfg.Dir)
	case !exists && a.cfg.Resume:
		return input.Errorf("%s holds no crawl to resume; give the crawl's directory with {dir}", a.cfg.Dir)
	case exists:
		return nil
	}
	entries, err := a.fs.ReadDir(a.dir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("crawl directory: %w", err)
	}
	for _, e := range entries {
		ours := e.Name() == "state" || e.Name() == linklog.Folder ||
			e.Name() == crawldir.Marker+".tmp" // a full disk may leave the temporary file
		for _, d := range layout {
			ours = ours || e.Name() == d
		}
		if !ours {
			return input.Errorf("%s is not empty and holds no crawl (it contains %s): choose another {dir}",
				a.cfg.Dir, e.Name())
		}
	}
	return nil
}

func (a *Agent) onClose(f func() error) { a.closers = append(a.closers, f) }

// open opens the parts of the agent, each before the parts that need it.
func (a *Agent) open(seeds []weburl.URL) error {
	cfg, now := &a.cfg, a.now()
	if cfg.Scope.Today.IsZero() {
		cfg.Scope.Today = now
	}
	ua, token, err := cfg.Identity()
	if err != nil {
		return err
	}
	r := &a.parts
	r.Pages, r.PagesTo, r.Sheets = cfg.Pages, cfg.PagesTo, &a.sheets
	a.sheets.Set(cfg.Hosts)
	if seeds, err = a.allSeeds(seeds); err != nil {
		return err
	}
	if err := a.openStrategy(seeds); err != nil {
		return err
	}
	if err := a.prepareOthers(seeds); err != nil {
		return err
	}
	if a.bareBefore, err = a.wasBare(); err != nil {
		return err
	}
	if err := a.mark(seeds); err != nil {
		return err
	}
	cfg.Scope.Sheets = &a.sheets
	if r.Scope, err = scope.New(cfg.Scope, seeds); err != nil {
		return input.SettingError(err)
	}

	if err := a.openFetcher(ua); err != nil {
		return err
	}
	if err := a.openLogs(); err != nil {
		return err
	}
	a.openSegments()

	ac := a.archiveConfig(ua)
	var whole warc.Recovered
	if r.Archive, whole, err = warc.Open(ac); err != nil {
		return err
	}
	a.onClose(r.Archive.Close)
	if r.Delivery, err = delivery.Open(a.fs, a.dir("state", "applications")); err != nil {
		return err
	}
	a.onClose(r.Delivery.Close)
	if a.membership != nil {
		store, err := a.membership.OpenStore(ac.Level)
		if err != nil {
			return err
		}
		if store != nil {
			a.onClose(store.Close)
		}
	}
	boxed := a.membership.Store()

	cfg.Robots.Agent = token
	r.Robots = robots.NewCache(cfg.Robots)
	if cfg.Scope.Depth != nil || cfg.Hosts.HasDepth() || r.Scope.BoundsHostDepth() {
		// A URL keeps the depth at which it was found first. The nearer the order is to
		// breadth-first, the fewer URLs get too large a depth.
		cfg.Frontier.Burst = -1
	}
	// Without delays, opening a connection costs more than the order of the pages is worth.
	fr := &cfg.Frontier
	fr.Gather = fr.Burst >= 0 && fr.HostDelay < 0 && fr.IPDelay <= 0 && fr.SiteDelay <= 0
	if err := a.loadOrders(); err != nil {
		return err
	}
	fr.Delays, cfg.Crawl.WhyDelay = a.orders.Delays, a.orders.Delays
	fr.Pace, fr.Paced, cfg.Crawl.WhyPace = a.orders.Paces, a.orders.Paces.Domains(), a.orders.Paces
	fr.ClassOf = func(l *link.Link) uint8 { return a.crawler.Applications.ClassOf(l) }
	if c := a.membership; c != nil {
		points, hosts := c.OpenLeases(a.fetcher)
		if fr.Lease = points; hosts != nil {
			fr.HostLease = hosts
		}
	}
	if r.Frontier, err = frontier.Open(a.fs, a.dir("state", "queues"), cfg.Frontier); err != nil {
		return err
	}
	a.onClose(r.Frontier.Close)
	r.Tally = report.NewTally()
	r.Queries = scope.NewQueries(0, 0)
	if r.Seen, err = keyset.Open(a.fs, a.dir("state", "seen"), keyset.Config{MemoryBytes: a.budget.of(shareSeen)},
		func(items []keyset.Item) error { return a.crawler.Intake.Accept(items) }); err != nil {
		return err
	}
	a.onClose(r.Seen.Close)

	// The archive and the logs come first: they must hold every page that the journal calls
	// finished.
	if r.Journal, err = journal.Open(a.fs, a.dir("state", "journal"),
		journal.Config{References: first{r, boxed}}); err != nil {
		return err
	}
	a.onClose(r.Journal.Close)

	cfg.Crawl.Agent, cfg.Crawl.Clock = token, cfg.Clock
	if cfg.Crawl.Disk == nil {
		cfg.Crawl.Disk = disk.Volume(cfg.Dir)
	}
	if cfg.Crawl.SlowBytes == 0 {
		cfg.Crawl.SlowBytes = a.budget.slow()
	}
	if cfg.Crawl.SlowVisits == 0 {
		cfg.Crawl.SlowVisits = fetch.Descriptors()
	}
	f := &cfg.Frontier
	cfg.Crawl.ResumeWait = max(f.HostDelay, f.IPDelay, f.SiteDelay, 0)
	if f.HostDelay == 0 { // the frontier's default
		cfg.Crawl.ResumeWait = max(cfg.Crawl.ResumeWait, 2*time.Second)
	}
	if err := a.openOthers(); err != nil {
		return err
	}
	a.crawler = crawl.New(cfg.Crawl, *r)
	intact, err := a.archived(whole)
	if err != nil {
		return err
	}
	if a.Recovered, err = a.crawler.Recover(a.fs, a.dir("state", "journal"), intact, now); err != nil {
		return fmt.Errorf("recover %s: %w", cfg.Dir, err)
	}
	if boxed != nil {
		if err := boxed.Tidy(); err != nil {
			return err
		}
	}
	if err := a.openOperator(); err != nil {
		return err
	}
	if cfg.Resume && a.membership == nil {
		// The operator may have removed the reason why nothing could be fetched so far.
		if err := a.crawler.Intake.SeedAgain(); err != nil {
			return err
		}
		a.Recovered.Finished, a.Recovered.Pending = r.Tally.Finished(), a.crawler.View.Pending()
	}
	return a.crawler.Intake.Seed(seeds, a.bare)
}

// archived returns a function that reports whether a WARC file is complete up to end. A missing
// file counts as complete if its index exists: the operator has moved it away. Without an index,
// the file was never finished and a crash has lost it.
func (a *Agent) archived(whole warc.Recovered) (func(file string, end int64) bool, error) {
	sizes := map[string]int64{}
	runs, err := a.fs.ReadDir(a.dir("state", "index"))
	if err != nil {
		return nil, err
	}
	for _, e := range runs {
		if base, ok := strings.CutSuffix(e.Name(), ".cdxj"); ok {
			sizes[base+".warc.gz"] = math.MaxInt64
		}
	}
	maps.Copy(sizes, whole.Valid())
	files, err := warc.Files(a.fs, a.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if info, err := a.fs.Stat(f.Path); err == nil && !info.IsDir() {
			sizes[f.Name] = info.Size()
		}
	}
	return func(file string, end int64) bool { return sizes[file] >= end }, nil
}

// Run crawls until the crawl is finished, reaches a limit or ctx is done. Then it writes
// the index and the reports. Call it once. With an error, the Result holds what is known
// up to the error.
func (a *Agent) Run(ctx context.Context) (Result, error) {
	a.began = a.now()
	kind := "started"
	if a.cfg.Resume {
		kind = "resumed"
	}
	a.parts.Events.Write(kind, report.F("version", Version), report.F("pid", os.Getpid()),
		report.F("pending", a.crawler.View.Pending()), report.F("blocked", a.parts.Frontier.Stats().BlockedLinks),
		report.F("repeated", a.Recovered.Repeated), report.F("links_lost", a.Recovered.Lost))
	if a.parts.Tally.Started().IsZero() {
		a.parts.Tally.Start(a.began)
	}
	unwatch := a.orders.Watch()
	remembered := a.history.Begin()
	again := a.membership == nil && a.parts.Tally.SeedPages() == 0
	stop, err := a.withEarlier(ctx)
	remembered()
	unwatch()
	res := Result{Stop: stop, Summary: a.parts.Tally.Summary(a.crawler.View.Elapsed(a.now()), string(stop))}
	res.Summary.Ended.Time, res.Summary.Queued = a.now().UTC(), a.crawler.View.Pending()
	if a.cfg.Cluster != nil {
		res.Summary.Agent = a.cfg.Cluster.Name
	}
	if s := a.Status(); s != nil {
		c, sum := &s.Cluster, &res.Summary
		sum.Lost, sum.Leases, sum.Moves = c.Lost, c.Leases, c.Moves
		sum.Contents = c.Contents
	}
	res.Others, res.Barred = a.leftBy(stop)
	res.Failed, res.FailedCount = a.crawler.View.FailedSeeds()
	if res.Standstill = a.crawler.View.Standstill(); a.membership != nil {
		res.Standstill.Waited = cmp.Or(a.membership.Unmet(), res.Standstill.Waited)
	}
	a.nameSeeds(&res, again)
	if stop == crawl.Finished && a.parts.Tally.SeedPages() == 0 &&
		(a.membership == nil || a.membership.Nothing()) {
		res.Nothing = true
		res.OnlyRedirects = a.parts.Tally.Fetched() > 0 && a.parts.Tally.Answered() == 0 &&
			!slices.ContainsFunc(res.Failed, func(s crawl.FailedSeed) bool { return s.Code/100 != 3 })
	}
	if a.membership != nil {
		res.Summary.Exchange = a.membership.Exchange(a.crawler.View.Counts().Pages)
	}
	if err != nil {
		res.Summary.StopReason = "error: " + err.Error()
		a.parts.Events.Write("error", report.F("error", err.Error()))
		return res, err
	}
	a.parts.Events.Write("stopped", report.F("reason", string(stop)), report.F("pages", a.parts.Tally.Pages()),
		report.F("nothing", res.Nothing))
	err = a.conclude(res)
	if files, bad := warc.Files(a.fs, a.cfg.Dir); bad == nil {
		res.EmptyArchive = len(files) == 0
	}
	return res, err
}

// conclude finishes the output of a run: it renames the archive's last file, completes the segments, then builds the
// index, then writes the reports.
func (a *Agent) conclude(res Result) error {
	if err := errors.Join(a.parts.Archive.Close(), a.parts.LinkLog.Close(), a.parts.Log.Sync()); err != nil {
		return err
	}
	flaws := a.index()
	if flaws != nil && !errors.Is(flaws, warc.ErrDamaged) {
		return flaws
	}
	if err := a.parts.Tally.WriteReports(a.fs, a.dir("reports"), res.Summary); err != nil {
		return err
	}
	if s, ok := a.parts.Strategy.(interface {
		WriteReport(fs disk.FS, dir string) error
	}); ok {
		if err := s.WriteReport(a.fs, a.dir("reports")); err != nil {
			return err
		}
	}
	return errors.Join(a.writeBroken(res.Stop), a.parts.Log.Sync(), a.parts.Events.Sync(), a.parts.Skipped.Sync(),
		flaws, // a damaged file of another program: the reports are about this crawl's
		a.sendSegments(res.Stop))
}

// Close closes all parts in the reverse order of Open, the lock last. A second call does
// nothing.
func (a *Agent) Close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	a.closers = nil
	return errors.Join(errs...)
}

// loopbackOnly is the resolver of a crawl without a contact. It knows only names with loopback addresses.
type loopbackOnly struct{ *dns.Resolver }

var errNoContact = fmt.Errorf("%w: without a contact only this machine is crawled", dns.ErrNotFound)

func (r loopbackOnly) Lookup(ctx context.Context, host string) (dns.Answer, error) {
	ans, err := r.Resolver.Lookup(ctx, host)
	if err != nil {
		return ans, err
	}
	for _, addr := range ans.Addrs {
		if !addr.Unmap().IsLoopback() {
			return dns.Answer{}, errNoContact
		}
	}
	return ans, nil
}
