package dns

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A UDP socket for each query is the safest against forged replies, and it is
// two thirds of what a query costs. So a socket asks again, under a new random
// id, but not for long: whoever wants to forge has to find its port among
// some 28,000 by probing, and each bound below ends what he has found. A
// socket that anything but the reply has come to, or that waited in vain, asks
// no more.
const (
	// socketQueries is how many queries a socket sends, one after the other.
	socketQueries = 64
	// socketLife is how long it sends them; finding a port by side channels
	// takes longer (Man et al., "DNS Cache Poisoning Attack Reloaded", CCS
	// 2020: seconds to minutes).
	socketLife = time.Second
)

// A socket is connected to a server, from a random port; one query at a time
// owns it.
type socket struct {
	conn    net.Conn
	queries int
	opened  time.Time
}

// sockets are those of a server that wait for a query: at most as many as
// there may be queries at once.
type sockets struct {
	// mu guards all below. It is not held across I/O but Close.
	mu     sync.Mutex
	idle   []*socket
	closed bool
}

// take returns a socket that may send a query, a new one if need be.
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

// dial opens a socket to a server, within Config.Timeout, apart from the time in which
// the process has no file descriptor left.
func (r *Resolver) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	err = disk.Outlast(r.cfg.Relieve, func() (err error) {
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

// put takes back a socket whose query was answered.
func (p *sockets) put(r *Resolver, s *socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || s.queries >= socketQueries || len(p.idle) >= r.cfg.Concurrency {
		s.conn.Close()
		return
	}
	// The lowest is used least: each that comes looks whether its time is over.
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
