package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
)

// TestOrders checks that the judge sees an agent that does not do what it was told.
func TestOrders(t *testing.T) {
	at := start.Add(time.Minute)
	for name, c := range map[string]struct {
		kind    Kind
		stop    crawl.Stop
		took    time.Duration
		refused error
		alone   bool
		over    bool          // for another agent
		page    time.Duration // when the agent fetched a page; 0: never
		bad     bool
	}{
		"left":                  {kind: Leave, stop: crawl.Left, took: time.Minute},
		"ignored":               {kind: Leave, stop: crawl.Finished, took: time.Minute, bad: true},
		"finished instead":      {kind: Leave, stop: crawl.Finished, took: time.Second, bad: true},
		"finished when all did": {kind: Leave, stop: crawl.Finished, took: 10 * time.Second, over: true},
		"finished alone":        {kind: Leave, stop: crawl.Finished, took: time.Minute, alone: true},
		"refused":               {kind: Leave, stop: crawl.Finished, refused: errors.New("no"), bad: true},
		"refused alone":         {kind: Leave, stop: crawl.Finished, refused: errors.New("no"), alone: true},
		"stopped":               {kind: Stop, stop: crawl.Signal, took: 2 * time.Second, page: time.Second},
		"stopped late":          {kind: Stop, stop: crawl.Signal, took: time.Minute, bad: true},
		"stopped at the end":    {kind: Stop, stop: crawl.Finished, took: time.Second},
		"crawled on":            {kind: Stop, stop: crawl.Finished, took: time.Minute, page: time.Minute, bad: true},
		"another reason":        {kind: Stop, stop: crawl.TimeLimit, took: time.Second, bad: true},
	} {
		j := newTestJudge(t)
		if c.page > 0 {
			j.pages[page{}] = []fetched{{1, at.Add(c.page)}}
		}
		run := &process{at: at.Add(c.took)}
		run.result.Stop = c.stop
		o := &order{kind: c.kind, a: &actor{number: 1, starts: 1}, run: run, at: at, refused: c.refused, alone: c.alone}
		if text := o.judge(c.took, c.over, j); (text != "") != c.bad {
			t.Errorf("%s: %q", name, text)
		}
	}
}
