package fetch

import "net"

// state is what a probe of an idle connection finds.
type state uint8

const (
	silent  state = iota // open with nothing to read, or the probe cannot tell
	unasked              // the server sent bytes that no request asked for
	ended                // closed or broken
)

// probe reports whether c can take another request. It never blocks. Bytes that no request asked
// for would be taken for the next response: a 408 before the server closes, or the rest of a body
// longer than announced. Over TLS, probe reads what the session holds and what has arrived. The
// session processes its own messages, such as tickets; anything else counts as unasked.
func (c *conn) probe() state {
	if c.sock == nil {
		c.sock = newSocket(c.raw)
	}
	switch {
	case c.tap != nil:
		c.tap.sock = c.sock
		s := c.drain(passArrived)
		if s == silent && !c.tap.atRecordEnd() {
			return unasked // half a record may become a response
		}
		return s
	case c.sock != nil:
		return c.sock.probe()
	}
	return silent
}

// held reports whether the TLS session holds more bytes from the server than we have read. It does
// not look at the socket and makes no system call.
func (c *conn) held() state {
	if c.tap == nil {
		return silent
	}
	return c.drain(passNone)
}

// drain reads from the TLS session with the tap's gate at g.
func (c *conn) drain(g gate) state {
	c.tap.gate = g
	n, err := c.rw.Read(c.one[:])
	c.tap.gate = passAll
	switch {
	case n > 0:
		return unasked
	case err == errNothing:
		return silent
	}
	return ended
}

// early reports whether bytes of the server arrived before the server's system had the whole
// request. Such bytes cannot be the answer to it: each TCP segment tells how far its sender has
// received, so an answer acknowledges its request.
func (c *conn) early() bool { return c.sock != nil && c.sock.unacked() }

// gate selects the bytes that a tap passes to the TLS session.
type gate uint8

const (
	passAll     gate = iota // all bytes; Read blocks
	passArrived             // only bytes that are already in the socket
	passNone                // no bytes
)

// tap is the connection below a TLS session. With its gate at passArrived or passNone, a Read of
// the session ends without blocking, and the session stays usable.
type tap struct {
	net.Conn
	sock *socket // nil: passArrived is passNone
	gate gate

	// The position in the stream of records. A record has a header of 5 bytes and a body (RFC 8446,
	// 5.1).
	head [5]byte
	have int // bytes of head that have been read
	left int // bytes of the body still to come, if head is complete
}

// Read implements net.Conn. It returns errNothing if the gate lets no byte pass.
func (t *tap) Read(p []byte) (int, error) {
	if t.gate == passNone || t.gate == passArrived && (t.sock == nil || t.sock.probe() == silent) {
		return 0, errNothing
	}
	n, err := t.Conn.Read(p)
	t.follow(p[:n])
	return n, err
}

// follow advances the position in the stream of records by p.
func (t *tap) follow(p []byte) {
	for len(p) > 0 {
		if t.have < len(t.head) {
			k := copy(t.head[t.have:], p)
			t.have += k
			p = p[k:]
			if t.have < len(t.head) {
				return
			}
			t.left = int(t.head[3])<<8 | int(t.head[4])
		}
		k := min(t.left, len(p))
		t.left -= k
		p = p[k:]
		if t.left == 0 {
			t.have = 0
		}
	}
}

// atRecordEnd reports whether the last record is complete.
func (t *tap) atRecordEnd() bool { return t.have == 0 }

// errNothing ends a Read of a tap. It is a temporary error, because crypto/tls keeps a session
// usable after one.
var errNothing error = nothing{}

type nothing struct{}

func (nothing) Error() string   { return "nothing to read" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }
