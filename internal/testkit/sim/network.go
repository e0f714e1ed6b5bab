package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// A path says how the network treats data from one machine to another.
type path struct {
	latency time.Duration
	loss    float64 // share of packets lost; a stream sends a lost segment again
	rate    float64 // bytes a second of the line; 0: no limit
	line    int     // paths with the same number share a line; 0: this path has a line of its own
	cut     bool    // nothing arrives; a stream repeats its segments until the cut ends
}

// A network connects machines, which have numbers; number 0 is the web's. It carries streams (TCP)
// and packets (UDP). Writing never blocks: latency, loss, cuts and rates act on the delivery. All
// methods are safe for concurrent use.
type network struct {
	mu       sync.Mutex // guards the fields below
	rng      *rand.Rand
	rule     func(from, to int) path
	machines map[netip.Addr]*machine
	streams  map[*stream]struct{}
	busy     map[line]time.Time // when each slow line has sent all data of streams
	ports    uint16             // last ephemeral port
	carried  int64              // packets and segments delivered
	lost     int64              // packets lost, and segments repeated
}

// A line carries the data of one or several paths, one piece after the other.
type line struct{ number, from, to int }

// firstResend and lastResend bound the time after which a stream repeats a lost segment. The time
// doubles with each repetition.
const firstResend, lastResend = 200 * time.Millisecond, 3 * time.Second

func newNetwork(seed uint64) *network {
	return &network{
		rng: rand.New(rand.NewPCG(seed, 0x6e6574)), rule: func(int, int) path { return path{} },
		machines: map[netip.Addr]*machine{}, streams: map[*stream]struct{}{}, busy: map[line]time.Time{}, ports: 32768,
	}
}

// follow sets the rules of the network.
func (n *network) follow(rule func(from, to int) path) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rule = rule
}

// fate returns how long the delivery of a packet of size bytes takes now, or that it is lost. Packets
// overtake the data of streams on a slow line, as they do on routers that share a line fairly.
func (n *network) fate(from, to, size int) (takes time.Duration, lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.rule(from, to)
	return p.latency + p.send(size), n.isLost(p)
}

// queue is like fate for data of a stream. On a slow line, it waits until all data before it has
// been sent.
func (n *network) queue(from, to, size int) (takes time.Duration, lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.rule(from, to)
	if takes = p.send(size); takes > 0 {
		l := line{number: p.line}
		if p.line == 0 {
			l.from, l.to = from, to
		}
		now := time.Now()
		n.busy[l] = later(now, n.busy[l]).Add(takes)
		takes = n.busy[l].Sub(now)
	}
	return p.latency + takes, n.isLost(p)
}

// send returns how long the line of p needs to send so many bytes.
func (p path) send(size int) time.Duration {
	if p.rate == 0 {
		return 0
	}
	return time.Duration(float64(size) / p.rate * float64(time.Second))
}

// isLost decides whether a packet or a segment on p is lost, and counts it. The caller holds mu.
func (n *network) isLost(p path) bool {
	lost := p.cut || p.loss > 0 && n.rng.Float64() < p.loss
	if lost {
		n.lost++
	} else {
		n.carried++
	}
	return lost
}

// A machine is an address with ports on the network. A machine that is off neither sends nor
// receives.
type machine struct {
	net    *network
	number int
	addr   netip.Addr

	mu        sync.Mutex // guards the fields below
	off       bool
	listeners map[uint16]*listener
	sockets   map[uint16]*socket
	conns     map[*stream]struct{}
}

// machine adds a machine to the network. It replaces an earlier machine with the same address.
func (n *network) machine(number int, addr netip.Addr) *machine {
	m := &machine{
		net: n, number: number, addr: addr,
		listeners: map[uint16]*listener{}, sockets: map[uint16]*socket{}, conns: map[*stream]struct{}{},
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.machines[addr] = m
	return m
}

func (n *network) at(addr netip.Addr) *machine {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.machines[addr]
}

func (n *network) ephemeral() uint16 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports++; n.ports == 0 {
		n.ports = 32768
	}
	return n.ports
}

// kill ends the sockets of the machine's process, as the kernel does: the other ends of its streams
// are reset. The machine stays on the network and refuses connections.
func (m *machine) kill() {
	m.net.machine(m.number, m.addr)
	m.end(true)
}

// vanish removes the machine without any message to the others.
func (m *machine) vanish() { m.end(false) }

