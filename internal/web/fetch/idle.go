package fetch

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// conn is a connection to a host, or to a proxy for it. One goroutine owns it, but any goroutine
// may call Close.
type conn struct {
	raw      net.Conn // TCP
	rw       net.Conn // raw, or TLS over it
	tap      *tap     // between raw and TLS; nil without TLS
	host     string
	origin   string
	addr     netip.AddrPort // the server's address; invalid if a proxy looked it up
	named    bool           // the operator named the address, or a proxy looked it up
	forward  bool           // an HTTP proxy reads our requests
	resumed  bool           // the handshake resumed a TLS session
	secure   Secure
	deadline time.Time // the deadline that is set
	sock     *socket   // for probes of raw; nil before the first probe, or if raw allows none
	one      [1]byte   // buffer for a byte that is not expected

	since      time.Time // idle since
	prev, next *conn     // neighbours in idle's list
}

// Close closes the TCP connection. It sends no TLS close message, which could block.
func (c *conn) Close() { c.raw.Close() }

// abort closes a connection whose request the server may not have. The system drops what it could not deliver.
// After a plain Close it would repeat the request for minutes: the server might get it at a time when this
// crawler sends another one.
func abort(raw net.Conn) {
	if tcp, ok := raw.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // an error means that the connection has ended
	}
	raw.Close()
}

// serves reports whether a request to t may use c.
func (c *conn) serves(t *target) bool {
	return c.origin == t.origin && (c.named || !t.addr.IsValid() || c.addr.Addr() == t.addr.Unmap())
}

// The limits of Config.MaxIdle's default. unknownIdle applies if the process cannot tell how many
// file descriptors it may have.
const minIdle, unknownIdle, maxIdle = 16, 256, 4096

// idleDefault returns a quarter of the file descriptors that the process may have. The others are
// for connections in use, other agents, the API, name servers and files.
func idleDefault() int {
	if n := disk.MaxOpen(); n > 0 {
		return min(max(n/4, minIdle), maxIdle)
	}
	return unknownIdle
}

// idle keeps connections between requests: at most one a host, at most max in all (the longest idle
// is closed first), each for at most keep.
//
// A fetch holds the lock for a map lookup and two changes of a list, about 100 ns, so shards would
// gain nothing. A connection is closed under the lock. Otherwise a fetch that finds no connection
// to a host could dial while the old one is still open.
type idle struct {
	keep  time.Duration
	max   int
	clock clock.Clock

	mu     sync.Mutex // guards the fields below
	byHost map[string]*conn
	root   conn // head of the list of all connections, the longest idle first
	timer  *time.Timer
	closed bool
	ticks  sync.WaitGroup // counts the running timers
}

func (p *idle) init(keep time.Duration, max int, clock clock.Clock) {
	p.keep, p.max, p.clock = keep, max, clock
	p.byHost = make(map[string]*conn)
	p.root.prev, p.root.next = &p.root, &p.root
}

// len returns the number of idle connections.
func (p *idle) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byHost)
}

// take removes and returns host's connection, or returns nil if there is none.
func (p *idle) take(host string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.byHost[host]
	if c != nil {
		p.remove(c)
	}
	return c
}

func (p *idle) remove(c *conn) {
	c.prev.next, c.next.prev = c.next, c.prev
	c.prev, c.next = nil, nil
	delete(p.byHost, c.host)
}

// put keeps c from now on and closes any other connection of its host.
func (p *idle) put(c *conn, now time.Time) {
	if p.keep < 0 || p.max < 0 {
		c.Close()
		return
	}
	p.mu.Lock()
	same, oldest := c, (*conn)(nil)
	if !p.closed {
		if same = p.byHost[c.host]; same != nil {
			p.remove(same)
		}
		if len(p.byHost) >= p.max {
			oldest = p.root.next
			p.remove(oldest)
		}
		c.since = now
		c.prev, c.next = p.root.prev, &p.root
		c.prev.next, c.next.prev = c, c
		p.byHost[c.host] = c
		if p.timer == nil {
			p.startTimer(p.keep)
		}
	}
	if same != nil {
		same.Close()
	}
	if oldest != nil {
		oldest.Close()
	}
	p.mu.Unlock()
}

// startTimer makes expire run after d. A timer runs only while a connection is idle.
func (p *idle) startTimer(d time.Duration) {
	p.ticks.Add(1)
	p.timer = time.AfterFunc(d, p.expire)
}

func (p *idle) expire() {
	defer p.ticks.Done()
	for now := p.clock.Now(); ; {
		p.mu.Lock()
		c := p.root.next
		if p.closed || c == &p.root {
			p.timer = nil
			p.mu.Unlock()
			return
		}
		if left := p.keep - now.Sub(c.since); left > 0 {
			// Do not set a timer for each connection: connections that expire soon after each other
			// share one.
			p.startTimer(max(left, p.keep/64))
			p.mu.Unlock()
			return
		}
		p.remove(c)
		c.Close()
		p.mu.Unlock()
	}
}

// relieve closes the half of the connections that have been idle longest. It is called when the
// process has no file descriptor left.
func (p *idle) relieve() {
	for n := (p.len() + 1) / 2; n > 0; n-- {
		p.mu.Lock()
		c := p.root.next
		if c == &p.root {
			p.mu.Unlock()
			return
		}
		p.remove(c)
		c.Close()
		p.mu.Unlock()
	}
}

// drop closes all connections that are idle now.
func (p *idle) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked()
}

// dropLocked is drop for a caller that holds mu.
func (p *idle) dropLocked() {
	for c := p.root.next; c != &p.root; c = p.root.next {
		p.remove(c)
		c.Close()
	}
}

func (p *idle) close() {
	p.mu.Lock()
	p.closed = true
	p.dropLocked()
	if p.timer != nil && p.timer.Stop() {
		p.ticks.Done()
	}
	p.timer = nil
	p.mu.Unlock()
	p.ticks.Wait()
}
