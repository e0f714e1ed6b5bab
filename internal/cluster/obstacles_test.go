package cluster

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/limits"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A testRight is what coordinators say that let visits begin or not.
type testRight struct {
	may *atomic.Bool
}

func (r *testRight) May(time.Time) bool         { return r.may.Load() }
func (r *testRight) Peek(string) (string, bool) { return "self", true }
func (r *testRight) Keep(string)                {}
func (r *testRight) Waits() string              { return "the others" }

// An agent without the Right, and one whose share of the page limit is used up, begin no visit. Explain and the Status
// say why, and the agent goes on when it may.
func TestObstacles(t *testing.T) {
	for name, c := range map[string]struct {
		limit                 int64
		why, until, waits     string
		before, pages, allows int64 // pages while it holds, and after it
	}{
		"lost hosts": {why: "this agent may have lost its hosts to other agents; it waits for the others\n",
			until: "when the agents agree again", waits: "the others", before: 0, pages: 3},
		"spent share": {limit: 2, why: "page limit: this agent has 1 page, and other agents may fetch the others " +
			"of at most 2\n", until: "if other agents leave pages over; else with a higher limit",
			waits: "other agents: the pages that are left up to the limit are theirs", allows: 1, before: 1, pages: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStory(t, `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /1 /2
http://a.example/1
http://a.example/2
`)
				var right atomic.Bool
				right.Store(c.limit > 0)
				s.cfg.PageLimit = c.limit
				s.among(Others{Placement: onlySelf, Exchange: onlySelf,
					Coordinators: &testRight{may: &right}}, nil, nil)
				w, err := s.open(testdisk.NewMem())
				must.Do(t, err)
				w.cl.ShareLimit()
				w.cl.ration.allowed = c.allows
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() {
					_, err := w.Run(ctx)
					ended <- err
				}()
				time.Sleep(20 * time.Second)
				text, err := w.View.Explain(t.Context(), "a.example")
				if err != nil || !strings.Contains(text, c.why) || !strings.Contains(text, c.until) {
					t.Errorf("explained as %q, %v", text, err)
				}
				if got := w.View.Status(); got.WaitsFor != c.waits || got.Pages != c.before {
					t.Errorf("%d pages, and it waits for %q", got.Pages, got.WaitsFor)
				}
				right.Store(true)
				must.Do(t, w.cl.Ration(t.Context(), func(n limits.Need) int64 { return n.Allowed + 1 }))
				time.Sleep(20 * time.Second)
				cancel()
				if err := <-ended; err != nil || w.View.Status().Pages != c.pages {
					t.Errorf("in the end %d pages, want %d, %v", w.View.Status().Pages, c.pages, err)
				}
				for _, c := range s.closers {
					_ = c.Close()
				}
				_ = w.close()
			})
		})
	}
}
