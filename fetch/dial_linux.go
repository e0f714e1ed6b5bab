package fetch

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
)

// dialTCP connects to an address. It does what net.Dialer does but for asking
// the kernel who the two ends are, and lets the leash interrupt it instead of
// a context of its own: for a new connection the crawler's own work is a third
// less. The sockets are the runtime poller's all the same.
func dialTCP(ctx context.Context, l *leash, to netip.AddrPort, until time.Time) (c net.Conn, err error) {
	// The kernel may pick a local port that is taken by then, as net.Dialer
	// knows as well.
	for range 3 {
		if c, err = dialOnce(ctx, l, to, until); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			break
		}
	}
	return c, err
}

func dialOnce(ctx context.Context, l *leash, to netip.AddrPort, until time.Time) (net.Conn, error) {
	if to.Addr().Zone() != "" { // a name that the kernel knows by number
		d := net.Dialer{KeepAlive: -1, Deadline: until}
		return d.DialContext(ctx, tcpFor(to), to.String())
	}
	fail := func(call string, err error) (net.Conn, error) {
		if call != "" {
			err = os.NewSyscallError(call, err)
		}
		return nil, &net.OpError{Op: "dial", Net: tcpFor(to), Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	var at syscall.Sockaddr
	family := syscall.AF_INET
	if ip := to.Addr(); ip.Is4() {
		at = &syscall.SockaddrInet4{Port: int(to.Port()), Addr: ip.As4()}
	} else {
		family, at = syscall.AF_INET6, &syscall.SockaddrInet6{Port: int(to.Port()), Addr: ip.As16()}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, syscall.IPPROTO_TCP)
	if err != nil {
		return fail("socket", err)
	}
	// Without it, the end of a long request would wait for an acknowledgement.
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		syscall.Close(fd)
		return fail("setsockopt", err)
	}
	switch err := syscall.Connect(fd, at); err {
	case nil, syscall.EINPROGRESS, syscall.EINTR:
	default:
		syscall.Close(fd)
		return fail("connect", err)
	}
	c := &tcpConn{os.NewFile(uintptr(fd), "tcp"), to}
	if !l.hold(c) {
		return fail("", net.ErrClosed)
	}
	c.SetWriteDeadline(until)
	// A second call tells how the first went, and whether it is still under
	// way; the poller is asked to wait only then.
	var refused error
	rc, err := c.SyscallConn()
	if err == nil {
		err = rc.Write(func(fd uintptr) bool {
			switch err := syscall.Connect(int(fd), at); err {
			case nil, syscall.EISCONN:
			case syscall.EINPROGRESS, syscall.EALREADY, syscall.EINTR:
				return false
			default:
				refused = err
			}
			return true
		})
	}
	switch {
	case err != nil:
		c.Close()
		return fail("", err)
	case refused != nil:
		c.Close()
		return fail("connect", refused)
	}
	return c, nil
}

// tcpConn is a socket in the runtime's poller.
type tcpConn struct {
	*os.File
	to netip.AddrPort
}

// Read implements net.Conn.
func (c *tcpConn) Read(b []byte) (int, error) {
	n, err := c.File.Read(b)
	if err != nil && err != io.EOF {
		err = c.wrap("read", err)
	}
	return n, err
}

// Write implements net.Conn.
func (c *tcpConn) Write(b []byte) (int, error) {
	n, err := c.File.Write(b)
	if err != nil {
		err = c.wrap("write", err)
	}
	return n, err
}

// wrap makes of a file's error what the net package would say.
func (c *tcpConn) wrap(op string, err error) error {
	var p *fs.PathError
	if !errors.As(err, &p) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: p.Err}
}

// LocalAddr implements net.Conn; nobody has asked the kernel.
func (c *tcpConn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (c *tcpConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.to) }
