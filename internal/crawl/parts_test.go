package crawl

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/plan"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A bench has the parts of a crawl loop, without the loop: no visit begins, and the test is the dispatcher.
// It implements dropper.
type bench struct {
	*testing.T
	*testparts.Parts
	fs       *testdisk.Faulty
	mem      *testdisk.Mem
	cfg      Config
	run      *run.Run
	gate     *orders.Gate
	visits   *visit.Pool
	ledger   *ledger.Ledger
	book     *retry.Book
	origins  retry.Origins
	failures retry.Failures
	cluster  Cluster
	apps     *applications.Set
	plan     plan.Plan
	progress progress
	skips    skips
	intake   *Intake
	orders   *Orders

	dropped []string    // links that were found before their host was dropped
	sealed  []string    // what each batch of the journal has of accepts and finishes
	left    []link.Link // pending links of an earlier run
	numbers []uint64    // of their accepts
}

// A setting changes the parts before they are connected.
type setting func(*bench, *visit.Parts, *testparts.Config)

// planned gives the crawl a Planner.
func planned(p visit.Planner) setting {
	return func(_ *bench, parts *visit.Parts, _ *testparts.Config) { parts.Strategy = p }
}

// A diary is a Planner that wants nothing, and notes what it is told.
type diary struct {
	visit.Planner
	visited []visit.Visit
	forgot  []string // hosts
}

func (*diary) Follow(*visit.Page, *link.Link) visit.Choice { return visit.Take }

func (d *diary) Visited(v *visit.Visit) ([]byte, error) {
	d.visited = append(d.visited, *v)
	return nil, nil
}

func (d *diary) Forget(host string, _ time.Time) { d.forgot = append(d.forgot, host) }

// on returns the parts on a disk. The crawl has the seeds http://a.example/ and http://b.example/.
func on(t *testing.T, mem *testdisk.Mem, with ...setting) *bench {
	t.Helper()
	b := &bench{T: t, mem: mem, fs: testdisk.NewFaulty(mem, nil), run: run.New(), book: retry.NewBook(1)}
	open := testparts.Config{Accept: func(items []keyset.Item) error { return b.intake.Accept(items) },
		Frontier: frontier.Config{NoAddresses: true, Gather: true,
			ClassOf: func(l *link.Link) uint8 { return b.apps.ClassOf(l) }},
		Seeds: []weburl.URL{weburl.MustParse("http://a.example/"), weburl.MustParse("http://b.example/")}}
	b.cfg = Config{Seed: 1, Config: visit.Config{Clock: clock.System}}
	var parts visit.Parts
	for _, f := range with {
		f(b, &parts, &open)
	}
	b.cfg = b.cfg.withDefaults()
	var err error
	b.Parts, err = testparts.Open(b.fs, open)
	must.Do(t, err)
	b.apps = &applications.Set{Run: b.run, Frontier: b.Frontier, Pages: b.Delivery, Cluster: &b.cluster,
		MostUncollected: b.cfg.Uncollected}
	b.gate = orders.NewGate(b.run, gateLoop{&b.cluster, b.Seen, &b.origins, &b.plan}, b.Frontier, b.Events)
	parts.Scope, parts.Robots, parts.Fetch, parts.Archive = b.Scope, b.Robots, b.Fetch, b.Archive
	parts.Events, parts.Applications, parts.Gate, parts.Owners = b.Events, b.apps, b.gate, b.cluster.Owners
	b.visits = visit.New(b.cfg.Config, parts, 1)
	b.progress = progress{cfg: &b.cfg, visits: b.visits}
	b.failures = retry.Failures{Tally: b.Tally, Rules: b.Robots}
	b.skips = skips{tally: b.Tally, log: b.Skipped, clock: b.cfg.Clock}
	widened := &widened{scope: b.Scope}
	past := new(pastClock)
	past.delays = map[string]time.Duration{}
	spans := spans{b.Tally, &b.progress, past}
	b.ledger = ledger.New(ledger.Config{Clock: b.cfg.Clock, CommitEvery: b.cfg.CommitEvery, SyncEvery: b.cfg.SyncEvery,
		SnapshotBytes: b.cfg.SnapshotBytes}, ledger.Parts{Run: b.run, Crawl: &ledgerCrawl{spans, &b.skips, b.visits},
		Journal: b.Journal, Seen: b.Seen, Tally: b.Tally, Events: b.Events, Syncers: []ledger.Syncer{b.Delivery},
		Participants: []ledger.Participant{spans, widened, &tallyCounts{tally: b.Tally, skips: &b.skips}, &b.failures,
			queryCounts{b.Queries}, b.gate, b.apps, hostStates{&b.origins, past}, sealer{b}}})
	b.apps.Ledger = b.ledger
	b.origins = retry.NewOrigins(b.cfg.Config, retry.Parts{Run: b.run, Book: b.book, Frontier: b.Frontier,
		Robots: b.Robots, Tally: b.Tally, Events: b.Events, Visits: b.visits, Gate: b.gate, Ledger: b.ledger})
	planner, _ := parts.Strategy.(visit.Planner)
	b.plan = plan.New(plan.Parts{Planner: planner, Run: b.run, Ledger: b.ledger, Queues: &b.origins, Archive: b.Archive,
		Owners: b.cluster.Owners, Moves: b.cluster.Moves})
	b.intake = &Intake{run: b.run, gate: b.gate, visits: b.visits, ledger: b.ledger, frontier: b.Frontier,
		seen: b.Seen, tally: b.Tally, queries: b.Queries, strategy: parts.Strategy, cluster: &b.cluster, apps: b.apps,
		origins: &b.origins, failures: &b.failures, plan: &b.plan, skips: &b.skips, widened: widened, loop: b,
		limits: &limits{cfg: &b.cfg}}
	b.orders = &Orders{cfg: &b.cfg, run: b.run, gate: b.gate, frontier: b.Frontier, book: b.book, origins: &b.origins,
		ledger: b.ledger, events: b.Events, scope: b.Scope, cluster: &b.cluster, plan: &b.plan, apps: b.apps,
		progress: &b.progress}
	_, err = b.ledger.Recover(b.fs, b.JournalDir(), b.Intact, ledger.Evidence{}, restart{b})
	must.Do(t, err)
	b.ledger.Begin(time.Now())
	t.Cleanup(func() { _ = b.Close() }) // a broken disk may fail it
	return b
}

