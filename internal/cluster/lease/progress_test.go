package lease

import (
	"testing"
	"time"
)

// An agent that waits for a point is stalled although it begins visits, if none of
// them makes a request: their hosts may wait for the robots.txt that stands at the
// point. With a request it is not stalled.
func TestStalledWithoutRequests(t *testing.T) {
	for _, requested := range []bool{false, true} {
		now := time.Unix(1e9, 0)
		v, theirs := pair() // 1 grants it
		own := uint64(1)
		for v.Owner(own) != 2 {
			own++
		}
		p := New(2, Config{First: true}, now)
		p.Look(v, now)
		if ok, _ := p.Ready(theirs, time.Second, now); ok {
			t.Fatal("granted by nobody")
		}
		begun := 0
		for end := now.Add(3 * time.Second); now.Before(end); now = now.Add(100 * time.Millisecond) {
			p.Contact(now, now)
			p.Calls(now)
			p.Ready(own, 0, now)
			if p.Begin(now, own) {
				begun++
				p.Used(own, now, 0, requested, now)
			}
		}
		if begun < 20 || p.stalled() == requested {
			t.Errorf("requests %v: stalled %v after %d visits", requested, p.stalled(), begun)
		}
		if !requested {
			p.Ready(own, 0, now)
			if !p.Begin(now, own) {
				t.Fatal("cannot begin")
			}
			p.Used(own, now, 0, true, now)
			if p.stalled() {
				t.Error("stalled after a request")
			}
		}
	}
}
