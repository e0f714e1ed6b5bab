package rate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// ErrHeld reports a request that may not be sent any more: see Turn.Held.
var ErrHeld = errors.New("the request may not be sent any more")

// A Turn is one visit's place in the order of requests. The zero Turn is that of a visit without a limit.
type Turn struct {
	// Held, if not nil, is asked when a request that has waited may be sent. If it reports true, Send returns ErrHeld,
	// and nothing of the rate is used. It must not block.
	Held func() bool
	// Robots says that the next request is for a robots.txt. Their sizes say nothing about those of pages.
	Robots bool

	l     *Limiter
	begun bool    // it counts among the limiter's visits
	sent  int     // requests
	got   float64 // bytes of all responses
	next  float64 // bytes of the next read, which Next has counted in advance

	// Of the last request:
	robots bool
	paid   float64 // bytes that Send or Expect has taken in advance and no read has used yet
	read   float64 // bytes of the response

	order    uint64        // of the last request
	answered bool          // bytes of its response were read
	first    chan struct{} // capacity 1: is told that the turn is the next reader
}

// Begin notes that a visit begins. Call End when it has ended.
func (l *Limiter) Begin() Turn {
	if l == nil || !l.on.Load() {
		return Turn{l: l}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visits.level++
	l.going++
	return Turn{l: l, begun: true}
}

// Send returns when a request may be sent. The error is ctx's, or ErrHeld.
func (t *Turn) Send(ctx context.Context) error {
	l := t.l
	if l == nil || !l.on.Load() {
		return nil
	}
	l.mu.Lock()
	l.comes(l.clock.Now())
	l.waiting++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.comes(l.clock.Now())
		l.waiting--
		l.mu.Unlock()
	}()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	held := false
	err := l.wait(ctx, func(now time.Time) time.Duration {
		l.drain(now)
		d := l.next(0)
		if held = d == 0 && t.Held != nil && t.Held(); d == 0 && !held {
			t.take(now)
		}
		return d
	})
	if err == nil && held {
		return ErrHeld
	}
	return err
}

// take uses the rate for a request. The caller holds mu.
func (t *Turn) take(now time.Time) {
	l := t.l
	t.settle()
	t.sent++
	l.ordered++
	t.order, t.answered, t.robots = l.ordered, false, t.Robots
	t.paid = *t.size()
	l.requests.level++
	l.bytes.level += t.paid
	l.sent++
	l.usedAt(now)
	l.used.Requests += 1 / useTime.Seconds()
}

// size returns the expected size of the response. The caller holds mu.
func (t *Turn) size() *float64 {
	if t.robots {
		return &t.l.robots
	}
	return &t.l.size
}

// settle gives back what the last request has not used, and learns from the size of its response. The caller holds mu.
func (t *Turn) settle() {
	if t.sent == 0 {
		return
	}
	t.l.bytes.level -= t.paid
	size := t.size()
	more, weight := t.read-*size, largerWeight
	if more < 0 {
		weight = smallerWeight
	}
	*size = max(*size+more*weight, 1)
	t.paid, t.read = 0, 0
}

// arrives is how much of a response a server can send before it is read, in bytes.
const arrives = 64 << 10

// Expect notes that the response to the last request has n bytes in all. Those that the server can send before they are
// read count at once: the server does not wait for Next.
func (t *Turn) Expect(n int64) {
	l := t.l
	if l == nil || !l.on.Load() || t.sent == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drain(l.clock.Now())
	left := max(float64(min(n, arrives))-t.read, 0)
	l.bytes.level += left - t.paid
	t.paid = left
}

const (
	// leastPiece is the least number of bytes to read at once, if Next has counted them in advance.
	leastPiece = 1 << 10
	// firstPiece is the number of bytes to read when a server begins to answer, which nothing has counted in advance.
	// Many servers may begin at the same moment.
	firstPiece = 128
)

