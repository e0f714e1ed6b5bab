package node

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/lease"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
)

// leaseEvery is the interval of calls to other agents. It is also the time within which a visit
// that has lost its lease is cut off.
const leaseEvery = 250 * time.Millisecond

// leases is a membership's part in the leases of addresses and sites. It implements frontier.Lease,
// carries the calls between agents and follows the views.
//
//	frontier (dispatcher) -> Peer -> Calls -> rpc -> another agent's Peer
//	freed points -> dispatcher; lost points -> visits cut off
type leases struct {
	a     *Agent
	batch int           // requests for which an agent keeps a host that others want; 0: each host has one agent
	some  chan struct{} // freed is not empty
	hurry chan struct{} // there may be urgent calls

	// mu guards the fields below. It is never held across a call. The dispatcher waits for no other
	// lock.
	mu     sync.Mutex
	peer   *lease.Peer
	view   *leaseView
	digest uint64                         // of the gossip view that view was made from
	known  map[lease.AgentID]gossip.Agent // agents of this and earlier views
	coming map[lease.AgentID]bool         // agents that were joining in the gossip view before
	before map[string]string              // agents of earlier runs: addresses by name
	freed  []uint64
	counts report.Leases
	kept   map[uint64]map[string]struct{} // hosts that this agent may have a connection to, by point; see Uses
}

// mostKept bounds the hosts of a point in leases.kept.
const mostKept = 256

// hostBatch is how many requests an agent makes at a host that others wait for. Each change costs about four messages,
// so 200 requests keep the leases below 0.1 messages a page.
const hostBatch = 200

// mostKnown bounds leases.known.
const mostKnown = 4096

// A leaseView is an immutable lease.View.
type leaseView struct {
	owners placement.Placement
	ids    map[string]lease.AgentID       // of the agents that grant leases, by name
	agents map[lease.AgentID]gossip.Agent // including agents that are leaving
	fresh  map[lease.AgentID]bool         // agents that were joining until this view
	over   map[lease.AgentID]bool
	silent map[lease.AgentID]time.Duration // agents that left: for how long this one had not heard from them
	gap    bool                            // an agent of an earlier run is missing
	digest uint64
	few    bool // few agents grant all points, because any agent may want any of them
}

// Owner implements lease.View.
func (v *leaseView) Owner(point uint64) lease.AgentID {
	if v.few {
		point = lease.FewGrantors(point)
	}
	return v.ids[v.owners.Owner(point).Name]
}

func (v *leaseView) Digest() uint64             { return v.digest }
func (v *leaseView) Has(a lease.AgentID) bool   { _, ok := v.agents[a]; return ok }
func (v *leaseView) Len() int                   { return len(v.agents) }
func (v *leaseView) Agents() []lease.AgentID    { return slices.Sorted(maps.Keys(v.agents)) }
func (v *leaseView) Fresh(a lease.AgentID) bool { return v.fresh[a] }
func (v *leaseView) Over(a lease.AgentID) bool  { return v.over[a] }
func (v *leaseView) Missing() bool              { return v.gap }

func (v *leaseView) Silent(a lease.AgentID) time.Duration { return v.silent[a] }

// leaseAgent identifies one start of an agent. It is never 0.
func leaseAgent(instance rpc.ID, boot uint64) lease.AgentID {
	b := binary.BigEndian.AppendUint64(instance[:len(instance):len(instance)], boot)
	return lease.AgentID(max(xxhash.Sum64(b), 1))
}

// newLeaseView returns the part of v that leases need, or nil if no agent crawls. An agent grants
// the leases of the points that it would own as hosts.
func newLeaseView(v *gossip.View, c *Cluster) (*leaseView, error) {
	up := agentsUp(v)
	if len(up) == 0 {
		return nil, nil
	}
	owners, err := c.place(up)
	if err != nil {
		return nil, err
	}
	l := &leaseView{
		owners: owners, ids: map[string]lease.AgentID{}, agents: map[lease.AgentID]gossip.Agent{}, few: c.byPages(),
	}
	var said []byte
	for _, a := range v.Agents {
		if a.State != gossip.Up && a.State != gossip.Leaving {
			continue
		}
		id := leaseAgent(a.Instance, a.Boot)
		l.agents[id] = a
		if a.State == gossip.Up {
			l.ids[a.Name] = id
		}
		said = fmt.Appendf(said, "%q %x %v %v\n", a.Name, uint64(id), a.Capacity, a.State)
	}
	l.digest = xxhash.Sum64(said)
	return l, nil
}

