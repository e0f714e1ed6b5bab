package run

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// serve is a dispatcher that needs a time for each call.
func serve(r *Run, takes time.Duration) {
	r.Begin()
	go func() {
		for {
			select {
			case f := <-r.Calls():
				f(time.Now())
				time.Sleep(takes)
			case <-r.Ended():
				return
			}
		}
	}()
}

// A command is answered, or its caller learns why not: the run has not begun or is over, the dispatcher is busy, or the
// command is under way. What is under way goes on.
func TestCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused, done := errors.New("refused"), new(atomic.Int32)
		command := func(r *Run, patience, takes time.Duration, err error) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return r.Command(ctx, "drop", "a.example", func(time.Time) (string, error) {
				time.Sleep(takes)
				done.Add(1)
				return "answer", err
			})
		}
		r := New()
		if _, err := command(r, time.Second, 0, nil); !errors.Is(err, ErrNotRunning) || r.Begun() {
			t.Errorf("before Begin: %v", err)
		}
		serve(r, time.Minute)
		for _, c := range []struct {
			name            string
			patience, takes time.Duration
			err, want       error
			text            string
			done            int
		}{
			{"answered", time.Second, 0, nil, nil, "", 1},
			{"refused", time.Second, 0, refused, refused, "refused", 2},
			{"under way", time.Second, time.Hour, nil, ErrUnderWay, "drop a.example: " + ErrUnderWay.Error() +
				": context deadline exceeded", 2},
		} {
			text, err := command(r, c.patience, c.takes, c.err)
			if !errors.Is(err, c.want) || (err == nil) != (text == "answer" && c.want == nil) || err != nil &&
				err.Error() != c.text ||
				int(done.Load()) != c.done {
				t.Errorf("%s: %q, %v, %d are done", c.name, text, err, done.Load())
			}
			if c.takes == 0 {
				time.Sleep(2 * time.Minute)
			}
		}
		if _, err := command(r, time.Second, 0, nil); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err,
			ErrUnderWay) ||
			err.Error() != "drop a.example: context deadline exceeded" {
			t.Errorf("a busy dispatcher: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if done.Load() != 3 {
			t.Errorf("%d are done, want that one which was under way, too, and not that one which was not begun",
				done.Load())
		}
		r.End()
		if _, err := command(r, time.Second, 0, nil); !errors.Is(err, ErrNotRunning) || done.Load() != 3 {
			t.Errorf("after End: %v, %d are done", err, done.Load())
		}
	})
}

// What has changed is heeded before Heed returns, but only while there is a dispatcher: nobody waits for one.
func TestHeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, heeded := New(), 0
		heed := func(patience time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			return r.Heed(ctx, "pause", func(time.Time) { heeded++ })
		}
		if err := heed(time.Second); err != nil || heeded != 0 {
			t.Errorf("before Begin: %v, heeded %d times", err, heeded)
		}
		serve(r, time.Minute)
		if err := heed(time.Second); err != nil || heeded != 1 || !r.Begun() {
			t.Errorf("%v, heeded %d times", err, heeded)
		}
		if err := heed(time.Second); !errors.Is(err, context.DeadlineExceeded) ||
			err.Error() != "pause: context deadline exceeded" {
			t.Errorf("a busy dispatcher: %v", err)
		}
		r.End()
		if err := heed(time.Second); err != nil || heeded != 1 {
			t.Errorf("after End: %v, heeded %d times", err, heeded)
		}
		time.Sleep(time.Hour) // the dispatcher ends
	})
}

// The zero time is none, and is neither earlier nor later than another one.
func TestEarlierAndLater(t *testing.T) {
	none, a, b := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	for _, c := range []struct{ x, y, earlier, later time.Time }{
		{a, b, a, b}, {b, a, a, b}, {none, b, b, b}, {a, none, a, a}, {none, none, none, none},
	} {
		if e, l := Earlier(c.x, c.y), Later(c.x, c.y); !e.Equal(c.earlier) || !l.Equal(c.later) {
			t.Errorf("of %s and %s: earlier %s, later %s", c.x, c.y, e, l)
		}
	}
}

// A stop and a failure are two things, and each event that gives work is counted.
func TestStopping(t *testing.T) {
	halted, failed := New(), New()
	halted.Halt()
	failed.Fail(errors.New("broken"))
	if !halted.Stopping() || halted.Failed() || !failed.Stopping() || failed.Halted() || New().Stopping() {
		t.Error("Stopping is not Halted or Failed")
	}
	before := halted.Activity()
	if halted.Stir(); halted.Activity() != before+1 {
		t.Error("an event is not counted")
	}
}
