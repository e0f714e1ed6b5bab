package object

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

const (
	// firstWait and longestWait bound the time between two tries of a request. Each wait is up to twice as long as the
	// one before. A part of it is drawn by chance, so that many writers do not come back at the same moment.
	firstWait, longestWait = 200 * time.Millisecond, 30 * time.Second
	// attempt is how long one request may take without its content, and slowest is the rate in bytes a second that its
	// content must have.
	attempt, slowest = 3 * time.Minute, 16 << 10
)

// try makes a request until it succeeds, fails for good, or the context ends. size is how many bytes it sends.
func (s *Store) try(ctx context.Context, size int64, request func(ctx context.Context) error) error {
	limit := attempt + time.Duration(size/slowest)*time.Second
	if s.pace != nil {
		limit += time.Duration(float64(size)/float64(s.pace.rate)*float64(time.Second)) * time.Duration(s.parallel+1)
	}
	wait := firstWait
	for n := 1; ; n++ {
		once, cancel := context.WithTimeout(ctx, limit)
		err := request(once)
		late := once.Err() != nil && ctx.Err() == nil
		cancel()
		if err != nil && late {
			err = fmt.Errorf("%w (no answer in %v)", ErrAway, limit)
		}
		if err == nil || !Temporary(err) || s.tries > 0 && n >= s.tries {
			return err
		}
		d := wait/2 + rand.N(wait)/2
		if s.waits != nil {
			s.waits.Waits(err, d)
		}
		if !clock.Pause(ctx, d) {
			return errors.Join(err, ctx.Err())
		}
		wait = min(2*wait, longestWait)
	}
}

// A pace is the bandwidth that all writers of a Store share.
type pace struct {
	rate int64 // bytes a second

	mu   sync.Mutex // guards next
	next time.Time  // when the bytes that were let through so far are sent
}

// pass waits until n more bytes may be sent.
func (p *pace) pass(ctx context.Context, now time.Time, n int) error {
	p.mu.Lock()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	wait := p.next.Sub(now)
	p.mu.Unlock()
	if !clock.Pause(ctx, wait) {
		return ctx.Err()
	}
	return nil
}

// A paced is a Content that is read no faster than a pace.
type paced struct {
	Content
	ctx  context.Context // of one request; ReadAt has no argument for it
	s    *Store
	step int
}

// ReadAt reads a piece at a time, so that the bandwidth is even.
func (p paced) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) && err == nil {
		piece := b[n:min(n+p.step, len(b))]
		if err := p.s.pace.pass(p.ctx, p.s.clock.Now(), len(piece)); err != nil {
			return n, err
		}
		var m int
		m, err = p.Content.ReadAt(piece, off+int64(n))
		n += m
	}
	return n, err
}

// slowed returns the content, at the pace of the store.
func (s *Store) slowed(ctx context.Context, c Content) Content {
	if s.pace == nil {
		return c
	}
	return paced{c, ctx, s, int(max(1, min(16<<10, s.pace.rate/20)))}
}
