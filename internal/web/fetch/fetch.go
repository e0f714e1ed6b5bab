// Package fetch makes one HTTP request and returns the server's response, byte for byte.
//
//	Request -> idle connection of the host | lookup -> guard -> dial -> TLS
//	        -> write -> head -> body by its framing -> Response{Wire, Header, ...}
//
// Invariants:
//
//   - Every Fetch ends in exactly one of a complete response, a truncated one, or a
//     Failure, within Config.TotalTimeout.
//   - The bytes of both directions are kept as they went over the wire.
//   - Private addresses are dialled only if the operator allows it.
//   - Sizes, counts and times are bounded whatever the server does.
//   - Bytes that arrive on a kept connection before the server has acknowledged a
//     request are not taken for the response to it.
//
// The package follows no redirects and repeats no request. If a kept connection ends
// before the first byte of a response, the server may have read the request. The
// caller knows when the next one is polite (see Response.Stale).
//
// A Fetcher is safe for concurrent use. The caller sends one request at a time to a
// host; then a host has at most one connection.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Request asks for one URL by GET.
type Request struct {
	URL weburl.URL
	// Addr is dialled, unless a ConnectTo names another address; invalid
	// means that Config.Lookup is asked.
	Addr netip.Addr
	// Header is sent after, or in place of, Config's fields of the same name.
	Header [][2]string
	// If asks for the content only if it is not what was sent before.
	If Condition
	// MaxBody overrides Config.MaxBody; 0 does not.
	MaxBody int64
	// Watch, if not nil, follows the fetch from another goroutine.
	Watch *Watch
}

// Fetcher fetches. New makes one.
type Fetcher struct {
	cfg    Config
	dialer dialer
	idle   idle
	spill  spill
}

// New checks c and makes a Fetcher of it. It reads c.CAFile and nothing else.
func New(c Config) (*Fetcher, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	f := &Fetcher{cfg: c}
	f.spill.fs, f.spill.dir, f.spill.bytes = c.FS, c.SpillDir, int(c.SpillBytes)
	f.idle.init(c.IdleKeep, c.MaxIdle, c.Now)
	f.dialer.relieve = f.idle.relieve
	if err := f.dialer.init(&f.cfg); err != nil {
		return nil, err
	}
	return f, nil
}

// Close closes the idle connections. Fetches in flight go on; their
// connections are not kept.
func (f *Fetcher) Close() error {
	f.idle.close()
	return nil
}

// Relieve closes half of the idle connections: the process has no file descriptor
// left. Safe for concurrent use.
func (f *Fetcher) Relieve() { f.idle.relieve() }

// Fetch sends one request and reads its response to the end. The error is
// ctx's, or one of our own (a bad Request.Header, the spill disk); it comes
// with no Response. Else the Response must be released.
func (f *Fetcher) Fetch(ctx context.Context, req Request) (*Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := target{
		host: req.URL.Host(), origin: req.URL.Origin(), port: req.URL.Port(),
		tls: req.URL.Scheme() == "https", addr: req.Addr,
	}
	f.dialer.aim(&t)
	began := f.cfg.Now()
	// One piece of memory for all that lives as long as the response.
	one := &struct {
		r Response
		w Wire
		l leash
	}{r: Response{URL: req.URL, Began: began}, w: Wire{spill: &f.spill}}
	r := &one.r
	r.Wire = &one.w
	r.Wire.watch = req.Watch
	send, err := f.request(&req, &t, r)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", req.URL, err)
	}
	x := exchange{f: f, r: r, maxBody: f.cfg.MaxBody, now: began, total: began.Add(f.cfg.TotalTimeout)}
	if req.MaxBody > 0 {
		x.maxBody = req.MaxBody
	}
	err = f.try(ctx, &x, &one.l, &t, send)
	if err == nil && ctx.Err() != nil && (r.Failure != nil || r.Truncated != "") {
		err = ctx.Err() // what ended it was our own cancelling
	}
	if err != nil {
		r.Release()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("fetch %s: %w", req.URL, err)
	}
	return r, nil
}

// LetAllGo closes all idle connections. Fetches under way go on, and connections
// that become idle later are kept.
func (f *Fetcher) LetAllGo() { f.idle.drop() }

// LetGo closes the idle connection of a host that this crawler is not to ask any
// more: whoever asks it next has one of its own.
func (f *Fetcher) LetGo(host string) {
	if c := f.idle.take(host); c != nil {
		c.Close()
	}
}

// try sends over the host's idle connection, else over a new one.
func (f *Fetcher) try(ctx context.Context, x *exchange, l *leash, t *target, send []byte) (err error) {
	stop := context.AfterFunc(ctx, l.snap)
	c := f.idle.take(t.host)
	if c != nil {
		found := ended
		if c.serves(t) {
			found = c.look()
		}
		if found == spoke {
			x.r.note("unasked-bytes")
		}
		if found != silent {
			c.Close()
			c = nil
		}
	}
	if c != nil {
		x.r.Reused = true
		l.hold(c.raw)
		x.run(c, send)
		x.r.Stale, err = x.dead, x.err
	} else if c, x.r.Failure = f.dialer.connect(ctx, l, t, x.now, x.total.Sub(x.now)); c != nil {
		c.host, c.origin = t.host, t.origin
		x.now = f.cfg.Now()
		x.run(c, send)
		err = x.err
	}
	free := stop() // nothing can close c any more
	if free {
		l.held = nil // the response may be kept for long
	}
	x.now = f.cfg.Now()
	x.r.Duration = x.now.Sub(x.r.Began)
	switch {
	case c == nil:
	case free && err == nil && x.keep:
		f.idle.put(c, x.now)
	default:
		c.Close()
	}
	return err
}

