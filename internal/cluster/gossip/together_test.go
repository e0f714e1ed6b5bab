package gossip

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestTogether: agents that begin at the same instant by way of one of them all see
// each other soon, though gossip may miss one of them: a join is told some times,
// to some of those who are there already.
func TestTogether(t *testing.T) {
	const worlds, most = 30, 8 * time.Second
	var longest, sum time.Duration
	for range worlds {
		story(t, func(t *testing.T, w *world) {
			w.delay = time.Millisecond
			var all []*agent
			for i := range 8 {
				all = append(all, w.agent(fmt.Sprintf("a%d", i+1)))
			}
			all[0].mustStart()
			var started sync.WaitGroup
			for _, a := range all[1:] {
				started.Go(func() {
					if err := a.start(all[0]); err != nil {
						t.Error(err)
					}
				})
			}
			started.Wait()
			took := w.settle(all...)
			if longest, sum = max(longest, took), sum+took; took > most {
				t.Errorf("a common view after %v, want at most %v", took, most)
			}
		})
	}
	t.Logf("%d times: %v on average, %v at most", worlds, sum/worlds, longest)
}
