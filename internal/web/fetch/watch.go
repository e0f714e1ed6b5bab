package fetch

import (
	"errors"
	"sync/atomic"
)

// A Watch follows one fetch from another goroutine. With it, a caller can limit the memory that all
// its slow fetches take together. The zero Watch is ready. Safe for concurrent use, but only one
// Fetch at a time may use it.
type Watch struct {
	held     atomic.Int64
	received atomic.Int64
	slow     atomic.Pointer[func(more int64) bool]
}

// SlowMemory is how many bytes of memory the response of a slow fetch takes, unless its header
// needs more.
const SlowMemory = firstBuffer

// Reset prepares w for another fetch. No fetch may be using w.
func (w *Watch) Reset() {
	w.held.Store(0)
	w.received.Store(0)
	w.slow.Store(nil)
}

// Held returns how many bytes of memory the response takes. It is at least SlowMemory, which a
// response takes before its first byte.
func (w *Watch) Held() int64 { return max(w.held.Load(), firstBuffer) }

// Received returns how many bytes of the response have arrived, without the overhead of TLS.
func (w *Watch) Received() int64 { return w.received.Load() }

// Slow marks the fetch as slow. From its next read on, the fetch holds at most SlowMemory, or the
// memory that its header needs; the rest of the body goes to a file. Until that read it keeps what
// it holds. Before a header takes more memory, the fetch calls grow with the additional number of
// bytes. If grow returns false, the fetch fails with RateTimeout.
func (w *Watch) Slow(grow func(more int64) bool) { w.slow.Store(&grow) }

func (w *Watch) isSlow() bool { return w != nil && w.slow.Load() != nil }

func (w *Watch) count(n int) {
	if w != nil {
		w.received.Add(int64(n))
	}
}

// mayGrow reports whether a header may take that many more bytes of memory.
func (w *Watch) mayGrow(more int64) bool {
	if w == nil {
		return true
	}
	grow := w.slow.Load()
	return grow == nil || (*grow)(more)
}

var errNoMemory = errors.New("other slow responses use the memory that the header needs")