// follow sets over, silent and gap from agents that are not in v: known are those of earlier views,
// before those of earlier runs.
func (v *leaseView) follow(m *gossip.View, silent func(gossip.Agent) time.Duration,
	known map[lease.AgentID]gossip.Agent, before map[string]string) {
	v.over, v.silent = map[lease.AgentID]bool{}, map[lease.AgentID]time.Duration{}
	for id, a := range known {
		if _, there := v.agents[id]; there {
			continue
		}
		if v.silent[id] = silent(a); isOver(m, a) {
			v.over[id] = true
		}
	}
	for name := range before {
		if _, there := m.Agent(name); !there {
			v.gap = true
		}
	}
}

// mostLost is how long a list of lost agents must be before isOver no longer trusts it to be
// complete.
const mostLost = 1000

// isOver reports whether an agent that no longer crawls has said so, or has restarted. Only one
// process can have its crawl directory, so a restart ends the earlier process. An agent closes its
// connections before it says that it is gone.
func isOver(m *gossip.View, a gossip.Agent) bool {
	for _, b := range m.Agents {
		if b.Instance == a.Instance {
			return b.Boot > a.Boot || b.Boot == a.Boot && b.State == gossip.Gone
		}
	}
	lost := slices.ContainsFunc(m.Lost, func(b gossip.Agent) bool { return b.Instance == a.Instance })
	return !lost && len(m.Lost) < mostLost
}

// same reports whether two views are equal for leases.
func (v *leaseView) same(o *leaseView) bool {
	if v == nil || len(v.agents) != len(o.agents) || !slices.Equal(v.owners.Agents(), o.owners.Agents()) {
		return false
	}
	for id, a := range v.agents {
		if b, ok := o.agents[id]; !ok || a.Addr != b.Addr || a.State != b.State {
			return false
		}
	}
	return true
}

// openLeases creates the leases before the frontier is opened. It does so only in a cluster. If neither addresses nor
// sites have a delay, the leases are those of domains for which operators order a rate.
func (a *Agent) openLeases() {
	f, cl := &a.cfg.Frontier, a.cfg.Cluster
	if cl == nil {
		return
	}
	a.leases = &leases{
		a: a, some: make(chan struct{}, 1), hurry: make(chan struct{}, 1), known: map[lease.AgentID]gossip.Agent{},
	}
	f.Lease, a.others.Leases = a.leases, a.leases
	if cl.byPages() {
		f.HostLease, a.leases.batch = a.leases, hostBatch
	}
}

// begin creates the Peer.
func (l *leases) begin() {
	if l == nil {
		return
	}
	self := l.a.membership.members.Self
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = maps.Clone(l.a.membership.joining.who.Others)
	l.peer = lease.New(leaseAgent(self.Instance, self.Boot), lease.Config{Every: leaseEvery, Batch: l.batch}, l.a.now())
}

// look applies a view of the cluster.
func (l *leases) look(v *gossip.View) error {
	if l == nil {
		return nil
	}
	view, err := newLeaseView(v, &l.a.membership.cfg)
	if err != nil || view == nil {
		return err
	}
	digest := v.Digest()
	l.mu.Lock()
	defer l.done()
	if l.peer == nil {
		return nil // the run ends before the Peer exists
	}
	if l.digest = digest; !l.view.same(view) {
		view.fresh = l.coming
		view.follow(v, l.a.membership.members.Gossip().Silent, l.known, l.before)
		if len(l.known) > mostKnown {
			clear(l.known) // from now on Over is false for all of them
		}
		maps.Copy(l.known, view.agents)
		l.view = view
		l.peer.Look(view, l.a.now())
	}
	l.coming = map[lease.AgentID]bool{}
	for _, a := range v.Agents {
		if a.State == gossip.Joining {
			l.coming[leaseAgent(a.Instance, a.Boot)] = true
		}
	}
	return nil
}

