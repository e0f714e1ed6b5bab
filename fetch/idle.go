package fetch

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
	"time"
)

// conn is a connection to a host, or to a proxy for it. One goroutine owns
// it; abort may come from another.
type conn struct {
	raw    net.Conn // TCP
	rw     net.Conn // raw, or TLS over it
	host   string
	origin string
	addr   netip.AddrPort // the server's; invalid where a proxy found it
	named  bool           // the operator named the address, or a proxy found it
	fwd    bool           // a proxy reads our requests
	silent func() bool    // nothing has come since the last response
	since  time.Time      // idle
}

// Close closes without ceremony: a TLS farewell could block.
func (c *conn) Close() { c.raw.Close() }

// abort makes all that waits for c return.
func (c *conn) abort() { c.raw.Close() }

// serves says whether a request to t may go over c.
func (c *conn) serves(t *target) bool {
	return c.origin == t.origin && (c.named || !t.addr.IsValid() || c.addr.Addr() == t.addr.Unmap())
}

// alive says that the server has neither closed c nor sent what nobody asked
// for (a 408 before it closes): that would be taken for the next response.
func (c *conn) alive() bool { return c.silent == nil || c.silent() }

// idle keeps connections between requests: at most one a host, at most max
// in all (the longest idle goes first), each for at most keep.
type idle struct {
	keep time.Duration
	max  int
	now  func() time.Time

	mu     sync.Mutex // guards what follows; never held across I/O but Close
	byHost map[string]*list.Element
	order  list.List // of *conn, the longest idle in front
	timer  *time.Timer
	closed bool
	ticks  sync.WaitGroup // armed timers
}

func (p *idle) init(keep time.Duration, max int, now func() time.Time) {
	p.keep, p.max, p.now = keep, max, now
	p.byHost = make(map[string]*list.Element)
}

// take removes and returns host's connection, nil if there is none.
func (p *idle) take(host string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byHost[host]
	if e == nil {
		return nil
	}
	return p.remove(e)
}

func (p *idle) remove(e *list.Element) *conn {
	c := p.order.Remove(e).(*conn)
	delete(p.byHost, c.host)
	return c
}

// put keeps c, in place of any other of its host.
func (p *idle) put(c *conn) {
	if p.keep < 0 || p.max < 0 {
		c.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return
	}
	if e := p.byHost[c.host]; e != nil {
		p.remove(e).Close()
	}
	if p.order.Len() >= p.max {
		p.remove(p.order.Front()).Close()
	}
	c.since = p.now()
	p.byHost[c.host] = p.order.PushBack(c)
	if p.timer == nil {
		p.arm(p.keep)
	}
}

// arm wakes expire after d. There is a timer only while a connection is idle.
func (p *idle) arm(d time.Duration) {
	p.ticks.Add(1)
	p.timer = time.AfterFunc(d, p.expire)
}

func (p *idle) expire() {
	defer p.ticks.Done()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if p.closed {
		return
	}
	now := p.now()
	for e := p.order.Front(); e != nil; e = p.order.Front() {
		if left := p.keep - now.Sub(e.Value.(*conn).since); left > 0 {
			p.arm(left)
			return
		}
		p.remove(e).Close()
	}
}

func (p *idle) close() {
	p.mu.Lock()
	p.closed = true
	for e := p.order.Front(); e != nil; e = p.order.Front() {
		p.remove(e).Close()
	}
	if p.timer != nil && p.timer.Stop() {
		p.ticks.Done()
	}
	p.timer = nil
	p.mu.Unlock()
	p.ticks.Wait()
}
