// Package fetch answers: what does the server send for this URL? It makes one HTTP request and
// returns the response, byte for byte.
//
//	Request -> idle connection of the host | lookup -> guard -> dial -> TLS
//	        -> write -> head -> body by its framing -> Response{Wire, Header, ...}
//
// Invariants:
//
//   - Every Fetch ends within Config.TotalTimeout, in exactly one of a complete response, a
//     truncated response, or a Failure.
//   - The bytes of both directions are kept as they went over the wire.
//   - Private addresses are dialled only if the operator allows it.
//   - Sizes, counts and times are bounded, whatever the server does.
//   - Bytes that arrive on a kept connection before the server has acknowledged a request are not
//     taken for the response to it.
//
// The package follows no redirects and repeats no request. If a kept connection ends before the
// first byte of a response, the server may have read the request. Only the caller knows when
// another request is polite (see Response.Stale).
//
// A Fetcher is safe for concurrent use. The caller must send at most one request at a time to a
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

	"github.com/orbweaver/orbweaver/internal/web/message"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Request asks for one URL by GET.
type Request struct {
	URL weburl.URL
	// Addr is the address to dial, unless a ConnectTo rule names another one. If it is invalid, the
	// fetcher calls Config.Lookup.
	Addr netip.Addr
	// Header is sent after Config's fields, and replaces those of the same name.
	Header [][2]string
	// Secret is like Header, but Response.Request has Redacted instead of the values.
	Secret [][2]string
	// If makes the request conditional: the server sends the content only if it has changed.
	If Condition
	// MaxBody overrides Config.MaxBody, in bytes. Zero means Config.MaxBody.
	MaxBody int64
	// ConnectWithin bounds the time for connecting, TLS included, besides Config.ConnectTimeout and Config.TLSTimeout.
	// Zero means no other bound.
	ConnectWithin time.Duration
	// Watch, if not nil, lets another goroutine follow the fetch.
	Watch *Watch
	// Pacer, if not nil, says when the request is sent and how fast its response is read.
	Pacer Pacer
}

// A Pacer bounds the speed of all fetches together. The time that it takes does not count as the server's: timeouts and
// Response.Duration leave it out. The errors are those of ctx.
type Pacer interface {
	// Send returns when the request may be sent. A new connection is open by then.
	Send(ctx context.Context) error
	// Next returns when bytes may be read, and how many at once at most. Zero means any number. It does not wait
	// before the first byte of a response.
	Next(ctx context.Context) (most int, err error)
	// Expect notes that the response will have n bytes in all, which its header tells.
	Expect(n int64)
	// Receive notes that n bytes were read.
	Receive(n int)
}

// Fetcher fetches URLs. Make one with New.
type Fetcher struct {
	cfg    Config
	dialer dialer
	idle   idle
	spill  spill
}

// New checks c and returns a Fetcher. It reads c.CAFile and no other file. An error means that c is
// invalid or that c.CAFile cannot be read.
func New(c Config) (*Fetcher, error) {
	if err := c.fill(); err != nil {
		return nil, err
	}
	f := &Fetcher{cfg: c}
	f.spill.fs, f.spill.dir, f.spill.bytes = c.FS, c.SpillDir, int(c.SpillBytes)
	f.idle.init(c.IdleKeep, c.MaxIdle, c.Clock)
	f.dialer.idle = &f.idle
	if err := f.dialer.init(&f.cfg); err != nil {
		return nil, err
	}
	return f, nil
}

// Close closes the idle connections. Fetches in progress continue; their connections are closed
// when they end. The error is always nil.
func (f *Fetcher) Close() error {
	f.idle.close()
	return nil
}

// Relieve closes the half of the idle connections that have been idle longest. Call it if the
// process has no file descriptor left. Safe for concurrent use.
func (f *Fetcher) Relieve() { f.idle.relieve() }

