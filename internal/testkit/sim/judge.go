package sim

import (
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A judge records all requests, as the web sees them, and judges them at the end. It knows the pages
// from the generated web, and uses no code of the crawler but the placement of hosts (loss.go). All
// methods are safe for concurrent use.
type judge struct {
	made  *gen.Web
	truth *gen.Truth
	delay [groups]time.Duration

	hostPages int64 // as in Plan
	hostDepth int
	roots     bool
	moves     bool           // pages move between agents
	anyHost   bool           // every agent may fetch any page, once
	exclusive bool           // coordinators see to it that no two agents own a host at the same time
	refetches bool           // the pages of lost archives are fetched again
	wanted    map[page]bool  // pages that applications reach; guarded by mu
	rounds    int            // as in Plan
	keeps     *regexp.Regexp // pages that the archive gets; nil: all
	refused   map[int]bool   // agents that came after the coordinators had ended the crawl
	expects   int64          // about the number of pages that a crawl fetches; zero: all that are reachable

	mu         sync.Mutex // guards the fields below
	groups     [groups]map[string]*group
	pages      map[page][]fetched
	others     map[string][]fetched // by URL: complete answers that are no page with status 200, such as redirects
	halted     bool                 // an operator has paused the crawl
	excluding  bool                 // an operator has excluded pages
	seedNumber int64                // of the last seed that an operator gave
	seedsTaken []*pb.Seed           // that the agents have accepted
	spared     int64                // requests for other pages in that time
	outage     bool                 // some agent could not reach the web for a while
	begins     []time.Time          // of all requests, if the plan has a Rate
	rated      bool                 // likewise
	ends       []time.Time          // of all requests
	reachable  int64                // reachable pages that were fetched
	beyond     int64                // fetches of unreachable pages
	robots     int64                // requests for a robots.txt
	shared     int64                // requests to an address or a site that another agent used before
	violations []Violation
	excuses    []excuse           // fetches that nobody knows of
	apart      []separation       // times in which agents did not hear each other
	restores   []restore          // returns with older copies of disks
	replaced   []restore          // starts with empty disks of agents that had others
	away       []excuse           // times in which agents were not there
	unread     []excuse           // when an agent's archive could not be read by others; only with applications
	early      []excuse           // times after agents finished the crawl without others
	pause      time.Duration      // of a host that answers with a Retry-After; zero: the frontier's default
	slowed     map[int64]int      // number of answers with a Retry-After, by host
	pauses     []excuse           // what hosts rest after these answers
	skipped    []excuse           // times in which an agent may have forgotten pauses
	losses     map[int64][]loss   // by host
	unassigned []excuse           // times in which new hosts may get no agent
	logged     map[string][]wayTo // by URL, at the end; see readDepths
	depths     map[string]depthRange
	sites      siteTimes
	reads      reads                  // from the web, by all agents; if rated
	gone       map[string][]time.Time // by URL, if pages move: when an archive with a record of it was lost
	forgotten  []excuse               // agents' periods of which the disks, and with them the archives, are lost
	final      []excuse               // those of forgotten that were lost after the agents had agreed to the end
}

// siteTimes are the begins of the requests to some sites.
type siteTimes map[string][]time.Time

// A group is the set of requests that must keep a delay: those to one host, address or registered
// domain.
type group struct {
	by        []requests // one for each agent
	last      served
	notBefore time.Time // from a Retry-After
	notBy     int       // the agent that got it
}

// A requests holds the requests of one agent to a group.
type requests struct {
	agent  int
	active int
	ended  time.Time // end of the last response
	host   string    // of the last request
}

// of returns the requests of an agent.
func (g *group) of(agent int) *requests {
	i := slices.IndexFunc(g.by, func(r requests) bool { return r.agent == agent })
	if i < 0 {
		i, g.by = len(g.by), append(g.by, requests{agent: agent})
	}
	return &g.by[i]
}

const (
	byHost = iota
	byAddr
	bySite
	groups
)

var groupNames = [groups]string{"host", "address", "site"}

type page struct{ host, number int64 }

// A fetched is one complete response with a page.
type fetched struct {
	agent int
	at    time.Time
}

// A served is one request.
type served struct {
	j      *judge
	host   testweb.OriginHost
	agent  int
	target string
	began  time.Time
}

// A Violation is a request that broke a rule of politeness.
type Violation struct {
	Kind  string        // "gap", "concurrent", "robots", "retry-after", "crawl-delay", "paused" or "excluded"
	Group string        // "host", "address" or "site" for a gap
	URL   string        // of the request
	Agent int           // the agent that made it
	At    time.Duration // since the story began
	Gap   time.Duration // since the end of that agent's last request of the group
	After int           // the agent whose request or Retry-After came before; may be the same
	Host  bool          // the previous request was to the same host
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %s: a%d asked for %s %s after a%d's (by %s)",
		v.Kind, v.At, v.Agent, v.URL, v.Gap, v.After, v.Group)
}

