package node

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// An agent that ends already says why when an operator tells it to leave.
func TestLeaveAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		stop       crawl.Stop
		text, fail string
	}{
		{crawl.Finished, "", "the crawl has finished, and the agent ends"},
		{crawl.ByOperator, "", "the agent ends already (operator) and keeps its hosts"},
		{crawl.Left, "a1 has handed its hosts to the other agents, and ends", ""},
	} {
		t.Run(string(c.stop), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := newSmallWeb().config(t, testdisk.NewMem())
				cfg.Cluster = &Cluster{Name: "a1", Capacity: 1, Listen: "127.0.0.1:7470", Network: newLoop()}
				a := opened(t, cfg)
				if c.stop != crawl.Finished {
					go func() {
						if err := a.crawler.Halt(context.Background(), c.stop); err != nil {
							t.Error(err)
						}
					}()
				}
				res, err := a.Run(t.Context())
				if err != nil || res.Stop != c.stop {
					t.Errorf("stop %q, %v", res.Stop, err)
				}
				text, err := a.Leave(t.Context())
				if text != c.text || (err == nil) != (c.fail == "") ||
					err != nil && !strings.HasPrefix(err.Error(), c.fail) {
					t.Errorf("%q, %v", text, err)
				}
			})
		})
	}
}