func (m *machine) end(reset bool) {
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
	var cs []*stream
	for c := range m.conns {
		cs = append(cs, c)
	}
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

// drop resets the machine's connections to other.
func (m *machine) drop(other *machine) {
	m.mu.Lock()
	var cs []*stream
	for c := range m.conns {
		if c.peer.m == other {
			cs = append(cs, c)
		}
	}
	m.mu.Unlock()
	for _, c := range cs {
		c.abort(true)
		c.peer.abort(true)
	}
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}

// Listen implements node.Network.
func (m *machine) Listen(addr string) (net.Listener, net.PacketConn, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, nil, err
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
	s := &socket{m: m, at: ap}
	s.cond.L = &s.mu
	m.listeners[ap.Port()], m.sockets[ap.Port()] = l, s
	return l, s, nil
}

// Dial implements node.Network and rpc.Dialer.
func (m *machine) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	there := m.net.at(ap.Addr())
	to := -1
	if there != nil {
		to = there.number
	}
	resend := firstResend
	for { // the TCP handshake takes a round trip
		out, lost := m.net.fate(m.number, to, 0)
		back, lostToo := m.net.fate(to, m.number, 0)
		wait := out + back
		if lost || lostToo || there == nil || there.isOff() {
			wait, lost = resend, true
			resend = min(2*resend, lastResend)
		} else {
			lost = false
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
		}
		if m.isOff() {
			return nil, errRefused
		}
		if !lost {
			break
		}
		there = m.net.at(ap.Addr()) // a machine may have come meanwhile
		if there != nil {
			to = there.number
		}
	}
	l := there.listener(ap.Port())
	if l == nil {
		return nil, errRefused
	}
	ours, theirs := m.connect(there, netip.AddrPortFrom(m.addr, m.net.ephemeral()), ap)
	if !l.offer(theirs) {
		ours.abort(false)
		theirs.abort(false)
		return nil, errRefused
	}
	return ours, nil
}

// sleep waits for d of virtual time. It returns the error of ctx if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *machine) isOff() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.off
}

func (m *machine) listener(port uint16) *listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listeners[port]
}

// A listener is the TCP side of a port.
type listener struct {
	m  *machine
	at netip.AddrPort

	mu     sync.Mutex // guards the fields below
	cond   sync.Cond
	queue  []*stream
	closed bool
}

func (l *listener) offer(s *stream) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, s)
	l.cond.Signal()
	return true
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closed {
		l.cond.Wait()
	}
	if l.closed {
		return nil, net.ErrClosed
	}
	s := l.queue[0]
	l.queue = l.queue[1:]
	return s, nil
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.m.mu.Lock()
	if l.m.listeners[l.at.Port()] == l {
		delete(l.m.listeners, l.at.Port())
	}
	l.m.mu.Unlock()
	l.mu.Lock()
	left := l.queue
	l.queue, l.closed = nil, true
	l.cond.Broadcast()
	l.mu.Unlock()
	for _, s := range left {
		s.abort(true)
	}
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

// A socket is the UDP side of a port.
type socket struct {
	m  *machine
	at netip.AddrPort

	mu     sync.Mutex // guards the fields below
	cond   sync.Cond
	queue  []packet
	woken  bool // a deadline in the past has ended the reading
	closed bool
}

type packet struct {
	b    []byte
	from netip.AddrPort
}

// mostQueued is the number of packets that a socket keeps. It drops later ones.
const mostQueued = 1024

// ReadFrom implements net.PacketConn.
func (s *socket) ReadFrom(b []byte) (int, net.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.closed && !s.woken {
		s.cond.Wait()
	}
	switch {
	case s.closed:
		return 0, nil, net.ErrClosed
	case s.woken:
		return 0, nil, os.ErrDeadlineExceeded
	}
	p := s.queue[0]
	s.queue = s.queue[1:]
	return copy(b, p.b), net.UDPAddrFromAddrPort(p.from), nil
}

// WriteTo implements net.PacketConn.
func (s *socket) WriteTo(b []byte, to net.Addr) (int, error) {
	ap, err := netip.ParseAddrPort(to.String())
	if err != nil {
		return 0, err
	}
	there := s.m.net.at(ap.Addr())
	if there == nil || s.m.isOff() {
		return len(b), nil
	}
	takes, lost := s.m.net.fate(s.m.number, there.number, len(b))
	if lost {
		return len(b), nil
	}
	p := packet{append([]byte(nil), b...), s.at}
	time.AfterFunc(takes, func() {
		there.mu.Lock()
		in := there.sockets[ap.Port()]
		there.mu.Unlock()
		if in == nil {
			return
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		if len(in.queue) < mostQueued && !in.closed {
			in.queue = append(in.queue, p)
			in.cond.Signal()
		}
	})
	return len(b), nil
}

// Close implements net.PacketConn.
func (s *socket) Close() error {
	s.m.mu.Lock()
	if s.m.sockets[s.at.Port()] == s {
		delete(s.m.sockets, s.at.Port())
	}
	s.m.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cond.Broadcast()
	return nil
}

// LocalAddr implements net.PacketConn.
func (s *socket) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(s.at) }

// SetReadDeadline implements net.PacketConn for deadlines in the past, which end a read.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken = !t.IsZero() && until(t) <= 0
	s.cond.Broadcast()
	return nil
}

// SetDeadline implements net.PacketConn.
func (s *socket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

// SetWriteDeadline implements net.PacketConn. Writing never blocks.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

var errPipe = &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}

// errTimeout is the error of a read whose deadline has passed, as a net.Error.
var errTimeout = &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
