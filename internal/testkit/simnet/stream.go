package simnet

import (
	"io"
	"net"
	"net/netip"
	"time"
)

// A Stream is one end of a connection. Written data leaves at once and arrives in order, each piece
// when the network delivers it. It implements net.Conn.
type Stream struct {
	inbox
	local, remote netip.AddrPort
	peer          *Stream
	hears         func(n int) // is told of each read of n bytes; nil: nothing is

	// The mutex of the inbox guards the fields below.
	in     []byte    // arrived and not read yet
	err    error     // follows the data of in: io.EOF or a reset
	out    []segment // segments on their way, in order
	busy   bool      // a timer is set to deliver out
	resend time.Duration
	drops  bool // Close drops what the network could not deliver, see SetLinger
}

// A segment is a piece on its way. A nil b means the end of the stream.
type segment struct {
	b     []byte
	at    time.Time // when it arrives, if it is not lost
	reset bool
}

// connect returns the two ends of a new connection from m to the address to of there.
func (m *Machine) connect(there *Machine, to netip.AddrPort) (ours, theirs *Stream) {
	from := netip.AddrPortFrom(m.addr, m.net.ephemeral())
	ours = &Stream{inbox: inbox{m: m}, local: from, remote: to}
	theirs = &Stream{inbox: inbox{m: there}, local: to, remote: from}
	ours.peer, theirs.peer = theirs, ours
	for _, s := range []*Stream{ours, theirs} {
		s.cond.L = &s.mu
		s.m.mu.Lock()
		s.m.streams[s] = struct{}{}
		s.m.mu.Unlock()
	}
	return ours, theirs
}

// OnRead sets a function that is told of each read of n bytes from s. It must not call methods of s.
func (s *Stream) OnRead(f func(n int)) { s.hears = f }

func (s *Stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed:
			return 0, net.ErrClosed
		case s.late():
			return 0, errTimeout
		case len(s.in) > 0:
			n := copy(b, s.in)
			if s.hears != nil {
				s.hears(n)
			}
			if s.in = s.in[n:]; len(s.in) == 0 {
				s.in = nil
			}
			return n, nil
		case s.err != nil:
			return 0, s.err
		case len(b) == 0:
			return 0, nil
		}
		s.cond.Wait()
	}
}

// Write implements net.Conn. It never blocks.
func (s *Stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return 0, net.ErrClosed
	case s.err != nil && s.err != io.EOF:
		return 0, errPipe
	case len(b) == 0:
		return 0, nil
	}
	s.send(segment{b: append([]byte(nil), b...)})
	return len(b), nil
}

// send puts a segment on its way. The caller holds mu.
func (s *Stream) send(g segment) {
	takes, lost := s.m.net.queue(s.m.number, s.peer.m.number, len(g.b))
	if lost {
		takes += firstResend
	}
	g.at = time.Now().Add(takes)
	if n := len(s.out); n > 0 && g.at.Before(s.out[n-1].at) {
		g.at = s.out[n-1].at
	}
	s.out = append(s.out, g)
	if !s.busy {
		s.busy = true
		time.AfterFunc(time.Until(g.at), s.deliver)
	}
}

// deliver gives the peer everything that is due, and sets a timer for the rest.
func (s *Stream) deliver() {
	s.mu.Lock()
	now := time.Now()
	var there []segment
	for len(s.out) > 0 && !s.out[0].at.After(now) {
		if s.m.net.blocked(s.m.number, s.peer.m.number) { // the stream repeats it later
			s.resend = min(max(2*s.resend, firstResend), lastResend)
			later := now.Add(s.resend)
			for i := range s.out {
				if s.out[i].at.Before(later) {
					s.out[i].at = later
				}
			}
			break
		}
		s.resend = 0
		there = append(there, s.out[0])
		s.out = s.out[1:]
	}
	s.mu.Unlock()
	for _, g := range there {
		s.peer.arrive(g)
	}
	s.mu.Lock() // only now: another deliver might overtake this one
	defer s.mu.Unlock()
	if len(s.out) > 0 {
		time.AfterFunc(time.Until(s.out[0].at), s.deliver)
	} else {
		s.out, s.busy = nil, false
	}
}

// arrive takes a segment from the peer.
func (s *Stream) arrive(g segment) {
	if s.m.isOff() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		if len(g.b) > 0 && !g.reset { // it cannot be read any more: reset the peer
			s.send(segment{reset: true})
		}
		return
	}
	switch {
	case s.err != nil:
		return
	case g.reset:
		s.in, s.err = nil, errReset
	case g.b == nil:
		s.err = io.EOF
	default:
		s.in = append(s.in, g.b...)
	}
	s.cond.Broadcast()
}

// Close implements net.Conn. The peer can read the written data, and then the end.
func (s *Stream) Close() error {
	s.mu.Lock()
	drops := s.drops && !s.closed
	if drops && s.resend > 0 {
		s.out = nil
	}
	s.mu.Unlock()
	err := s.shut(!drops)
	if drops {
		s.mu.Lock()
		s.send(segment{reset: true})
		s.mu.Unlock()
	}
	return err
}

// SetLinger says with zero that Close drops the data that the network did not deliver at the first try, and resets
// the peer, as net.TCPConn does. Other values have no effect.
func (s *Stream) SetLinger(seconds int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drops = seconds == 0
	return nil
}

// abort ends the stream. The peer cannot read the rest. If tell is false, the peer does not learn
// of it.
func (s *Stream) abort(tell bool) {
	s.mu.Lock()
	if !s.closed {
		s.out = nil
	}
	s.mu.Unlock()
	s.shut(false)
	if tell {
		s.mu.Lock()
		s.send(segment{reset: true})
		s.mu.Unlock()
	}
}

func (s *Stream) shut(end bool) error {
	s.m.mu.Lock()
	delete(s.m.streams, s)
	s.m.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return net.ErrClosed
	}
	s.closed = true
	s.quiet()
	if end && s.err != errReset {
		s.send(segment{reset: len(s.in) > 0})
	}
	s.in = nil
	s.cond.Broadcast()
	return nil
}

// Reset ends the stream. The peer cannot read the rest, and gets an error.
func (s *Stream) Reset() { s.abort(true) }

// Deserted reports whether the peer has reset the stream, or its machine is off. A request on it ends
// then, although a real server may not notice that the machine is off.
func (s *Stream) Deserted() bool {
	if s.peer.m.isOff() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == errReset
}

func (s *Stream) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(s.local) }

func (s *Stream) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(s.remote) }
