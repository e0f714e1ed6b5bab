package testweb

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A front serves the hosts of the Origin in a loop of its own, because net/http costs more than making such a page. A
// connection without a current request holds no buffer, and a response is one write.
//
//	accept -> readIdle -> parseHead -> Origin.Answer -> send
//	                        \-> net/http: hosts of Sites, and unusual requests
//
// A connection that was given to net/http comes back with its next request to one of the Origin's hosts.
type front struct {
	web   *Web
	hands chan *conn     // connections for net/http
	done  chan struct{}  // closed when net/http takes no more connections
	once  sync.Once      // closes done
	loops sync.WaitGroup // accept loops and connections in this loop
}

// The timeouts of the front, equal to those of net/http in Run.
const (
	headPatience = time.Minute
	idlePatience = 5 * time.Minute
	sweepEvery   = 5 * time.Second
)

func newFront(w *Web) *front {
	return &front{web: w, hands: make(chan *conn), done: make(chan struct{})}
}

// accept serves a listener until it is closed. The caller has added one to loops.
func (f *front) accept(l *listener) error {
	defer f.loops.Done()
	wait := time.Duration(0)
	for {
		c, err := l.Accept()
		if temporary(err) && !f.web.shuttingDown() {
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			time.Sleep(wait)
			continue
		}
		if err != nil {
			return err
		}
		wait = 0
		f.loops.Add(1)
		go f.run(c.(*conn))
	}
}

// temporary reports whether an error of Accept is temporary: no file descriptor was free, or the client closed at once.
func temporary(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED)
}

// shuttingDown reports whether the web is shutting down.
func (w *Web) shuttingDown() bool {
	select {
	case <-w.shut:
		return true
	default:
		return false
	}
}

