package fetch

import (
	"errors"
	"sync/atomic"
)

// A Watch follows one fetch from another goroutine: that of a caller which
// bounds the memory of all its slow fetches together. The zero Watch is ready.
// Safe for concurrent use; one Fetch at a time uses it.
type Watch struct {
	held     atomic.Int64
	received atomic.Int64
	slow     atomic.Pointer[func(more int64) bool]
}

// SlowMemory is how many bytes of memory a slow fetch takes for its response,
// unless its header takes more.
const SlowMemory = firstBuffer

// Reset prepares w for another fetch. No fetch may use w.
func (w *Watch) Reset() {
	w.held.Store(0)
	w.received.Store(0)
	w.slow.Store(nil)
}

// Held returns how many bytes of memory the response takes, at least
// SlowMemory, what it takes before its first byte.
func (w *Watch) Held() int64 { return max(w.held.Load(), firstBuffer) }

// Received returns how many bytes of the response have come, as on the wire but
// without TLS.
func (w *Watch) Received() int64 { return w.received.Load() }

// Slow marks the fetch as slow. From the next read on it holds no more memory
// than SlowMemory, or what its header needs; the rest of its body goes to a file.
// What it holds at the time of the call it keeps until then. Before a header takes
// more memory, the fetch calls grow with the number of bytes. If grow returns
// false, the fetch fails as one that is too slow.
func (w *Watch) Slow(grow func(more int64) bool) { w.slow.Store(&grow) }

func (w *Watch) isSlow() bool { return w != nil && w.slow.Load() != nil }

func (w *Watch) count(n int) {
	if w != nil {
		w.received.Add(int64(n))
	}
}

// mayGrow reports whether a header may take more bytes of memory.
func (w *Watch) mayGrow(more int64) bool {
	if w == nil {
		return true
	}
	grow := w.slow.Load()
	return grow == nil || (*grow)(more)
}

var errNoMemory = errors.New("other slow responses have the memory that the header needs")
