package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/orbweaver/orbweaver/weburl"
)

func siteOf(host string) string { return weburl.Site(host) }

// Stats counts what the frontier holds. Reading it costs the same however
// much that is.
type Stats struct {
	Hosts int // in the dictionary

	Ready     int // may be asked now
	Parked    int // held back by their address or site
	Waiting   int // in their quiet time
	Slowed    int // pausing after 429, 503 or trouble
	Resolving int // being looked up
	InProcess int // being asked
	Blocked   int // retired by the operator
	Exhausted int // without links, a quiet time or a slow-down still runs

	Queued       int64 // links that are not in process
	BlockedLinks int64 // of these: of blocked hosts

	RAMBytes     int64 // estimate: hosts and the queues in RAM
	SpilledBytes int64 // queues on disk
	SpillFiles   int
}

// Stats returns the counts.
func (f *Frontier) Stats() Stats {
	s := f.stats
	s.Hosts = len(f.hosts)
	s.Ready -= s.Parked
	s.Queued = f.queued
	s.RAMBytes = f.ram + f.fixed + int64(len(f.hosts))*hostOverhead
	s.SpilledBytes = f.spilled
	s.SpillFiles = f.files
	return s
}

// Pending is the number of links that are queued or in process, without those
// of blocked hosts. At 0 the crawl is complete.
func (f *Frontier) Pending() int64 {
	return f.queued - f.stats.BlockedLinks + int64(f.stats.InProcess+f.stats.Resolving)
}

// Block retires a host: it is not asked again, its links stay. What is in
// process ends as usual.
func (f *Frontier) Block(host string) {
	h := f.host(host)
	if h.retired {
		return
	}
	h.retired = true
	if h.state == inProcess || h.state == resolving {
		return
	}
	f.stats.BlockedLinks += h.n
	f.leave(h)
	f.place(h)
}

// Unblock takes a Block back.
func (f *Frontier) Unblock(host string) {
	h := f.hosts[host]
	if h == nil || !h.retired {
		return
	}
	h.retired = false
	if h.state == blocked {
		f.stats.BlockedLinks -= h.n
		f.place(h)
	}
}

// Drop forgets the queued links of a host, those in process apart, and returns
// how many they were. Each is shown to fn before, if fn is not nil; after an
// error of fn nothing is dropped.
func (f *Frontier) Drop(host string, fn func(weburl.Link) error) (int64, error) {
	if f.err != nil {
		return 0, f.err
	}
	h := f.hosts[host]
	if h == nil || h.n == 0 {
		return 0, nil
	}
	if fn != nil {
		err := f.each(h, false, func(q Queued) error {
			l, err := q.Link()
			if err != nil {
				return err
			}
			return fn(l)
		})
		if err != nil {
			return 0, err
		}
	}
	n := h.n
	busy := h.state == inProcess || h.state == resolving
	if !busy {
		f.leave(h)
	}
	for h.front.len() > 0 {
		f.fixed -= h.front.items[h.front.head].ram()
		h.front.take()
	}
	h.front = nil
	var first error
	for q := h.q; q != nil; q = q.next {
		f.delist(q)
		f.grow(q, -q.ram)
		for b := q.head; b != nil; b = b.next {
			f.fixed -= blockOverhead
			if b.seg != nil {
				if err := f.release(b); err != nil && first == nil {
					first = err
				}
			}
		}
	}
	h.q, h.n = nil, 0
	f.queued -= n
	if h.state == blocked {
		f.stats.BlockedLinks -= n
	}
	if !busy {
		f.place(h)
	}
	return n, first
}

// A Queued is a pending link as a snapshot keeps it.
type Queued struct {
	Number  uint64
	Attempt int
	// Front says that it stands before the host's queues: a retry, a
	// prerequisite, or a link in process.
	Front bool
	// Enc is weburl.Link's encoding. It is valid during the call of Each's fn.
	Enc []byte
}

// Link decodes q.Enc.
func (q Queued) Link() (weburl.Link, error) {
	l, _, err := weburl.DecodeLink(q.Enc)
	return l, err
}

// ErrQueued is an encoding of Queued or HostState that cannot be read.
var ErrQueued = errors.New("damaged frontier encoding")

