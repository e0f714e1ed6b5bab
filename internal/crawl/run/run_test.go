package run

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Calls reach the dispatcher until the run ends, and their callers wait no longer than their context.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, called := New(), 0
		add := func(time.Time) { called++ }
		go func() {
			for {
				select {
				case f := <-r.Calls():
					f(time.Now())
					time.Sleep(time.Second)
				case <-r.Ended():
					return
				}
			}
		}()
		if !r.Tell(add) {
			t.Error("Tell: not told")
		}
		do := func(ctx context.Context, f func(time.Time)) error { return r.Do(ctx, "add", f) }
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for name, call := range map[string]func(context.Context, func(time.Time)) error{"Post": r.Post, "Do": do} {
			if err := call(short, add); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s to a busy dispatcher: %v", name, err)
			}
		}
		if err := do(t.Context(), add); err != nil || called != 2 {
			t.Errorf("Do: %v, %d calls", err, called)
		}
		r.Go(func() { time.Sleep(time.Hour); called++ })
		r.End()
		if r.Tell(add) || !errors.Is(r.Post(t.Context(), add), ErrNotRunning) ||
			!errors.Is(do(t.Context(), add), ErrNotRunning) {
			t.Error("a call after the end")
		}
		if r.Wait(); called != 3 {
			t.Errorf("%d calls", called)
		}
	})
}

// The first error counts.
func TestFail(t *testing.T) {
	r, first := New(), errors.New("first")
	if r.Fail(nil) || r.Failed() || r.Stopping() {
		t.Error("failed without an error")
	}
	if !r.Fail(first) || !r.Fail(errors.New("second")) || !r.Fail(nil) || r.Err() != first || !r.Stopping() ||
		r.Halted() {
		t.Errorf("after two errors: %v", r.Err())
	}
	if r.Halt(); !r.Halted() {
		t.Error("not halted")
	}
}