// piece returns the most to read at once with a limit of bits. The caller holds mu.
func (l *Limiter) piece() int {
	return max(int(l.read.per*Ahead.Seconds())/max(l.going, 1), leastPiece)
}

// Next returns when bytes may be read, and how many at once at most, so that all open responses together do not read
// more than Ahead at once. Zero means any number. The error is ctx's. It counts the read in advance, so that of several
// turns that wait, only one may read. It does not wait before the first byte of a response.
func (t *Turn) Next(ctx context.Context) (most int, err error) {
	l := t.l
	if l == nil || !l.on.Load() {
		return 0, nil
	}
	l.mu.Lock()
	switch {
	case l.whole.Bits == 0:
	case t.next > 0: // the last read got nothing
		most = int(t.next)
	case !t.answered:
		most = min(l.piece(), firstPiece)
	default:
		l.join(t)
		l.mu.Unlock()
		defer l.leave(t)
		return t.await(ctx)
	}
	l.mu.Unlock()
	return most, nil
}

// await is Next for a turn that has joined the readers.
func (t *Turn) await(ctx context.Context) (most int, err error) {
	select {
	case <-t.first:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	l := t.l
	err = l.wait(ctx, func(now time.Time) time.Duration {
		if l.whole.Bits == 0 {
			return 0
		}
		l.drain(now)
		d := l.read.emptyIn(l.read.per * Ahead.Seconds())
		if d == 0 {
			most = l.piece()
			t.next = float64(most)
			l.read.level += t.next
		}
		return d
	})
	return most, err
}

// join adds a turn to the readers. The caller holds mu.
func (l *Limiter) join(t *Turn) {
	l.comes(l.clock.Now())
	l.readers = append(l.readers, t)
	if t.first == nil {
		t.first = make(chan struct{}, 1)
	}
	if l.reader == nil {
		l.choose()
	}
}

// leave removes a turn from the readers.
func (l *Limiter) leave(t *Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.comes(l.clock.Now())
	i := slices.Index(l.readers, t)
	l.readers = slices.Delete(l.readers, i, i+1)
	if l.reader == t {
		select {
		case <-t.first: // it has not seen that it was chosen
		default:
		}
		l.choose()
	}
}

// choose says which reader is the next: alternately that of the oldest request, so that pages are finished one after
// the other, and the one that has waited longest, so that a large response does not keep others waiting. The caller
// holds mu.
func (l *Limiter) choose() {
	if l.reader = nil; len(l.readers) == 0 {
		return
	}
	if l.reader = l.readers[0]; l.oldest {
		l.reader = slices.MinFunc(l.readers, func(a, b *Turn) int { return cmp.Compare(a.order, b.order) })
	}
	l.oldest = !l.oldest
	l.reader.first <- struct{}{}
}

// Receive notes that n bytes were read.
func (t *Turn) Receive(n int) {
	l := t.l
	if l == nil || !l.on.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, got := l.clock.Now(), float64(n)
	l.drain(now)
	t.answered, l.heard = true, now
	t.got += got
	t.read += got
	l.read.level += got - t.next
	t.next = 0
	paid := min(got, t.paid)
	t.paid -= paid
	l.bytes.level += got - paid
	l.usedAt(now)
	l.used.Bits += 8 * got / useTime.Seconds()
}

// End ends the turn. Other turns get the part of the rate that it did not use.
func (t *Turn) End() {
	l := t.l
	if l == nil || !t.begun && t.sent == 0 && t.next == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read.level -= t.next
	if t.begun {
		l.going--
	}
	switch {
	case t.sent == 0 && t.begun:
		l.visits.level--
	case t.sent > 0:
		// A response that is smaller than expected uses less of a visit's turn.
		if got := max(t.got/float64(t.sent), 1); l.limit.Bits > 0 && got < l.size {
			l.visits.level -= 1 - l.pace(l.size)/l.pace(got)
		}
		t.settle()
		l.visits.per = gain * l.pace(l.size)
	}
	*t = Turn{}
}
