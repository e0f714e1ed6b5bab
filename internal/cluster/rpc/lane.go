package rpc

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

const (
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 5 * time.Second
	// coordinatorMost is shorter: an agent must find a new leader before its right to start visits ends.
	coordinatorMost = time.Second
)

// backoff returns how long to wait after a number of failures in a row. The wait doubles up to
// most. Of that, chance (0 to 1) selects between a half and all, so that many callers do not
// return at once.
func backoff(failures int, most time.Duration, chance float64) time.Duration {
	if failures <= 0 {
		return 0
	}
	d := most
	if failures < 16 {
		d = min(most, backoffFirst<<(failures-1))
	}
	return time.Duration(float64(d) * (0.5 + chance/2))
}

// A lane limits one kind of calls to one agent: a number of them at once, and a pause after each
// failure. Frequent calls of one kind do not delay those of another.
type lane struct {
	slots chan struct{}
	most  time.Duration // of a pause
	// mu guards the fields below.
	mu       sync.Mutex
	failures int
	until    time.Time
	chance   *rand.Rand
}

func newLane(slots int, most time.Duration, seed uint64) *lane {
	return &lane{slots: make(chan struct{}, slots), most: most, chance: rand.New(rand.NewPCG(seed, 0))}
}

// enter waits for a free slot and for the end of a pause.
func (l *lane) enter(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		l.mu.Lock()
		wait := time.Until(l.until)
		l.mu.Unlock()
		if wait <= 0 {
			if err := ctx.Err(); err != nil {
				<-l.slots
				return err
			}
			return nil
		}
		if !clock.Pause(ctx, wait) {
			<-l.slots
			return ctx.Err()
		}
	}
}

// leave frees the slot. If the caller cancelled the call (broken), the call tells nothing about the
// agent.
func (l *lane) leave(ok, broken bool) {
	l.mu.Lock()
	if ok {
		l.failures, l.until = 0, time.Time{}
	} else if !broken {
		// Calls that ran at the same time fail together. They count as one failure.
		if now := time.Now(); !now.Before(l.until) {
			l.failures++
			l.until = now.Add(backoff(l.failures, l.most, l.chance.Float64()))
		}
	}
	l.mu.Unlock()
	<-l.slots
}