// AppendTo appends q's encoding to dst:
//
//	uvarint request number
//	uvarint attempt << 1 | front
//	uvarint length of the link
//	bytes   the link
func (q Queued) AppendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, q.Number)
	a := uint64(max(q.Attempt, 0)) << 1
	if q.Front {
		a |= 1
	}
	dst = binary.AppendUvarint(dst, a)
	dst = binary.AppendUvarint(dst, uint64(len(q.Enc)))
	return append(dst, q.Enc...)
}

// DecodeQueued reads one Queued from the front of src and says how many bytes
// it took. Enc shares src's memory.
func DecodeQueued(src []byte) (q Queued, n int, err error) {
	var v [3]uint64
	for i := range v {
		x, w := binary.Uvarint(src[n:])
		if w <= 0 {
			return Queued{}, 0, ErrQueued
		}
		v[i], n = x, n+w
	}
	if v[1]>>1 > math.MaxInt32 || v[2] > uint64(len(src)-n) {
		return Queued{}, 0, ErrQueued
	}
	q = Queued{Number: v[0], Attempt: int(v[1] >> 1), Front: v[1]&1 == 1, Enc: src[n : n+int(v[2])]}
	return q, n + int(v[2]), nil
}

// Each shows all pending links, those in process included, host by host: first
// the link in process, then what stands before the queues, then the queues from
// the highest level to the lowest, each in its order. Requeue of the same in
// the same order makes a frontier that gives them out as this one would. fn
// must not call the frontier.
func (f *Frontier) Each(fn func(Queued) error) error {
	if f.err != nil {
		return f.err
	}
	for _, h := range f.hosts {
		if err := f.each(h, true, fn); err != nil {
			return err
		}
	}
	return nil
}

func (f *Frontier) each(h *host, inProcess bool, fn func(Queued) error) error {
	front := func(e *entry) error {
		return fn(Queued{Number: e.number, Attempt: int(e.attempt), Front: true, Enc: e.enc})
	}
	if h.cur != nil && inProcess {
		if err := front(h.cur); err != nil {
			return err
		}
	}
	if h.front != nil {
		for i := h.front.head; i < len(h.front.items); i++ {
			if err := front(&h.front.items[i]); err != nil {
				return err
			}
		}
	}
	for q := h.q; q != nil; q = q.next {
		for b := q.head; b != nil; b = b.next {
			if err := f.eachOf(b, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Frontier) eachOf(b *block, fn func(Queued) error) error {
	c := *b
	if c.buf == nil {
		buf, err := f.read(b)
		if err != nil {
			return err
		}
		c.buf = buf
	}
	number := c.first
	for i, n := c.r, c.n; n > 0; n-- {
		if n < c.n {
			d, _ := binary.Varint(c.buf[i:])
			number += uint64(d)
		}
		enc, end, err := c.at(i)
		if err != nil {
			return err
		}
		if err := fn(Queued{Number: number, Enc: enc}); err != nil {
			return err
		}
		i = end
	}
	return nil
}

// Requeue puts back a link that Each has shown, with its number; later pushes
// get higher ones. q.Enc is copied.
func (f *Frontier) Requeue(q Queued) error {
	if f.err != nil {
		return f.err
	}
	l, err := q.Link()
	if err != nil {
		return fmt.Errorf("requeue: %w", err)
	}
	f.number = max(f.number, q.Number)
	h := f.host(l.URL.Host())
	if q.Front {
		f.front(h, entry{level: l.Level, number: q.Number, attempt: int32(q.Attempt), enc: append([]byte(nil), q.Enc...)}, false)
	} else {
		f.enc = append(f.enc[:0], q.Enc...)
		f.insert(h, l.Level, q.Number)
	}
	return f.spill()
}

// A HostState is what outlives a stop of the crawl, for its journal.
type HostState struct {
	Host      string
	Delay     time.Duration // the host's own wish (Crawl-delay)
	NotBefore time.Time     // end of the quiet time or pause
	Slow      uint8         // pauses not yet forgiven
	SlowUntil time.Time     // end of the last pause
	Blocked   bool
}

// AppendTo appends s's encoding to dst:
//
//	uvarint length of the host name
//	bytes   host name
//	byte    1: blocked
//	byte    slow
//	varint  delay in nanoseconds
//	varint  not before, nanoseconds since 1970, 0 none
//	varint  slow until, likewise
func (s HostState) AppendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s.Host)))
	dst = append(dst, s.Host...)
	var b byte
	if s.Blocked {
		b = 1
	}
	dst = append(dst, b, s.Slow)
	dst = binary.AppendVarint(dst, int64(s.Delay))
	dst = binary.AppendVarint(dst, unixNano(s.NotBefore))
	return binary.AppendVarint(dst, unixNano(s.SlowUntil))
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// DecodeHostState reads one HostState from the front of src and says how many
// bytes it took.
func DecodeHostState(src []byte) (s HostState, n int, err error) {
	k, n := binary.Uvarint(src)
	if n <= 0 || k > 1<<16 || uint64(len(src)-n) < k+2 {
		return HostState{}, 0, ErrQueued
	}
	s.Host = string(src[n : n+int(k)])
	n += int(k)
	s.Blocked, s.Slow = src[n] == 1, src[n+1]
	if src[n] > 1 || s.Slow > maxSlow {
		return HostState{}, 0, ErrQueued
	}
	n += 2
	var v [3]int64
	for i := range v {
		x, w := binary.Varint(src[n:])
		if w <= 0 {
			return HostState{}, 0, ErrQueued
		}
		v[i], n = x, n+w
	}
	s.Delay = time.Duration(v[0])
	if v[1] != 0 {
		s.NotBefore = time.Unix(0, v[1])
	}
	if v[2] != 0 {
		s.SlowUntil = time.Unix(0, v[2])
	}
	return s, n, nil
}