// An excuse is a time. It covers the fetches of an agent in it: nobody else may know of them, and
// these pages may be fetched again.
type excuse struct {
	agent    int
	from, to time.Time
}

func (e excuse) covers(agent int, at time.Time) bool {
	return e.agent == agent && !at.Before(e.from) && !at.After(e.to)
}

func newJudge(made *gen.Web, truth *gen.Truth, host, addr, site time.Duration) *judge {
	j := &judge{made: made, truth: truth, pages: map[page][]fetched{}, others: map[string][]fetched{},
		losses: map[int64][]loss{}, slowed: map[int64]int{}, gone: map[string][]time.Time{}}
	j.delay = [groups]time.Duration{byHost: host, byAddr: addr, bySite: site}
	for i := range j.groups {
		j.groups[i] = map[string]*group{}
	}
	return j
}

// start is the time at which all stories begin: the initial virtual time of a bubble.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (j *judge) excuse(e excuse) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.excuses = append(j.excuses, e)
}

// begin records a request and compares it with the requests before it.
func (j *judge) begin(h testweb.OriginHost, agent int, target string, at time.Time) *served {
	v := &served{j: j, host: h, agent: agent, target: target, began: at}
	j.mu.Lock()
	defer j.mu.Unlock()
	if target == "/robots.txt" {
		j.robots++
	}
	if j.rated {
		j.begins = append(j.begins, at)
	}
	if s, ok := j.sites[h.Site]; ok {
		j.sites[h.Site] = append(s, at)
	}
	if j.halted {
		j.violate("paused", byHost, v, requests{}, 0)
	}
	switch {
	case !j.excluding:
	case excluded.MatchString(target):
		j.violate("excluded", byHost, v, requests{}, 0)
	default:
		j.spared++
	}
	for k, name := range v.names() {
		g := j.groups[k][name]
		if g == nil {
			g = &group{}
			j.groups[k][name] = g
		}
		g.of(agent)
		for _, r := range g.by {
			switch gap := at.Sub(r.ended); {
			case r.active > 0 && (k == byHost || j.delay[k] > 0):
				j.violate("concurrent", k, v, r, 0)
			case !r.ended.IsZero() && gap < j.delay[k]:
				j.violate("gap", k, v, r, gap)
			}
		}
		if k == byHost && at.Before(g.notBefore) {
			by := g.of(g.notBy)
			j.violate("retry-after", k, v, *by, at.Sub(by.ended))
		}
		if k == byHost {
			j.tooSoon(v, g)
		}
		if k != byHost && g.last.agent != 0 && g.last.agent != agent {
			j.shared++
		}
		own := g.of(agent)
		own.active++
		own.host = h.Name
		g.last = *v
	}
	return v
}

func (v *served) names() [groups]string {
	return [groups]string{v.host.Name, v.host.Addr.String(), v.host.Site}
}

