package gossip

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestTogether: agents join at the same instant through one of them. All must soon see each other,
// although gossip may miss one: a join is sent only a few times, to some of the agents known then.
func TestTogether(t *testing.T) {
	const worlds, most = 30, 8 * time.Second
	var longest, sum time.Duration
	for i := range worlds {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
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
		})
	}
	t.Logf("%d times: %v on average, %v at most", worlds, sum/worlds, longest)
}