// exchange is one request and its response on one connection.
type exchange struct {
	f       *Fetcher
	r       *Response
	maxBody int64
	now     time.Time // not long ago
	total   time.Time // end of all
	first   time.Time // about when the first byte came; zero: not yet
	got     int64     // bytes read, interim responses included
	err     error     // of the spill disk
	waiting bool      // no byte has come
	keep    bool      // the connection can serve another request
	early   bool      // bytes came before the server had the request
	dead    bool      // the connection gave no answer: it ended before its first byte, or early
}

func (x *exchange) fail(k Kind, err error) error {
	x.r.Failure = &Failure{k, err}
	return nil
}

// errNotHTTP and others are what Failures say.
var (
	errNotHTTP   = errors.New("not an HTTP/1 response")
	errClosed    = errors.New("connection closed before a complete header")
	errHeaderBig = errors.New("header too large")
	errInterims  = errors.New("endless interim responses")
	errEarly     = errors.New("bytes on a kept connection before the server had the request")
	errProxyAuth = errors.New("proxy wants other credentials (407)")
)

// run writes the request and reads the response. x.now is the time.
func (x *exchange) run(c *conn, send []byte) {
	x.r.Addr, x.r.Resumed = c.addr, c.resumed
	x.waiting = true
	x.arm(c, x.now, x.f.cfg.FirstByteTimeout)
	_, werr := c.rw.Write(send)
	// A server may answer before it has read a long request and then reset
	// the connection: what it said is waiting to be read.
	ok, err := x.head(c, werr)
	if ok && err == nil {
		err = x.body(c)
	}
	x.err = err
}

// arm sets the deadline to d from now, or to the end of all, or to when the
// response will be too slow. Not for every read: setting it costs as much as a
// small read, and one that stands up to an eighth earlier is good enough, but for
// the last.
func (x *exchange) arm(c *conn, now time.Time, d time.Duration) {
	at, end := now.Add(d), x.end()
	last := at.After(end)
	if last {
		at = end
	}
	if early := at.Sub(c.armed); early < 0 || early > d/8 || last && early != 0 {
		c.rw.SetDeadline(at)
		c.armed = at
	}
}

// end is when the fetch is over unless more bytes come.
func (x *exchange) end() time.Time {
	if slow := x.slowAt(); !slow.IsZero() && slow.Before(x.total) {
		return slow
	}
	return x.total
}

// slowAt is when the response will be slower than Config.MinRate unless more bytes
// come; zero: never.
func (x *exchange) slowAt() time.Time {
	rate := x.f.cfg.MinRate
	if rate <= 0 || x.first.IsZero() {
		return time.Time{}
	}
	whole := time.Duration(min(x.got/rate, 1<<32)) * time.Second
	part := time.Duration(x.got%rate) * time.Second / time.Duration(rate)
	return x.first.Add(SlowGrace + whole + part)
}

// read reads once into the wire; n is 0 only with an error in fault. err is
// the spill disk's.
func (x *exchange) read(c *conn, head bool) (p []byte, fault, err error) {
	w := x.r.Wire
	room, err := w.room(head)
	if err != nil {
		return nil, nil, err
	}
	if !x.waiting {
		now := x.f.cfg.Now()
		if x.first.IsZero() {
			x.first = now
		}
		x.arm(c, now, x.f.cfg.IdleTimeout)
	}
	for range 100 { // a reader may return nothing, but not for ever
		n, fault := c.rw.Read(room)
		if n > 0 {
			w.n += n
			x.got += int64(n)
			w.watch.count(n)
			if x.waiting {
				x.waiting, x.early = false, x.r.Reused && c.early()
			}
			return room[:n], nil, nil // a fault will be told again
		}
		if fault != nil {
			return nil, fault, nil
		}
	}
	return nil, io.ErrNoProgress, nil
}

// timeout says which time ran out.
func (x *exchange) timeout() Kind {
	now := x.f.cfg.Now()
	slow := x.slowAt()
	switch {
	case !now.Before(x.total):
		return TotalTimeout
	case x.waiting:
		return FirstByteTimeout
	case !slow.IsZero() && !now.Before(slow):
		return RateTimeout
	}
	return IdleTimeout
}

// maxInterim bounds the 1xx responses before the final one.
const maxInterim = 16

