package testweb

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wildcard is the address to listen on; bindLoopback confines it to loopback.
const wildcard = "0.0.0.0"

func bindLoopback(network, address string, rc syscall.RawConn) error {
	return rc.Control(func(fd uintptr) {
		// Kernels before 5.7 refuse this to ordinary users; the check after
		// accept holds then.
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

// peerClosed asks the kernel whether the other end has closed or reset.
func peerClosed(c *net.TCPConn) bool {
	const established = 1
	info := tcpInfo(c)
	return info == nil || info.State != established
}

// sinceHeard is the time since the other end's last segment, which is the
// closing one where the connection has just ended.
func sinceHeard(c *net.TCPConn) time.Duration {
	info := tcpInfo(c)
	if info == nil {
		return 20 * time.Millisecond
	}
	const jiffy = 10 * time.Millisecond // the kernel's clock may be so coarse
	return time.Duration(info.Last_ack_recv)*time.Millisecond + jiffy
}
