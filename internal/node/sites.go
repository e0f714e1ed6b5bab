package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
)

// sitesDir has the table of hosts and their agents.
const sitesDir = "state/sites"

// siteOwners is a membership's part in PartitionSites: it answers which agent owns a host by what the coordinators say.
//
//	coordinators -> Follow -> sites.Sites -> Owner, Tenure, Had, Before, Heirs
//	             -> roster -> Changing: losses -> Changed: takeovers, ViewChanged
//	answers of coordinators and agents -> Right -> visits
//
// Gossip goes on: it says where other agents are and whether they answer. It does not say which agent owns a host.
type siteOwners struct {
	c     *membership
	table *sites.Sites

	asked   atomic.Bool // the table may be asked for hosts: the crawl has enough agents
	running atomic.Bool // the crawl loop runs, or is about to
	broken  chan error  // has the error that ends the following of the coordinators
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

// openSites opens the table of hosts, if coordinators assign them.
func (a *Agent) openSites() error {
	c := a.membership
	if c.cfg.partition() != PartitionSites {
		return nil
	}
	o := &siteOwners{c: c, broken: make(chan error, 1), changed: make(chan struct{}, 1), over: make(chan struct{}),
		state: assignment.Joining, restate: make(chan struct{}), tellers: make(chan struct{})}
	var err error
	o.table, err = sites.Open(sites.Config{
		FS: a.fs, Dir: a.dir(sitesDir), Coordinators: c.cfg.Coordinators, Source: o,
		Self: sites.Self{Name: c.members.Self.Name, Instance: c.members.Self.Instance,
			Boot: c.members.Self.Boot},
		MemoryBytes: a.budget.of(shareSites), Now: a.now,
		Assigned: o.assigned, Overflowed: o.overflowed, Changing: o.changing, Changed: o.applied,
		Event: o.event,
	})
	if err != nil {
		return err
	}
	a.onClose(o.table.Close)
	c.sites, c.members.Roster = o, o
	a.others.Right, a.others.WaitsFor, a.others.PeekOwner = o.table.Right().May, o.waits, o.table.Peek
	return nil
}

// begin follows the coordinators until ctx is done.
func (o *siteOwners) begin(ctx context.Context) {
	if o == nil {
		return
	}
	o.c.running.Go(func() {
		if err := o.table.Run(ctx); err != nil {
			o.broken <- err
		}
	})
	o.c.running.Go(func() { o.keepRight(ctx) })
}

// event writes an event of the table, with pairs of names and values.
func (o *siteOwners) event(name string, fields ...any) {
	o.c.event(name, report.Pairs(fields)...)
}

// owner returns the agent that owns a host by the last roster, or "" if it is not known.
func (o *siteOwners) owner(host string) string {
	if !o.asked.Load() {
		return "" // the first turn of the crawl loop asks again
	}
	name, mine := o.table.Owner(host)
	return o.known(name, mine)
}

// tenure returns the owner of a host, as owner does, and since when this agent owns it.
func (o *siteOwners) tenure(host string) (name string, since uint64) {
	if !o.asked.Load() {
		return "", 0
	}
	name, mine, since := o.table.Tenure(host)
	return o.known(name, mine), since
}

// known returns the owner that the coordinators name. It is not known if it has this agent's name and is another
// instance.
func (o *siteOwners) known(name string, mine bool) string {
	if name == o.c.members.Self.Name && !mine {
		return ""
	}
	return name
}

func (o *siteOwners) assigned(hosts []string) {
	if o.running.Load() {
		o.c.a.cluster.Assigned(hosts...)
	}
}

func (o *siteOwners) overflowed() {
	if o.running.Load() {
		o.c.a.cluster.Unanswered()
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

// Agent implements members.Roster.
func (o *siteOwners) Agent(name string) (gossip.Agent, bool) {
	if r := o.table.Roster(); r != nil {
		if _, ok := r.Member(name); ok {
			return rosterView(r).Agent(name)
		}
	}
	return gossip.Agent{}, false
}

// changing notes the agents that a roster no longer has, before any caller asks for the owner of their hosts.
func (o *siteOwners) changing(r *assignment.Roster) {
	if k := o.c.copies; k != nil && !r.Ended {
		k.lose(rosterView(r), o.table.Owners(), o.c.a.now())
	}
}

// applied tells all parts that a roster is in effect.
func (o *siteOwners) applied(r *assignment.Roster) {
	if o.c.copies != nil && !r.Ended {
		o.c.copies.takeOver()
	}
	up := []string{}
	for _, m := range r.Members {
		if m.State == assignment.Up {
			up = append(up, m.Name)
		}
	}
	o.c.a.parts.Events.Write("view", report.F("agents", up))
	signal(o.changed)
	if r.Ended {
		close(o.over) // there is no roster after it
		return
	}
	if o.running.Load() {
		o.c.a.cluster.ViewChanged()
	}
}

// changes receives a value when a roster has come into effect. It is nil if no coordinator assigns the hosts.
func (o *siteOwners) changes() <-chan struct{} {
	if o == nil {
		return nil
	}
	return o.changed
}

// failed receives the error that has ended the following of the coordinators. It is nil as changes is.
func (o *siteOwners) failed() <-chan error {
	if o == nil {
		return nil
	}
	return o.broken
}

// want tells the coordinators soon that this agent wants to have a state.
func (o *siteOwners) want(s assignment.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.state != s {
		o.state = s
		close(o.restate)
		o.restate = make(chan struct{})
	}
}

// wanted returns the state that this agent wants to have, and a channel that is closed when it changes.
func (o *siteOwners) wanted() (assignment.State, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.state, o.restate
}

// heardOf notes that a coordinator has answered a report with a state.
func (o *siteOwners) heardOf(s assignment.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told != s {
		o.told = s
		close(o.tellers)
		o.tellers = make(chan struct{})
	}
}

// leave tells the coordinators that this agent has ended, and waits for their answer until ctx is done. Without one
// they find out that it is silent.
func (o *siteOwners) leave(ctx context.Context) {
	if o == nil {
		return
	}
	if r := o.table.Roster(); r == nil || r.Ended {
		return
	}
	o.want(assignment.Gone)
	for {
		o.mu.Lock()
		told, more := o.told, o.tellers
		o.mu.Unlock()
		if told == assignment.Gone {
			return
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// last reports whether this agent wants to leave, and no other agent of the roster stays. The coordinators keep one
// agent up that does not leave.
func (o *siteOwners) last() bool {
	state, _ := o.wanted()
	r := o.table.Roster()
	if state != assignment.Leaving || r == nil || r.Ended {
		return false
	}
	return !slices.ContainsFunc(r.Members, func(m assignment.Member) bool {
		return m.State == assignment.Up && m.Name != o.c.members.Self.Name
	})
}

// isIn reports whether this agent is up in a roster, in this start.
func (o *siteOwners) isIn(r *assignment.Roster) bool {
	m, ok := r.Member(o.c.members.Self.Name)
	return ok && m.Instance == o.c.members.Self.Instance && m.Boot == o.c.members.Self.Boot && m.State == assignment.Up
}

// ready reports whether the crawl may begin: at least want agents are up in the roster, and this one is among them. An
// ended crawl may begin, too, and ends at once. Otherwise why says what is missing.
func (o *siteOwners) ready(want int) (why string) {
	if o == nil {
		return ""
	}
	r, text := o.table.Roster(), strings.TrimPrefix(o.table.Status().Waits, "waiting for ")
	if i := strings.Index(text, "): "); i >= 0 {
		text = text[:i+1]
	}
	if !strings.HasPrefix(text, "the coordinators") {
		text = "the coordinators"
	}
	switch {
	case r == nil:
		return text
	case r.Ended:
		return ""
	case !o.isIn(r):
		return text + " to take this agent into the crawl"
	}
	n := 0
	for _, m := range r.Members {
		if m.State == assignment.Up {
			n++
		}
	}
	if n < want {
		return fmt.Sprintf("the coordinators to take in %d agents; they have %d", want, n)
	}
	return ""
}

// agree reports whether the roster has the same agents as a view of gossip: then all agents that own hosts can be asked
// whether they are idle. It also reports whether no host waits for an agent.
func (o *siteOwners) agree(v *gossip.View) bool {
	if o == nil {
		return true
	}
	r := o.table.Roster()
	if r == nil || o.table.Status().Waiting > 0 {
		return false
	}
	for _, m := range r.Members {
		if a, ok := v.Agent(m.Name); !ok || a.Instance != m.Instance {
			return false
		}
	}
	for _, a := range v.Agents {
		if m, ok := r.Member(a.Name); a.State == gossip.Up && (!ok || m.Instance != a.Instance) {
			return false
		}
	}
	return true
}

// A point is a place in the stream of the coordinators: the last entry, and the term of the last roster.
type point struct{ term, number uint64 }

// at returns the point up to which this agent has applied the stream.
func (o *siteOwners) at() (p point) {
	if o != nil {
		p = point{o.table.View(), o.table.Number()}
	}
	return p
}

// digest identifies a view of gossip together with a point.
func (p point) digest(v *gossip.View) uint64 {
	if p == (point{}) {
		return v.Digest()
	}
	h := fnv.New64a()
	for _, n := range []uint64{v.Digest(), p.term, p.number} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, n)) // has no error
	}
	return h.Sum64()
}

// finishWait bounds the time in which all agents must tell the coordinators to end the crawl.
const finishWait = 3 * time.Second

// finish tells the coordinators that this agent agrees to end the crawl at a point. It reports whether all agents do.
func (o *siteOwners) finish(ctx context.Context, p point) bool {
	if o == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, finishWait)
	defer cancel()
	for ctx.Err() == nil {
		if r := o.table.Roster(); r != nil && r.Ended {
			return true
		}
		if leader := o.table.Status().Leader; leader != "" && o.at() == p {
			err := o.c.members.Client.Coordinator(leader).Finish(ctx, rpc.Finish{Term: p.term, Number: p.number})
			if err == nil {
				return true
			}
		} else if o.at() != p && !o.isOver() {
			return false
		}
		select {
		case <-time.After(endAgain):
		case <-ctx.Done():
		}
	}
	return o.isOver()
}

// isOver reports whether the coordinators have ended the crawl.
func (o *siteOwners) isOver() bool {
	select {
	case <-o.over:
		return true
	default:
		return false
	}
}

// errEnded reports a crawl that the coordinators have ended.
var errEnded = errors.New("the coordinators have ended this crawl")

// obey ends this agent's run when the coordinators have ended the crawl. Nothing waits then, unless the agent was
// not in the crawl at its end. Such an agent cannot ask the others about its hosts. It need not if it has no URLs.
func (o *siteOwners) obey(ctx context.Context, fail func(error)) {
	select {
	case <-o.over:
	case <-ctx.Done():
		return
	}
	p, err := o.c.a.cluster.Pulse(ctx)
	if err != nil {
		return
	}
	if o.c.ends.endOwn(ctx, p.Activity) {
		o.c.ends.ended.Store(true)
		o.c.admissions.set(ended)
		return
	}
	if left, err := o.c.a.cluster.EndWithoutLinks(ctx); err == nil && !left {
		o.c.ends.ended.Store(true)
		o.c.admissions.set(ended)
	} else if err == nil {
		fail(&input.Error{Text: fmt.Sprintf("--coordinator %s: %v, and URLs wait in %s; to crawl them, start the "+
			"coordinators and the agents with new directories", strings.Join(o.c.cfg.Coordinators, ","), errEnded,
			o.c.a.cfg.Dir)})
	}
}

// status returns what the coordinators say, for the status.
func (o *siteOwners) status() *report.Sites {
	s := o.table.Status()
	return &report.Sites{Number: s.Number, Last: s.Last, Term: s.Term, Leader: s.Leader, Hosts: s.Hosts,
		Waiting: s.Waiting, Unknown: s.Unknown, Dead: s.Dead, Discovered: s.Discovered, Hits: s.Hits, Misses: s.Misses,
		MemoryBytes: s.CacheBytes + s.TableBytes, DiskBytes: s.DiskBytes}
}

// waits says what this agent waits for, after "waiting for".
func (o *siteOwners) waits() string {
	text := o.table.Status().Waits
	if rest, ok := strings.CutPrefix(text, "waiting for "); ok || text == "" {
		return rest
	}
	return "the coordinators: " + text
}