// head reads up to the end of the final response's header. ok is false where
// it has failed.
func (x *exchange) head(c *conn, werr error) (ok bool, err error) {
	r, w := x.r, x.r.Wire
	scanned, dropped, interims := 0, 0, 0
	for {
		b, _ := w.Bytes()
		// Empty lines before a status line (RFC 9112, 2.2 asks servers to
		// forgive them).
		if blank := len(b) - len(trimEOL(b)); blank > 0 && scanned == 0 {
			w.drop(blank)
			dropped += blank
			b, _ = w.Bytes()
		}
		if k := min(len(b), len("HTTP/")); string(b[:k]) != "HTTP/"[:k] {
			return false, x.fail(BadResponse, fmt.Errorf("%w: it begins %.40q", errNotHTTP, b))
		}
		end := headEnd(b, scanned)
		scanned = len(b)
		if end > x.f.cfg.MaxHeader || end < 0 && len(b)+dropped > x.f.cfg.MaxHeader {
			w.cut(int64(x.f.cfg.MaxHeader))
			return false, x.fail(HeaderTooLarge, fmt.Errorf("%w: over %d bytes", errHeaderBig, x.f.cfg.MaxHeader))
		}
		if end >= 0 {
			line, fields, _ := strings.Cut(string(b[:end]), "\n")
			proto, major, minor, status, known := parseStatus(line)
			if !known {
				return false, x.fail(BadResponse, fmt.Errorf("%w: status line %.80q", errNotHTTP, line))
			}
			if status < 200 && status != 101 {
				if interims++; interims > maxInterim {
					return false, x.fail(BadResponse, errInterims)
				}
				w.drop(end)
				dropped += end
				scanned = 0
				continue
			}
			h, few := parseFields(fields)
			if !few {
				return false, x.fail(HeaderTooLarge, fmt.Errorf("%w: over %d fields", errHeaderBig, maxFields))
			}
			if status == 407 && c.fwd {
				return false, x.fail(Proxy, errProxyAuth)
			}
			r.Status, r.Proto, r.Header, r.HeadLen = status, proto, h, end
			x.keep = status != 101 && keepAlive(major, minor, h)
			return true, nil
		}
		_, fault, err := x.read(c, true)
		if err == errNoMemory {
			return false, x.fail(RateTimeout, err)
		}
		if err != nil {
			return false, err
		}
		if fault != nil {
			return false, x.headFault(fault, werr, dropped > 0)
		}
		if x.early {
			x.dead = true
			return false, x.fail(Broken, errEarly)
		}
	}
}

// headFault says what it means that no more bytes of a header come.
func (x *exchange) headFault(fault, werr error, some bool) error {
	if isTimeout(fault) || werr != nil && isTimeout(werr) {
		return x.fail(x.timeout(), fault)
	}
	x.dead = x.r.Wire.n == 0 && !some
	switch {
	case werr != nil:
		fault = werr // the cause; the read's error is its echo
	case fault == io.EOF:
		fault = errClosed
	}
	return x.fail(Broken, fault)
}

// body reads the body as its framing says and marks how it ended.
func (x *exchange) body(c *conn) error {
	r, w := x.r, x.r.Wire
	fr := frameOf(r)
	r.chunked = fr.kind == byChunks
	if fr.kind == byLength {
		w.reserve(int64(r.HeadLen) + min(fr.length, x.maxBody) + 1)
	}
	head := int64(r.HeadLen)
	all, _ := w.Bytes()
	fresh := all[r.HeadLen:]
	var ch chunks
	var coded int64 // bytes of the chunked body understood so far
	for {
		var end int64 = -1 // the message's end, once known
		switch fr.kind {
		case byNothing:
			end = head
		case byLength:
			if w.Size()-head >= fr.length {
				end = head + fr.length
			}
		case byChunks:
			for len(fresh) > 0 {
				_, n := ch.next(fresh)
				if n == 0 {
					break
				}
				coded += int64(n)
				fresh = fresh[n:]
			}
			if ch.state == chunkDone {
				end = head + coded
			}
		}
		size := w.Size() - head
		if end >= 0 {
			size = end - head
		}
		switch {
		case size > x.maxBody:
			w.cut(head + x.maxBody)
			x.keep, r.Truncated = false, TruncatedLength
			return nil
		case end >= 0:
			more := c.held()
			if w.Size() > end {
				w.cut(end)
				more = spoke
			}
			if more == spoke {
				r.note("excess-bytes")
			}
			x.keep = x.keep && more == silent
			return nil
		case ch.state == chunkBad:
			x.keep, r.Truncated = false, TruncatedDisconnect
			r.note("broken-chunk")
			return nil
		}
		var fault, err error
		if fresh, fault, err = x.read(c, false); err != nil {
			return err
		}
		if fault != nil {
			x.bodyFault(fault, fr.kind, ch.ended())
			return nil
		}
	}
}

// bodyFault marks what it means that no more bytes of a body come.
func (x *exchange) bodyFault(fault error, kind framing, ended bool) {
	r := x.r
	x.keep = false
	switch {
	case ended: // all payload is there
		r.note("no-trailer-end")
	case isTimeout(fault):
		r.Truncated = TruncatedTime
		r.note(x.timeout().String())
	case fault != io.EOF:
		r.Truncated = TruncatedDisconnect
		r.note("reset")
	case kind != byClose:
		r.Truncated = TruncatedDisconnect
		r.note("early-close")
	}
}