// violate records a violation: v came too early after the requests r of an agent. The caller holds
// mu.
func (j *judge) violate(kind string, k int, v *served, r requests, gap time.Duration) {
	j.violations = append(j.violations, Violation{
		Kind: kind, Group: groupNames[k], URL: "http://" + v.host.Name + v.target, Agent: v.agent,
		At: v.began.Sub(start), Gap: gap, After: r.agent, Host: r.host == v.host.Name,
	})
}

// end records the end of a request, and its response at the same time if it is complete.
func (v *served) end(host int64, r testweb.Reply, at time.Time, whole bool) {
	if v.ended(host, r, at); whole {
		v.fetched(host, r, at)
	}
}

// ended records the end of a request.
func (v *served) ended(host int64, r testweb.Reply, at time.Time) {
	j := v.j
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ends = append(j.ends, at)
	for k, name := range v.names() {
		g := j.groups[k][name]
		own := g.of(v.agent)
		own.active--
		own.ended = later(own.ended, at)
		if r.RetryAfter > 0 && k == byHost {
			g.notBefore, g.notBy = at.Add(r.RetryAfter), v.agent
			j.slowed[host]++
			j.pauses = append(j.pauses, excuse{from: at, to: at.Add(max(r.RetryAfter, j.pauseOf(j.slowed[host])))})
		}
	}
	if r.Denied {
		j.violate("robots", byHost, v, requests{agent: v.agent, host: v.host.Name}, 0)
	}
}

// unreadWithin bounds the time from the end of a response until the agent has read it and written what it tells, in
// a network without latency.
const unreadWithin = 3 * time.Millisecond

// dies notes that an agent ends now without having read the responses since a time. It need not know their
// Retry-After.
func (j *judge) dies(agent int, since time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, g := range j.groups[byHost] {
		if g.notBy == agent && g.of(agent).ended.After(since) {
			g.notBefore = time.Time{}
		}
	}
}

// fetched records a complete response.
func (v *served) fetched(host int64, r testweb.Reply, at time.Time) {
	j := v.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if r.Page < 0 || r.Status != 200 {
		url := "http://" + v.host.Name + v.target
		j.others[url] = append(j.others[url], fetched{v.agent, at})
		return
	}
	p := page{host, r.Page}
	switch {
	case j.truth.Has(host, r.Page) && len(j.pages[p]) == 0:
		j.reachable++
	case !j.truth.Has(host, r.Page) && j.wanted[p]:
		return // the crawl need not follow its links
	case !j.truth.Has(host, r.Page):
		j.beyond++
	}
	j.pages[p] = append(j.pages[p], fetched{v.agent, at})
}

// visits returns how often a page is fetched if nothing goes wrong. Of a page that the archive does not get, two
// applications and the crawl fetch one each.
func (j *judge) visits(url string) int {
	if !j.isKept(url) {
		return 3
	}
	return 1 + j.rounds
}

// isKept reports whether the archive gets a page.
func (j *judge) isKept(url string) bool { return j.keeps == nil || j.keeps.MatchString(url) }

// share returns the share of the reachable pages that were fetched so far.
func (j *judge) share() float64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := j.expects
	if all == 0 {
		all = j.truth.Reachable()
	}
	return float64(j.reachable) / float64(max(all, 1))
}

// by returns how many pages an agent has fetched since a time.
func (j *judge) by(agent int, since time.Time) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, fs := range j.pages {
		for _, f := range fs {
			if f.agent == agent && !f.at.Before(since) {
				n++
			}
		}
	}
	return n
}