// pinged returns contact as a callback, or nil without leases.
func (l *leases) pinged() func(digest uint64, sent time.Time) {
	if l == nil {
		return nil
	}
	return l.contact
}

// contact records that another agent answered a ping. digest is that of its view, sent the time of
// the ping.
func (l *leases) contact(digest uint64, sent time.Time) {
	l.mu.Lock()
	defer l.done()
	if l.peer != nil && l.view != nil && digest == l.digest {
		now := l.a.now()
		l.peer.Contact(now.Add(-time.Since(sent)), now)
	}
}

// done collects the freed points, unlocks mu and wakes the dispatcher if there are any.
func (l *leases) done() {
	if l.peer != nil {
		l.freed = append(l.freed, l.peer.Freed()...)
	}
	some := len(l.freed) > 0
	l.letGo()
	l.mu.Unlock()
	if some {
		signal(l.some)
	}
}

// letGo closes the connections to hosts whose leases were given back: another agent may contact them next. The caller
// holds mu.
func (l *leases) letGo() {
	if l.peer == nil {
		return
	}
	for _, point := range l.peer.Released() {
		hosts := l.kept[point]
		delete(l.kept, point)
		if len(hosts) >= mostKept {
			l.a.fetcher.LetAllGo()
		}
		for host := range hosts {
			l.a.fetcher.LetGo(host)
		}
	}
}

// Uses implements cluster.Leases. If each host has one agent, that agent keeps its connections.
func (l *leases) Uses(host string, points []uint64) {
	if l.batch == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = map[uint64]map[string]struct{}{}
	}
	for _, point := range points {
		hosts := l.kept[point]
		if hosts == nil {
			hosts = map[string]struct{}{}
			l.kept[point] = hosts
		}
		if _, there := hosts[host]; !there && len(hosts) < mostKept {
			hosts[strings.Clone(host)] = struct{}{}
		}
	}
}

// signal wakes the receiver of c. It does not block.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Want implements frontier.Lease, as do the next four.
func (l *leases) Want(point uint64, quiet time.Duration, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peer != nil { // links of an earlier run are queued before the Peer exists
		l.peer.Want(point, quiet, now)
	}
}

func (l *leases) Ready(point uint64, quiet time.Duration, now time.Time) (ok bool, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peer == nil { // the run ends before the Peer exists
		return false, now.Add(leaseEvery)
	}
	ok, at = l.peer.Ready(point, quiet, now)
	l.hasten()
	return ok, at
}

// hasten wakes tend if it has something to do. The caller holds mu.
func (l *leases) hasten() {
	if l.peer.Soon() {
		signal(l.hurry)
	}
}

func (l *leases) Begin(now time.Time, points ...uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peer.Begin(now, points...)
}

func (l *leases) Used(point uint64, end time.Time, quiet time.Duration, requested bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peer.Used(point, end, quiet, requested, now)
	l.hasten()
}

func (l *leases) Leave(point uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peer.Leave(point, now)
}

// Keep implements frontier.HostLease, as do Expect and Kept.
func (l *leases) Keep(point, key uint64, n frontier.LeaseNote, now time.Time) {
	out := lease.Note{Key: key, Delay: n.Delay, Slow: n.Slow, Print: n.Robots}
	if !n.NotBefore.IsZero() {
		out.Rest = n.NotBefore.Sub(now)
	}
	if !n.SlowUntil.IsZero() {
		out.Pause = n.SlowUntil.Sub(now)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peer.Keep(point, out, now)
}

func (l *leases) Expect(point uint64, due, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peer.Expect(point, due, now)
}

func (l *leases) Kept(point, key uint64, now time.Time) (n frontier.LeaseNote, ok bool) {
	l.mu.Lock()
	v, ago, ok := l.peer.Kept(point, key, now)
	l.mu.Unlock()
	if !ok {
		return n, false
	}
	n = frontier.LeaseNote{Delay: v.Delay, Slow: v.Slow, Robots: v.Print}
	if ago >= 0 {
		n.Ended = now.Add(-ago)
	}
	if v.Rest > 0 {
		n.NotBefore = now.Add(v.Rest)
	}
	if v.Slow > 0 || v.Pause != 0 {
		n.SlowUntil = now.Add(v.Pause)
	}
	return n, true
}

// Grip implements cluster.Leases.
func (l *leases) Grip() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.peer.Grip(l.a.now())
}