// Accept, with Close and Addr, makes the front a net.Listener for net/http. It returns connections from handOver.
func (f *front) Accept() (net.Conn, error) {
	select {
	case c := <-f.hands:
		return c, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (f *front) Close() error {
	f.once.Do(func() { close(f.done) })
	return nil
}

// Addr returns the address of the plain listener.
func (f *front) Addr() net.Addr { return f.web.plain.Addr() }

// handOver gives the connection to net/http, which first reads the bytes in c.in.
func (f *front) handOver(c *conn) {
	c.waiting.Store(0)
	c.pre, c.in, c.inBuf = c.in, nil, nil
	select {
	case f.hands <- c:
	case <-f.done:
		c.Close()
	}
}

// run answers requests until the connection ends or is given to net/http.
func (f *front) run(c *conn) {
	defer f.loops.Done()
	for {
		if len(c.in) == 0 {
			c.giveBack()
			c.waiting.Store(f.web.track.now())
			if c.readIdle() != nil {
				c.Close()
				return
			}
		}
		h, v := parseHead(c.in)
		for v == shortHead {
			c.waiting.CompareAndSwap(0, -f.web.track.now()) // these bytes came with the previous request
			if c.waiting.Load() > 0 {
				c.waiting.Store(-f.web.track.now())
			}
			if _, err := c.fill(); err != nil {
				c.Close()
				return
			}
			h, v = parseHead(c.in)
		}
		c.waiting.Store(0)
		if v == oddHead {
			f.handOver(c)
			return
		}
		host, ok := f.web.originOf(c, h.host)
		if !ok {
			f.handOver(c)
			return
		}
		if !f.answer(c, host, &h) {
			f.hangUp(c)
			return
		}
		c.in = c.in[:copy(c.in, c.in[c.answered:])]
		c.answered = 0
	}
}

// hangUp closes the connection after its last response. If the client has sent more, hangUp first reads for a while: a
// close with unread bytes causes a reset, and the client would lose the response.
func (f *front) hangUp(c *conn) {
	c.mu.Lock()
	gone := c.closed || c.goneSeen != 0
	c.mu.Unlock()
	if len(c.in) > c.answered && !gone {
		c.CloseWrite()
		c.in = c.in[:0]
		c.linger(500 * time.Millisecond)
	}
	c.Close()
	c.giveBack()
}

// originOf returns the number of the Origin's host that a Host field names. If a Site has the same name, ok is false.
func (w *Web) originOf(c *conn, field string) (int64, bool) {
	if w.cfg.Origin == nil {
		return 0, false
	}
	if c.lastField != "" && c.lastField == field {
		return c.lastHost, true
	}
	name := hostName(field)
	if w.sites[name] != nil {
		return 0, false
	}
	n, ok := w.cfg.Origin.Find(name)
	if ok {
		c.lastField, c.lastHost = strings.Clone(field), n
	}
	return n, ok
}

// answer answers one request. It reports whether the connection stays open.
func (f *front) answer(c *conn, host int64, h *head) (keep bool) {
	w := f.web
	method := http.MethodGet
	if h.head {
		method = http.MethodHead
	}
	r := newRequest(c, w.track.originHost(c, host), strings.Clone(h.target), method)
	r.port, r.file = w.portOf(h.host), h.file
	end := h.close || w.cfg.CloseEach
	c.answered = h.n
	c.start(r, false)
	w.track.begin(c, r)
	// From here on nothing refers to the request's buffer, so linger can return it to the pool.
	q := Query{Host: host, Target: r.target, Gzip: h.gzip, Secure: c.secure, Port: r.port, Head: h.head, Close: end,
		Answered: w.track.askedBefore(r)}
	if w.track.fresh != nil {
		q.IfNoneMatch, q.IfModifiedSince = strings.Clone(h.none), strings.Clone(h.since)
	}
	there := true
	if d := c.latency(); d > 0 {
		there = c.linger(d)
	}
	buf := responses.Get().(*[]byte)
	w.track.dated(r, &q)
	out, rep := w.cfg.Origin.Answer((*buf)[:0], q)
	w.track.replied(r, &rep)
	if rep.Wait > 0 && there {
		// Many responses may wait at once, so this one is made again after the wait instead of being kept.
		keepBuffer(buf, out)
		there = c.linger(rep.Wait)
		buf = responses.Get().(*[]byte)
		w.track.dated(r, &q)
		out, rep = w.cfg.Origin.Answer((*buf)[:0], q)
	}
	whole := rep.Fault == NoFault || rep.Fault == CloseAfter && rep.Cut > len(out)
	if rep.Fault != NoFault {
		out = out[:min(max(rep.Cut, 0), len(out))]
	}
	there = there && c.send(out, &rep, r)
	keepBuffer(buf, out)
	switch {
	case !there:
	case whole:
		c.complete(r)
		keep = !end && rep.Fault == NoFault
	default:
		c.fail(rep.Fault, len(out) > 0)
	}
	c.finish(false)
	return keep
}

// fail ends the connection as the fault demands. begun means that some bytes of the response were sent.
func (c *conn) fail(f Fault, begun bool) {
	switch f {
	case HangAfter:
		c.linger(24 * time.Hour)
	case ResetAfter:
		if begun {
			c.linger(20 * time.Millisecond) // or the reset could overtake these bytes
		}
		c.reset()
	}
}

// responses is a pool of buffers for whole responses. Buffers larger than maxKept do not return to it.
var responses = sync.Pool{New: func() any { b := make([]byte, 0, 48<<10); return &b }}

const maxKept = 1 << 20

func keepBuffer(buf *[]byte, out []byte) {
	if cap(out) <= maxKept {
		*buf = out[:0]
		responses.Put(buf)
	}
}

// send writes a response at the pace of its Reply. It reports whether all bytes were written.
func (c *conn) send(out []byte, rep *Reply, r *request) bool {
	ok := true
	put := func(p []byte) {
		n, err := c.Write(p)
		r.bytes += int64(n)
		ok = err == nil
	}
	switch n := min(rep.HeadLen, len(out)); {
	case len(out) == 0:
	case rep.Pace <= 0:
		put(out)
	default:
		put(out[:n])
		for n < len(out) && ok {
			step := min(1<<10, len(out)-n)
			put(out[n : n+step])
			if n += step; n < len(out) && ok {
				ok = c.linger(rep.Pace)
			}
		}
	}
	r.bytes = max(0, r.bytes-int64(rep.HeadLen))
	return ok
}

// serveOrigin takes a connection back from net/http to answer a request that net/http has read. It returns false if the
// request is one that the front does not answer.
func (w *Web) serveOrigin(rw *recorder, c *conn, req *http.Request, host int64) bool {
	h := head{target: rw.r.target, host: req.Host, gzip: acceptsGzip(req), head: req.Method == http.MethodHead,
		close: req.Close || req.ContentLength != 0 || !req.ProtoAtLeast(1, 1),
		none:  strings.Join(req.Header.Values("If-None-Match"), ", "), since: req.Header.Get("If-Modified-Since")}
	if req.Method != http.MethodGet && !h.head || !strings.HasPrefix(h.target, "/") {
		return false
	}
	f := w.front
	f.loops.Add(1)
	_, buf, err := http.NewResponseController(rw.ResponseWriter).Hijack()
	if err != nil {
		f.loops.Done()
		return true
	}
	c.SetDeadline(time.Time{})
	ahead, _ := buf.Reader.Peek(buf.Reader.Buffered())
	c.in = bytes.Join([][]byte{ahead, c.pre}, nil)
	c.pre = nil
	go func() {
		if !f.answer(c, host, &h) {
			f.hangUp(c)
			f.loops.Done()
			return
		}
		f.run(c)
	}()
	return true
}

// linger waits for d. It reports whether the client is still connected then. It keeps up to 64 KiB that the client
// sends meanwhile, and holds no buffer before the client sends something.
func (c *conn) linger(d time.Duration) bool {
	const maxAhead = 64 << 10
	if len(c.in) == c.answered {
		c.giveBack()
		c.answered = 0
	}
	until := time.Now().Add(d)
	defer c.SetReadDeadline(time.Time{})
	for {
		left := time.Until(until)
		if left <= 0 {
			return true
		}
		if len(c.in) >= maxAhead { // stop reading, and ask the kernel now and then
			time.Sleep(min(left, 20*time.Millisecond))
			if c.isGone() {
				c.mu.Lock()
				c.noteGone(c.web.track.now())
				c.mu.Unlock()
				return false
			}
			continue
		}
		c.SetReadDeadline(time.Now().Add(left))
		var err error
		if len(c.in) == 0 {
			err = c.readIdle()
		} else {
			_, err = c.fill()
		}
		if err != nil && !isTimeout(err) {
			return false
		}
	}
}

// heads is a pool of buffers for requests.
var heads = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// fill reads more bytes into c.in.
func (c *conn) fill() (int, error) {
	c.takeBuffer()
	if len(c.in) == cap(c.in) {
		c.in = append(c.in, 0)[:len(c.in)]
	}
	n, err := c.Read(c.in[len(c.in):cap(c.in)])
	c.in = c.in[:len(c.in)+n]
	return n, err
}

func (c *conn) takeBuffer() {
	if c.inBuf == nil {
		c.inBuf = heads.Get().(*[]byte)
		c.in = append((*c.inBuf)[:0], c.in...)
	}
}

// giveBack empties c.in and returns its buffer to the pool.
func (c *conn) giveBack() {
	if c.inBuf != nil && cap(c.in) <= 64<<10 {
		*c.inBuf = c.in[:0]
		heads.Put(c.inBuf)
	}
	c.inBuf, c.in = nil, nil
}

// sweep closes, every few seconds, connections that have exceeded a timeout of the front.
func (f *front) sweep(live *connSet) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.web.shut:
			return
		case <-tick.C:
			live.expire(f.web.track.now())
		}
	}
}

// expire closes the connections that have exceeded a timeout at time now.
func (s *connSet) expire(now int64) {
	var late []*conn
	s.mu.Lock()
	for c := range s.m {
		switch at := c.waiting.Load(); {
		case at > 0 && now-at > int64(idlePatience), at < 0 && now+at > int64(headPatience):
			late = append(late, c)
		}
	}
	s.mu.Unlock()
	for _, c := range late {
		c.tcp.Close()
	}
}