// serve lets a goroutine be the dispatcher until the test ends.
func (b *bench) serve() {
	b.run.Begin()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case f := <-b.run.Calls():
				f(time.Now())
			case <-b.run.Ended():
				return
			}
		}
	}()
	b.Cleanup(func() { b.run.End(); <-done; b.run.Wait() })
}

// restarted returns the parts after a power failure.
func (b *bench) restarted(with ...setting) *bench {
	b.Helper()
	return on(b.T, b.mem.Crash(1), with...)
}

func (b *bench) acceptDropped(enc []byte, number uint64) error {
	l, _, err := link.Decode(enc)
	b.dropped = append(b.dropped, fmt.Sprint(l.URL.Path(), " ", number))
	return err
}

// A sealer notes what each batch has.
type sealer struct{ b *bench }

func (sealer) Kinds() []ledger.Kind                           { return nil }
func (sealer) Save(func(byte, []byte) error, time.Time) error { return nil }
func (sealer) Load(byte, []byte) error                        { return nil }
func (s sealer) Seal(batch *ledger.Batch) error {
	text := ""
	err := batch.EachAccept(func(kind byte, _ uint64, enc []byte) error {
		l, _, err := link.Decode(enc)
		text += fmt.Sprintf(" %c%s", kind, l.URL.Path())
		return err
	})
	batch.EachFinish(func(f *state.Finish) { text += " finish " + f.Link.URL.Path() })
	s.b.sealed = append(s.b.sealed, strings.TrimSpace(text))
	return err
}

// restart takes what the ledger finds.
type restart struct{ *bench }

func (restart) Accepted(byte, link.Link)         {}
func (restart) Saw(*state.Finish)                {}
func (restart) Read()                            {}
func (restart) Planned(link.Link, []byte) error  { return nil }
func (restart) Queued() error                    { return nil }
func (restart) Restored(*ledger.Recovered, bool) {}
func (r restart) Dropped(n uint64, l link.Link) (bool, error) {
	return r.gate.Dropped(l.URL.Host(), n), nil
}
func (r restart) Pending(number uint64, l link.Link) error {
	r.left, r.numbers = append(r.left, l), append(r.numbers, number)
	return nil
}

// pending returns the pending links of an earlier run, sorted.
func (b *bench) pending() (urls []string) {
	for _, l := range b.left {
		urls = append(urls, l.App()+strings.TrimPrefix(l.URL.String(), "http:/"))
	}
	slices.Sort(urls)
	return urls
}

// links judges URLs as those of a page.
func (b *bench) links(urls ...string) *visit.Links {
	var ls visit.Links
	for _, u := range urls {
		l := foundAt(u)
		b.visits.Links.Judge(&ls, l, l.Key())
	}
	return &ls
}

func foundAt(url string) link.Link {
	return link.Link{URL: weburl.MustParse(url), Via: "http://a.example/", Hops: "L", Seed: "a.example"}
}

// queue takes all links from the frontier, and returns their paths with the numbers of their accepts, sorted.
func (b *bench) queue() (all []string) {
	b.Helper()
	for now := time.Now(); ; now = now.Add(time.Minute) {
		t, _, ok := b.Frontier.Next(now)
		if !ok {
			if b.Frontier.Stats().Resting == 0 {
				slices.Sort(all)
				return all
			}
			continue
		}
		all = append(all, fmt.Sprint(t.Link.URL.Path(), " ", t.Number))
		must.Do(b.T, b.Frontier.Done(t.Host, frontier.Done{NoRequest: true}, now))
	}
}

// tiny makes the seen-set hold links back.
func tiny(_ *bench, _ *visit.Parts, c *testparts.Config) { c.Seen = testparts.Tiny(0) }

// scoped sets the scope.
func scoped(cfg scope.Config) setting {
	return func(_ *bench, _ *visit.Parts, c *testparts.Config) { c.Scope = cfg }
}

// retryOf returns a URL that waits for its retry.
func retryOf(url string) retry.Delayed {
	return retry.Delayed{At: time.Now().Add(time.Hour), Link: foundAt(url), Number: 1, Attempt: 1}
}
