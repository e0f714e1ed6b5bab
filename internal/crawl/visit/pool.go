package visit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// A Pool makes visits: it has the workers, and all that a worker needs. It decides nothing about a URL, and knows
// nothing about the journal, the frontier and retries: it fills a visit, and the dispatcher settles the visit. Safe for
// concurrent use, except New and Recycle.
//
//	tasks -> robots.txt -> fetch -> archive -> parse -> scope -> results
type Pool struct {
	cfg Config
	Parts
	planner Planner // the Strategy, if it is a Planner
	reader  Reader  // likewise
	Links   Follower

	free     []*Attempt // visits not in use; the dispatcher's
	tasks    chan *Attempt
	results  chan *Attempt // capacity: every visit and look-up that can be under way
	slow     slowVisits
	handing  handing
	closing  atomic.Bool // visits that have not begun must not begin
	inFlight sync.WaitGroup
	sitemaps sync.Mutex // held while a worker reads a sitemap
}

// Parts are the parts that visits use.
type Parts struct {
	Scope        *scope.Scope
	Robots       *robots.Cache
	Sheets       *sheet.Live // nil: no settings of hosts
	Fetch        Fetcher
	Archive      *warc.Writer
	Near         NearDuplicates // nil: the crawl does not look for near-duplicates
	Rate         *rate.Limiter  // nil: no limit of requests or bits a second
	Events       *report.Events
	LinkLog      *linklog.Writer // nil: no link log
	Strategy     Strategy        // nil: breadth-first
	Pages        Pages           // nil: no callback
	Owners       Owners          // nil: this agent crawls all hosts
	Contents     Contents        // nil: contents are not compared
	Boundary     Boundary        // nil: this agent keeps all pages that it fetches
	Sharing      Sharing         // nil: no other agent's archive is asked
	Applications Applications
	Gate         Gate
}

// Owners answer: whose is this host? Safe for concurrent use.
type Owners interface {
	// Owner returns the agent that crawls a host. mine reports that it is this agent. If agent is
	// empty and mine is false, the owner is not known yet.
	Owner(host string) (agent string, mine bool)
}

// Applications are the applications that share the crawl. Safe for concurrent use.
type Applications interface {
	// Of returns the application with a name, or nil.
	Of(name string) *Application
	// Any reports that there are or were applications, now or in an earlier run.
	Any() bool
}

// A Gate says whether a visit may begin that the dispatcher has handed to the workers. Safe for concurrent use.
type Gate interface {
	// HeldBack reports whether the operator's orders keep a request of v from being sent.
	HeldBack(v *Attempt) bool
	// Overtaken reports whether the operator has dropped v's host in the meantime.
	Overtaken(v *Attempt) bool
}

// New returns a Pool without workers. cfg has its defaults, see WithDefaults. lookUps bounds the look-ups that
// are under way at a time.
func New(cfg Config, parts Parts, lookUps int) *Pool {
	p := &Pool{cfg: cfg, Parts: parts}
	p.planner, _ = parts.Strategy.(Planner)
	p.reader, _ = parts.Strategy.(Reader)
	p.Links = Follower{cfg: &p.cfg, Scope: p.Scope, Strategy: p.Strategy, planner: p.planner, reader: p.reader,
		owners: p.Owners, boundary: p.Boundary, Applications: p.Applications, known: new(known)}
	p.tasks = make(chan *Attempt, p.cfg.Handed())
	p.results = make(chan *Attempt, p.cfg.Handed()+max(p.cfg.SlowVisits, 0)+lookUps)
	p.slow.init()
	return p
}

// Start starts the workers. ctx ends their work.
func (p *Pool) Start(ctx context.Context) {
	for i := range p.cfg.Workers {
		p.inFlight.Go(func() { p.work(ctx, i+1) })
	}
}

// Begin hands a visit to the workers. Results has it when it has ended. It blocks when the workers have Config.Handed
// visits.
func (p *Pool) Begin(v *Attempt) { p.tasks <- v }

// Results returns the visits that have ended, and those of Ended.
func (p *Pool) Results() <-chan *Attempt { return p.results }

// Ended puts a visit whose look-up has ended among the results.
func (p *Pool) Ended(v *Attempt) { p.results <- v }

// More returns a channel that has an item when a visit has become slow: then a worker is free.
func (p *Pool) More() <-chan struct{} { return p.slow.more }

// Refuse abandons all visits that have been handed to the workers and have not begun.
func (p *Pool) Refuse() { p.closing.Store(true) }

// End waits for the workers. No visit may begin any more.
func (p *Pool) End() {
	close(p.tasks)
	p.inFlight.Wait()
}

// Slow returns the number of slow visits.
func (p *Pool) Slow() int { return p.slow.len() }

// Handing returns the number of calls of Pages that run, and since when none has returned.
func (p *Pool) Handing() (calls int, since time.Time) { return p.handing.state() }

// Know tells the workers that the seen-set has a key. Only the dispatcher calls it.
func (p *Pool) Know(k link.Key) { p.Links.known.add(k) }

// New returns a visit for t. It reuses an old visit if there is one.
func (p *Pool) New(t frontier.Task) *Attempt {
	if n := len(p.free); n > 0 {
		v := p.free[n-1]
		p.free = p.free[:n-1]
		v.Reset(t)
		return v
	}
	v := &Attempt{}
	v.Reset(t)
	return v
}

// Recycle keeps a visit for reuse. It drops a visit that has grown large.
func (p *Pool) Recycle(v *Attempt) {
	v.Page.HTML.Release()
	v.Page.Shown, v.Plan().link, v.Plan().Offered = Page{}, link.Link{}, nil
	if clear(v.Skipped); cap(v.Skipped) > 1<<12 { // they point into the page's memory
		v.Skipped = nil
	}
	if cap(v.Found) > 1<<14 {
		v.Found = nil
	}
	if cap(v.Encoded) <= 1<<20 && len(p.free) < 2*p.cfg.Workers {
		p.free = append(p.free, v)
	}
}

// work makes visits until there are no more, or until a slow visit continues in the worker's
// place.
func (p *Pool) work(ctx context.Context, thread int) {
	w := &worker{p: p, thread: thread}
	w.timer = time.AfterFunc(time.Hour, func() { w.tick(ctx) })
	w.timer.Stop()
	for {
		select {
		case p.slow.resume <- w.thread: // before new visits
			return
		default:
		}
		select {
		case p.slow.resume <- w.thread:
			return
		case v, ok := <-p.tasks:
			if !ok {
				return
			}
			v.Thread, v.worker = w.thread, w
			if p.closing.Load() || p.Gate.HeldBack(v) || p.Gate.Overtaken(v) || !v.Permit.valid() {
				v.Outcome = Abandoned // the visit had not begun
			} else {
				v.Err = p.visit(ctx, v)
			}
			v.worker = nil
			p.results <- v
			if w.replaced {
				return
			}
		}
	}
}
