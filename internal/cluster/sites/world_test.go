package sites

import (
	"bytes"
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
	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/wake"
)

// A world is coordinators with a replicated log, agents, and the lines between them.
type world struct {
	t       *testing.T
	ctx     context.Context // ends with the world
	running sync.WaitGroup  // messages and pings
	posts   []*post
	use     chan struct{} // held during a command

	mu     sync.Mutex // guards the fields below
	rng    *rand.Rand
	leader int // -1: none
	index  uint64
	tail   [][]byte // commands that are not committed yet
	calm   bool     // messages are fast, and commands have a known outcome

	agents map[string]*resident    // the last life of each
	cut    map[[2]string]time.Time // until when nothing passes between two; coordinators are one party
	frozen map[string]time.Time    // until when an agent is stopped
	heard  map[string]time.Time    // when the coordinators last got a question of an agent
	stream map[uint64][]byte       // entries
	of     map[string]string       // the agents of hosts
}

// party is the name of all coordinators.
const party = "coordinators"

// A post is a coordinator, and its Log. All of them apply all commands at once.
type post struct {
	w       *world
	n       int
	machine *coordinator.Machine
	c       *coordinator.Coordinator
	changes chan struct{}
	leader  int // as far as it knows; w.mu guards it
}

// A resident is a life of an agent. It implements Source.
type resident struct {
	*subject
	w      *world
	rate   float64 // of its clock
	caller rpc.Caller
	ctx    context.Context
	die    context.CancelFunc
	killed bool // w.mu guards it
}