// Host returns what is to be remembered of a host; ok is false for nothing.
func (f *Frontier) Host(host string) (s HostState, ok bool) {
	h := f.hosts[host]
	if h == nil {
		return HostState{Host: host}, false
	}
	return f.hostState(h), true
}

func (f *Frontier) hostState(h *host) HostState {
	s := HostState{Host: h.name, Delay: h.delay, Slow: h.slow, Blocked: h.retired}
	if h.at > 0 {
		s.NotBefore = f.epoch.Add(time.Duration(h.at)).Round(0)
	}
	if h.slow > 0 || h.slowUntil > 0 {
		s.SlowUntil = f.epoch.Add(time.Duration(h.slowUntil)).Round(0)
	}
	return s
}

// EachHost shows the state of all hosts of which there is something to remember.
func (f *Frontier) EachHost(fn func(HostState) error) error {
	for _, h := range f.hosts {
		if h.at > f.clock || h.slow > 0 || h.retired || h.delay > 0 {
			if err := fn(f.hostState(h)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restore brings back what Host or EachHost gave. A pause ends at the latest
// SlowMax from now, whatever the clock was when it was written.
func (f *Frontier) Restore(s HostState, now time.Time) {
	f.tick(now)
	h := f.host(s.Host)
	busy := h.state == inProcess || h.state == resolving
	if !busy {
		f.leave(h)
	}
	end := f.clock + int64(f.cfg.SlowMax)
	h.delay = max(s.Delay, 0)
	h.slow = min(s.Slow, maxSlow)
	if !s.NotBefore.IsZero() {
		h.at = max(h.at, min(f.since(s.NotBefore), end))
	}
	if !s.SlowUntil.IsZero() {
		h.slowUntil = min(f.since(s.SlowUntil), end)
	}
	if s.Blocked && !h.retired {
		h.retired = true
		if !busy {
			f.stats.BlockedLinks += h.n
		}
	}
	if !busy {
		f.place(h)
	}
}

// Touched says that host may have been asked a moment before now by a crawl
// that has ended: its quiet time, delay at least, runs from now.
func (f *Frontier) Touched(host string, delay time.Duration, now time.Time) {
	f.tick(now)
	h := f.host(host)
	busy := h.state == inProcess || h.state == resolving
	if !busy {
		f.leave(h)
	}
	h.at = max(h.at, f.clock+int64(max(f.cfg.HostDelay, h.delay, delay)))
	if !busy {
		f.place(h)
	}
}
