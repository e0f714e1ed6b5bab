package lease

import (
	"testing"
	"time"
)

// TestManyPoints: each page has an address and a domain of its own. The crawl must be as fast with
// all of Config.Points in use as before.
func TestManyPoints(t *testing.T) {
	type host struct{ address, domain uint64 }
	const ahead, each = 200, 10 * time.Millisecond
	w := newWorld(t, 5, 3, Config{Points: 4096})
	w.quiet = func(uint64) time.Duration { return 500 * time.Millisecond }
	next := uint64(0)
	queues := make([][]host, len(w.agents))
	var step func(i int)
	step = func(i int) {
		a := w.agents[i]
		for len(queues[i]) < ahead {
			h := host{next, next + 1}
			next += 2
			a.peer.Want(h.address, w.quiet(h.address), a.clock())
			a.peer.Want(h.domain, w.quiet(h.domain), a.clock())
			queues[i] = append(queues[i], h)
		}
		for k, h := range queues[i] {
			if a.try(20*time.Millisecond, h.address, h.domain) {
				queues[i] = append(queues[i][:k], queues[i][k+1:]...)
				break
			}
		}
		a.peer.Freed()
		w.after(each, func() { step(i) })
	}
	for i := range w.agents {
		step(i)
	}
	w.run(40 * time.Second)
	for i, a := range w.agents {
		if n := len(a.peer.holder.holdings); n < 4096/2 {
			t.Fatalf("agent %d has %d points after 40 s: too few to tell", i, n)
		}
	}
	pages, messages := w.pages, w.calls+w.answers
	w.run(70 * time.Second)
	pages, messages = w.pages-pages, w.calls+w.answers-messages
	if want := len(w.agents) * int(30*time.Second/each); pages < want*95/100 {
		t.Errorf("%d pages in 30 s, want %d", pages, want)
	}
	if messages > pages/10 {
		t.Errorf("%d messages for %d pages", messages, pages)
	}
	t.Logf("%d pages, %.3f messages a page", pages, float64(messages)/float64(pages))
}
