package dns

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A new UDP socket for each query gives the best protection against forged replies, but it is two
// thirds of the cost of a query. So a socket is used for several queries, each with a new random
// id, but only for a short time. An attacker must find its port among about 28,000 ports by
// probing, and each limit below makes the found port useless. A socket is closed if anything but
// the reply arrives, or if a query times out.
const (
	// socketQueries is the maximum number of queries of a socket, one after the other.
	socketQueries = 64
	// socketLife is how long a socket may start queries. Finding a port by side channels takes
	// longer: seconds to minutes (Man et al., "DNS Cache Poisoning Attack Reloaded", CCS 2020).
	socketLife = time.Second
)

// A socket is connected to a server from a random port. One query at a time owns it.
type socket struct {
	conn    net.Conn
	queries int
	opened  time.Time
}

// sockets are the idle sockets of a server: at most Config.Concurrency.
type sockets struct {
	// mu guards all fields below. The only I/O under it is Close.
	mu     sync.Mutex
	idle   []*socket
	closed bool
}

// take returns a socket for one query. It opens a new one if no idle socket is usable.
func (p *sockets) take(ctx context.Context, r *Resolver, addr string) (*socket, error) {
	now := time.Now()
	p.mu.Lock()
	for n := len(p.idle); n > 0; n = len(p.idle) {
		s := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		if now.Sub(s.opened) < socketLife {
			p.mu.Unlock()
			s.queries++
			return s, nil
		}
		s.conn.Close()
	}
	p.mu.Unlock()
	conn, err := r.dial(ctx, "udp", addr)
	if err != nil {
		return nil, err
	}
	return &socket{conn: conn, queries: 1, opened: now}, nil
}

// dial opens a socket to a server within Config.Timeout. Time without a free file descriptor does
// not count.
func (r *Resolver) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = disk.Outlast(r.cfg.Spare, func() (err error) {
		if err = ctx.Err(); err != nil {
			return err
		}
		one, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
		defer cancel()
		conn, err = r.cfg.Dial(one, network, addr)
		return err
	})
	return conn, err
}

// put returns a socket whose query was answered.
func (p *sockets) put(r *Resolver, s *socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || s.queries >= socketQueries || len(p.idle) >= r.cfg.Concurrency {
		s.conn.Close()
		return
	}
	// The lowest socket is used least, so each call checks whether it has expired.
	if len(p.idle) > 0 && time.Since(p.idle[0].opened) >= socketLife {
		p.idle[0].conn.Close()
		p.idle[0] = s
		return
	}
	p.idle = append(p.idle, s)
}

func (p *sockets) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, s := range p.idle {
		s.conn.Close()
	}
	p.idle = nil
}
