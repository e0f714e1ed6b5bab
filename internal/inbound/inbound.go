// Package inbound answers: which incoming connections may stay open?
//
//	net.Listener -> Pool.Listen -> Conn, unproven -> Prove -> Conn, proven
//
// A connection is unproven until its reader knows that the caller is authorized: a TLS handshake has succeeded, or a
// token was right. The pool limits the number of unproven connections, separately for members' addresses and for all
// others. It also limits the number of proven connections.
//
// The pool accepts every new connection. If there are then too many unproven ones of its kind, the pool closes one: the
// oldest connection of the address that has the most. Silent callers therefore displace each other, and a caller that
// proves itself without delay gets in, however many silent ones there are. There is no queue: a queued caller would
// have given up before its turn came.
//
// At no time are more connections open than the Config allows, so that the process keeps its other file descriptors for
// itself. A Pool and its Conns are safe for concurrent use. The package starts no goroutines.
package inbound

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// shortagePause is how long Accept waits if the process has no free file descriptor.
const shortagePause = 50 * time.Millisecond

// Config limits the connections of a Pool.
type Config struct {
	// Strangers and Members limit the unproven connections: Members those from the addresses that SetMembers has named,
	// Strangers all others. A value below 1 means 1.
	Strangers, Members int
	// Proven limits the proven connections. With 0 no connection can be proven.
	Proven int
	// Evicted, if not nil, is called for each connection that the pool closes to make room. It may be called
	// concurrently and must not block.
	Evicted func()
}

// Share returns one of parts equal parts of the file descriptors that the process may have open, but at least least and
// at most most. If the limit of the process is unknown, it returns most.
func Share(parts, least, most int) int {
	if n := disk.MaxOpen(); n > 0 {
		return min(max(n/parts, least), most)
	}
	return most
}

// A Pool holds the connections of one or more listeners.
type Pool struct {
	config Config

	mu       sync.Mutex // guards the fields below and those of the Conns; not held while a connection is closed
	members  map[netip.Prefix]bool
	unproven [2]kind // of strangers, and of members
	proven   int     // number of proven connections
}

// A kind holds the unproven connections of strangers, or those of members.
type kind struct {
	bound  int
	from   map[netip.Prefix]int // number of connections of each address
	oldest *Conn                // the list is in order of arrival
	newest *Conn
	n      int
}

// New returns an empty Pool.
func New(cfg Config) *Pool {
	p := &Pool{config: cfg}
	for i, bound := range []int{cfg.Strangers, cfg.Members} {
		p.unproven[i] = kind{bound: max(bound, 1), from: map[netip.Prefix]int{}}
	}
	return p
}

// SetMembers replaces the addresses of members. It applies to connections that arrive later.
func (p *Pool) SetMembers(addrs []netip.Addr) {
	members := make(map[netip.Prefix]bool, len(addrs))
	for _, a := range addrs {
		members[origin(a)] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = members
}

// origin returns the prefix that counts as one address. For IPv6 it is the whole /64, because a subscriber has at least
// one.
func origin(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	prefix, _ := a.Prefix(bits) // never fails for these lengths
	return prefix
}

// Listen returns a listener whose connections are Conns of the pool. If the process has no free file descriptor, Accept
// calls Relieve, waits 50 ms and tries again; it does not return that error. Close ends the wait.
func (p *Pool) Listen(ln net.Listener) net.Listener {
	return &listener{ln, p, make(chan struct{}), sync.Once{}}
}

// listener implements net.Listener.
type listener struct {
	net.Listener
	pool   *Pool
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err == nil {
			return l.pool.Enter(conn), nil
		}
		if !disk.IsShortage(err) {
			return nil, err
		}
		l.pool.Relieve()
		select {
		case <-time.After(shortagePause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A Conn is a connection of a Pool, from Enter until Close or until the pool evicts it. It implements net.Conn.
type Conn struct {
	net.Conn
	pool  *Pool
	from  netip.Prefix
	state state // guarded by pool.mu
	kind  *kind // of an unproven connection
	// evicted says that the pool closed the connection to make room; guarded by pool.mu.
	evicted bool
	// prev and next are the neighbours in the list of kind; guarded by pool.mu.
	prev, next *Conn
}

type state uint8

const (
	unproven state = iota
	proven
	gone
)

// Enter adds conn to the pool as unproven. If there are too many unproven connections of its kind, it closes one of
// them.
func (p *Pool) Enter(conn net.Conn) *Conn {
	c := &Conn{Conn: conn, pool: p}
	if at, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		c.from = origin(at.Addr())
	}
	p.mu.Lock()
	c.kind = &p.unproven[0]
	if p.members[c.from] {
		c.kind = &p.unproven[1]
	}
	c.kind.add(c)
	var victim *Conn
	if c.kind.n > c.kind.bound {
		victim = c.kind.victim()
		victim.leave()
		victim.evicted = true
	}
	p.mu.Unlock()
	p.evict(victim)
	return c
}

// Relieve closes half of the unproven connections, those of strangers first. Call it if the process has no free file
// descriptor.
func (p *Pool) Relieve() {
	p.mu.Lock()
	n := (p.unproven[0].n + p.unproven[1].n + 1) / 2
	p.mu.Unlock()
	for range n {
		p.mu.Lock()
		k := &p.unproven[0]
		if k.n == 0 {
			k = &p.unproven[1]
		}
		victim := k.victim()
		if victim != nil {
			victim.leave()
			victim.evicted = true
		}
		p.mu.Unlock()
		p.evict(victim)
	}
}

func (p *Pool) evict(victim *Conn) {
	if victim == nil {
		return
	}
	victim.Conn.Close()
	if p.config.Evicted != nil {
		p.config.Evicted()
	}
}

// victim returns the oldest connection of the address that has the most, or nil. It goes through the list, which has a
// few hundred connections at most.
func (k *kind) victim() *Conn {
	most := 0
	for _, n := range k.from {
		most = max(most, n)
	}
	for c := k.oldest; c != nil; c = c.next {
		if k.from[c.from] == most {
			return c
		}
	}
	return nil
}

func (k *kind) add(c *Conn) {
	c.prev = k.newest
	if k.newest != nil {
		k.newest.next = c
	} else {
		k.oldest = c
	}
	k.newest = c
	k.from[c.from]++
	k.n++
}

func (k *kind) remove(c *Conn) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		k.oldest = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		k.newest = c.prev
	}
	c.prev, c.next = nil, nil
	if k.from[c.from]--; k.from[c.from] == 0 {
		delete(k.from, c.from)
	}
	k.n--
}

// Prove records that the caller is authorized. If there are too many proven connections, or c is closed, Prove returns
// false and changes nothing.
func (c *Conn) Prove() bool {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case c.state == proven:
		return true
	case c.state == gone || p.proven >= p.config.Proven:
		return false
	}
	c.kind.remove(c)
	c.state = proven
	p.proven++
	return true
}

// Evicted reports whether the pool has closed the connection to make room.
func (c *Conn) Evicted() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.evicted
}

// leave removes c from the pool. The caller must hold pool.mu.
func (c *Conn) leave() {
	switch c.state {
	case unproven:
		c.kind.remove(c)
	case proven:
		c.pool.proven--
	}
	c.state = gone
}

func (c *Conn) Close() error {
	c.pool.mu.Lock()
	c.leave()
	c.pool.mu.Unlock()
	return c.Conn.Close()
}

// Open returns the number of unproven and of proven connections.
func (p *Pool) Open() (unproven, proven int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unproven[0].n + p.unproven[1].n, p.proven
}
