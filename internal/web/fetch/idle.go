package fetch

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// conn is a connection to a host, or to a proxy for it. One goroutine owns
// it; Close may come from another.
type conn struct {
	raw     net.Conn // TCP
	rw      net.Conn // raw, or TLS over it
	tap     *tap     // between both; nil without TLS
	host    string
	origin  string
	addr    netip.AddrPort // the server's; invalid where a proxy found it
	named   bool           // the operator named the address, or a proxy found it
	fwd     bool           // a proxy reads our requests
	resumed bool           // a TLS session was
	armed   time.Time      // its deadline
	sock    *socket        // for looks at raw; nil before the first look, or if raw allows none
	one     [1]byte        // a byte that is not expected

	since      time.Time // idle
	prev, next *conn     // in idle's list
}

// Close closes without ceremony: a TLS farewell could block.
func (c *conn) Close() { c.raw.Close() }

// serves says whether a request to t may go over c.
func (c *conn) serves(t *target) bool {
	return c.origin == t.origin && (c.named || !t.addr.IsValid() || c.addr.Addr() == t.addr.Unmap())
}

// The bounds of Config.MaxIdle's default: unknownIdle is for a process that cannot
// tell how many descriptors it may have.
const minIdle, unknownIdle, maxIdle = 16, 256, 4096

// idleDefault is a quarter of the descriptors that the process may have. The others
// are for connections in use, other agents, the API, name servers and files.
func idleDefault() int {
	if n := disk.MaxOpen(); n > 0 {
		return min(max(n/4, minIdle), maxIdle)
	}
	return unknownIdle
}

// idle keeps connections between requests: at most one a host, at most max
// in all (the longest idle goes first), each for at most keep. A visit holds the
// lock for a look-up in a map and two links of a list, some 100 ns: shards would
// gain nothing. A connection is closed under the lock. Else a visit that finds no
// connection to a host could dial while the old one is still open.
type idle struct {
	keep time.Duration
	max  int
	now  func() time.Time

	mu     sync.Mutex // guards what follows
	byHost map[string]*conn
	root   conn // of the list of all, the longest idle first
	timer  *time.Timer
	closed bool
	ticks  sync.WaitGroup // armed timers
}

func (p *idle) init(keep time.Duration, max int, now func() time.Time) {
	p.keep, p.max, p.now = keep, max, now
	p.byHost = make(map[string]*conn)
	p.root.prev, p.root.next = &p.root, &p.root
}

// len is how many connections are idle.
func (p *idle) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byHost)
}

// take removes and returns host's connection, nil if there is none.
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

// put keeps c from now on, in place of any other of its host.
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
			p.arm(p.keep)
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

// arm wakes expire after d. There is a timer only while a connection is idle.
func (p *idle) arm(d time.Duration) {
	p.ticks.Add(1)
	p.timer = time.AfterFunc(d, p.expire)
}

func (p *idle) expire() {
	defer p.ticks.Done()
	for now := p.now(); ; {
		p.mu.Lock()
		c := p.root.next
		if p.closed || c == &p.root {
			p.timer = nil
			p.mu.Unlock()
			return
		}
		if left := p.keep - now.Sub(c.since); left > 0 {
			// Not for every connection: what ends within the next moment goes
			// with it.
			p.arm(max(left, p.keep/64))
			p.mu.Unlock()
			return
		}
		p.remove(c)
		c.Close()
		p.mu.Unlock()
	}
}

// relieve closes the half of the connections that have been idle the longest: the
// process has no descriptor left.
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

// drop closes all that are idle now.
func (p *idle) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropLocked()
}

// dropLocked is drop where the caller holds mu.
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
