package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// An agent that waits for the others says what it waits for, in its status, too, and how that ended.
func TestFindSays(t *testing.T) {
	for _, c := range []struct {
		join string
		back bool // it has crawled in this cluster before
		want string
	}{
		{"127.0.0.1:9", false, `
2s no agent of the cluster answers yet (127.0.0.1:9: it accepts connections, but says nothing); trying for up to 2m0s
join 127.0.0.1:9: no agent of the cluster answers for 2m0s: it accepts connections, but says nothing
Start that agent, or correct join, then continue with resume dir /crawl.
`},
		{"127.0.0.1:1", true, `
2s no agent of the cluster answers yet (127.0.0.1:1: connection refused); trying for up to 10s
10s no agent of the cluster answers (127.0.0.1:1: connection refused); crawling alone until another agent comes
`},
		{"127.0.0.1:2", true, `
2s no agent of the cluster answers yet (127.0.0.1:2: that agent looks for the others, too); trying for up to 10s
10s no agent of the cluster answers (127.0.0.1:2: that agent looks for the others, too); ` +
			"crawling alone until another agent comes\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLoop()
			if _, _, err := l.Listen("127.0.0.1:9"); err != nil { // it says nothing
				t.Fatal(err)
			}
			listener, err := rpc.Listen(l, "127.0.0.1:2", nil) // an agent that looks for the others
			must.Do(t, err)
			again := rpc.NewServer(listener, rpc.ServerConfig{Crawl: func() rpc.ID { return rpc.ID{} }})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- again.Run(ctx) }()
			defer func() { stop(); <-ended; listener.Close() }()

			cfg := newSmallWeb(t).config(t, testdisk.NewMem())
			cfg.Cluster = &membership.Config{Name: "a2", Capacity: 1, Listen: "127.0.0.1:3", Network: l}
			if c.back {
				cfg.Crawl.PageLimit = 1
				must.Get(life(cfg))(t)
				cfg.Resume = true
			}
			cfg.Cluster.Join = []string{c.join}
			var text strings.Builder
			var a *node.Agent
			var began time.Time
			last := ""
			cfg.Note = func(s string) {
				at := time.Since(began).Round(time.Second)
				if s != last {
					fmt.Fprintf(&text, "\n%s %s", at, s)
				}
				if last = s; strings.Contains(s, "yet") && at > 2*time.Second && a.Waiting() == nil {
					t.Errorf("%s: the status does not say what the agent waits for", at)
				}
			}
			a, closes := open(t, cfg)
			defer closes()
			began = time.Now()
			_, err = a.Run(ctx)
			if text.WriteByte('\n'); err != nil {
				fmt.Fprintln(&text, errors.Join(err))
			}
			if diff := cmp.Diff(c.want, text.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
