//go:build !linux

package testweb

import (
	"net"
	"syscall"
	"time"
)

// wildcard is a single address, because only Linux answers on all of 127.0.0.0/8 without configuration.
const wildcard = "127.0.0.1"

func bindLoopback(string, string, syscall.RawConn) error { return nil }

func peerClosed(*net.TCPConn) bool { return false }

func sinceHeard(*net.TCPConn) time.Duration { return 20 * time.Millisecond }