// newWorld starts three coordinators and agents. end ends them.
func newWorld(t *testing.T, rng *rand.Rand, agents ...string) (w *world, end func()) {
	w = &world{t: t, rng: rng, use: make(chan struct{}, 1), agents: map[string]*resident{},
		cut: map[[2]string]time.Time{}, frozen: map[string]time.Time{}, heard: map[string]time.Time{},
		stream: map[uint64][]byte{}, of: map[string]string{}}
	ctx, cancel := context.WithCancel(t.Context())
	w.ctx = ctx
	var posts sync.WaitGroup
	for n := range 3 {
		m, err := coordinator.OpenMachine(coordinator.MachineConfig{FS: testdisk.NewMem(), Dir: "c",
			MemoryBytes: 1 << 20})
		must.Do(t, err)
		p := &post{w: w, n: n, machine: m, changes: make(chan struct{}, 1)}
		p.c = coordinator.New(coordinator.Config{Machine: m, Log: p, LostAfter: LostAfter, Resolver: w})
		w.posts = append(w.posts, p)
	}
	for _, p := range w.posts {
		posts.Go(func() {
			if err := p.c.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for _, name := range agents {
		w.start(name)
	}
	return w, func() {
		for _, a := range w.agents {
			a.die()
			must.Do(t, a.stop())
		}
		cancel()
		w.running.Wait()
		posts.Wait()
		for _, p := range w.posts {
			must.Do(t, p.machine.Close())
		}
	}
}

// number returns a random number below n.
func (w *world) number(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *world) ms(n int) time.Duration { return time.Duration(w.number(n)) * time.Millisecond }

// Exists implements coordinator.Resolver: it looks up a host. Some hosts are found at the second time only.
func (w *world) Exists(ctx context.Context, host string) bool {
	clock.Pause(ctx, w.ms(300))
	return !strings.HasSuffix(host, "7.example") || w.number(2) == 0
}

// lead makes a coordinator the leader, or none. The coordinators learn it within 1.5 s.
func (w *world) lead(n int) {
	w.mu.Lock()
	w.leader = n
	w.mu.Unlock()
	for _, p := range w.posts {
		time.AfterFunc(w.ms(1500), func() {
			w.mu.Lock()
			p.leader = w.leader
			w.mu.Unlock()
			wake.Up(p.changes)
		})
	}
}

func (p *post) Leader() (string, bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.leader < 0 {
		return "", false
	}
	return []string{c1, c2, c3}[p.leader], p.leader == p.n
}

func (p *post) Changes() <-chan struct{} { return p.changes }

var errLost = errors.New("leadership lost")

// Propose appends a command. It takes a while, and the leader may not learn what became of the command.
func (p *post) Propose(ctx context.Context, command []byte) (any, error) {
	w := p.w
	w.use <- struct{}{}
	defer func() { <-w.use }()
	clock.Pause(w.ctx, w.ms(100))
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.calm && w.rng.IntN(3) == 0 {
		w.mu.Unlock()
		clock.Pause(w.ctx, w.ms(3000))
		w.mu.Lock()
	}
	if w.leader != p.n {
		return nil, errLost
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	unsure := !w.calm && w.rng.IntN(10) == 0
	if w.tail = append(w.tail, command); unsure && w.rng.IntN(2) == 0 {
		return nil, errLost // the next leader commits it, or this one does later
	}
	var result any
	for _, c := range w.tail {
		w.index++
		for _, o := range w.posts {
			r := o.machine.Apply(w.index, c)
			if o == p {
				result = r
			}
		}
	}
	if w.tail = nil; unsure {
		return nil, errLost
	}
	return result, nil
}

// start starts an agent. If it has lived before, its directory is as it was.
func (w *world) start(name string) {
	disk, boot := testdisk.NewMem(), uint64(1)
	if old := w.agents[name]; old != nil {
		disk, boot = old.disk, old.caller.Boot+1
	}
	a := &resident{w: w, rate: 0.99 + 0.0002*float64(w.number(101)),
		caller: rpc.Caller{Name: name, Instance: [16]byte{name[0]}, Boot: boot}}
	a.ctx, a.die = context.WithCancel(w.ctx)
	s := start(w.t, nil, disk, func(c *Config) {
		c.Self = Self{name, a.caller.Instance, boot}
		c.Source, c.Clock = a, testclock.Func(a.now)
		if name == "a" {
			c.MemoryBytes, c.Waiting = 16<<10, 50
		}
	})
	w.mu.Lock()
	a.subject, w.agents[name] = s, a
	w.mu.Unlock()
	w.running.Go(a.ping)
}

// kill ends an agent without a word.
func (w *world) kill(name string) {
	a := w.agents[name]
	left := a.disk.Clone()
	w.mu.Lock()
	a.killed = true
	w.mu.Unlock()
	a.die()
	must.Do(w.t, a.stop())
	a.disk = left
}

// now is the agent's clock.
func (a *resident) now() time.Time {
	zero := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when bubbles begin
	return zero.Add(time.Duration(float64(time.Since(zero)) * a.rate))
}

// travel takes the time of a message. It reports whether the message arrives.
func (w *world) travel(from, to string) bool {
	w.mu.Lock()
	wait := time.Duration(1+w.rng.IntN(50)) * time.Millisecond
	if !w.calm && w.rng.IntN(12) == 0 {
		wait = time.Duration(w.rng.IntN(8000)) * time.Millisecond
	}
	lost := w.rng.IntN(2) == 0 // if the line is cut; otherwise it is sent again and again
	wait += max(0, time.Until(w.frozen[from]))
	w.mu.Unlock()
	for wait > 0 && w.ctx.Err() == nil {
		clock.Pause(w.ctx, wait)
		w.mu.Lock()
		line := time.Until(w.cut[[2]string{min(from, to), max(from, to)}])
		wait = max(line, time.Until(w.frozen[to]))
		w.mu.Unlock()
		if line > 0 && lost {
			return false
		}
	}
	return w.ctx.Err() == nil
}

// ask sends a question to a coordinator, and returns the answer. A question may arrive when its caller no longer waits.
func ask[T any](ctx context.Context, a *resident, addr string,
	do func(*coordinator.Coordinator) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	w, answers := a.w, make(chan answer, 1)
	w.running.Go(func() {
		if !w.travel(a.caller.Name, party) {
			return
		}
		w.mu.Lock()
		w.heard[a.caller.Name] = time.Now()
		w.mu.Unlock()
		v, err := do(w.posts[slices.Index([]string{c1, c2, c3}, addr)].c)
		if w.travel(party, a.caller.Name) {
			answers <- answer{v, err}
		}
	})
	var none T
	select {
	case got := <-answers:
		if n, ok := errors.AsType[*rpc.NotLeader](got.err); ok {
			return none, &NotLeader{n.Leader}
		}
		return got.value, got.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (a *resident) Follow(ctx context.Context, addr string, q Question) (Answer, error) {
	f := coordinator.Follow{From: q.From, Wait: time.Second, Stamp: q.Stamp, Report: coordinator.Report{Capacity: 1,
		Addr: "192.0.2.9:7470", State: assignment.Up, Term: q.Term, Heard: map[string]time.Duration{}}}
	for _, c := range q.Contacts {
		f.Report.Heard[c.Agent] = c.Silent
	}
	got, err := ask(ctx, a, addr, func(c *coordinator.Coordinator) (coordinator.Followed, error) {
		return c.Follow(a.w.ctx, a.caller, f)
	})
	if err != nil {
		return Answer{}, err
	}
	a.w.read(got.Entries)
	return Answer{Entries: got.Entries, Last: got.Last, Term: got.Term, Member: got.Member, Stamp: got.Stamp}, nil
}

func (a *resident) Discover(ctx context.Context, addr string, hosts []string, how assignment.How) ([]Decision, error) {
	got, err := ask(ctx, a, addr, func(c *coordinator.Coordinator) ([]coordinator.HostAnswer, error) {
		return c.Discover(a.w.ctx, a.caller, hosts, how)
	})
	var vs []Decision
	for _, h := range got {
		vs = append(vs, Decision{map[coordinator.HostState]State{coordinator.HostAssigned: Assigned,
			coordinator.HostComing: Coming, coordinator.HostDead: Dead}[h.State], h.After})
	}
	return vs, err
}

// read judges entries: all agents read the same, and no host is assigned twice.
func (w *world) read(data []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(data) > 0 {
		e, rest, err := assignment.Decode(data)
		if err != nil {
			w.t.Error(err)
			return
		}
		raw := data[:len(data)-len(rest)]
		data = rest
		if was, ok := w.stream[e.Number]; ok {
			if !bytes.Equal(was, raw) {
				w.t.Errorf("there are two entries %d", e.Number)
			}
			continue
		}
		w.stream[e.Number] = bytes.Clone(raw)
		for _, s := range e.Shares {
			for _, h := range s.Hosts {
				if w.of[h] != "" {
					w.t.Errorf("%s is assigned to %s and to %s", h, w.of[h], s.Agent)
				}
				w.of[h] = s.Agent
			}
		}
	}
}

// ping asks other agents.
func (a *resident) ping() {
	w, self := a.w, a.caller.Name
	for a.ctx.Err() == nil {
		clock.Pause(a.ctx, 300*time.Millisecond+w.ms(1000))
		for _, name := range []string{"a", "b", "c", "d"} {
			if name == self || w.number(2) == 0 {
				continue
			}
			sent := a.now()
			w.running.Go(func() {
				if !w.travel(self, name) {
					return
				}
				w.mu.Lock()
				b := w.agents[name]
				dead := b == nil || b.killed
				w.mu.Unlock()
				if dead {
					return
				}
				b.Right().Heard(self, b.now())
				if w.travel(name, self) {
					a.Right().Met(name, sent, a.now())
				}
			})
		}
	}
}

// part cuts the lines between an agent and others from a time on, for d.
func (w *world) part(name string, others []string, from, d time.Duration) {
	time.AfterFunc(from, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, o := range others {
			w.cut[[2]string{min(name, o), max(name, o)}] = time.Now().Add(d)
		}
	})
}

// trouble causes a fault. Many faults last for about as long as it takes to be lost.
func (w *world) trouble(names []string) {
	name, other := names[w.number(len(names))], append(slices.Clone(names), party)[w.number(len(names)+1)]
	lost := LostAfter + w.ms(4000)
	switch x := w.number(12); {
	case x < 4:
		w.part(name, []string{other}, 0, w.ms(25000))
	case x < 6: // the coordinators hear of some agents only
		for _, n := range names {
			if w.number(2) == 0 {
				w.part(n, []string{party}, 0, w.ms(25000))
			}
		}
	case x < 8: // an agent loses one after the other
		first, second := names, []string{party}
		if x == 6 {
			first, second = second, first
		}
		w.part(name, first, 0, lost)
		w.part(name, second, lost-w.ms(6000), LostAfter+w.ms(4000))
	case x < 10:
		w.mu.Lock()
		w.frozen[name] = time.Now().Add(lost)
		w.mu.Unlock()
	case x < 11:
		dead := w.agents[name].killed
		if !dead {
			w.kill(name)
		}
		if dead || w.number(2) == 0 {
			w.start(name)
		}
	default:
		w.lead(w.number(4) - 1)
	}
}

// judge fails if an agent may start visits that is not up in the coordinators' roster: others have its hosts. away
// counts the agents that the roster does not have, and alone those with the right of which the coordinators have not
// heard for LostAfter.
func (w *world) judge(away, alone *int) {
	roster := w.posts[0].machine.Roster()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, a := range w.agents {
		m, ok := roster.Member(name)
		up := ok && m.State == assignment.Up
		if !up {
			*away++
		}
		if a.killed || !a.Right().May(a.now()) {
			continue
		}
		if !up {
			w.t.Fatalf("agent %s may start visits, and is not in roster %d", name, roster.Term)
		}
		if time.Since(w.heard[name]) > LostAfter {
			*alone++
		}
	}
}

// agree fails if agents with the same roster name different owners.
func (w *world) agree(host string) {
	of := map[uint64]string{}
	for _, a := range w.agents {
		view := a.View()
		name, _ := a.Peek(host)
		if view == 0 || name == "" || view != a.View() {
			continue
		}
		if was, ok := of[view]; ok && was != name {
			w.t.Fatalf("roster %d: %s belongs to %q and to %q", view, host, was, name)
		}
		of[view] = name
	}
}

// TestTogether: agents find hosts, while lines are cut, messages are late, clocks have different rates, agents are
// stopped and killed, and leaders change and do not learn what became of their commands. No host is lost or assigned
// twice. Agents with the same roster agree. An agent that is not in the roster has no right to start visits. In the
// end, the agents that live are up, and one that is dead is lost.
func TestTogether(t *testing.T) {
	away, alone, full := 0, 0, 0
	for round := range testtier.Rounds(8, 100) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			rng := testseed.Rand(t)
			bubble(t, func(t *testing.T) { together(t, rng, &away, &alone, &full) })
		})
	}
	t.Logf("agents were away %d times, had the right without the coordinators %d times, and had no room %d times", away,
		alone, full)
	if away < 100 || alone < 100 || full == 0 {
		t.Error("that is too seldom")
	}
}

func together(t *testing.T, rng *rand.Rand, away, alone, full *int) {
	names := []string{"a", "b", "c", "d"}
	w, end := newWorld(t, rng, names...)
	defer end()
	asked := map[string]bool{}
	host := func() string { return fmt.Sprintf("h%d.example", w.number(20+len(asked)*2)) }
	next := time.Now().Add(3 * time.Second)
	for until := time.Now().Add(10 * time.Minute); time.Now().Before(until); sleep(50 * time.Millisecond) {
		w.judge(away, alone)
		if time.Now().After(next) {
			w.trouble(names)
			next = time.Now().Add(w.ms(4000))
		}
		if w.number(4) == 0 {
			h := host()
			asked[h] = true
			w.agents[names[w.number(4)]].Owner(h)
			w.agree(h)
		}
	}
	w.mu.Lock()
	clear(w.cut)
	clear(w.frozen)
	w.calm = true
	w.mu.Unlock()
	w.lead(0)
	for name, a := range w.agents {
		if a.killed {
			w.start(name)
		}
	}
	sleep(time.Minute)
	for h := range asked {
		for _, a := range w.agents {
			a.Owner(h)
		}
		sleep(time.Millisecond)
	}
	sleep(3 * time.Minute) // until all hosts without an address have been looked up again
	hosts := slices.Collect(maps.Keys(asked))
	w.mu.Lock()
	of, entries := maps.Clone(w.of), uint64(len(w.stream))
	w.mu.Unlock()
	for name, a := range w.agents {
		got, err := a.Lookup(t.Context(), hosts)
		must.Do(t, err)
		for i, h := range hosts {
			if got[i] != of[h] || got[i] == "" {
				t.Errorf("agent %s: the owner of %s is %q, want %q", name, h, got[i], of[h])
			}
		}
		st := a.Status()
		if st.Waiting != 0 || st.Waits != "" || st.Number != entries || !a.Right().May(a.now()) {
			t.Errorf("agent %s: %+v; %s", name, st, a.Right().Why(a.now()))
		}
		*full += int(st.Refused)
	}
	if one, other := w.posts[0].machine.Digest(), w.posts[2].machine.Digest(); one != other {
		t.Error("the coordinators differ")
	}
	w.kill("d")
	sleep(15 * time.Second)
	if r := w.posts[0].machine.Roster(); len(r.Members) != 3 || len(r.Lost) != 1 || r.Lost[0].Name != "d" {
		t.Errorf("at the end: %+v", r)
	}
	for _, h := range hosts {
		w.agree(h)
	}
}
