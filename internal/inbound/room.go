package inbound

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// A Room bounds the memory of the calls that are served at once. Safe for concurrent use.
type Room struct {
	free  *semaphore.Weighted
	bytes int64
}

// NewRoom returns a Room of some bytes.
func NewRoom(bytes int64) *Room { return &Room{semaphore.NewWeighted(bytes), bytes} }

// Enter waits until there is room for some bytes, in the order of the callers. A call that needs more than there is
// takes the whole Room. leave gives the room back. The error is that of ctx.
func (r *Room) Enter(ctx context.Context, bytes int64) (leave func(), err error) {
	bytes = min(max(bytes, 0), r.bytes)
	if err := r.free.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { r.free.Release(bytes) }, nil
}

// TryEnter is Enter without a wait. ok is false if there is no room now.
func (r *Room) TryEnter(bytes int64) (leave func(), ok bool) {
	bytes = min(max(bytes, 0), r.bytes)
	return func() { r.free.Release(bytes) }, r.free.TryAcquire(bytes)
}
