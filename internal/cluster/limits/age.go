package limits

import (
	"sync"
	"time"
)

// An Age tells how long the crawl of all agents has been running. The zero Age is that of a crawl that has not begun.
// Safe for concurrent use.
type Age struct {
	mu    sync.Mutex // guards began
	began time.Time  // when the first agent began, by our clock
}

// Since records that the crawl has been running for d as of now.
func (a *Age) Since(d time.Duration, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := now.Add(-d); a.began.IsZero() || at.Before(a.began) {
		a.began = at
	}
}

// Running returns how long the crawl has been running.
func (a *Age) Running(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began.IsZero() {
		return 0
	}
	return now.Sub(a.began)
}
