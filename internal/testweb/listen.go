package testweb

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

type counter struct{ atomic.Int64 }

// listenLoopback listens on port on every address of 127.0.0.0/8 at once, because a socket for each address would not
// scale to many hosts. If the system allows it, the socket is bound to the loopback device. In any case the listener
// closes connections whose local address is not loopback, without reading them.
func listenLoopback(port int, routed bool) (net.Listener, error) {
	lc := net.ListenConfig{Control: bindLoopback, KeepAlive: -1}
	if routed {
		lc.Control = nil
	}
	return lc.Listen(context.Background(), "tcp4", wildcard+":"+strconv.Itoa(port))
}

// A listener wraps the connections that it accepts in conns, which report to the tracker.
type listener struct {
	net.Listener
	web    *Web
	secure bool // HTTPS
	raws   *sync.WaitGroup
	live   *connSet
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		tcp := c.(*net.TCPConn)
		local := tcp.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		if !local.IsLoopback() && !l.web.ips.own[local] {
			tcp.Close()
			continue
		}
		return l.web.newConn(tcp, local, l.secure, nil, l.raws, l.live), nil
	}
}

// newConn returns a conn over tcp, and reports it to the tracker. The client connected to local, and ahead are bytes
// that it has sent and that were read already.
func (w *Web) newConn(tcp *net.TCPConn, local netip.Addr, secure bool, ahead []byte, raws *sync.WaitGroup,
	live *connSet) *conn {
	k := &conn{Conn: tcp, tcp: tcp, web: w, id: w.connIDs.Add(1), secure: secure, raws: raws, live: live, local: local}
	k.remote = tcp.RemoteAddr().(*net.TCPAddr).AddrPort()
	if secure {
		k.records = &recordWriter{TCPConn: tcp, local: local, ahead: ahead}
		k.Conn = tls.Server(k.records, w.tls)
	} else if len(ahead) > 0 {
		k.in, k.lastRead = ahead, w.track.now()
		k.begun = k.lastRead
	}
	live.add(k)
	w.track.connected(k)
	return k
}

// connSet is the set of open connections. A shutdown closes them, including those that net/http has given up.
type connSet struct {
	mu   sync.Mutex // guards the fields below
	m    map[*conn]struct{}
	done bool
}

func (s *connSet) add(c *conn) {
	s.mu.Lock()
	s.m[c] = struct{}{}
	done := s.done
	s.mu.Unlock()
	if done {
		c.tcp.Close()
	}
}

func (s *connSet) del(c *conn) { s.mu.Lock(); delete(s.m, c); s.mu.Unlock() }

func (s *connSet) closeAll() {
	s.mu.Lock()
	s.done = true
	all := slices.Collect(maps.Keys(s.m))
	s.mu.Unlock()
	for _, c := range all {
		c.tcp.Close()
	}
}

