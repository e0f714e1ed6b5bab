package termination

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
)

var errSilent = errors.New("no answer")

// A world is the agents of one crawl in virtual time. Calls and changes of the view take time. It knows each link that
// an agent has accepted, and judges each end by that alone. It implements Stream.
type world struct {
	t       *testing.T
	ctx     context.Context
	running sync.WaitGroup

	mu     sync.Mutex // guards what follows
	chance *rand.Rand
	lossy  bool
	agents []*agent
	truth  []gossip.Agent // what each agent sees at last
	links  int            // how many links were accepted
	undone map[int]bool   // links that were accepted, and are not visited
	visits int
	sites  chan struct{} // closed when the coordinators have ended the crawl
	refuse bool          // the coordinators do not agree to end
}

// A waiting link is one that leads to depth links of depth-1.
type waiting struct{ id, depth int }

// A store is what an agent keeps on its disk.
type store struct {
	queue, out []waiting // for itself, and for other agents
	known      map[int]bool
	lost       []waiting // the pages of lost archives
	visits     int64
	wrecked    bool // the agent does not come back
}

// An agent is one start of an agent. It implements Agent and Others.
type agent struct {
	*world
	*Agreement
	name      string
	boot      uint64
	disk      *store
	ctx       context.Context
	kill      context.CancelFunc
	there     bool // it runs
	ended     bool
	closed    bool
	held      time.Time
	stalled   bool      // it visits nothing
	unclaimed bool      // a saved state waits for an agent
	silent    time.Time // until then no call reaches it or comes from it

	activity uint64
	view     *gossip.View // never changes; learn replaces it
	applied  bool
	expected map[string]time.Time
}

// facts are what a test looks at.
type facts struct {
	ended, closed bool      // closed: it admits no agent any more
	held          time.Time // until then it admits none
	activity      uint64
	view          uint64
}

// look returns the facts of now.
func (a *agent) look() facts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return facts{a.ended, a.closed, a.held, a.activity, a.view.Digest()}
}

func (w *world) At() follower.Point { return follower.Point{} }

func (w *world) Finish(context.Context, follower.Point) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.refuse
}

func (w *world) Over() <-chan struct{} { return w.sites }

// newWorld returns a world of agents that are idle. It ends with ctx.
func newWorld(ctx context.Context, t *testing.T, n int, seed uint64) *world {
	w := &world{t: t, ctx: ctx, chance: rand.New(rand.NewPCG(seed, 0)), undone: map[int]bool{},
		sites: make(chan struct{})}
	for i := range n {
		w.truth = append(w.truth, member(fmt.Sprintf("a%d", i), 1))
	}
	for _, m := range w.truth {
		w.agents = append(w.agents, &agent{name: m.Name, disk: &store{known: map[int]bool{}}})
		w.start(len(w.agents) - 1)
	}
	return w
}

func member(name string, boot uint64) gossip.Agent {
	return gossip.Agent{Name: name, Boot: boot, Instance: [16]byte{name[1]}, Capacity: 1, State: gossip.Up}
}

// start starts agent i with its disk. The caller has the lock, or nothing else runs.
func (w *world) start(i int) {
	was := w.agents[i]
	a := &agent{world: w, name: was.name, boot: was.boot + 1, disk: was.disk, there: true, applied: true,
		view: w.snapshot(), expected: map[string]time.Time{}}
	a.ctx, a.kill = context.WithCancel(w.ctx)
	a.Agreement = New(Config{Self: a.name, Others: a, Sites: w, Agent: a, Clock: clock.System})
	a.crawl = loop{a}
	w.agents[i] = a
	w.running.Go(func() { a.Seek(a.ctx) })
	w.running.Go(a.work)
}

func (w *world) snapshot() *gossip.View { return &gossip.View{Agents: slices.Clone(w.truth)} }

// upTo returns a random time.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.chance.Int64N(int64(d))) }

// after does f with the lock later, while a start of an agent lives.
func (a *agent) after(d time.Duration, f func()) {
	a.running.Go(func() {
		if clock.Pause(a.ctx, d) {
			a.mu.Lock()
			defer a.mu.Unlock()
			f()
		}
	})
}

