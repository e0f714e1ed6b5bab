package fetch

import "sync/atomic"

// A Watch follows one fetch from another goroutine: that of a caller which
// bounds the memory of all its slow fetches together. The zero Watch is ready.
// Safe for concurrent use; one Fetch at a time uses it.
type Watch struct {
	held atomic.Int64
	slow atomic.Bool
}

// SlowMemory is how many bytes of memory a slow fetch takes for its response,
// unless its header takes more.
const SlowMemory = firstBuffer

// Reset prepares w for another fetch. No fetch may use w.
func (w *Watch) Reset() {
	w.held.Store(0)
	w.slow.Store(false)
}

// Held returns how many bytes of memory the response takes, at least
// SlowMemory, what it takes before its first byte.
func (w *Watch) Held() int64 { return max(w.held.Load(), firstBuffer) }

// Slow marks the fetch as slow. From the next read on it holds no more memory
// than SlowMemory, or what its header needs; the rest of its body goes to a file.
// What it holds at the time of the call it keeps until then.
func (w *Watch) Slow() { w.slow.Store(true) }

func (w *Watch) isSlow() bool { return w != nil && w.slow.Load() }
