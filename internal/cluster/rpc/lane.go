package rpc

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 5 * time.Second
)

// backoff is how long to leave an agent alone after so many failures in a row:
// twice as long each time, up to backoffMost, and of that between a half and
// all, by chance (0 to 1), so that many callers do not come back at once.
func backoff(failures int, chance float64) time.Duration {
	if failures <= 0 {
		return 0
	}
	d := backoffMost
	if failures < 16 {
		d = min(backoffMost, backoffFirst<<(failures-1))
	}
	return time.Duration(float64(d) * (0.5 + chance/2))
}

// A lane is a kind of calls to one agent: so many at once, and a pause after
// each failure. Those who call often do not keep the other lane waiting.
type lane struct {
	slots chan struct{}
	// mu guards what follows.
	mu       sync.Mutex
	failures int
	until    time.Time
	chance   *rand.Rand
}

func newLane(slots int, seed uint64) *lane {
	return &lane{slots: make(chan struct{}, slots), chance: rand.New(rand.NewPCG(seed, 0))}
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
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			<-l.slots
			return ctx.Err()
		}
	}
}

// leave gives the slot back. A call that its caller broke off says nothing of
// the agent.
func (l *lane) leave(ok, broken bool) {
	l.mu.Lock()
	if ok {
		l.failures, l.until = 0, time.Time{}
	} else if !broken {
		// Those who were under way together fail together: that is one failure.
		if now := time.Now(); !now.Before(l.until) {
			l.failures++
			l.until = now.Add(backoff(l.failures, l.chance.Float64()))
		}
	}
	l.mu.Unlock()
	<-l.slots
}
