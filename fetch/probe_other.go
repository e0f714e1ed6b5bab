//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package fetch

import "net"

// prober cannot tell here; a dead connection shows when it is used.
func prober(net.Conn) func() bool { return nil }

func idleDefault() int { return minIdle }
