//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package fetch

import "net"

// socket cannot probe on this system. A dead connection is found when it is used.
type socket struct{}

func newSocket(net.Conn) *socket { return nil }

func (*socket) probe() state { return silent }

func (*socket) unacked() bool { return false }
