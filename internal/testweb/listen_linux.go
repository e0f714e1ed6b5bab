package testweb

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wildcard is the address to listen on; bindLoopback restricts it to the loopback device.
const wildcard = "0.0.0.0"

func bindLoopback(network, address string, rc syscall.RawConn) error {
	return rc.Control(func(fd uintptr) {
		// Kernels before 5.7 refuse this to ordinary users. The check after Accept is then the only one.
		unix.SetsockoptString(int(fd), unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "lo")
	})
}

func tcpInfo(c *net.TCPConn) (info *unix.TCPInfo) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	rc.Control(func(fd uintptr) {
		info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	return info
}

// peerClosed asks the kernel whether the other end has closed or reset the connection.
func peerClosed(c *net.TCPConn) bool {
	const established = 1
	info := tcpInfo(c)
	return info == nil || info.State != established
}

// sinceHeard returns the time since the last segment from the other end. If the connection has just ended, that is the
// closing segment.
func sinceHeard(c *net.TCPConn) time.Duration {
	info := tcpInfo(c)
	if info == nil {
		return 20 * time.Millisecond
	}
	const jiffy = 10 * time.Millisecond // the kernel's clock may be as coarse as this
	return time.Duration(info.Last_ack_recv)*time.Millisecond + jiffy
}
