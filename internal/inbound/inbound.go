// Package inbound answers: which of the connections that come in may stay?
//
//	net.Listener -> Pool.Listen -> Conn, unproven -> Prove -> Conn, proven
//
// A connection is unproven until its reader knows that the caller may call: a TLS
// handshake has succeeded, or a token was right. Unproven connections are bounded,
// those from members' addresses apart from all others, and so are proven ones. A new
// connection is always taken in. If there are too many unproven ones of its kind, the
// pool closes another one: of the address that has the most, the oldest. So silent
// callers displace each other, and a caller that proves itself without delay gets in,
// however many they are. Nothing waits in a queue, as its turn would come after its
// caller has given up.
//
// Invariant: no more connections are open than the Config allows. So the process keeps
// all other descriptors for itself. A Pool and its Conns are
// safe for concurrent use.
package inbound

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// shortagePause is how long Accept waits where the process has no descriptor left.
const shortagePause = 50 * time.Millisecond

// Config bounds the connections of a Pool. Each bound is at least 1.
type Config struct {
	// Strangers and Members bound the unproven connections: Members those from the
	// addresses that SetMembers has named, Strangers all others.
	Strangers, Members int
	// Proven bounds the proven connections.
	Proven int
	// Evicted, if not nil, is called for each connection that is closed to make room.
	// It must not wait.
	Evicted func()
}

// Share returns a part of the descriptors that the process may have, between least
// and most: most, where their number is not known. One of parts is the share.
func Share(parts, least, most int) int {
	if n := disk.MaxOpen(); n > 0 {
		return min(max(n/parts, least), most)
	}
	return most
}

// A Pool holds the connections of one or more listeners.
type Pool struct {
	config Config

	mu       sync.Mutex // guards what follows; never held while a connection is closed
	members  map[netip.Prefix]bool
	unproven [2]kind // of strangers and of members
	proven   int
}

// A kind is the unproven connections of strangers, or of members.
type kind struct {
	bound  int
	from   map[netip.Prefix]int // how many of each address
	oldest *Conn                // of a list in the order of their coming
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

// SetMembers names the addresses of members. It concerns connections that come later.
func (p *Pool) SetMembers(addrs []netip.Addr) {
	members := make(map[netip.Prefix]bool, len(addrs))
	for _, a := range addrs {
		members[origin(a)] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members = members
}

// origin is what counts as one address: of IPv6 a whole /64, as each subscriber has
// one at least.
func origin(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	prefix, _ := a.Prefix(bits) // never fails for these lengths
	return prefix
}

// Listen returns a listener whose connections are *Conn of the pool. Accept outlives a
// shortage of descriptors.
func (p *Pool) Listen(ln net.Listener) net.Listener {
	return &listener{ln, p, make(chan struct{}), sync.Once{}}
}

type listener struct {
	net.Listener
	pool   *Pool
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
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

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// A Conn is a connection of a Pool, from Enter until Close.
type Conn struct {
	net.Conn
	pool  *Pool
	from  netip.Prefix
	state state // guarded by pool.mu
	kind  *kind // of an unproven one
	// evicted says that the pool closed it to make room; guarded by pool.mu.
	evicted bool
	// prev and next are the neighbours in the kind's list.
	prev, next *Conn
}

type state uint8

const (
	unproven state = iota
	proven
	gone
)

// Enter takes a connection in as unproven.
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

// Relieve closes half of the unproven connections: the process has no descriptor left.
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

// victim is the oldest connection of the address that has the most, nil if there is
// none. It reads the list: some hundred connections at most.
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

// Prove says that the caller may call. It returns false where there are too many
// proven connections, and where the connection was closed already; it is then as
// before.
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

// leave forgets the connection. The pool's mu is held.
func (c *Conn) leave() {
	switch c.state {
	case unproven:
		c.kind.remove(c)
	case proven:
		c.pool.proven--
	}
	c.state = gone
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.pool.mu.Lock()
	c.leave()
	c.pool.mu.Unlock()
	return c.Conn.Close()
}

// Open returns how many unproven and proven connections there are.
func (p *Pool) Open() (unproven, proven int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unproven[0].n + p.unproven[1].n, p.proven
}
