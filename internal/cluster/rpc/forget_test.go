package rpc

import (
	"context"
	"sync/atomic"
	"testing"
)

// TestForget: Forget ends a call that gets no answer, and the next call opens a connection.
func TestForget(t *testing.T) {
	keys := bundles(t, "a1", "a2")
	came := make(chan struct{}, 1)
	var calls atomic.Int64
	l, _ := serve(t, keys["a2"], Handlers{Pulse: func(ctx context.Context, _ Caller, _ uint64) (Pulse, error) {
		if calls.Add(1) == 1 {
			came <- struct{}{}
			<-ctx.Done()
		}
		return Pulse{}, ctx.Err()
	}})
	c := client(t, keys["a1"], caller("a1"), nil)
	ended := make(chan error)
	go func() {
		_, err := c.Peer("a2", l.Addr()).Pulse(t.Context(), 1)
		ended <- err
	}()
	<-came
	c.Forget("a2")
	if err := <-ended; err == nil {
		t.Error("the call has no error")
	}
	if _, err := c.Peer("a2", l.Addr()).Pulse(t.Context(), 1); err != nil {
		t.Errorf("the next call: %v", err)
	}
}