// A conn is one client connection and the current request on it.
//
// Two goroutines may read from it, because net/http watches for the client's close while a handler runs.
type conn struct {
	net.Conn // the TCP connection, or TLS over it
	tcp      *net.TCPConn
	records  *recordWriter // writes of TLS go through it; nil for plain HTTP
	web      *Web
	id       int64
	secure   bool
	local    netip.Addr
	remote   netip.AddrPort
	raws     *sync.WaitGroup
	live     *connSet

	mu        sync.Mutex // guards the fields below; times are tracker.now nanoseconds, 0 means never
	begun     int64      // first byte of the current request
	next      int64      // first byte that came during a response
	lastRead  int64
	lastWrite int64 // when the last write began
	gone      int64 // when the client closed
	goneSeen  int64 // when that was noticed
	handling  bool
	body      bool // the current request has a body, so later bytes do not begin another request
	req       *request
	host      *hostState // the host whose connection this is
	closed    bool

	// Only the goroutine of the handler uses these. held is the first part of a response, which is held back until the
	// rest of it comes a few instructions later.
	hold bool
	held []byte
	line *line // the client's network line; nil before the first write
	used bool  // the connection has had a response

	// Only the front uses these, and net/http the first one while it has the connection.
	pre       []byte  // bytes that were read already and come first
	in        []byte  // bytes that were read and not answered yet
	inBuf     *[]byte // the pooled buffer of in
	answered  int     // length of the current request in in
	first     [1]byte // the buffer of readIdleTLS
	idle      idleRead
	lastField string // the Host field that led to lastHost
	lastHost  int64

	// waiting is the time since which the front waits for a request. If it is negative, the front waits since -waiting
	// for the rest of a request. 0: it does not wait.
	waiting atomic.Int64

	// The tracker's entries in the tables tab. Only the goroutine that serves the request uses these.
	tab   *tables
	addr  *addrState
	state *hostState // of the Origin's host that was requested last
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.pre) > 0 {
		n := copy(p, c.pre)
		c.pre = c.pre[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	c.noteRead(n, err)
	return n, err
}

// readIdleTLS waits for a single byte. By then TLS has decrypted the whole record, and fill reads the rest of it.
func (c *conn) readIdleTLS() error {
	n, err := c.Read(c.first[:])
	if n > 0 {
		c.takeBuffer()
		c.in = append(c.in, c.first[0])
	}
	return err
}

// noteRead records the result of a read.
func (c *conn) noteRead(n int, err error) {
	now := c.web.track.now()
	c.mu.Lock()
	if n > 0 {
		c.lastRead = now
		switch {
		case !c.handling && c.begun == 0:
			c.begun = now
		case c.handling && !c.body && c.next == 0:
			c.next = now
		}
	}
	if err != nil && !isTimeout(err) {
		c.noteGone(now)
	}
	c.mu.Unlock()
}

// writeStep is the largest number of bytes in one write. The tracker takes the beginning of the last write for the end
// of a response. Everything after that beginning fits into the buffers between the two ends, so the error is small.
const writeStep = 128 << 10

// Write writes p. net/http would send the first 4 KiB of a page alone, which costs both ends one more system call. So
// Write holds them back until the rest comes.
func (c *conn) Write(p []byte) (n int, err error) {
	if c.hold && len(c.held) == 0 && len(p) <= 4096 {
		c.held = append(c.held, p...)
		return len(p), nil
	}
	for {
		step := p[n:min(len(p), n+c.web.shaper.piece)]
		if err := c.shape(len(c.held) + len(step)); err != nil {
			c.mu.Lock()
			c.noteGone(c.web.track.now())
			c.mu.Unlock()
			return n, err
		}
		now := c.web.track.now()
		c.mu.Lock()
		c.lastWrite = now
		c.mu.Unlock()
		var k int
		if len(c.held) > 0 {
			var all int64
			all, err = (&net.Buffers{c.held, step}).WriteTo(c.tcp)
			c.web.track.sent.Add(all)
			k = max(0, int(all)-len(c.held))
			c.held = c.held[:0]
		} else {
			k, err = c.writeAll(step)
			c.web.track.sent.Add(int64(k))
		}
		n += k
		if err != nil {
			c.mu.Lock()
			c.noteGone(c.web.track.now())
			c.mu.Unlock()
			return n, err
		}
		if n >= len(p) {
			return n, nil
		}
	}
}

// writeAll writes p with one system call. Without the recordWriter TLS would use one for each record.
func (c *conn) writeAll(p []byte) (int, error) {
	if c.records == nil {
		return c.Conn.Write(p)
	}
	c.records.hold()
	n, err := c.Conn.Write(p)
	if e := c.records.flush(); e != nil {
		return 0, e
	}
	return n, err
}

// A recordWriter is the connection below TLS. It holds back the records until flush.
// It implements io.Reader and io.Writer.
type recordWriter struct {
	*net.TCPConn
	local netip.Addr // the address that the client connected to
	ahead []byte     // bytes that were read already and come first

	mu  sync.Mutex // guards buf: TLS may write while it reads
	buf *[]byte    // nil: writes go through
}

func (k *recordWriter) Read(p []byte) (int, error) {
	if len(k.ahead) > 0 {
		n := copy(p, k.ahead)
		k.ahead = k.ahead[n:]
		return n, nil
	}
	return k.TCPConn.Read(p)
}

func (k *recordWriter) hold() {
	k.mu.Lock()
	k.buf = responses.Get().(*[]byte)
	k.mu.Unlock()
}

func (k *recordWriter) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.buf == nil {
		return k.TCPConn.Write(p)
	}
	*k.buf = append(*k.buf, p...)
	return len(p), nil
}

