package consensus

import (
	"sync"
	"sync/atomic"
)

// A health is the state of a member's disk. The first failure ends the member's part in the group at once: fail
// closes the boundary before it returns, so raft cannot tell anybody what it believes from then on. The stores then
// answer raft in a way that it can live with until it is shut down, because raft panics if its term cannot be saved
// or an entry cannot be read. Safe for concurrent use.
type health struct {
	once   sync.Once
	cause  atomic.Pointer[error]
	failed chan struct{} // closed with the first failure
}

func newHealth() *health { return &health{failed: make(chan struct{})} }

// fail notes the first error that is not nil, and returns its argument.
func (h *health) fail(err error) error {
	if err != nil {
		h.once.Do(func() {
			h.cause.Store(&err)
			close(h.failed)
		})
	}
	return err
}

// err returns the first failure, or nil.
func (h *health) err() error {
	if p := h.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// A turn lets one goroutine at a time use the disk. Unlike a mutex it may be held across calls of the disk: waiting
// for it does not stop virtual time.
type turn chan struct{}

func newTurn() turn   { return make(turn, 1) }
func (t turn) begin() { t <- struct{}{} }
func (t turn) end()   { <-t }
