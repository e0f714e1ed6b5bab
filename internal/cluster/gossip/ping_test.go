package gossip

import (
	"sync"
	"testing"
	"time"
)

// TestPinged: answers to pings carry the other agent's view. The reported time of the ping is never
// too late.
func TestPinged(t *testing.T) {
	story(t, func(t *testing.T, w *world) {
		w.delay = 40 * time.Millisecond
		type answer struct {
			digest     uint64
			sent, came time.Time
		}
		var mu sync.Mutex
		var heard []answer
		a, b := w.agent("a1"), w.agent("a2")
		a.pinged = func(digest uint64, sent time.Time) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, answer{digest, sent, time.Now()})
		}
		b.pinged = func(uint64, time.Time) {}
		a.mustStart()
		b.mustStart(a)
		w.settle(a, b)
		if n := a.m.Met(); n != 2 {
			t.Errorf("%d met, want 2", n)
		}
		mu.Lock()
		heard = nil
		mu.Unlock()
		time.Sleep(10 * time.Second)
		mu.Lock()
		if len(heard) < 5 {
			t.Errorf("%d answers in 10 s", len(heard))
		}
		for _, h := range heard {
			if h.digest != b.m.View().Digest() {
				t.Errorf("digest %x, want %x", h.digest, b.m.View().Digest())
			}
			if took := h.came.Sub(h.sent); took < 2*w.delay || took > 2*w.delay+50*time.Millisecond {
				t.Errorf("asked %v before the answer came, want %v", took, 2*w.delay)
			}
		}
		mu.Unlock()

		// Another start of the agent counts as another life.
		b.kill()
		b.mustStart(a)
		w.settle(a, b)
		if n := a.m.Met(); n != 3 {
			t.Errorf("%d met after a restart, want 3", n)
		}
		// A dead agent does not answer.
		b.kill()
		time.Sleep(20 * time.Second)
		mu.Lock()
		heard = nil
		mu.Unlock()
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(heard) > 0 {
			t.Errorf("%d answers of a dead agent", len(heard))
		}
	})
}
