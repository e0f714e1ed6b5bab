package entries

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed reports a Server whose Run has ended.
var ErrClosed = errors.New("table closed")

// atOnce bounds the questions that are answered together.
const atOnce = 64

// A Server answers questions about a Map. Ask is safe for concurrent use. The goroutine of Run owns the Map.
type Server[Q any] struct {
	*Map
	asks chan *call[Q]
	over chan struct{} // closed when Run has ended
	once sync.Once     // closes over
}

type call[Q any] struct {
	q    *Q
	done chan struct{}
}

// NewServer returns a Server of a Map.
func NewServer[Q any](m *Map) *Server[Q] {
	return &Server[Q]{Map: m, asks: make(chan *call[Q]), over: make(chan struct{})}
}

// Ask blocks until Run has answered q, or ctx is done. Then Run may still write into q. The error is ctx's or
// ErrClosed.
func (s *Server[Q]) Ask(ctx context.Context, q *Q) error {
	c := &call[Q]{q, make(chan struct{})}
	select {
	case s.asks <- c:
	case <-s.over:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-c.done:
		return nil
	case <-s.over:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run calls answer with the questions that wait, store when due has a value and at the end, and syncs the Map in the
// given interval. It returns when ctx is done or the disk fails.
func (s *Server[Q]) Run(ctx context.Context, syncEvery time.Duration, answer func(qs []*Q) error,
	due <-chan struct{}, store func() error) error {
	defer s.once.Do(func() { close(s.over) })
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case c := <-s.asks:
			err = s.answer(c, answer)
		case <-due:
			err = store()
		case <-tick.C:
			err = s.BeginSync()
		case serr := <-s.Synced():
			err = s.EndSync(serr)
		case <-s.Ready():
			err = s.Emit()
		case <-ctx.Done():
			return errors.Join(store(), s.Sync())
		}
		if err != nil {
			return err
		}
	}
}

// answer answers a question and those that wait with it.
func (s *Server[Q]) answer(c *call[Q], answer func(qs []*Q) error) error {
	calls, qs := []*call[Q]{c}, []*Q{c.q}
	for more := true; more && len(calls) < atOnce; {
		select {
		case c := <-s.asks:
			calls, qs = append(calls, c), append(qs, c.q)
		default:
			more = false
		}
	}
	if err := answer(qs); err != nil {
		return err
	}
	for _, c := range calls {
		close(c.done)
	}
	return nil
}

// Close closes the files. Call it after Run has ended.
func (s *Server[Q]) Close() error {
	s.once.Do(func() { close(s.over) })
	return s.Map.Close()
}
