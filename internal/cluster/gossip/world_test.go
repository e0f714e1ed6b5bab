package gossip

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
)

// A world is a network in memory with agents, in virtual time.
type world struct {
	t    *testing.T
	net  *simnet.Network
	dice *rand.Rand // of the story

	mu     sync.Mutex  // guards the fields below
	rng    *rand.Rand  // of the agents
	sides  map[int]int // sides of a partition, by machine
	loss   float64
	delay  time.Duration
	agents []*agent
	label  string
	secret []byte
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, net: simnet.New(seed), rng: rand.New(rand.NewPCG(seed, 0)), dice: rand.New(rand.NewPCG(seed, 1)),
		label: "crawl"}
	w.net.Follow(func(from, to int) simnet.Path {
		w.mu.Lock()
		defer w.mu.Unlock()
		return simnet.Path{Latency: w.delay, Loss: w.loss, Cut: w.sides[from] != w.sides[to]}
	})
	return w
}

// machine connects the machine number i, which has no open port yet.
func (w *world) machine(i int) *simnet.Machine {
	return w.net.Machine(i, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
}

// partition separates agents from all others.
func (w *world) partition(agents ...*agent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sides = map[int]int{}
	for _, a := range agents {
		w.sides[a.machine.Number()] = 1
	}
}

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sides = nil
}

// An agent may be killed and started again. It implements Calls and Watcher.
type agent struct {
	w       *world
	self    Agent
	addr    string
	machine *simnet.Machine
	m       *Member // nil: not running

	pinged  func(digest uint64, sent time.Time)
	refused atomic.Int64
	ended   []Ending
}

// agent makes an agent that has never run.
func (w *world) agent(name string) *agent {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := len(w.agents) + 1
	a := &agent{w: w, addr: fmt.Sprintf("10.0.0.%d:7470", i), machine: w.machine(i)}
	a.self = Agent{Name: name, Capacity: 1 + float64(len(w.agents)%3), Addr: a.addr}
	for i := range a.self.Instance {
		a.self.Instance[i] = byte(w.rng.Uint32())
	}
	w.agents = append(w.agents, a)
	return a
}

// open starts the process, without joining.
func (a *agent) open() {
	a.w.t.Helper()
	a.self.Boot++
	a.machine = a.w.machine(a.machine.Number())
	streams, packets, err := a.machine.Listen(a.addr)
	if err != nil {
		a.w.t.Fatal(err)
	}
	a.w.mu.Lock()
	seed := a.w.rng.Uint64()
	a.w.mu.Unlock()
	m, err := Open(Config{
		Self: a.self, Advertise: netip.MustParseAddrPort(a.addr), Label: a.w.label, Secret: a.w.secret,
		Packets: packets, Streams: streams, Seed: seed, Calls: a, Watcher: a, Ended: a.ended,
	})
	if err != nil {
		a.w.t.Fatal(err)
	}
	a.w.mu.Lock()
	a.m = m
	a.w.mu.Unlock()
}

func (a *agent) Dial(ctx context.Context, addr, _ string) (net.Conn, error) {
	return a.machine.Dial(ctx, "tcp", addr)
}

func (a *agent) Pinged(digest uint64, sent time.Time) {
	if a.pinged != nil {
		a.pinged(digest, sent)
	}
}

func (a *agent) Refused() { a.refused.Add(1) }

// Hello stands for the call of package rpc.
func (a *agent) Hello(ctx context.Context, addr string) error {
	a.w.mu.Lock()
	var to *agent
	var m *Member
	for _, other := range a.w.agents {
		if other.addr == addr && (m == nil || other.m != nil) {
			to, m = other, other.m
		}
	}
	a.w.mu.Unlock()
	ours, theirs, err := a.machine.Connect(ctx, to.machine, netip.MustParseAddrPort(addr),
		func() (time.Duration, bool) { return 0, true })
	if err != nil {
		return err
	}
	ours.Close()
	theirs.Close()
	if m == nil {
		return errors.New("connection refused")
	}
	return m.Admit(a.self, time.Now())
}