// Fetch sends one request and reads its response to the end. It blocks until then, at most for
// Config.TotalTimeout. If the error is not nil, there is no Response: the error is ctx's, ErrHeader
// for a bad field, or an error of the spill file. A failure of the server or the network is not an
// error; it is in Response.Failure. The caller must release the Response.
func (f *Fetcher) Fetch(ctx context.Context, req Request) (*Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := target{
		host: req.URL.Host(), origin: req.URL.Origin(), port: req.URL.Port(),
		tls: req.URL.Scheme() == "https", addr: req.Addr, within: req.ConnectWithin,
	}
	f.dialer.applyConnectTo(&t)
	began := f.cfg.Clock.Now()
	// One allocation for everything that lives as long as the response.
	one := &struct {
		r Response
		w Wire
		l canceller
	}{r: Response{URL: req.URL, Began: began}, w: Wire{spill: &f.spill}}
	r := &one.r
	r.Wire = &one.w
	r.Wire.watch = req.Watch
	send, err := f.request(&req, &t, r)
	if err != nil {
		return nil, fmt.Errorf("fetch %s: %w", req.URL, err)
	}
	x := exchange{f: f, r: r, ctx: ctx, pacer: req.Pacer, maxBody: f.cfg.MaxBody, now: began,
		total: began.Add(f.cfg.TotalTimeout)}
	if req.MaxBody > 0 {
		x.maxBody = req.MaxBody
	}
	err = f.try(ctx, &x, &one.l, &t, send)
	if err == nil && ctx.Err() != nil && (r.Failure != nil || r.Truncated != "") {
		err = ctx.Err() // our own cancelling ended the fetch
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

// LetAllGo closes all connections that are idle now. Fetches in progress continue, and connections
// that become idle later are kept. Safe for concurrent use.
func (f *Fetcher) LetAllGo() { f.idle.drop() }

// LetGo closes the idle connection of host. Call it when this crawler no longer owns the host,
// because the new owner opens its own connection. Safe for concurrent use.
func (f *Fetcher) LetGo(host string) {
	if c := f.idle.take(host); c != nil {
		c.Close()
	}
}

// try sends over the host's idle connection. If there is none, it opens a new one.
func (f *Fetcher) try(ctx context.Context, x *exchange, l *canceller, t *target, send []byte) (err error) {
	stop := context.AfterFunc(ctx, l.cancel)
	c := f.idle.take(t.host)
	var unsent error
	if c != nil {
		unsent = x.send()
		found := ended
		if c.serves(t) {
			found = c.probe()
		}
		if found == unasked {
			x.r.note("unasked-bytes")
		}
		if found != silent {
			c.Close()
			c = nil
		}
	}
	switch kept := c != nil; {
	case unsent != nil:
		err = unsent
	case kept:
		x.r.Reused = true
		l.hold(c.raw)
		x.run(c, send)
		x.r.Stale, err = x.dead, x.err
	default:
		if c, x.now, x.r.Failure = f.dialer.connect(ctx, l, t, x.now, x.total.Sub(x.now)); c == nil {
			break
		}
		c.host, c.origin = t.host, t.origin
		if !x.sent {
			if err = x.send(); err != nil {
				break
			}
		}
		x.run(c, send)
		err = x.err
	}
	free := stop() // from here on nothing else can close c
	if free {
		l.held = nil // do not keep the connection in memory as long as the response
	}
	x.now = f.cfg.Clock.Now()
	x.r.Duration = x.now.Sub(x.r.Began) - x.held
	if err == nil && x.r.Failure == nil {
		x.measure()
	}
	switch {
	case c == nil:
	case free && err == nil && x.keep:
		f.idle.put(c, x.now)
	case x.waiting:
		abort(c.raw)
	default:
		c.Close()
	}
	return err
}

// exchange is one request and its response on one connection.
type exchange struct {
	f       *Fetcher
	r       *Response
	ctx     context.Context // of Fetch, for the pacer
	pacer   Pacer           // nil: none
	maxBody int64
	now     time.Time     // the time of a recent call of Config.Clock
	total   time.Time     // deadline of the whole fetch
	first   time.Time     // approximate time of the first byte; zero: none yet
	got     int64         // bytes read, interim responses included
	err     error         // an error of the spill file
	held    time.Duration // how long the pacer has held back the reading
	sent    bool          // the pacer has let the request go
	waiting bool          // no byte has come
	keep    bool          // the connection can serve another request
	early   bool          // bytes came before the server had the request
	dead    bool          // no answer: the connection ended before its first byte, or sent bytes early
}

func (x *exchange) fail(k Kind, err error) error {
	x.r.Failure = &Failure{k, err}
	return nil
}

// errNotHTTP and the other errors are the causes in Failures.
var (
	errNotHTTP   = errors.New("not an HTTP/1 response")
	errClosed    = errors.New("connection closed before the header was complete")
	errHeaderBig = errors.New("header too large")
	errInterims  = errors.New("too many interim (1xx) responses")
	errEarly     = errors.New("the server sent bytes on a kept connection before it had the request")
	errProxyAuth = errors.New("the proxy refused the credentials (407); check the user and password of the proxy URL")
)

// send waits until the request may be sent. The error is the pacer's. The fetch counts from then.
func (x *exchange) send() error {
	x.sent = true
	if x.pacer == nil {
		return nil
	}
	from := x.f.cfg.Clock.Now()
	if err := x.pacer.Send(x.ctx); err != nil {
		return err
	}
	x.now = x.f.cfg.Clock.Now()
	waited := x.now.Sub(from)
	x.r.Began, x.total = x.r.Began.Add(waited), x.total.Add(waited)
	return nil
}

// next waits until bytes may be read, and returns how many at most. Zero means any number. The error is ctx's.
func (x *exchange) next() (most int, err error) {
	if x.pacer == nil {
		return 0, nil
	}
	from := x.f.cfg.Clock.Now()
	if most, err = x.pacer.Next(x.ctx); err != nil {
		return 0, err
	}
	if waited := x.f.cfg.Clock.Now().Sub(from); waited > 0 {
		x.held += waited
		x.total = x.total.Add(waited)
		if !x.first.IsZero() {
			x.first = x.first.Add(waited)
		}
	}
	return most, nil
}

// run writes the request and reads the response. x.now must be the current time.
func (x *exchange) run(c *conn, send []byte) {
	x.r.Addr, x.r.Resumed, x.r.Secure, x.r.Sent = c.addr, c.resumed, c.secure, x.now
	x.waiting = true
	x.setDeadline(c, x.now, x.f.cfg.FirstByteTimeout)
	_, werr := c.rw.Write(send)
	// A server may answer before it has read a long request and then reset the connection. Its
	// answer can still be read.
	ok, err := x.head(c, werr)
	if ok && err == nil {
		err = x.body(c)
	}
	x.err = err
}

// setDeadline sets the read deadline to d from now, but not later than the end of the fetch. It
// does not set it before every read, because that costs as much as a small read. A deadline that
// comes up to d/8 early is good enough, except for the end of the fetch.
func (x *exchange) setDeadline(c *conn, now time.Time, d time.Duration) {
	at, end := now.Add(d), x.end()
	last := at.After(end)
	if last {
		at = end
	}
	if early := at.Sub(c.deadline); early < 0 || early > d/8 || last && early != 0 {
		c.rw.SetDeadline(at)
		c.deadline = at
	}
}

// end returns when the fetch must end unless more bytes come.
func (x *exchange) end() time.Time {
	if slow := x.slowAt(); !slow.IsZero() && slow.Before(x.total) {
		return slow
	}
	return x.total
}

// slowAt returns when the response becomes slower than Config.MinRate unless more bytes come. Zero
// means never.
func (x *exchange) slowAt() time.Time {
	rate := x.f.cfg.MinRate
	if rate <= 0 || x.first.IsZero() {
		return time.Time{}
	}
	whole := time.Duration(min(x.got/rate, 1<<32)) * time.Second
	part := time.Duration(x.got%rate) * time.Second / time.Duration(rate)
	return x.first.Add(SlowGrace + whole + part)
}

// read reads once into the wire. It returns either bytes, or fault for an error of the connection.
// err is an error of the spill file, errNoMemory, or ctx's.
func (x *exchange) read(c *conn, head bool) (p []byte, fault, err error) {
	w := x.r.Wire
	room, err := w.room(head)
	if err != nil {
		return nil, nil, err
	}
	most, err := x.next()
	if err != nil {
		return nil, nil, err
	}
	if most > 0 {
		room = room[:min(len(room), most)]
	}
	if !x.waiting {
		now := x.f.cfg.Clock.Now()
		if x.first.IsZero() {
			x.first = now
		}
		x.setDeadline(c, now, x.f.cfg.IdleTimeout)
	}
	for range 100 { // a reader may return no bytes, but not for ever
		n, fault := c.rw.Read(room)
		if n > 0 {
			w.n += n
			x.got += int64(n)
			w.watch.count(n)
			if x.waiting {
				x.waiting, x.early = false, x.r.Reused && c.early()
			}
			if x.pacer != nil {
				x.pacer.Receive(n)
			}
			return room[:n], nil, nil // the next Read returns a fault again
		}
		if fault != nil {
			return nil, fault, nil
		}
	}
	return nil, io.ErrNoProgress, nil
}

// timeout returns the kind of the timeout that has ended the fetch.
func (x *exchange) timeout() Kind {
	now := x.f.cfg.Clock.Now()
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

// maxInterim is the maximum number of 1xx responses before the final one.
const maxInterim = 16

// head reads to the end of the final response's header. ok is false if that failed; x.r.Failure
// then has the cause.
func (x *exchange) head(c *conn, werr error) (ok bool, err error) {
	r, w := x.r, x.r.Wire
	scanned, dropped, interims := 0, 0, 0
	for {
		b, _ := w.Bytes()
		// Skip empty lines before a status line, as some servers send them. (RFC 9112, 2.2 asks
		// this only of servers.)
		if blank := len(b) - len(trimEOL(b)); blank > 0 && scanned == 0 {
			w.drop(blank)
			dropped += blank
			b, _ = w.Bytes()
		}
		if k := min(len(b), len("HTTP/")); string(b[:k]) != "HTTP/"[:k] {
			return false, x.fail(BadResponse, fmt.Errorf("%w: it begins with %.40q", errNotHTTP, b))
		}
		end := headEnd(b, scanned)
		scanned = len(b)
		if end > x.f.cfg.MaxHeader || end < 0 && len(b)+dropped > x.f.cfg.MaxHeader {
			w.cut(int64(x.f.cfg.MaxHeader))
			return false, x.fail(HeaderTooLarge, fmt.Errorf("%w: more than %d bytes", errHeaderBig, x.f.cfg.MaxHeader))
		}
		if end >= 0 {
			line, fields, _ := strings.Cut(string(b[:end]), "\n")
			proto, major, minor, status, known := message.ParseStatus(line)
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
			h, few := message.ParseFields(fields)
			if !few {
				return false, x.fail(HeaderTooLarge, fmt.Errorf("%w: more than %d fields", errHeaderBig,
					message.MaxFields))
			}
			if status == 407 && c.forward {
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

// headFault records the failure if no more bytes of a header come.
func (x *exchange) headFault(fault, werr error, some bool) error {
	if isTimeout(fault) || werr != nil && isTimeout(werr) {
		return x.fail(x.timeout(), fault)
	}
	x.dead = x.r.Wire.n == 0 && !some
	switch {
	case werr != nil:
		fault = werr // the cause; the read error follows from it
	case fault == io.EOF:
		fault = errClosed
	}
	return x.fail(Broken, fault)
}

// body reads the body by its framing and records how it ended.
func (x *exchange) body(c *conn) error {
	r, w := x.r, x.r.Wire
	fr := frameOf(r)
	r.chunked = fr.kind == byChunks
	if fr.kind == byLength {
		w.reserve(int64(r.HeadLen) + min(fr.length, x.maxBody) + 1)
	}
	if x.pacer != nil && (fr.kind == byLength || fr.kind == byNothing) {
		x.pacer.Expect(int64(r.HeadLen) + min(fr.length, x.maxBody))
	}
	head := int64(r.HeadLen)
	all, _ := w.Bytes()
	fresh := all[r.HeadLen:]
	var ch message.Chunks
	var coded int64 // bytes of the chunked body that are parsed so far
	for {
		var end int64 = -1 // the end of the message, once known
		switch fr.kind {
		case byNothing:
			end = head
		case byLength:
			if w.Size()-head >= fr.length {
				end = head + fr.length
			}
		case byChunks:
			for len(fresh) > 0 {
				_, n := ch.Next(fresh)
				if n == 0 {
					break
				}
				coded += int64(n)
				fresh = fresh[n:]
			}
			if ch.Done() {
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
				more = unasked
			}
			if more == unasked {
				r.note("excess-bytes")
			}
			x.keep = x.keep && more == silent
			return nil
		case ch.Bad():
			x.keep, r.Truncated = false, TruncatedDisconnect
			r.note("broken-chunk")
			return nil
		}
		var fault, err error
		if fresh, fault, err = x.read(c, false); err != nil {
			return err
		}
		if fault != nil {
			x.bodyFault(fault, fr.kind, ch.Ended())
			return nil
		}
	}
}

// bodyFault records how a body ended if no more bytes of it come.
func (x *exchange) bodyFault(fault error, kind framing, ended bool) {
	r := x.r
	x.keep = false
	switch {
	case ended: // the payload is complete
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