// Counts implements cluster.Leases.
func (l *leases) Counts() report.Leases {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// serve answers a lease call of another agent.
func (l *leases) serve(_ context.Context, from rpc.Caller, raw []byte) ([]byte, error) {
	b, err := lease.ParseBatch(raw)
	if err != nil {
		return nil, &rpc.Refusal{Reason: "lease", Text: err.Error()}
	}
	l.mu.Lock()
	if l.peer == nil || b.From != leaseAgent(from.Instance, from.Boot) {
		l.mu.Unlock()
		return nil, rpc.ErrAgain
	}
	defer l.done()
	ans, err := l.peer.Serve(b, l.a.now())
	if err != nil {
		return nil, rpc.ErrAgain // one of the two agents does not have the other's view yet
	}
	l.counts.Messages++
	signal(l.hurry)
	return ans.AppendTo(nil), nil
}

// tend makes the calls, cuts off visits and reports freed points until ctx is done.
func (l *leases) tend(ctx context.Context) {
	if l == nil {
		return
	}
	l.a.membership.running.Go(func() {
		tick, wake := time.NewTicker(leaseEvery), time.NewTimer(time.Hour)
		defer tick.Stop()
		defer wake.Stop()
		for {
			select {
			case <-tick.C:
				l.turn(ctx)
			case <-l.hurry:
				l.hurryUp(ctx)
			case <-wake.C:
				l.hurryUp(ctx)
			case <-ctx.Done():
				return
			}
			if d := l.wake(); d > 0 {
				wake.Reset(d)
			}
		}
	})
	l.a.membership.running.Go(func() {
		for {
			select {
			case <-l.some:
			case <-ctx.Done():
				return
			}
			l.mu.Lock()
			freed := l.freed
			l.freed = nil
			l.mu.Unlock()
			l.a.cluster.Permits.Leased(freed)
		}
	})
}

// hurryUp makes the calls that cannot wait for the next turn.
func (l *leases) hurryUp(ctx context.Context) {
	l.mu.Lock()
	l.carry(ctx, l.peer.Hurry(l.a.now()))
}

func (l *leases) wake() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.peer == nil {
		return 0
	}
	return l.peer.Wake()
}

// turn does the periodic work, every leaseEvery.
func (l *leases) turn(ctx context.Context) {
	l.mu.Lock()
	if l.peer == nil {
		l.mu.Unlock()
		return
	}
	now := l.a.now()
	lost, grip := l.peer.Lost(now), l.peer.Grip(now)
	l.mu.Unlock()
	var cut int
	if len(lost) > 0 {
		cut = l.a.cluster.Permits.CutOff(lost)
	}
	if !grip { // other agents may soon contact our hosts
		l.a.fetcher.LetAllGo()
	}
	l.mu.Lock()
	l.counts.CutOff += int64(cut)
	l.carry(ctx, l.peer.Calls(now))
}

// carry makes calls in the background. The caller holds mu; carry releases it.
func (l *leases) carry(ctx context.Context, calls []*lease.Batch) {
	view := l.view
	l.counts.Messages += int64(len(calls))
	for _, b := range calls {
		l.counts.Asked += int64(len(b.Asks))
	}
	l.done()
	for _, b := range calls {
		raw := b.AppendTo(nil) // encode now: the Peer keeps b
		l.a.membership.running.Go(func() { l.call(ctx, view.agents[b.To], b, raw) })
	}
}

// call makes one call and gives the answer to the Peer.
func (l *leases) call(ctx context.Context, to gossip.Agent, b *lease.Batch, raw []byte) {
	var ans *lease.Batch
	out, err := l.a.membership.members.To(to).Lease(ctx, raw)
	if err == nil {
		ans, err = lease.ParseBatch(out)
	}
	l.mu.Lock()
	defer l.done()
	if err == nil && ans.From == b.To {
		err = l.peer.Answered(ans, l.a.now())
	}
	if err != nil || ans.From != b.To {
		l.peer.Failed(b, l.a.now())
	}
	signal(l.hurry)
}
