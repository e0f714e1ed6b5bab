package testweb

import (
	"io"
	"syscall"
)

// An idleRead is a read that takes a buffer only when there is something to read. So thousands of idle connections hold
// no buffers.
type idleRead struct {
	rc  syscall.RawConn
	f   func(fd uintptr) bool
	n   int
	err error
}

// readIdle waits for the first bytes of a request and reads them into c.in.
func (c *conn) readIdle() error {
	if c.secure {
		return c.readIdleTLS()
	}
	if c.idle.rc == nil {
		rc, err := c.tcp.SyscallConn()
		if err != nil {
			return err
		}
		c.idle.rc, c.idle.f = rc, c.tryRead
	}
	c.idle.n, c.idle.err = 0, nil
	err := c.idle.rc.Read(c.idle.f)
	if err == nil {
		err = c.idle.err
	}
	if err == nil && c.idle.n == 0 {
		err = io.EOF
	}
	c.noteRead(c.idle.n, err)
	return err
}

// tryRead reads if there is something to read. Otherwise it returns false, and the poller calls it again.
func (c *conn) tryRead(fd uintptr) bool {
	c.takeBuffer()
	var err error
	for {
		c.idle.n, err = syscall.Read(int(fd), c.in[:cap(c.in)])
		if err != syscall.EINTR {
			break
		}
	}
	if err == syscall.EAGAIN {
		c.idle.n = 0
		c.giveBack()
		return false
	}
	c.idle.n = max(c.idle.n, 0)
	c.in, c.idle.err = c.in[:c.idle.n], err
	return true
}
