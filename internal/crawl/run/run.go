// Package run answers: how does the run of a crawl stand, and how does one reach the goroutine that does it?
//
// One goroutine, the dispatcher, owns all state of a crawl. Others let it call functions:
//
//	goroutine -> Tell, Post or Do -> Calls -> dispatcher
//
// A run that has failed begins nothing more: the dispatcher looks at Failed after each step that may fail.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNotRunning reports a call to a crawl that does not run.
var ErrNotRunning = errors.New("the crawl is not running")

// ErrUnderWay reports a command that takes longer than its caller waits. The crawl still carries it out.
var ErrUnderWay = errors.New("still in progress, the result will appear in logs/events.jsonl")

// A Run is one run of a crawl. Only the dispatcher may use it, except for what is safe for concurrent use: Tell, Post,
// Do, Command, Heed, Begun, Ended and Go. The dispatcher itself must not call the first five: it would wait for itself.
type Run struct {
	calls chan func(now time.Time)
	begun atomic.Bool   // the dispatcher takes calls
	ended chan struct{} // closed when it takes no more of them

	err      error
	halted   bool
	activity uint64
	inFlight sync.WaitGroup
}

// New returns a Run that has not ended.
func New() *Run {
	return &Run{calls: make(chan func(time.Time)), ended: make(chan struct{})}
}

// Calls returns the channel of functions that the dispatcher is to call.
func (r *Run) Calls() <-chan func(now time.Time) { return r.calls }

// Begin says that the dispatcher is about to take calls.
func (r *Run) Begin() { r.begun.Store(true) }

// Begun reports that Begin was called. Safe for concurrent use.
func (r *Run) Begun() bool { return r.begun.Load() }

// End ends the run: the dispatcher takes no more calls. It may be called once.
func (r *Run) End() { close(r.ended) }

// Ended returns a channel that is closed when the dispatcher takes no more calls.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Tell lets the dispatcher call f. It reports whether the dispatcher did, or does.
func (r *Run) Tell(f func(now time.Time)) (told bool) {
	return r.Post(context.Background(), f) == nil
}

// Post lets the dispatcher call f, and does not wait for the end of f. ctx bounds the wait for the dispatcher. If f is
// not called, the error is that of ctx, or ErrNotRunning.
func (r *Run) Post(ctx context.Context, f func(now time.Time)) error {
	select {
	case r.calls <- f:
		return nil
	case <-r.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Do lets the dispatcher call f, and returns after that. Otherwise it is like Post. An error of ctx begins with name,
// which says for people what f does.
func (r *Run) Do(ctx context.Context, name string, f func(now time.Time)) error {
	done := make(chan struct{})
	if err := r.Post(ctx, func(now time.Time) { f(now); close(done) }); errors.Is(err, ErrNotRunning) {
		return err
	} else if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	<-done // the dispatcher has it
	return nil
}

// Command lets the dispatcher call f, and returns the answer of f. name says for people what f does, and of is the host
// or the URL. ctx bounds the wait; if f has begun by then, it continues and the error is ErrUnderWay. Before Begin the
// error is ErrNotRunning.
func (r *Run) Command(ctx context.Context, name, of string, f func(now time.Time) (string, error)) (string, error) {
	type answer struct {
		text string
		err  error
	}
	if !r.begun.Load() {
		return "", ErrNotRunning
	}
	out := make(chan answer, 1)
	switch err := r.Post(ctx, func(now time.Time) {
		text, err := f(now)
		out <- answer{text, err}
	}); {
	case errors.Is(err, ErrNotRunning):
		return "", err
	case err != nil:
		return "", fmt.Errorf("%s %s: %w", name, of, err)
	}
	select {
	case a := <-out:
		return a.text, a.err
	case <-ctx.Done():
		return "", fmt.Errorf("%s %s: %w: %w", name, of, ErrUnderWay, ctx.Err())
	}
}

// Heed lets the dispatcher call f, so that it obeys what has changed. Before Begin and after End it does nothing. ctx
// bounds the wait.
func (r *Run) Heed(ctx context.Context, name string, f func(now time.Time)) error {
	if !r.begun.Load() {
		return nil
	}
	if err := r.Do(ctx, name, f); !errors.Is(err, ErrNotRunning) {
		return err
	}
	return nil
}

// Go runs f in a goroutine of this run.
func (r *Run) Go(f func()) { r.inFlight.Go(f) }

// Wait waits for the goroutines of Go. None may begin any more.
func (r *Run) Wait() { r.inFlight.Wait() }

// Fail ends the run with an error if err is not nil; the first one counts. It reports whether the run has failed, now
// or before.
func (r *Run) Fail(err error) (failed bool) {
	r.err = cmp.Or(r.err, err)
	return r.err != nil
}

// Failed reports that the run has failed.
func (r *Run) Failed() bool { return r.err != nil }

// Err returns the error that ends the run, or nil.
func (r *Run) Err() error { return r.err }

// Halt says that the run is to stop, or has no work left.
func (r *Run) Halt() { r.halted = true }

// Halted reports that Halt was called.
func (r *Run) Halted() bool { return r.halted }

// Stopping reports that the run is to stop, or has failed.
func (r *Run) Stopping() bool { return r.halted || r.err != nil }

// Stir records an event that may give this agent work.
func (r *Run) Stir() { r.activity++ }

// Activity returns the number of these events.
func (r *Run) Activity() uint64 { return r.activity }