// A Verdict is the result of a story.
type Verdict struct {
	Reachable, Fetched int64
	Missed             []string      // URLs that were not fetched although an agent knew a link, at most ten
	MissedExcused      int64         // pages that were not fetched, and that a fault explains
	Beyond             int64         // fetches of pages that no crawl should reach
	Twice              int64         // repeated fetches of pages
	Unexcused          int64         // repeated fetches that no fault explains; the others are excused
	Repeats            []string      // their URLs with all fetches, at most ten
	By                 map[int]int64 // pages by the number of agents that fetched them
	Robots, Queries    int64         // requests for a robots.txt, and queries to the name server
	Shared             int64         // requests to an address or a site that another agent used before
	Spared             int64         // requests for other pages while some were excluded
	Violations         []Violation
	Excused            []Violation   // violations that a fault explains
	Stall              time.Duration // the longest time without an answer while there was work
	StallAt            time.Duration // start of Stall
	Took               time.Duration // virtual time of the crawl
	Stalled            bool          // Stall is longer than a wait for an agent's death explains
	Lost, Hosts        int64         // hosts of which a fault may have lost all copies, and all hosts
	Wrong              []string      // all other faults of agents, in words
	Seeded, SeedsTwice int           // seeds that an operator gave and the agents accepted; repeated fetches of them
	SeedsMissed        []string      // those of them that were not fetched
	DeadTries          int           // tries of dead ports
	Struck             []Kind        // kinds of the faults that happened
	Log                []string      // the story's events
	AgentEvents        []string      // of a bad story: what the agents wrote to events.jsonl, by their clocks

	Ends     map[string]crawl.Stop // stop reasons of the agents that were not killed
	Visits   map[string]int        // if the plan has a Walk: visits to URLs by all walkers
	Archived map[string][]string   // for each URL, the agents that have a record of it
	// Pages, Unique and Shipped are counts of the agents that were not killed: their pages, the
	// URLs that they know, and the bytes that they sent to heirs.
	Pages, Unique, Shipped int64
	Contents               report.Contents // if the plan has Mirrors: some sums over the summaries
}

// Bad reports whether the story broke a promise.
func (v *Verdict) Bad() bool {
	return len(v.Missed)+len(v.SeedsMissed)+len(v.Violations)+len(v.Wrong) > 0 || v.Unexcused > 0 || v.Beyond > 0 ||
		v.Stalled
}

// Void reports whether a fault may have lost all copies of what agents knew of every host. Pages
// fetched before the fault may be fetched again.
func (v *Verdict) Void() bool { return v.Lost > 0 && v.Lost == v.Hosts }

// Partly reports whether a fault may have lost all copies of what agents knew of some hosts.
func (v *Verdict) Partly() bool { return v.Lost > 0 && v.Lost < v.Hosts }

// String returns the verdict as text.
func (v *Verdict) String() string {
	s := fmt.Sprintf("%d of %d pages, %d twice (%d without a reason), %d violations (%d more excused), ",
		v.Fetched, v.Reachable, v.Twice, v.Unexcused, len(v.Violations), len(v.Excused))
	s += fmt.Sprintf("stall %s at %s, took %s", v.Stall, v.StallAt, v.Took)
	if v.Beyond > 0 {
		s += fmt.Sprintf(", %d fetches of pages that the crawl should not reach", v.Beyond)
	}
	if v.Stalled {
		s += ", a stall that no fault explains"
	}
	if v.Lost > 0 {
		s += fmt.Sprintf(", all copies of %d of %d hosts may be lost, %d pages missed for that",
			v.Lost, v.Hosts, v.MissedExcused)
	}
	for _, w := range v.Violations[:min(5, len(v.Violations))] {
		s += "\n  " + w.String()
	}
	for _, w := range v.Wrong {
		s += "\n  " + w
	}
	for _, r := range v.Repeats {
		s += "\n  twice: " + r
	}
	if len(v.Missed) > 0 {
		s += fmt.Sprintf("\n  missed: %v", v.Missed)
	}
	if len(v.By) > 1 {
		s += fmt.Sprintf("\n  pages by the number of agents that fetched them: %v", v.By)
	}
	return s
}

