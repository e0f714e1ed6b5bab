package segment

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

// A pace bounds the part of the time in which a goroutine works.
type pace struct {
	clock clock.Clock
	share float64   // 0 or 1: no rest
	since time.Time // the beginning of the work after the last rest
	calls int
}

// workTime is how long a goroutine works before it rests.
const workTime = 50 * time.Millisecond

// rest waits if the goroutine has worked for workTime. It returns the error of ctx when that is done.
func (p *pace) rest(ctx context.Context) error {
	p.calls++
	if p.calls%64 != 0 && !p.since.IsZero() {
		return nil
	}
	now := p.clock.Now()
	if p.since.IsZero() {
		p.since = now
	}
	worked := now.Sub(p.since)
	if worked < workTime {
		return ctx.Err()
	}
	if p.share > 0 && p.share < 1 {
		clock.Pause(ctx, time.Duration(float64(worked)*(1/p.share-1)))
	}
	p.since = p.clock.Now()
	return ctx.Err()
}