func (k *recordWriter) flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := k.TCPConn.Write(*k.buf)
	*k.buf = (*k.buf)[:0]
	responses.Put(k.buf)
	k.buf = nil
	return err
}

// release ends the holding back of bytes and sends those that nothing followed.
func (c *conn) release() error {
	c.hold = false
	if len(c.held) == 0 {
		return nil
	}
	_, err := c.Write(nil)
	return err
}

// noteGone records that the client has closed. It subtracts the time since the kernel last heard from the client,
// because this goroutine may be late on a busy machine.
func (c *conn) noteGone(now int64) {
	if c.goneSeen == 0 {
		c.goneSeen = now
		c.gone = now - int64(min(sinceHeard(c.tcp), 250*time.Millisecond))
	}
}

// complete records that the site has written all of its response.
func (c *conn) complete(r *request) {
	c.mu.Lock()
	r.complete = true
	c.mu.Unlock()
}

func (c *conn) CloseWrite() error {
	c.finish(true)
	if t, ok := c.Conn.(*tls.Conn); ok {
		return t.CloseWrite()
	}
	return c.tcp.CloseWrite()
}

func (c *conn) Close() error {
	c.finish(true)
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		c.web.track.closed(c)
		c.live.del(c)
	}
	return c.Conn.Close()
}

// reset closes with RST instead of FIN.
func (c *conn) reset() {
	c.tcp.SetLinger(0)
	c.finish(true)
	c.tcp.Close()
	c.Close()
}

// start makes r the current request; its first bytes have been read.
func (c *conn) start(r *request, body bool) {
	c.mu.Lock()
	r.begin = c.begun
	if r.begin == 0 { // it came in the same segment as the previous request
		r.begin = c.lastRead
	}
	c.handling, c.body, c.req = true, body, r
	c.lastWrite = 0
	c.mu.Unlock()
}

// finish ends the current request, if there is one, because the response is written or the connection closes.
func (c *conn) finish(closing bool) {
	now := c.web.track.now()
	c.mu.Lock()
	r := c.req
	if r == nil {
		if closing {
			c.begun = 0
		}
		c.mu.Unlock()
		return
	}
	end := c.lastWrite
	switch {
	case c.goneSeen != 0 && (!r.complete || c.goneSeen < c.lastWrite):
		end, r.aborted = max(c.gone, r.begin), true
	case closing && !r.complete:
		end = now // the client learns of it now
	}
	if end == 0 {
		end = now
	}
	c.req, c.handling, c.begun, c.next = nil, false, c.next, 0
	c.mu.Unlock()
	c.web.track.end(r, end)
}

// isGone reports whether the client has closed, even if nothing has read the close yet.
func (c *conn) isGone() bool {
	c.mu.Lock()
	gone := c.goneSeen != 0 || c.closed
	c.mu.Unlock()
	return gone || peerClosed(c.tcp)
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

type connKey struct{}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func connState(c net.Conn, s http.ConnState) {
	k, ok := c.(*conn)
	if !ok {
		return
	}
	switch s {
	case http.StateIdle:
		k.finish(false)
	case http.StateClosed:
		k.Close()
	}
}
