//go:build !linux

package testweb

type idleRead struct{}

// readIdle waits for the first byte of a request.
func (c *conn) readIdle() error { return c.readIdleTLS() }
