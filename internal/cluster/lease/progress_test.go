package lease

import (
	"testing"
	"time"
)

// TestStalledWithoutRequests: an agent that waits for a point begins visits without requests,
// because their hosts wait for a robots.txt at that point. Such an agent counts as stalled. An
// agent with a request does not.
func TestStalledWithoutRequests(t *testing.T) {
	for _, requested := range []bool{false, true} {
		now := time.Unix(1e9, 0)
		v, theirs := pair() // agent 1 grants theirs
		own := uint64(1)
		for v.Owner(own) != 2 {
			own++
		}
		p := opened(2, v, now)
		if ok, _ := p.Ready(theirs, time.Second, now); ok {
			t.Fatal("no grant")
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
