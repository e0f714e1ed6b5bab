package sim

import (
	"testing"
	"testing/synctest"
	"time"
)

// The tests rely on a clock that is set as a machine's is.
func TestSetClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		for _, by := range []time.Duration{0, 2 * time.Hour, -2 * time.Hour, time.Second} {
			before := c.now()
			c.set(by)
			time.Sleep(time.Millisecond)
			if got, want := c.now().Round(0), time.Now().Add(by).Round(0); !got.Equal(want) {
				t.Errorf("wrong by %s: %s, want %s", by, got, want)
			}
			if d := c.now().Sub(before); d != time.Millisecond {
				t.Errorf("wrong by %s: %s have passed, want 1ms", by, d)
			}
			if d := until(c.now().Add(time.Second)); d != time.Second {
				t.Errorf("wrong by %s: a deadline in 1s is in %s", by, d)
			}
		}
	})
}
