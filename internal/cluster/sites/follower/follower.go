// Package follower answers: what does an agent of a crawl with coordinators hear from them, and what does it tell them?
//
//	coordinators -> Follow -> sites.Sites -> owners of hosts
//	             -> roster -> Agent.Lose, Agent.TakeOver, Crawl.ViewChanged
//	this agent   -> the state that it wants, what waits -> Follow
//	answers of coordinators and agents -> Right -> visits
//
// Gossip goes on: it says where other agents are and whether they answer. It does not say which agent owns a host.
package follower

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/sites"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/wake"
)

// An Agent is what a Follower asks of its agent. Safe for concurrent use.
type Agent interface {
	// Waiting returns how many hosts and URLs wait.
	Waiting() (hosts, urls uint64)
	// Unchecked reports whether a host is to be assigned without looking for its address.
	Unchecked(host string) bool
	// Lose tells of a roster, as a view, before any caller asks for the owner of a host by it. owner answers by the
	// roster before, as sites.Sites.Owners does.
	Lose(v *gossip.View, owner func(host string) (agent string))
	// TakeOver tells that the roster is in effect.
	TakeOver()
}

// A Crawl is the crawl loop.
type Crawl interface {
	// Assigned tells of hosts whose owner was asked for, and may be known now.
	Assigned(hosts ...string)
	// Unanswered tells that hosts whose owner was asked for were forgotten: ask for them again.
	Unanswered()
	// ViewChanged tells that another roster is in effect.
	ViewChanged()
}

// Visits are the visits of the crawl loop.
type Visits interface {
	// Resume tells that visits may begin again.
	Resume()
	// CutAll ends all visits, and returns how many.
	CutAll() int
}

// Config configures a Follower.
type Config struct {
	// Sites configures the table. Source, Self and the callbacks are the Follower's.
	Sites   sites.Config
	Members *members.Members // of which a Follower uses Self and Crawl
	Calls   Calls
	// Settings must be equal for all agents, at any time.
	Settings map[string]string
	Agent    Agent
	Events   *report.Events
}

// A Follower is an agent's part in a crawl whose coordinators assign the hosts. The methods are safe for concurrent
// use. Those that say so may be called for a nil Follower: no coordinator assigns the hosts.
// It implements members.Roster, sites.Listener and sites.Source.
type Follower struct {
	cfg   Config
	Table *sites.Sites // who owns which host

	asked   atomic.Bool // the table may be asked for hosts: the crawl has enough agents
	crawl   atomic.Pointer[loop]
	broken  chan error // has the error that ends the following of the coordinators
	changed chan struct{}
	over    chan struct{} // closed when a roster says that the crawl has ended

	// keepRight owns may and lost: there was a right to start visits when it last looked, and the one before was lost.
	may, lost bool

	mu      sync.Mutex       // guards the fields below
	state   assignment.State // that this agent wants to have
	restate chan struct{}    // closed when state changes
	told    assignment.State // the last state that a coordinator has answered
	tellers chan struct{}    // closed when told changes
}

// A loop is what takes calls while the crawl loop runs.
type loop struct {
	Crawl
	Visits
}

// Open opens the table of hosts. Close closes it.
func Open(cfg Config) (*Follower, error) {
	f := &Follower{cfg: cfg, broken: make(chan error, 1), changed: make(chan struct{}, 1), over: make(chan struct{}),
		state: assignment.Joining, restate: make(chan struct{}), tellers: make(chan struct{})}
	self := cfg.Members.Self
	cfg.Sites.Source, cfg.Sites.Self = f, sites.Self{Name: self.Name, Instance: self.Instance, Boot: self.Boot}
	cfg.Sites.Listener = f
	var err error
	f.Table, err = sites.Open(cfg.Sites)
	return f, err
}

// Close closes the table, after Run has ended.
func (f *Follower) Close() error { return f.Table.Close() }

// Run follows the coordinators until ctx is done. A nil Follower returns at once.
func (f *Follower) Run(ctx context.Context) {
	if f == nil {
		return
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Table.Run(ctx); err != nil {
			f.broken <- err
		}
	})
	running.Go(func() { f.keepRight(ctx) })
	running.Wait()
}

// Answer lets Owner and Tenure answer, for the crawl has enough agents. A nil Follower has nothing to answer.
func (f *Follower) Answer() {
	if f != nil {
		f.asked.Store(true)
	}
}

// Attach gives the crawl loop, which runs or is about to.
func (f *Follower) Attach(c Crawl, v Visits) { f.crawl.Store(&loop{c, v}) }

// IsAttached reports whether Attach was called.
func (f *Follower) IsAttached() bool { return f.crawl.Load() != nil }

