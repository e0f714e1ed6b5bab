package inbound

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"
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

// With returns a context with which one goroutine of a call may Take room of r, and the function that gives it back.
func (r *Room) With(ctx context.Context) (_ context.Context, leave func()) {
	s := &stay{room: r}
	return context.WithValue(ctx, stayKey{}, s), func() {
		if s.leave != nil {
			s.leave()
		}
	}
}

// Admit serves the calls for which enter finds room. All others get CodeUnavailable and why.
func Admit(enter func(*http.Request) (leave func(), ok bool), refuse *connect.ErrorWriter, why string,
	next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := enter(r)
		if !ok {
			_ = refuse.Write(w, r, connect.NewError(connect.CodeUnavailable, errors.New(why)))
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}

type stayKey struct{}

// A stay is the room of one call. leave is nil before it takes any.
type stay struct {
	room  *Room
	bytes int64
	leave func()
}

// Take is for a call that learns what it needs while it is served. It waits until there is room, which the call has
// until its end. got is how many of the bytes it gets: not more than the whole Room, and the same as before if it has
// taken some. A call without a Room gets all. The error is that of ctx.
func Take(ctx context.Context, bytes int64) (got int64, err error) {
	s, ok := ctx.Value(stayKey{}).(*stay)
	if !ok {
		return bytes, nil
	}
	if s.leave == nil {
		if s.leave, err = s.room.Enter(ctx, bytes); err != nil {
			return 0, err
		}
		s.bytes = min(max(bytes, 0), s.room.bytes)
	}
	return s.bytes, nil
}
