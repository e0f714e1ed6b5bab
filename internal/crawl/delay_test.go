package crawl

import (
	"testing"
	"time"
)

func TestFollowed(t *testing.T) {
	const ms = time.Millisecond
	cfg := &Config{Delays: Delays{DelayFactor: 5, DelayMax: 30 * time.Second}}
	for _, c := range []struct{ before, took, want time.Duration }{
		{0, 100 * ms, 0},
		{0, 400 * ms, 0},
		{0, 600 * ms, 3000 * ms},
		{3000 * ms, time.Second, 5000 * ms},
		{3000 * ms, 600 * ms, 3000 * ms},
		{5000 * ms, 200 * ms, 3000 * ms},
		{2100 * ms, 100 * ms, 0},
		{0, time.Hour, 30 * time.Second},
		{40 * time.Second, 100 * ms, 20250 * ms},
		{70 * time.Second, 100 * ms, 30 * time.Second},
	} {
		if got := followed(c.before, 2*time.Second, cfg, c.took); got != c.want {
			t.Errorf("after a delay of %s, a response of %s: %s, want %s", c.before, c.took, got, c.want)
		}
	}
}
