package simnet

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// An inbox is what a socket and a stream have in common: a reader that waits, with a deadline.
type inbox struct {
	m *Machine

	mu     sync.Mutex // guards the fields below, and those of the socket or the stream
	cond   sync.Cond
	until  time.Time // the deadline of reads; zero: none
	alarm  *time.Timer
	closed bool
}

// late reports whether the deadline has passed. The caller holds mu.
func (i *inbox) late() bool { return !i.until.IsZero() && i.m.net.Until(i.until) <= 0 }

// SetReadDeadline implements net.Conn and net.PacketConn.
func (i *inbox) SetReadDeadline(t time.Time) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		return net.ErrClosed
	}
	i.until = t
	i.quiet()
	if !t.IsZero() && !i.late() {
		i.alarm = time.AfterFunc(i.m.net.Until(t), func() {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.cond.Broadcast()
		})
	}
	i.cond.Broadcast()
	return nil
}

// quiet stops the alarm. The caller holds mu.
func (i *inbox) quiet() {
	if i.alarm != nil {
		i.alarm.Stop()
		i.alarm = nil
	}
}

// SetDeadline implements net.Conn and net.PacketConn.
func (i *inbox) SetDeadline(t time.Time) error { return i.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn and net.PacketConn. Writing never blocks.
func (i *inbox) SetWriteDeadline(time.Time) error { return nil }

// A listener is the TCP side of a port. It implements net.Listener.
type listener struct {
	m  *Machine
	at netip.AddrPort

	mu     sync.Mutex // guards the fields below
	cond   sync.Cond
	queue  []*Stream
	closed bool
}

func (l *listener) offer(s *Stream) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.queue = append(l.queue, s)
	l.cond.Signal()
	return true
}

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

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

// A socket is the UDP side of a port. It implements net.PacketConn.
type socket struct {
	inbox
	at     netip.AddrPort
	answer func([]byte) []byte // nil: packets wait for ReadFrom
	queue  []packet            // guarded by mu
}

type packet struct {
	b    []byte
	from netip.AddrPort
}

// mostQueued is the number of packets that a socket keeps. It drops later ones.
const mostQueued = 1024

// socket opens the port for packets. A machine that is off gets none. The caller holds m.mu.
func (m *Machine) socket(port uint16) *socket {
	s := &socket{inbox: inbox{m: m}, at: netip.AddrPortFrom(m.addr, port)}
	s.cond.L = &s.mu
	if !m.off {
		m.sockets[port] = s
	}
	return s
}

// Answer calls f with each packet that arrives at the port, and sends the result back unless it is nil.
func (m *Machine) Answer(port uint16, f func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.socket(port).answer = f
}

func (s *socket) ReadFrom(b []byte) (int, net.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && !s.closed && !s.late() {
		s.cond.Wait()
	}
	switch {
	case s.closed:
		return 0, nil, net.ErrClosed
	case s.late():
		return 0, nil, errTimeout
	}
	p := s.queue[0]
	s.queue = s.queue[1:]
	return copy(b, p.b), net.UDPAddrFromAddrPort(p.from), nil
}

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
		if in != nil {
			in.arrive(p)
		}
	})
	return len(b), nil
}

func (s *socket) arrive(p packet) {
	if s.answer != nil {
		if b := s.answer(p.b); b != nil {
			s.WriteTo(b, net.UDPAddrFromAddrPort(p.from))
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) < mostQueued && !s.closed {
		s.queue = append(s.queue, p)
		s.cond.Signal()
	}
}

func (s *socket) Close() error {
	s.m.mu.Lock()
	if s.m.sockets[s.at.Port()] == s {
		delete(s.m.sockets, s.at.Port())
	}
	s.m.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.quiet()
	s.cond.Broadcast()
	return nil
}

func (s *socket) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(s.at) }

// A connected socket sends all packets to one address. It does not check where packets come from.
type connected struct {
	*socket
	to net.Addr
}

func (c *connected) Write(b []byte) (int, error) { return c.WriteTo(b, c.to) }
func (c *connected) RemoteAddr() net.Addr        { return c.to }
func (c *connected) Read(b []byte) (int, error) {
	n, _, err := c.ReadFrom(b)
	return n, err
}
