//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package fetch

import (
	"net"
	"syscall"
)

// idleDefault is a quarter of the descriptors that we may have: the others are
// for connections in use, name servers and files.
func idleDefault() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return minIdle
	}
	return int(min(max(l.Cur/4, minIdle), maxIdle))
}

// prober returns a function that peeks into what waits to be read from c and
// says whether that is nothing. It is nil where c cannot tell. (Session
// tickets come before the first response and have been read with it.)
func prober(c net.Conn) func() bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	var silent bool
	var b [1]byte
	peek := func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = err == syscall.EAGAIN || err == syscall.EINTR
	}
	return func() bool { return rc.Control(peek) == nil && silent }
}
