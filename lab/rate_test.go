package lab

import (
	"math"
	"testing"
	"time"
)

// The requests of all windows are compared with the limit. While a command is under way, both limits are right.
func TestSpeedJudge(t *testing.T) {
	c := &rateCrawl{rateCase: rateCase{limit: func(at time.Duration) float64 {
		if at >= 20*time.Second {
			return 40
		}
		return 100
	}, acts: []rateAct{{at: 20 * time.Second}}}, busy: [][2]time.Duration{{20 * time.Second, 21 * time.Second}}}
	for _, test := range []struct {
		changes     float64 // when the requests change
		most, least float64
	}{{20, 1, 0.98}, {21, 1, 1}, {25, 1.57, 1}} {
		run := RateRun{}
		n := 0.0
		for s := 0.1; s < 40; s += 0.1 {
			if n += 10; s > test.changes {
				n -= 6
			}
			run.Points = append(run.Points, RatePoint{S: s, Requests: int64(math.Round(n))})
		}
		c.judge(&run)
		if math.Abs(run.Most-test.most) > 0.03 || math.Abs(run.Least-test.least) > 0.03 {
			t.Errorf("a change at %g s: %.3f to %.3f, want %.3f to %.3f", test.changes, run.Least, run.Most, test.least,
				test.most)
		}
	}
}
