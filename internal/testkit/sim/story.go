package sim

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// A story is a Plan in execution.
type story struct {
	plan   Plan
	t      testing.TB
	made   *gen.Web
	net    *simnet.Network
	web    *web
	judge  *judge
	actors []*actor
	store  *teststore.Sim       // nil: states are not saved
	model  *classify.Classifier // nil: the one in the program

	coordinators []*coordinator

	unassigned    []excuse      // times in which new hosts may get no agent; guarded by stage
	uncoordinated time.Duration // how long the coordinators may not have worked so far; guarded by stage
	silent        []string      // what is wrong with what agents say; guarded by stage

	keys    map[string]*testdisk.Mem
	struck  []Kind // faults that happened
	running sync.WaitGroup
	played  atomic.Bool  // the faults of the plan have begun
	pending atomic.Int64 // parts of the story that have not happened yet

	answered chan struct{} // an operator's Seed or Orders is over

	stage    sync.Mutex // guards the fields below, and the actors
	overlays []func(from, to int, p simnet.Path) simnet.Path
	still    []excuse     // times in which nothing can be fetched
	outages  []outage     // times in which hosts cannot be reached
	apart    []separation // times in which agents do not know what others do
	bad      []excuse     // times of bad networks, until the agents agree again, and of other waits
	orders   []*order     // to agents
	ranks    [][]int      // for each host, the actors in the order in which they own it; nil: unknown

	mu     sync.Mutex // guards lines, and writes to events
	lines  []string
	events io.Writer // each line is written here at once; nil: nowhere
}

func (s *story) log(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf("%10.3fs  ", time.Since(start).Seconds()) + fmt.Sprintf(format, args...)
	s.lines = append(s.lines, line)
	if s.events != nil {
		io.WriteString(s.events, line+"\n") // the story goes on without
	}
}

// web makes the web of a story. A web of so few pages that none can be linked from other hosts alone has no crosslinked
// pages, whatever the plan says.
func (p Plan) web() (*gen.Web, error) {
	spec := gen.Plain(p.Seed, p.Hosts)
	spec.PagesMean, spec.MaxPages, spec.PageBytes, spec.Links = p.Pages, int64(8*p.Pages), 3000, 10
	spec.Addresses, spec.Crosslinked = p.Addresses, p.Crosslinked
	spec.Busy, spec.Failing, spec.Slow, spec.Broken, spec.Gone = p.Busy, p.Failing, p.Failing, p.Broken, p.Broken
	spec.Redirects, spec.DeadLinks, spec.CrawlDelays, spec.CrawlDelay = p.Redirects, p.Redirects, p.Delays, 3*p.Delay
	if p.Mirrors {
		spec.Mirrors, spec.Duplicates = 0.15, 0.1
	}
	if p.Topics > 0 {
		spec.Topics, spec.Languages, spec.Local, spec.Locality = p.Topics, 1, 0.3, 0.8
		spec.PageBytes = 6000 // enough words for a category
	}
	web, err := gen.New(spec)
	if err != nil && spec.Crosslinked > 0 {
		spec.Crosslinked = 0
		return gen.New(spec)
	}
	return web, err
}

// Tell runs a story to its end, in a bubble of testing/synctest. If events is not nil, Tell writes
// each event to it as it happens: if the process ends before the story, there is no Verdict. events
// must not wait.
func Tell(t testing.TB, p Plan, events io.Writer) *Verdict {
	_, v := tellAll(t, p, events)
	return v
}

// tellAll also returns the story, for measurements of what a Verdict does not have.
func tellAll(t testing.TB, p Plan, events io.Writer) (*story, *Verdict) {
	return tellFrom(t, p, events, nil)
}

// tellFrom is tellAll. If began is not nil, it is called when the agents have been started.
func tellFrom(t testing.TB, p Plan, events io.Writer, began func(*story)) (*story, *Verdict) {
	return tellIn(t, p, events, p.newStore(), began)
}

// tellIn is tellFrom. The agents save their states in a store, which may be nil.
func tellIn(t testing.TB, p Plan, events io.Writer, store *teststore.Sim, began func(*story)) (*story, *Verdict) {
	p = p.withDefaults()
	s := &story{plan: p, t: t, net: simnet.New(p.Seed), events: events, answered: make(chan struct{})}
	s.net.Until, s.store = until, store
	var err error
	if s.made, err = p.web(); err != nil {
		t.Fatal(err)
	}
	if err := s.learn(); err != nil {
		t.Fatal(err)
	}
	truth, err := s.made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true, Roots: p.SeedRoots,
		TwoLevel: p.TwoLevel})
	if err != nil {
		t.Fatal(err)
	}
	s.judge = newJudge(s.made, truth, p.least(), p.Shared, p.Shared)
	s.judge.pause, s.judge.rated = p.Pause, p.Rate != ""
	s.judge.bound(p)
	s.web = newWeb(s.net, s.made, s.judge)
	s.web.waves = p.Waves
	var names []string
	for i := range p.Agents + p.Spare {
		a := &actor{s: s, number: i + 1, name: fmt.Sprintf("a%d", i+1)}
		a.addr = addrOf(i + 1)
		names = append(names, a.name)
		s.actors = append(s.actors, a)
	}
	if s.keys, err = makeKeys(names, s.addCoordinators()); err != nil {
		t.Fatal(err)
	}
	s.compose()
	for _, f := range p.Faults {
		if f.Kind == Clock && f.At == 0 && f.After == 0 {
			s.actors[f.Agent-1].clock.set(f.For)
		}
	}
	for _, c := range s.coordinators {
		c.newDisk()
		c.start()
	}
	for _, a := range s.actors[:p.Agents] {
		a.newDisk()
		a.start(false, p.Agents)
	}
	if p.Coordinators > 0 {
		s.running.Go(s.operate)
	}
	if began != nil {
		began(s)
	}
	s.play()
	s.played.Store(true)
	return s, s.finish()
}

