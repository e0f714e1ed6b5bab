package e2e

import (
	"os"
	"testing"
	"time"
)

// The only other agent is lost, and nobody knows yet, when one is told to leave:
// nobody is there who could take its hosts, so it stays, and ends the crawl.
func TestClusterLeaveAlone(t *testing.T) {
	b := newBand(t, 35, 2, "2")
	for i := range 2 {
		b.begin(i, "--agents", "2", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(100)
	for end := time.Now().Add(time.Minute); len(eventsOf(t, b.home(1), "view")) == 0; {
		time.Sleep(20 * time.Millisecond)
		if time.Now().After(end) {
			t.Fatalf("a2 does not begin:\n%s", events(t, b.home(1)))
		}
	}
	b.ps[0].kill()
	crawl(t.Context(), t, "ctl", "--dir", b.home(1), "leave").must(t, 0)
	if err := os.RemoveAll(b.home(0)); err != nil {
		t.Fatal(err)
	}
	if !ended(b.ps[1], 2*time.Minute) || b.ps[1].code() != 0 {
		t.Fatalf("a2 does not end:\n%s\n%s", tail(b.ps[1].out.String()), events(t, b.home(1)))
	}
	if es := eventsOf(t, b.home(1), "leave-undone"); len(es) != 1 {
		t.Errorf("a2 has not stayed:\n%s", events(t, b.home(1)))
	}
	s := summary(t, b.home(1))
	if left := s["urls_queued"].(float64); left != 0 || s["stop_reason"] != "finished" {
		t.Errorf("a2 ended for %v, %v URLs are left", s["stop_reason"], left)
	}
	b.web.WaitIdle(time.Minute)
	if r := b.web.Report(); r.Origin.Missed > 0 || r.Origin.Beyond > 0 {
		t.Errorf("%d pages missed (%v), %d beyond", r.Origin.Missed, r.Origin.MissedURLs, r.Origin.Beyond)
	}
}
