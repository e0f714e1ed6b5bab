package testweb

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Shape simulates the network line between the web and its clients (as DiskWWW in the FC2L-UDCbot paper, 4.1-4.2, at
// 320 Mbit/s). It applies to the responses of all sites. The zero Shape does not limit the machine's own speed.
type Shape struct {
	// BytesPerSecond is the capacity of the line for responses. Of HTTPS it counts the plain text. It does not count
	// handshakes and packet headers. Zero means no limit.
	BytesPerSecond int64
	// PerClient gives each client address a line of its own. Otherwise all clients share one line.
	PerClient bool
	// Latency is added to the time from a request to the first byte of its response. The first response of a
	// connection waits twice as long, because to open the connection takes a round trip too.
	Latency time.Duration
}

const (
	// lineCredit is how far a line may be ahead after it was idle, or after a timer fired late.
	lineCredit = 20 * time.Millisecond
	// linePiece is the longest time that one response uses the line before others get their turn.
	linePiece = 20 * time.Millisecond
	// maxLines bounds the number of clients with a line of their own. Further clients share one.
	maxLines = 1 << 16
	// lookUp is how often a response that waits for its line checks whether the client is still connected.
	lookUp = 50 * time.Millisecond
)

// A line carries bytes at a limited rate, in turns of one piece of a response.
type line struct {
	mu   sync.Mutex // guards free
	free int64      // when the line will have carried all its bytes
}

// carry puts n bytes on the line at time now, and returns when the last byte has come through at rate bytes per second.
// Times are in nanoseconds. They need not be in order, because each connection reads the clock itself.
func (l *line) carry(now int64, n int, rate int64) (at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = max(l.free, now-int64(lineCredit)) + int64(float64(n)/float64(rate)*1e9)
	return l.free
}

// A shaper holds the lines of all clients.
type shaper struct {
	Shape
	piece int // bytes that one response puts on a line in one turn
	all   line

	mu    sync.Mutex // guards lines
	lines map[netip.Addr]*line
}

func newShaper(s Shape) *shaper {
	p := &shaper{Shape: s, piece: writeStep, lines: map[netip.Addr]*line{}}
	if s.BytesPerSecond > 0 {
		p.piece = int(min(max(float64(s.BytesPerSecond)*linePiece.Seconds(), 1<<10), writeStep))
	}
	return p
}

// lineOf returns the line to a client.
func (s *shaper) lineOf(client netip.Addr) *line {
	if !s.PerClient {
		return &s.all
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[client]
	if l == nil {
		if len(s.lines) >= maxLines {
			return &s.all
		}
		l = new(line)
		s.lines[client] = l
	}
	return l
}

// shape waits until the line has carried n bytes. If the client closes meanwhile, it returns net.ErrClosed.
func (c *conn) shape(n int) error {
	s := c.web.shaper
	if s.BytesPerSecond <= 0 {
		return nil
	}
	if c.line == nil {
		c.line = s.lineOf(c.remote.Addr().Unmap())
	}
	now := c.web.track.now()
	for at := c.line.carry(now, n, s.BytesPerSecond); now < at; now = c.web.track.now() {
		time.Sleep(min(time.Duration(at-now), lookUp))
		if at-now > int64(lookUp) && c.isGone() {
			return net.ErrClosed
		}
	}
	return nil
}

// latency returns how long the next response must wait because of Shape.Latency.
func (c *conn) latency() time.Duration {
	d := c.web.shaper.Latency
	if !c.used {
		c.used = true
		d *= 2
	}
	return d
}
