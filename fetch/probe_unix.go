//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package fetch

import (
	"net"
	"syscall"
)

// prober returns a function that peeks into what waits to be read from c:
// true for nothing (or, with tickets, for TLS data that is no alert). It is nil where c cannot tell.
func prober(c net.Conn, tickets bool) func() bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	const alert = 21 // TLS record type (RFC 8446, 5.1)
	var silent bool
	var b [1]byte
	peek := func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch {
		case err == syscall.EAGAIN || err == syscall.EINTR:
			silent = true
		default:
			silent = err == nil && n == 1 && tickets && b[0] != alert
		}
	}
	return func() bool { return rc.Control(peek) == nil && silent }
}