// verdict judges the pages and the requests. end is when the last agent ended. In the times of
// still, nothing could be fetched. In those of bad, the network was bad, and a stall may be longer by
// them.
func (j *judge) verdict(end time.Time, still, bad []excuse) *Verdict {
	j.mu.Lock()
	defer j.mu.Unlock()
	v := &Verdict{By: map[int]int64{}, Reachable: j.truth.Reachable(), Fetched: j.reachable, Beyond: j.beyond,
		Robots: j.robots, Shared: j.shared, Spared: j.spared, Took: end.Sub(start),
		Lost: int64(len(j.losses)), Hosts: j.made.Hosts()}
	v.Missed, v.MissedExcused = j.missed()
	j.judgeSeeds(v)
	var times []time.Time
	j.truth.Each(func(host, number int64) {
		fs := j.pages[page{host, number}]
		if len(fs) == 0 {
			return
		}
		slices.SortFunc(fs, func(a, b fetched) int { return a.at.Compare(b.at) })
		times = append(times, fs[0].at)
		unexcused, all, by := int64(0), j.truth.URL(host, number), map[int]bool{}
		url := all
		for i, f := range fs {
			by[f.agent] = true
			all += fmt.Sprintf(", a%d at %s", f.agent, f.at.Sub(start))
			earlier := fs[:i]
			if j.anyHost {
				earlier = slices.DeleteFunc(slices.Clone(earlier), func(e fetched) bool { return e.agent != f.agent })
			}
			if len(earlier) == 0 || len(earlier) < j.visits(url) {
				continue
			}
			v.Twice++
			if j.mayFetch(host, number, earlier, f) {
				all += " (excused)"
			} else {
				unexcused++
			}
		}
		v.By[len(by)]++
		v.Unexcused += unexcused
		if unexcused > 0 && len(v.Repeats) < 10 {
			v.Repeats = append(v.Repeats, all)
		}
	})
	for _, w := range j.violations {
		if j.mayViolate(w) {
			v.Excused = append(v.Excused, w)
		} else {
			v.Violations = append(v.Violations, w)
		}
	}
	times = append(times, j.ends...) // answers without a page are work, too
	slices.SortFunc(times, func(a, b time.Time) int { return a.Compare(b) })
	last, explained := start, slices.Concat(still, bad)
	for _, at := range times {
		if gap := uncovered(last, at, still); gap > v.Stall {
			v.Stall, v.StallAt = gap, last.Sub(start)
		}
		v.Stalled = v.Stalled || uncovered(last, at, explained) > j.stallBound()
		last = at
	}
	return v
}

// lastPage returns when the last page was fetched, and when all requests since then ended.
func (j *judge) lastPage() (last time.Time, requests []time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last = start
	for _, fs := range j.pages {
		for _, f := range fs {
			last = later(last, f.at)
		}
	}
	for _, at := range j.ends {
		if at.After(last) {
			requests = append(requests, at)
		}
	}
	return last, requests
}

// rests returns the times in which hosts rest because they have asked for it, and the most that one
// of them has asked.
func (j *judge) rests() (pauses []excuse, most int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, n := range j.slowed {
		most = max(most, n)
	}
	return j.pauses, most
}

// pauseOf returns how long an agent lets a host rest after the host's nth answer with a Retry-After:
// as long as the plan says, and twice as long for each further one, up to 16 times as long, within a
// tenth.
func (j *judge) pauseOf(n int) time.Duration {
	pause := j.pause
	if pause == 0 {
		pause = time.Minute
	}
	return pause * 11 / 10 << min(n-1, 4)
}

// stallBound is the longest permitted time without a page while there is work, and until an agent
// ends when there is none. The cluster notices a death after up to 8 s. If two agents die, the leases of
// the dead end up to 11 s later. Then an heir waits for what others know of the hosts.
const stallBound = 30 * time.Second

// refetchWait is how long agents without other work wait until they fetch the pages of lost archives again. They may
// wait twice: the wait begins anew when an agent joins or is lost.
const refetchWait = time.Minute

func (j *judge) stallBound() time.Duration {
	if j.refetches {
		return stallBound + 2*refetchWait
	}
	if j.rounds > 0 {
		return stallBound + revisitAfter
	}
	return stallBound
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
