package testweb

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Shape is the line between the web and its clients (DiskWWW: FC2L-UDCbot,
// 4.1-4.2, at 320 Mbit/s). It holds for the responses of all kinds of sites.
// The zero Shape is the machine's own speed.
type Shape struct {
	// BytesPerSecond is what the line carries of responses, in plain text for
	// HTTPS; handshakes and packets' headers are not counted. Zero is no bound.
	BytesPerSecond int64
	// PerClient gives each client address a line of its own. All clients share
	// one otherwise.
	PerClient bool
	// Latency is the time from a request to the first byte of its response, over
	// what the response takes by itself. The first response of a connection
	// waits for twice as long: once for the connection to be opened.
	Latency time.Duration
}

const (
	// lineCredit is how far a line that was idle, or served by a late timer,
	// may be ahead.
	lineCredit = 20 * time.Millisecond
	// linePiece is how much of a response is on the line at a time, in time:
	// others get their turn then.
	linePiece = 20 * time.Millisecond
	// maxLines bounds the clients with a line of their own; the others share one.
	maxLines = 1 << 16
	// lookUp is how often a response that waits for its line looks whether its
	// client is still there.
	lookUp = 50 * time.Millisecond
)

// A line carries bytes at a rate, one response's piece after the other's.
type line struct {
	mu   sync.Mutex // guards free
	free int64      // when all that was put on it will have come through
}

// carry puts n bytes on the line at now, and says when the last has come
// through at the given rate in bytes a second. Times are in nanoseconds, and
// need not come in order: each connection has looked at the clock for itself.
func (l *line) carry(now int64, n int, rate int64) (at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = max(l.free, now-int64(lineCredit)) + int64(float64(n)/float64(rate)*1e9)
	return l.free
}

// A shaper holds the lines.
type shaper struct {
	Shape
	piece int // bytes on a line at a time
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

// lineOf is the line to a client.
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

// shape waits until the line has carried n bytes. It fails when the client goes
// meanwhile.
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

// latency is how long the next response waits for its line.
func (c *conn) latency() time.Duration {
	d := c.web.shaper.Latency
	if !c.used {
		c.used = true
		d *= 2
	}
	return d
}