// Event implements sites.Listener: it writes an event, with pairs of names and values.
func (f *Follower) Event(name string, fields ...any) {
	f.cfg.Events.Write(name, report.Pairs(fields)...)
	f.cfg.Events.Flush() // the crawl's next flush reports the error
}

// Owner returns the agent that owns a host by the last roster, or "" if it is not known.
func (f *Follower) Owner(host string) string {
	if !f.asked.Load() {
		return "" // the first turn of the crawl loop asks again
	}
	name, mine := f.Table.Owner(host)
	return f.known(name, mine)
}

// Tenure returns the owner of a host, as Owner does, and since when this agent owns it.
func (f *Follower) Tenure(host string) (name string, since uint64) {
	if !f.asked.Load() {
		return "", 0
	}
	name, mine, since := f.Table.Tenure(host)
	return f.known(name, mine), since
}

// known returns the owner that the coordinators name. It is not known if it has this agent's name and is another
// instance.
func (f *Follower) known(name string, mine bool) string {
	if name == f.cfg.Members.Self.Name && !mine {
		return ""
	}
	return name
}

func (f *Follower) Assigned(hosts []string) {
	if l := f.crawl.Load(); l != nil {
		l.Assigned(hosts...)
	}
}

func (f *Follower) Overflowed() {
	if l := f.crawl.Load(); l != nil {
		l.Unanswered()
	}
}

// rosterView returns a roster as a view of gossip. Its states have the same values.
func rosterView(r *assignment.Roster) *gossip.View {
	v := &gossip.View{}
	list := func(ms []assignment.Member) (as []gossip.Agent) {
		for _, m := range ms {
			as = append(as, gossip.Agent{Name: m.Name, Instance: m.Instance, Boot: m.Boot, Capacity: m.Capacity,
				Addr: m.Addr, State: gossip.State(m.State)})
		}
		return as
	}
	v.Agents, v.Lost = list(r.Members), list(r.Lost)
	return v
}

func (f *Follower) Agent(name string) (gossip.Agent, bool) {
	if r := f.Table.Roster(); r != nil {
		if _, ok := r.Member(name); ok {
			return rosterView(r).Agent(name)
		}
	}
	return gossip.Agent{}, false
}

// Changing implements sites.Listener. It notes the agents that a roster no longer has, before any caller asks for the
// owner of their hosts.
func (f *Follower) Changing(r *assignment.Roster) {
	if !r.Ended {
		f.cfg.Agent.Lose(rosterView(r), f.Table.Owners())
	}
}

// Changed implements sites.Listener. It tells all parts that a roster is in effect.
func (f *Follower) Changed(r *assignment.Roster) {
	if !r.Ended {
		f.cfg.Agent.TakeOver()
	}
	up := []string{}
	for _, m := range r.Members {
		if m.State == assignment.Up {
			up = append(up, m.Name)
		}
	}
	f.cfg.Events.Write("view", report.F("agents", up))
	wake.Up(f.changed)
	if r.Ended {
		close(f.over) // there is no roster after it
		return
	}
	if l := f.crawl.Load(); l != nil {
		l.ViewChanged()
	}
}

// Changes receives a value when a roster has come into effect. It is nil for a nil Follower.
func (f *Follower) Changes() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.changed
}

// Failed receives the error that has ended the following of the coordinators. It is nil for a nil Follower.
func (f *Follower) Failed() <-chan error {
	if f == nil {
		return nil
	}
	return f.broken
}

// Over is closed when the coordinators have ended the crawl.
func (f *Follower) Over() <-chan struct{} { return f.over }

// Keep tells that this agent has links of a host since before its start; see sites.Sites.Keep.
func (f *Follower) Keep(host string) { f.Table.Keep(host) }

// Peek returns the owner of a host, and asks nobody for it. Safe for concurrent use.
func (f *Follower) Peek(host string) (agent string, mine bool) { return f.Table.Peek(host) }

// Status returns what the coordinators say, for the status.
func (f *Follower) Status() *report.Sites {
	s := f.Table.Status()
	return &report.Sites{Number: s.Number, Last: s.Last, Term: s.Term, Leader: s.Leader, Hosts: s.Hosts,
		Waiting: s.Waiting, Unknown: s.Unknown, Dead: s.Dead, Discovered: s.Discovered, Hits: s.Hits, Misses: s.Misses,
		MemoryBytes: s.CacheBytes + s.TableBytes, DiskBytes: s.DiskBytes}
}

// Waits says what this agent waits for, after "waiting for".
func (f *Follower) Waits() string {
	text := f.Table.Status().Waits
	if rest, ok := strings.CutPrefix(text, "waiting for "); ok || text == "" {
		return rest
	}
	return "the coordinators: " + text
}
