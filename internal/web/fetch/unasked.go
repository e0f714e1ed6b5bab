package fetch

import "net"

// state is what a look at an idle connection finds.
type state uint8

const (
	silent state = iota // open, and nothing to read; or nothing can tell
	spoke               // the server sent bytes that no request asked for
	ended               // closed or broken
)

// look reports whether c can take another request. It never waits. Bytes that
// no request asked for (a 408 before the server closes, the rest of a body
// longer than announced) would be taken for the next response. Over TLS, look
// reads what the session holds and what has arrived: the session takes in its
// own messages, such as tickets, and anything else counts as spoke.
func (c *conn) look() state {
	if c.sock == nil {
		c.sock = newSocket(c.raw)
	}
	switch {
	case c.tap != nil:
		c.tap.sock = c.sock
		s := c.drain(arrived)
		if s == silent && !c.tap.whole() {
			return spoke // half a record may become a response
		}
		return s
	case c.sock != nil:
		return c.sock.look()
	}
	return silent
}

// held reports whether the TLS session has more bytes of the server's than
// have been read. It does not look at the socket, and costs no system call.
func (c *conn) held() state {
	if c.tap == nil {
		return silent
	}
	return c.drain(shut)
}

// drain reads from the TLS session with the tap's gate at g.
func (c *conn) drain(g gate) state {
	c.tap.gate = g
	n, err := c.rw.Read(c.one[:])
	c.tap.gate = open
	switch {
	case n > 0:
		return spoke
	case err == errNothing:
		return silent
	}
	return ended
}

// early reports that bytes of the server have come before its system had the
// whole request: they cannot be the answer to it. Each TCP segment tells how
// far its sender has received, so an answer acknowledges its request.
func (c *conn) early() bool { return c.sock != nil && c.sock.unacked() }

// gate says which bytes a tap lets through.
type gate uint8

const (
	open    gate = iota // all; Read waits
	arrived             // those that are in the socket
	shut                // none
)

// tap is the connection beneath a TLS session. With its gate at arrived or
// shut, a Read of the session ends without waiting, and the session can go on.
type tap struct {
	net.Conn
	sock *socket // nil: arrived is shut
	gate gate

	// The place in the stream of records, each of 5 bytes of header and a
	// body (RFC 8446, 5.1).
	head [5]byte
	have int // bytes of head
	left int // bytes of the body to come, if head is full
}

// Read implements net.Conn. Its error is errNothing if the gate holds.
func (t *tap) Read(p []byte) (int, error) {
	if t.gate == shut || t.gate == arrived && (t.sock == nil || t.sock.look() == silent) {
		return 0, errNothing
	}
	n, err := t.Conn.Read(p)
	t.follow(p[:n])
	return n, err
}

// follow moves the place in the stream of records on by p.
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

// whole says that the last record has come to its end.
func (t *tap) whole() bool { return t.have == 0 }

// errNothing ends a Read of a tap. crypto/tls keeps a session whose connection
// gives a temporary error.
var errNothing error = nothing{}

type nothing struct{}

func (nothing) Error() string   { return "nothing to read" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }
