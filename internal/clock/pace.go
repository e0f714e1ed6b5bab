package clock

import (
	"context"
	"time"
)

// A Pace bounds the part of the time in which a goroutine works beside a crawl.
type Pace struct {
	Clock Clock
	Share float64 // 0 or 1: no rest
	// Every is at how many calls of Rest the clock is read once. 0 means 64: a call is cheap then, and is made often.
	Every int

	since time.Time // the beginning of the work after the last rest
	calls int
}

// workTime is how long a goroutine works before it rests.
const workTime = 50 * time.Millisecond

// Rest waits if the goroutine has worked for workTime. It returns the error of ctx when that is done.
func (p *Pace) Rest(ctx context.Context) error {
	every := p.Every
	if every <= 0 {
		every = 64
	}
	p.calls++
	if p.calls%every != 0 && !p.since.IsZero() {
		return nil
	}
	now := p.Clock.Now()
	if p.since.IsZero() {
		p.since = now
	}
	worked := now.Sub(p.since)
	if worked < workTime {
		return ctx.Err()
	}
	if p.Share > 0 && p.Share < 1 {
		Pause(ctx, time.Duration(float64(worked)*(1/p.Share-1)))
	}
	p.since = p.Clock.Now()
	return ctx.Err()
}
