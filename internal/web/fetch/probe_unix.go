//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package fetch

import (
	"net"
	"syscall"
)

// socket probes a TCP connection without reading from it. One goroutine owns it.
type socket struct {
	rc          syscall.RawConn
	peek, count func(fd uintptr) // made once, so that a probe allocates nothing
	seen        state
	pending     bool
}

// newSocket returns nil if c is not a connection of the operating system.
func newSocket(c net.Conn) *socket {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{rc: rc}
	var b [1]byte
	s.peek = func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN || err == syscall.EINTR:
			s.seen = silent
		case err == nil && n > 0:
			s.seen = unasked
		default:
			s.seen = ended
		}
	}
	s.count = func(fd uintptr) { s.pending = unacked(int(fd)) }
	return s
}

// probe reports what there is to read. It never blocks.
func (s *socket) probe() state {
	if s.rc.Control(s.peek) != nil {
		return ended
	}
	return s.seen
}

// unacked reports whether the other side's system has not yet acknowledged all bytes that we sent.
func (s *socket) unacked() bool { return s.rc.Control(s.count) == nil && s.pending }
