// Package simnet answers: how do machines reach each other in a test?
//
// A Network is in memory. It carries streams (TCP) and packets (UDP) between machines, which have numbers
// and addresses. A Rule says how it treats data on each way: latency, loss, cuts, slow lines.
//
//	Dial, WriteTo -> Rule -> timer -> Accept, Read, ReadFrom
//
// Writing never blocks: the rule acts on the delivery. In a bubble of testing/synctest, waiting costs
// nothing, and two runs differ only by the order of goroutines.
//
// Only tests and the simulation import this package.
package simnet

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

// A Path says how the network treats data from one machine to another. The zero Path delivers at once.
type Path struct {
	Latency time.Duration
	Loss    float64 // share of packets lost; a stream sends a lost segment again
	Rate    float64 // bytes a second of the line; 0: no limit
	Line    int     // paths with the same number share a line; 0: this path has a line of its own
	Cut     bool    // nothing arrives; a stream repeats its segments until the cut ends
}

// A Rule returns the path from one machine to another at present. If no machine has the address, the
// number is Nobody. The network calls a rule from several goroutines, and holds no lock meanwhile.
type Rule func(from, to int) Path

// Nobody is the number of a machine that is not there.
const Nobody = -1

// A Network connects machines. All methods are safe for concurrent use.
type Network struct {
	// Until returns how long it is until a deadline. New sets it to time.Until. A test may replace it
	// before the network is used.
	Until func(time.Time) time.Duration

	mu       sync.Mutex // guards the fields below
	rng      *rand.Rand
	rule     Rule
	machines map[netip.Addr]*Machine
	busy     map[line]time.Time // when each slow line has sent all data of streams
	ports    uint16             // last ephemeral port
}

// A line carries the data of one or several paths, one piece after the other.
type line struct{ number, from, to int }

// firstResend and lastResend bound the time after which a stream repeats a lost segment. The time
// doubles with each repetition.
const firstResend, lastResend = 200 * time.Millisecond, 3 * time.Second

// firstPort is the first ephemeral port.
const firstPort = 32768

// New returns a network that delivers at once. The seed decides which packets are lost.
func New(seed uint64) *Network {
	return &Network{
		Until: time.Until, rng: rand.New(rand.NewPCG(seed, 0x6e6574)), rule: func(int, int) Path { return Path{} },
		machines: map[netip.Addr]*Machine{}, busy: map[line]time.Time{}, ports: firstPort,
	}
}

// Follow sets the rule of the network.
func (n *Network) Follow(rule Rule) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rule = rule
}

func (n *Network) path(from, to int) Path {
	n.mu.Lock()
	rule := n.rule
	n.mu.Unlock()
	return rule(from, to)
}

// fate returns how long the delivery of a packet of size bytes takes now, or that it is lost. Packets
// overtake the data of streams on a slow line, as they do on routers that share a line fairly.
func (n *Network) fate(from, to, size int) (takes time.Duration, lost bool) {
	p := n.path(from, to)
	n.mu.Lock()
	defer n.mu.Unlock()
	return p.Latency + p.send(size), n.isLost(p)
}

// queue is like fate for data of a stream. On a slow line, it waits until all data before it has
// been sent.
func (n *Network) queue(from, to, size int) (takes time.Duration, lost bool) {
	p := n.path(from, to)
	n.mu.Lock()
	defer n.mu.Unlock()
	if takes = p.send(size); takes > 0 {
		l := line{number: p.Line}
		if p.Line == 0 {
			l.from, l.to = from, to
		}
		now := time.Now()
		free := n.busy[l]
		if free.Before(now) {
			free = now
		}
		n.busy[l] = free.Add(takes)
		takes = n.busy[l].Sub(now)
	}
	return p.Latency + takes, n.isLost(p)
}

// send returns how long the line of p needs to send so many bytes.
func (p Path) send(size int) time.Duration {
	if p.Rate == 0 {
		return 0
	}
	return time.Duration(float64(size) / p.Rate * float64(time.Second))
}

// isLost decides whether a packet or a segment on p is lost. The caller holds mu.
func (n *Network) isLost(p Path) bool {
	return p.Cut || p.Loss > 0 && n.rng.Float64() < p.Loss
}

// blocked reports whether nothing arrives now.
func (n *Network) blocked(from, to int) bool {
	return n.path(from, to).Cut
}

func (n *Network) at(addr netip.Addr) *Machine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.machines[addr]
}

func (n *Network) ephemeral() uint16 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports++; n.ports < firstPort {
		n.ports = firstPort
	}
	return n.ports
}

// A Machine is an address with ports on the network. A machine that is off neither sends nor
// receives. All methods are safe for concurrent use.
type Machine struct {
	net    *Network
	number int
	addr   netip.Addr

	mu        sync.Mutex // guards the fields below
	off       bool
	listeners map[uint16]*listener
	sockets   map[uint16]*socket
	streams   map[*Stream]struct{}
}

