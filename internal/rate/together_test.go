package rate

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
)

// Many open responses of a slow agent do not read at the same moment. In any ten seconds they read what the limit
// allows in the time, in Slack and in Ahead, and one piece.
func TestReadsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, readers = 250e3, 20
		c := &crowd{l: New(clock.System), began: time.Now()}
		c.l.Set(Limit{Bits: limit}, 1, time.Time{})
		var running sync.WaitGroup
		for range readers {
			turn := c.l.Begin()
			time.Sleep(200 * time.Millisecond)
			running.Go(func() {
				defer turn.End()
				for c.since() < 40*time.Second {
					n, err := turn.Next(t.Context())
					if err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond) // all that may read begin before one of them has read
					c.mu.Lock()
					c.got = append(c.got, received{c.since(), n})
					c.mu.Unlock()
					turn.Receive(n)
				}
			})
		}
		running.Wait()
		most := 0.0
		for i := range c.got {
			sum := 0
			for _, g := range c.got[i:] {
				if g.at-c.got[i].at <= 10*time.Second {
					sum += g.bytes
				}
			}
			most = max(most, float64(8*sum))
		}
		allowed := limit*(10*time.Second+Slack+Ahead).Seconds() + 8*leastPiece
		t.Logf("%.1f %% of the rate in ten seconds, at most", most/limit*10)
		if most > allowed || most < 9.9*limit {
			t.Errorf("%.0f bits in ten seconds, want at most %.0f", most, allowed)
		}
	})
}
