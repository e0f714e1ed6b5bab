package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

var errLost = errors.New("leadership lost")

// A group is coordinators with a log. Each applies all commands at once.
type group struct {
	t       testing.TB
	members []*place
	use     chan struct{} // held during a command
	index   uint64
	tail    [][]byte // commands that are not committed yet

	mu      sync.Mutex           // guards the fields below
	leader  int                  // -1: none
	latency func() time.Duration // of a command; nil: none
	failing func() bool          // whether the leader does not learn the outcome of a command
}

// A place is a coordinator of a group, and its Log.
type place struct {
	g       *group
	n       int
	machine *Machine
	c       *Coordinator
	changes chan struct{}
	stop    func()
}

// newGroup starts n coordinators, the first of which leads. They end with the test's bubble.
func newGroup(t testing.TB, n int, cfg Config) *group {
	g := &group{t: t, use: make(chan struct{}, 1)}
	for i := range n {
		p := &place{g: g, n: i, machine: openMachine(t, testdisk.NewMem()), changes: make(chan struct{}, 1)}
		cfg.Machine, cfg.Log = p.machine, p
		p.c = New(cfg)
		g.members = append(g.members, p)
	}
	for _, p := range g.members {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := p.c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		p.stop = sync.OnceFunc(func() { cancel(); wg.Wait(); closeMachine(t, p.machine) })
		t.Cleanup(p.stop)
	}
	return g
}

// disturb sets how long commands take, and whether their outcome is unknown.
func (g *group) disturb(latency func() time.Duration, failing func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.latency, g.failing = latency, failing
}

// lead makes a coordinator the leader, or none.
func (g *group) lead(n int) {
	g.mu.Lock()
	g.leader = n
	g.mu.Unlock()
	for _, p := range g.members {
		select {
		case p.changes <- struct{}{}:
		default:
		}
	}
}

func (g *group) leading() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leader
}

func (p *place) Leader() (string, bool) {
	n := p.g.leading()
	if n < 0 {
		return "", false
	}
	return fmt.Sprintf("192.0.2.%d:7480", n), n == p.n
}

func (p *place) Changes() <-chan struct{} { return p.changes }

func (p *place) Propose(ctx context.Context, command []byte) (any, error) {
	g := p.g
	g.use <- struct{}{}
	defer func() { <-g.use }()
	g.mu.Lock()
	latency, failing := g.latency, g.failing
	g.mu.Unlock()
	if latency != nil {
		time.Sleep(latency())
	}
	if g.leading() != p.n {
		return nil, errLost
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if failing != nil && failing() { // it is in the log, and the next leader commits it, or this one later
		g.tail = append(g.tail, command)
		return nil, errLost
	}
	var result any
	for _, c := range append(g.tail, command) {
		g.index++
		for _, o := range g.members {
			r := o.machine.Apply(g.index, c)
			if o == p {
				result = r
			}
		}
	}
	g.tail = nil
	if failing != nil && failing() {
		return nil, errLost
	}
	return result, nil
}

// A peer is an agent that follows the coordinators. Its right to start visits is that of package sites.
type peer struct {
	w    *world
	name string
	self Caller

	stop func()

	mu      sync.Mutex // guards the fields below
	killed  bool
	cut     bool // from the coordinators
	entries []assignment.Entry
	roster  assignment.Roster
	wants   assignment.State
	until   time.Time // of the right
	met     map[string]time.Time
	heard   map[string]time.Time
	report  Report
}

// A world is agents, a group, and the connections between them.
type world struct {
	t     testing.TB
	g     *group
	r     *rand.Rand
	mu    sync.Mutex // guards r, cut, peers
	peers map[string]*peer
	apart map[[2]string]bool // agents that do not reach each other
	slow  time.Duration      // the most that a call takes each way
}

func newWorld(t testing.TB, r *rand.Rand, g *group) *world {
	return &world{t: t, g: g, r: r, peers: map[string]*peer{}, apart: map[[2]string]bool{}}
}

func (w *world) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.slow == 0 {
		return time.Millisecond
	}
	return time.Duration(w.r.Int64N(int64(w.slow)))
}

// start starts an agent. A known name starts its next life with the same instance.
func (w *world) start(name string, capacity float64) *peer {
	p := &peer{w: w, name: name, wants: assignment.Up, met: map[string]time.Time{}, heard: map[string]time.Time{}}
	p.self = Caller{Name: name, Instance: [16]byte{name[0]}, Boot: 1}
	p.report = Report{Capacity: capacity, Addr: "192.0.2.9:7470", Settings: map[string]string{"partition": "sites"}}
	w.mu.Lock()
	if old := w.peers[name]; old != nil {
		p.self.Instance, p.self.Boot = old.self.Instance, old.self.Boot+1
	}
	w.peers[name] = p
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	for at := range len(w.g.members) {
		wg.Go(func() { p.follow(ctx, at) })
	}
	wg.Go(func() { p.ping(ctx) })
	p.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(p.stop)
	return p
}