// change makes members the truth. Each agent hears of it at another time.
func (w *world) change(members []gossip.Agent) {
	slices.SortFunc(members, func(a, b gossip.Agent) int { return strings.Compare(a.Name, b.Name) })
	w.truth = members
	for _, a := range w.agents {
		if a.there {
			a.after(max(0, time.Until(a.silent))+w.upTo(time.Second), a.learn)
		}
	}
}

// without returns the members that have another name.
func (w *world) without(name string) []gossip.Agent {
	return slices.DeleteFunc(slices.Clone(w.truth), func(m gossip.Agent) bool { return m.Name == name })
}

// learn tells an agent the truth. It takes over what agents that are gone have left, if it is the first by name.
func (a *agent) learn() {
	a.view, a.applied = a.snapshot(), false
	a.activity++
	v := a.view
	a.after(a.upTo(300*time.Millisecond), func() {
		if a.view != v {
			return
		}
		for _, b := range a.agents {
			if _, in := v.Agent(b.name); !in && !b.there && !b.ended && v.Agents[0].Name == a.name {
				d := b.disk
				a.accept(append(d.queue, d.out...)...)
				a.disk.lost = append(a.disk.lost, d.lost...)
				d.queue, d.out, d.lost, d.known = nil, nil, nil, map[int]bool{}
			}
		}
		a.applied = true
		a.activity++
	})
}

// accept makes links of this agent durable.
func (a *agent) accept(ls ...waiting) {
	for _, l := range ls {
		if !a.disk.known[l.id] && a.undone[l.id] {
			a.disk.known[l.id] = true
			a.disk.queue = append(a.disk.queue, l)
		}
	}
	a.activity++
}

// found accepts a new link, of whatever owner.
func (a *agent) found(depth int) {
	l := waiting{a.links, depth}
	a.links++
	a.undone[l.id] = true
	if a.owner(l) == a.name {
		a.accept(l)
	} else {
		a.disk.out = append(a.disk.out, l)
		a.activity++
	}
}

func (a *agent) owner(l waiting) string { return a.view.Agents[l.id%len(a.view.Agents)].Name }

// work visits and sends until the agent has ended.
func (a *agent) work() {
	for clock.Pause(a.ctx, 50*time.Millisecond) {
		a.mu.Lock()
		if a.ended {
			a.mu.Unlock()
			return
		}
		if d := a.disk; len(d.queue) > 0 && !a.stalled {
			l := d.queue[0]
			d.queue = d.queue[1:] // with the links, in one batch
			if a.undone[l.id] {
				delete(a.undone, l.id)
				d.visits++
				a.visits++
				for range l.depth {
					a.found(l.depth - 1)
				}
			}
			a.activity++
		}
		out := slices.Clone(a.disk.out)
		a.mu.Unlock()
		for _, l := range out {
			a.send(l)
		}
	}
}

// send delivers a link to its owner, and forgets it when the owner has acknowledged it.
func (a *agent) send(l waiting) {
	a.mu.Lock()
	to := a.owner(l)
	if to == a.name {
		a.accept(l)
		a.sent(l)
	}
	a.mu.Unlock()
	if to == a.name {
		return
	}
	if b, err := a.reach(a.ctx, to); err == nil {
		a.mu.Lock()
		taken := b.there && !b.ended
		if taken {
			b.accept(l)
		}
		a.mu.Unlock()
		if taken && a.back(a.ctx, b) == nil {
			a.mu.Lock()
			a.sent(l)
			a.mu.Unlock()
		}
	}
}

func (a *agent) sent(l waiting) {
	a.disk.out = slices.DeleteFunc(a.disk.out, func(o waiting) bool { return o == l })
	a.activity++
}

// reach takes the time of a request to another agent.
func (a *agent) reach(ctx context.Context, name string) (*agent, error) {
	a.mu.Lock()
	i := slices.IndexFunc(a.agents, func(b *agent) bool { return b.name == name })
	b := a.agents[i]
	a.mu.Unlock()
	return b, a.back(ctx, b)
}

