package boundary

import (
	"context"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// onWayMax bounds the pages that an onWay has. A page beyond it is fetched again if an application wants it.
	onWayMax = 1 << 16
	// arrivalWait bounds the wait for a page on its way. A page arrives within a second, unless its agent is down.
	arrivalWait = 3 * time.Second
)

// onWay has the pages that this agent has exported and that no archive has yet. If an application wants such a page, it
// waits for the arrival, and then reads the page in the archive of the other agent.
type onWay struct {
	mu    sync.Mutex // guards pages
	pages map[link.Key]chan struct{}
}

// begins notes that the page of a URL leaves.
func (w *onWay) begins(k link.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pages == nil {
		w.pages = map[link.Key]chan struct{}{}
	}
	if len(w.pages) < onWayMax && w.pages[k] == nil {
		w.pages[k] = make(chan struct{})
	}
}

// ends notes that the page of a URL is in an archive, or lost.
func (w *onWay) ends(k link.Key) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if arrived := w.pages[k]; arrived != nil {
		close(arrived)
		delete(w.pages, k)
	}
}

// await waits until the page of a URL is not on its way any more, for a bounded time.
func (w *onWay) await(ctx context.Context, k link.Key) {
	w.mu.Lock()
	arrived := w.pages[k]
	w.mu.Unlock()
	if arrived == nil {
		return
	}
	end := time.NewTimer(arrivalWait)
	defer end.Stop()
	select {
	case <-arrived:
	case <-end.C:
	case <-ctx.Done():
	}
}