// start runs the process until the agent is up.
func (a *agent) start(seeds ...*agent) error {
	a.open()
	var addrs []string
	for _, s := range seeds {
		addrs = append(addrs, s.addr)
	}
	ctx, cancel := context.WithTimeout(a.w.t.Context(), 10*time.Minute)
	defer cancel()
	if err := a.m.Join(ctx, addrs); err != nil {
		a.kill()
		return err
	}
	a.m.Announce(ctx, Up) // an error means that no agent was told in time: gossip goes on
	return nil
}

func (a *agent) mustStart(seeds ...*agent) {
	a.w.t.Helper()
	if err := a.start(seeds...); err != nil {
		a.w.t.Fatalf("%s: %v", a.self.Name, err)
	}
}

// kill ends the process without an announcement.
func (a *agent) kill() {
	a.w.mu.Lock()
	m := a.m
	a.m = nil
	a.w.mu.Unlock()
	if m != nil {
		a.machine.Kill()
		m.Close()
	}
}

// leave ends the process in an orderly way.
func (a *agent) leave() {
	ctx, cancel := context.WithTimeout(a.w.t.Context(), time.Minute)
	defer cancel()
	a.m.Leave(ctx)
	a.kill()
}

// end stops everything, and waits for memberlist's last timers.
func (w *world) end() {
	for _, a := range w.agents {
		a.kill()
	}
	time.Sleep(5 * time.Minute)
}

// running returns the agents that run.
func (w *world) running() []*agent {
	return slices.DeleteFunc(slices.Clone(w.agents), func(a *agent) bool { return a.m == nil })
}

// sees returns an error unless a's view has exactly these agents in their present state.
func (a *agent) sees(want ...*agent) error {
	v := a.m.View()
	if len(v.Agents) != len(want) {
		return fmt.Errorf("%s sees %v", a.self.Name, names(v.Agents))
	}
	for _, b := range want {
		got, ok := v.Agent(b.self.Name)
		if !ok || got.Instance != b.self.Instance || got.Boot != b.self.Boot || got.Addr != b.addr ||
			got.State != b.m.View().self(b).State || got.Capacity != b.self.Capacity {
			return fmt.Errorf("%s sees %s as %+v", a.self.Name, b.self.Name, got)
		}
	}
	return nil
}

func (v *View) self(a *agent) Agent {
	s, _ := v.Agent(a.self.Name)
	return s
}

// lost checks that the agents have lost the agents with these instances.
func (w *world) lost(group []*agent, want ...[16]byte) {
	w.t.Helper()
	for _, a := range group {
		lost := a.m.View().Lost
		if !slices.EqualFunc(lost, want, func(l Agent, id [16]byte) bool { return l.Instance == id }) {
			w.t.Errorf("%s has lost %v", a.self.Name, names(lost))
		}
	}
}

// goOn checks that no agent has failed.
func (w *world) goOn(group ...*agent) {
	w.t.Helper()
	for _, a := range group {
		select {
		case err := <-a.m.Failed():
			w.t.Errorf("%s failed: %v", a.self.Name, err)
		default:
		}
	}
}

func names(agents []Agent) []string {
	var out []string
	for _, a := range agents {
		out = append(out, fmt.Sprintf("%s/%x.%d(%s)", a.Name, a.Instance[:2], a.Boot, a.State))
	}
	return out
}

// settle waits until all agents of a group see exactly the group. It returns how long that took.
func (w *world) settle(group ...*agent) time.Duration {
	w.t.Helper()
	begin := time.Now()
	for {
		var last error
		digest := group[0].m.View().Digest()
		for _, a := range group {
			if err := a.sees(group...); err != nil {
				last = err
			} else if a.m.View().Digest() != digest {
				last = fmt.Errorf("%s has another digest", a.self.Name)
			}
		}
		if last == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > 10*time.Minute {
			w.t.Fatalf("no common view: %v", last)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
