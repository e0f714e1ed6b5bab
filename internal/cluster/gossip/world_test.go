package gossip

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// A world is a network in memory with agents, in virtual time.
type world struct {
	t *testing.T
	// mu guards the fields below.
	mu     sync.Mutex
	rng    *rand.Rand // of the network
	dice   *rand.Rand // of the story; not guarded by mu
	nodes  map[string]*node
	sides  map[string]int // sides of a partition, by address
	loss   float64
	delay  time.Duration
	agents []*agent
	label  string
	secret []byte
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{t: t, rng: rand.New(rand.NewPCG(seed, 0)), dice: rand.New(rand.NewPCG(seed, 1)),
		nodes: map[string]*node{}, label: "crawl"}
}

// cut reports whether two addresses cannot reach each other. The caller holds mu.
func (w *world) cut(a, b string) bool { return w.sides[a] != w.sides[b] }

// partition separates agents from all others.
func (w *world) partition(agents ...*agent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sides = map[string]int{}
	for _, a := range agents {
		w.sides[a.addr] = 1
	}
}

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sides = nil
}

type packet struct {
	b    []byte
	from netip.AddrPort
}

// A node is a machine's port: a net.PacketConn and a net.Listener.
type node struct {
	w       *world
	addr    netip.AddrPort
	packets chan packet
	conns   chan net.Conn
	down    chan struct{} // closed when the machine is off
	ended   chan struct{} // closed when reading must end
	downOne sync.Once
	endOne  sync.Once
}

func (n *node) off() { n.downOne.Do(func() { close(n.down) }) }
func (n *node) end() { n.endOne.Do(func() { close(n.ended) }) }

func (n *node) isOff() bool {
	select {
	case <-n.down:
		return true
	default:
		return false
	}
}

func (n *node) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case p := <-n.packets:
		return copy(b, p.b), net.UDPAddrFromAddrPort(p.from), nil
	case <-n.ended:
		return 0, nil, os.ErrDeadlineExceeded
	}
}

func (n *node) WriteTo(b []byte, to net.Addr) (int, error) {
	w := n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	there := w.nodes[to.String()]
	if there == nil || n.isOff() || there.isOff() || w.cut(n.addr.String(), to.String()) || w.rng.Float64() < w.loss {
		return len(b), nil
	}
	p := packet{slices.Clone(b), n.addr}
	time.AfterFunc(w.delay, func() {
		select {
		case there.packets <- p:
		default: // a full buffer loses packets
		}
	})
	return len(b), nil
}

func (n *node) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.ended:
		return nil, net.ErrClosed
	}
}

func (n *node) Close() error                     { n.end(); return nil }
func (n *node) SetReadDeadline(time.Time) error  { n.end(); return nil }
func (n *node) SetDeadline(time.Time) error      { return nil }
func (n *node) SetWriteDeadline(time.Time) error { return nil }
func (n *node) LocalAddr() net.Addr              { return net.UDPAddrFromAddrPort(n.addr) }
func (n *node) Addr() net.Addr                   { return net.TCPAddrFromAddrPort(n.addr) }

// A stream delays each write like the network, and breaks with a partition.
type stream struct {
	net.Conn
	w    *world
	a, b string
}

func (s *stream) Write(b []byte) (int, error) {
	s.w.mu.Lock()
	cut, delay := s.w.cut(s.a, s.b), s.w.delay
	s.w.mu.Unlock()
	if cut {
		return 0, io.ErrUnexpectedEOF
	}
	time.Sleep(delay)
	return s.Conn.Write(b)
}

func (n *node) dial(ctx context.Context, addr, _ string) (net.Conn, error) {
	w := n.w
	w.mu.Lock()
	there, cut, delay := w.nodes[addr], w.cut(n.addr.String(), addr), w.delay
	w.mu.Unlock()
	if cut { // a blackhole
		<-ctx.Done()
		return nil, ctx.Err()
	}
	time.Sleep(2 * delay)
	if there == nil || there.isOff() || n.isOff() {
		return nil, errors.New("connection refused")
	}
	ours, theirs := net.Pipe()
	select {
	case there.conns <- &stream{theirs, w, addr, n.addr.String()}:
		return &stream{ours, w, n.addr.String(), addr}, nil
	case <-there.down:
	case <-there.ended:
	case <-ctx.Done():
	}
	ours.Close()
	theirs.Close()
	return nil, errors.New("connection refused")
}

// An agent may be killed and started again.
type agent struct {
	w    *world
	self Agent
	addr string
	node *node
	m    *Member // nil: not running

	pinged  func(digest uint64, sent time.Time)
	refused func()
}

// agent makes an agent that has never run.
func (w *world) agent(name string) *agent {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := &agent{w: w, addr: fmt.Sprintf("10.0.0.%d:7470", len(w.agents)+1)}
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
	addr := netip.MustParseAddrPort(a.addr)
	a.node = &node{w: a.w, addr: addr, packets: make(chan packet, 1024), conns: make(chan net.Conn),
		down: make(chan struct{}), ended: make(chan struct{})}
	a.w.mu.Lock()
	a.w.nodes[a.addr] = a.node
	seed := a.w.rng.Uint64()
	a.w.mu.Unlock()
	m, err := Open(Config{
		Self: a.self, Advertise: addr, Label: a.w.label, Secret: a.w.secret,
		Packets: a.node, Streams: a.node, Dial: a.node.dial, Seed: seed,
		Hello: a.hello, Pinged: a.pinged, Refused: a.refused,
	})
	if err != nil {
		a.w.t.Fatal(err)
	}
	a.w.mu.Lock()
	a.m = m
	a.w.mu.Unlock()
}

// hello stands for the call of package rpc.
func (a *agent) hello(ctx context.Context, addr string) error {
	w := a.w
	w.mu.Lock()
	var to *Member
	for _, other := range w.agents {
		if other.addr == addr && other.m != nil {
			to = other.m
		}
	}
	cut, delay, off := w.cut(a.addr, addr), w.delay, a.node.isOff()
	w.mu.Unlock()
	if cut {
		<-ctx.Done()
		return ctx.Err()
	}
	time.Sleep(2 * delay)
	if to == nil || off {
		return errors.New("connection refused")
	}
	return to.Admit(a.self, time.Now())
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
		a.node.off()
		m.Close()
		a.node.end()
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