// back takes the time of a message between two agents, and loses some.
func (a *agent) back(ctx context.Context, b *agent) error {
	a.mu.Lock()
	now := time.Now()
	lost := !b.there || now.Before(a.silent) || now.Before(b.silent) || a.lossy && a.chance.IntN(16) == 0
	d := a.upTo(60 * time.Millisecond)
	if lost {
		d = time.Second
	}
	a.mu.Unlock()
	if !clock.Pause(ctx, d) || lost {
		return errSilent
	}
	return nil
}

func (a *agent) View() *gossip.View {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.view
}

func (a *agent) Pulse(ctx context.Context, to gossip.Agent, q *pb.PulseRequest) (*pb.PulseResponse, error) {
	return call(ctx, a, to, q, (*Agreement).pulse)
}

func (a *agent) End(ctx context.Context, to gossip.Agent, q *pb.EndRequest) (*pb.EndResponse, error) {
	return call(ctx, a, to, q, (*Agreement).end)
}

func call[Q, R any](ctx context.Context, a *agent, to gossip.Agent, q *Q,
	f func(*Agreement, context.Context, rpc.Caller, *Q) (*R, error)) (*R, error) {
	b, err := a.reach(ctx, to.Name)
	if err != nil {
		return nil, err
	}
	r, err := f(b.Agreement, ctx, rpc.Caller{Name: a.name}, q)
	return r, errors.Join(err, a.back(ctx, b))
}

func (a *agent) Settled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.applied
}

func (a *agent) Claimed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.unclaimed
}

func (a *agent) Missing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.view.Agents) < len(a.agents)
}

func (a *agent) Expected(v *gossip.View, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.expected, func(name string, until time.Time) bool {
		_, in := v.Agent(name)
		return in || now.After(until)
	})
	return len(a.expected) > 0
}

func (a *agent) Hold(until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held = until
}

// Close implements Agent: the agent leaves soon.
func (a *agent) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.after(a.upTo(time.Second), func() {
		a.there = false
		a.kill()
		a.change(a.without(a.name))
	})
}

func (a *agent) Lost(*gossip.View) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.disk.lost) > 0
}

func (a *agent) Refetch(*gossip.View) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	lost := a.disk.lost
	if a.disk.lost = nil; len(lost) > 0 {
		a.accept(lost...)
	}
	return len(lost) > 0
}

// A loop is the Crawl of an agent.
type loop struct{ *agent }

func (l loop) idle() bool { return len(l.disk.queue) == 0 && len(l.disk.out) == 0 }

func (l loop) Pulse(context.Context) (Pulse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.there || l.ended {
		return Pulse{}, rpc.ErrAgain
	}
	return Pulse{Idle: l.idle(), Activity: l.activity, Answered: l.disk.visits}, nil
}

func (l loop) End(_ context.Context, activity uint64) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.there || l.ended {
		return false, rpc.ErrAgain
	}
	if !l.idle() || activity != l.activity {
		return false, nil
	}
	l.judge()
	return true, nil
}

func (l loop) EndWithoutLinks(context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.idle() {
		l.ended = true
	}
	return !l.idle(), nil
}

// judge is called when an agent ends.
func (a *agent) judge() {
	a.ended = true
	if len(a.undone) > 0 {
		a.t.Errorf("%s has ended, and links wait: %v", a.name, a.undone)
	}
	if a.Nothing() && a.visits > 0 {
		a.t.Errorf("%s has ended with Nothing, after %d visits", a.name, a.visits)
	}
}

// alone reports whether no other agent is there.
func (a *agent) alone() bool {
	return !slices.ContainsFunc(a.agents, func(b *agent) bool { return b != a && b.there })
}

// over returns how many of the agents that are alive have ended, and how many have not.
func (w *world) over() (ended, not int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.agents {
		if a.ended {
			ended++
		} else if a.there {
			not++
		}
	}
	return ended, not
}
