package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

// TestPace works in small steps, and takes no more of the time than its share.
func TestPace(t *testing.T) {
	for _, share := range []float64{0.2, 0.5, 1} {
		synctest.Test(t, func(t *testing.T) {
			p := clock.Pace{Clock: clock.System, Share: share}
			const step, steps = 100 * time.Microsecond, 100_000 // 10 s of work
			began := time.Now()
			for range steps {
				time.Sleep(step)
				if err := p.Rest(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			got := float64(step*steps) / float64(time.Since(began))
			if got < 0.95*share || got > 1.01*share {
				t.Errorf("the share is %.3f, want %.1f", got, share)
			}
		})
	}
	ended, end := context.WithCancel(context.Background())
	end()
	p := clock.Pace{Clock: clock.System, Share: 0.2}
	if err := p.Rest(ended); err == nil {
		t.Error("no error after the end")
	}
}