// excuseLateComers excuses the fetches of agents that came back while others were ending or had
// ended, or that were separated from them then. Such an agent finds no other agent, and continues
// alone with what it knows.
func (s *story) excuseLateComers() {
	for _, a := range s.actors {
		if a.run == nil || a.run.killed {
			continue
		}
		for _, o := range s.actors {
			if o.endedCrawl() && a.cameLate(o) {
				from := o.run.at.Add(-lateBefore)
				s.judge.separate(separation{from: from, to: time.Now(), between: of(a.number), polite: true})
				s.still = append(s.still, excuse{from: a.run.began, to: a.run.began.Add(restartTime)})
			}
		}
	}
}

// lateBefore is how long an agent may take to join the others.
const lateBefore = 10 * time.Second

// finish waits until all agents have ended, and returns the verdict.
func (s *story) finish() *Verdict {
	for deadline := time.Now().Add(2 * time.Hour); ; time.Sleep(100 * time.Millisecond) {
		if s.isOver() {
			break
		}
		if time.Now().After(deadline) {
			s.log("the crawl does not end")
			for _, a := range s.actors {
				if a.run != nil && !a.run.ended() {
					a.kill()
				}
			}
			break
		}
	}
	coordinators := s.stopCoordinators()
	s.excuseLateComers()
	s.excuseRefused()
	s.excuseCut()
	for _, a := range s.actors {
		a.wasAway()
	}
	pauses, most := s.judge.rests()
	for i := range s.still { // hosts that rested before rest longer when they cannot be reached
		s.still[i].to = s.still[i].to.Add(s.judge.pauseOf(most+1) - s.judge.pauseOf(1))
	}
	waits := adoptions(s.actors)
	s.bad, s.still = append(append(s.bad, pauses...), waits...), append(s.still, waits...)
	s.readDepths()
	if s.plan.Partition == sites {
		s.judge.unassigned = s.unassigned
	}
	v := s.judge.verdict(time.Now(), s.still, s.bad)
	v.DeadTries = s.web.dead.all()
	v.Queries = s.web.queries.Load()
	v.Ends, v.Archived = map[string]crawl.Stop{}, map[string][]string{}
	end := crawl.Finished
	switch limited := s.plan; {
	case limited.PageLimit > 0:
		v.Missed, end = nil, crawl.PageLimit
	case limited.TimeLimit > 0:
		v.Missed, end = nil, crawl.TimeLimit
	}
	if s.plan.TwoLevel { // links between two hosts of one agent lead beyond, others nowhere
		v.Missed, v.Beyond = nil, 0
	}
	if s.plan.Walk > 0 {
		v.Missed, v.Visits = nil, map[string]int{}
	}
	if s.plan.Mirrors { // the agents do not follow the links of duplicates, so they miss pages
		v.Missed = nil
	}
	all := s.archives()
	last, requests := s.judge.lastPage()
	explained := slices.Concat(s.still, s.bad)
	for _, a := range s.actors {
		if a.run == nil || a.gone {
			continue
		}
		late := a.isAlone() || a.newcomer && s.cameTooLate(a) || a.isRefused()
		if !a.run.killed {
			if !late { // such an agent waits for others, for up to two minutes
				v.Wrong = append(v.Wrong, s.idle(a, last, requests, explained)...)
			}
			v.Ends[a.name] = a.run.result.Stop
			v.Pages += a.run.result.Summary.Pages
			v.Unique += a.run.result.Summary.Unique
			v.Shipped += a.shipped()
		}
		if !a.run.killed && a.run.err == nil {
			v.Wrong = append(v.Wrong, a.addVisits(v.Visits)...)
		}
		switch p := a.run; {
		case p.killed:
			v.Wrong = append(v.Wrong, a.name+" did not end by itself")
		case late:
			// It started when the crawl was ending, or met no agent before.
		case p.err == nil && p.result.Stop == crawl.Left && !a.leaving:
			v.Wrong = append(v.Wrong, a.name+" left, although nobody told it to")
		case p.err != nil || p.result.Stop != end && p.result.Stop != crawl.Left:
			v.Wrong = append(v.Wrong, fmt.Sprintf("%s: ended as %q, error: %v", a.name, p.result.Stop, p.err))
		case p.result.Summary.Queued != 0 && end == crawl.Finished:
			v.Wrong = append(v.Wrong, fmt.Sprintf("%s: %d URLs left", a.name, p.result.Summary.Queued))
		default:
			wrong, records := a.audit()
			v.Wrong = append(v.Wrong, wrong...)
			for u, n := range records {
				for ; n > 0; n-- {
					v.Archived[u] = append(v.Archived[u], a.name)
				}
			}
		}
	}
	v.Wrong = append(append(v.Wrong, coordinators...), s.silent...)
	v.Wrong = append(v.Wrong, s.disobeyed()...)
	v.Wrong = append(v.Wrong, unadopted(s.actors)...)
	v.Wrong = append(v.Wrong, s.judge.exceeded()...)
	v.Wrong = append(v.Wrong, s.judge.archived(all)...)
	v.Wrong = append(v.Wrong, s.linked(all)...)
	if s.plan.Mirrors {
		h := s.holdings(all)
		v.Wrong, v.Contents = append(v.Wrong, h.judge(len(s.plan.Faults) > 0)...), h.counts
	}
	s.running.Wait()
	// End the remaining connections, and let the last timers of libraries run out.
	s.web.self.Kill()
	time.Sleep(5 * time.Minute)
	v.Struck, v.Log = s.struck, s.lines
	if v.Bad() {
		v.AgentEvents = s.agentEvents()
	}
	return v
}