// follow asks one coordinator, as long as that one leads.
func (p *peer) follow(ctx context.Context, at int) {
	stamp := uint64(0)
	for ctx.Err() == nil {
		sent := time.Now()
		time.Sleep(p.w.delay())
		p.mu.Lock()
		f := Follow{From: uint64(len(p.entries)) + 1, Wait: time.Second, Report: p.report, Stamp: stamp}
		f.Report.State, f.Report.Term, f.Report.Heard = p.wants, p.roster.Term, map[string]time.Duration{}
		for name, t := range p.heard {
			f.Report.Heard[name] = time.Since(t)
		}
		cut := p.cut
		p.mu.Unlock()
		if cut {
			time.Sleep(300 * time.Millisecond)
			continue
		}
		answer, err := p.w.g.members[at].c.Follow(ctx, p.self, f)
		time.Sleep(p.w.delay())
		if err != nil {
			if errors.As(err, new(*Refusal)) {
				p.w.t.Errorf("agent %s: %v", p.name, err)
			}
			time.Sleep(100 * time.Millisecond)
			continue
		}
		stamp = answer.Stamp
		p.take(answer, sent)
	}
}

func (p *peer) take(a Followed, sent time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.killed {
		return
	}
	for data := a.Entries; len(data) > 0; {
		e, rest, err := assignment.Decode(data)
		if err != nil {
			p.w.t.Error(err)
			return
		}
		if data = rest; e.Number != uint64(len(p.entries))+1 {
			continue // another call has brought it
		}
		if p.entries = append(p.entries, e); e.Roster != nil {
			p.roster = *e.Roster
			if !p.up(p.name) {
				p.until = time.Time{}
			}
		}
	}
	if a.Member && a.Term == p.roster.Term && p.up(p.name) && sent.Add(6*time.Second).After(p.until) {
		p.until = sent.Add(6 * time.Second)
	}
}

// up reports whether an agent is up in the last roster. The caller holds mu.
func (p *peer) up(name string) bool {
	m, ok := p.roster.Member(name)
	return ok && m.State == assignment.Up && (name != p.name || m.Instance == p.self.Instance)
}

// ping asks all other agents, and prolongs the right.
func (p *peer) ping(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(500 * time.Millisecond)
		p.w.mu.Lock()
		others := map[string]*peer{}
		for name, o := range p.w.peers {
			if o != p && !p.w.apart[[2]string{min(name, p.name), max(name, p.name)}] {
				others[name] = o
			}
		}
		p.w.mu.Unlock()
		sent := time.Now()
		time.Sleep(p.w.delay())
		for name, o := range others {
			if o.hears(p.name) {
				p.mu.Lock()
				p.met[name], p.heard[name] = sent, time.Now()
				p.mu.Unlock()
			}
		}
		p.mu.Lock()
		first, alone := time.Time{}, true
		for _, m := range p.roster.Members {
			if m.Name == p.name || m.State != assignment.Up {
				continue
			}
			if t := p.met[m.Name]; alone || t.Before(first) {
				first = t
			}
			alone = false
		}
		if now := time.Now(); !p.killed && p.up(p.name) && now.Before(p.until) {
			if alone {
				p.until = now.Add(6 * time.Second)
			} else if first.Add(6 * time.Second).After(p.until) {
				p.until = first.Add(6 * time.Second)
			}
		}
		p.mu.Unlock()
	}
}

// hears reports whether the agent lives, and notes the sign of life of another one.
func (p *peer) hears(other string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killed {
		return false
	}
	p.heard[other] = time.Now()
	return true
}

// kill ends an agent without a word.
func (w *world) kill(name string) {
	w.mu.Lock()
	p := w.peers[name]
	w.mu.Unlock()
	p.mu.Lock()
	p.killed, p.until = true, time.Time{}
	p.mu.Unlock()
	p.stop()
}

// has reports whether the agent may start visits, by its last roster.
func (p *peer) has(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up(p.name) && now.Before(p.until)
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// discover asks the leader until no host is coming. It returns the last answers.
func (p *peer) discover(hosts ...string) []HostAnswer {
	p.w.t.Helper()
	for {
		n := p.w.g.leading()
		if n < 0 {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		as, err := p.w.g.members[n].c.Discover(p.w.t.Context(), p.self, hosts, false)
		if err != nil {
			var refusal *Refusal
			if errors.As(err, &refusal) && refusal.Kind != "member" {
				p.w.t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			continue
		}
		coming := false
		for _, a := range as {
			coming = coming || a.State == HostComing
		}
		if !coming {
			return as
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// set changes what the agent reports.
func (p *peer) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// all returns the entries that the agent has read.
func (p *peer) all() []assignment.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.entries)
}

// last returns the last roster that the agent has read.
func (p *peer) last() assignment.Roster {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.roster
}