// Machine adds a machine to the network. It replaces an earlier machine with the same address.
func (n *Network) Machine(number int, addr netip.Addr) *Machine {
	m := &Machine{
		net: n, number: number, addr: addr,
		listeners: map[uint16]*listener{}, sockets: map[uint16]*socket{}, streams: map[*Stream]struct{}{},
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.machines[addr] = m
	return m
}

// Number returns the number by which rules know m.
func (m *Machine) Number() int { return m.number }

// Kill ends the sockets of the machine's process, as the kernel does: the other ends of its streams
// are reset. The machine stays on the network and refuses connections. A process that starts on it needs
// a new Machine.
func (m *Machine) Kill() {
	m.net.Machine(m.number, m.addr)
	m.end(true)
}

// Vanish removes the machine without any message to the others.
func (m *Machine) Vanish() { m.end(false) }

func (m *Machine) end(reset bool) {
	m.mu.Lock()
	m.off = true
	var ls []*listener
	for _, l := range m.listeners {
		ls = append(ls, l)
	}
	var ss []*socket
	for _, s := range m.sockets {
		ss = append(ss, s)
	}
	cs := slices.Collect(maps.Keys(m.streams))
	m.mu.Unlock()
	for _, l := range ls {
		l.Close()
	}
	for _, s := range ss {
		s.Close()
	}
	for _, c := range cs {
		c.abort(reset)
	}
}

// Drop resets the machine's connections to other.
func (m *Machine) Drop(other *Machine) {
	m.mu.Lock()
	var cs []*Stream
	for c := range m.streams {
		if c.peer.m == other {
			cs = append(cs, c)
		}
	}
	m.mu.Unlock()
	for _, c := range cs {
		c.arrive(segment{reset: true})
		c.peer.arrive(segment{reset: true})
	}
}

func (m *Machine) isOff() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.off
}

// Listen opens the port of addr for streams and for packets. The address must be that of m. Port 0 chooses a free one.
func (m *Machine) Listen(addr string) (net.Listener, net.PacketConn, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, nil, err
	}
	if ap.Port() == 0 {
		ap = netip.AddrPortFrom(ap.Addr(), m.net.ephemeral())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case ap.Addr() != m.addr:
		return nil, nil, fmt.Errorf("listen %s: %w", addr, syscall.EADDRNOTAVAIL)
	case m.listeners[ap.Port()] != nil || m.sockets[ap.Port()] != nil:
		return nil, nil, fmt.Errorf("listen %s: %w", addr, syscall.EADDRINUSE)
	case m.off:
		return nil, nil, fmt.Errorf("listen %s: %w", addr, syscall.ENETDOWN)
	}
	l := &listener{m: m, at: ap}
	l.cond.L = &l.mu
	m.listeners[ap.Port()] = l
	return l, m.socket(ap.Port()), nil
}

// Dial opens a connection to addr. While the way there or back is cut, a segment is lost, or the
// machine there is off, it tries again until ctx ends. If network is "udp", each Write of the
// connection sends a packet, and each Read returns one.
func (m *Machine) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	if network == "udp" {
		m.mu.Lock()
		defer m.mu.Unlock()
		return &connected{m.socket(m.net.ephemeral()), net.UDPAddrFromAddrPort(ap)}, nil
	}
	there, err := m.shake(ctx, func() (*Machine, time.Duration, bool) { return m.net.at(ap.Addr()), 0, true })
	if err != nil {
		return nil, err
	}
	there.mu.Lock()
	l := there.listeners[ap.Port()]
	there.mu.Unlock()
	if l == nil {
		return nil, errRefused
	}
	ours, theirs := m.connect(there, ap)
	if !l.offer(theirs) {
		ours.abort(false)
		theirs.abort(false)
		return nil, errRefused
	}
	return ours, nil
}

// Connect opens a connection to a machine that has any number of addresses and no listeners, and
// returns both ends. If ready returns false, the machine does not answer, and m tries again until ctx
// ends. Otherwise it returns how much longer the answer takes.
func (m *Machine) Connect(ctx context.Context, there *Machine, to netip.AddrPort,
	ready func() (time.Duration, bool)) (ours, theirs *Stream, err error) {
	_, err = m.shake(ctx, func() (*Machine, time.Duration, bool) {
		takes, ok := ready()
		return there, takes, ok
	})
	if err != nil {
		return nil, nil, err
	}
	ours, theirs = m.connect(there, to)
	return ours, theirs, nil
}

// shake does the TCP handshake, which takes a round trip. Before each attempt it asks where to.
func (m *Machine) shake(ctx context.Context, where func() (there *Machine, takes time.Duration, ok bool),
) (*Machine, error) {
	for resend := firstResend; ; resend = min(2*resend, lastResend) {
		there, takes, ok := where()
		to := Nobody
		if there != nil {
			to = there.number
		}
		out, lost := m.net.fate(m.number, to, 0)
		back, lostToo := m.net.fate(to, m.number, 0)
		if ok = ok && !lost && !lostToo && there != nil && !there.isOff(); ok {
			takes += out + back
		} else {
			takes = resend
		}
		if !clock.Pause(ctx, takes) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
		}
		if m.isOff() {
			return nil, errRefused
		}
		if ok {
			return there, nil
		}
	}
}

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errReset   = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	errPipe    = &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}

	// errTimeout is the error of a read whose deadline has passed, as a net.Error.
	errTimeout = &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
)
