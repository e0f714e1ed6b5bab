package node

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
)

// newLoop returns a machine in memory whose agents listen on loopback.
func newLoop() *simnet.Machine { return simnet.New(1).Machine(1, netip.MustParseAddr("127.0.0.1")) }

// An agent that waits for the others says what it waits for, in its status, too, and how that ended.
func TestFindSays(t *testing.T) {
	for _, c := range []struct {
		what, join string
		back       bool // it has crawled in this cluster before
		want       string
	}{
		{"a port that says nothing", "127.0.0.1:9", false, `
2s no agent of the cluster answers yet (127.0.0.1:9: it accepts connections, but says nothing); trying for up to 2m0s
--join 127.0.0.1:9: no agent of the cluster answers for 2m0s: it accepts connections, but says nothing
Start that agent, or correct --join, then continue with --resume --dir crawl.
`},
		{"no agent there", "127.0.0.1:1", true, `
2s no agent of the cluster answers yet (127.0.0.1:1: connection refused); trying for up to 10s
10s no agent of the cluster answers (127.0.0.1:1: connection refused); crawling alone until another agent comes
`},
		{"an agent that looks for the others", "127.0.0.1:2", true, `
2s no agent of the cluster answers yet (127.0.0.1:2: that agent looks for the others, too); trying for up to 10s
10s no agent of the cluster answers (127.0.0.1:2: that agent looks for the others, too); ` +
			"crawling alone until another agent comes\n"},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, l := time.Now(), newLoop()
				if _, _, err := l.Listen("127.0.0.1:9"); err != nil { // it says nothing
					t.Fatal(err)
				}
				listener, err := rpc.Listen(l, "127.0.0.1:2", nil)
				if err != nil {
					t.Fatal(err)
				}
				defer listener.Close()
				again := rpc.NewServer(listener, rpc.ServerConfig{Crawl: func() rpc.ID { return rpc.ID{} },
					Handlers: rpc.Handlers{Hello: func(context.Context, rpc.Caller, rpc.Hello) (rpc.Welcome, error) {
						return rpc.Welcome{}, rpc.ErrAgain
					}}})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- again.Run(ctx) }()
				defer func() { stop(); <-ended }()

				m := newcomer(t, "127.0.0.1:3", c.join)
				m.self.Name, m.self.Capacity, m.self.Boot = "a2", 1, 1
				var text strings.Builder
				last := ""
				m.a.cfg.Note = func(s string) {
					at := time.Since(began).Round(time.Second)
					if s != last {
						fmt.Fprintf(&text, "\n%s %s", at, s)
					}
					if last = s; strings.Contains(s, "yet") && (m.waits.Load() != nil) != (at > sayAfter) {
						t.Errorf("%s: the status is %v", at, m.waits.Load())
					}
				}
				if m.a.parts.Events, err = report.OpenEvents(m.a.fs, "crawl/events.jsonl", time.Now); err != nil {
					t.Fatal(err)
				}
				defer m.a.parts.Events.Close()
				if c.back {
					id := newExchangeID()
					m.crawl.Store(&id)
					m.who.Begun = true
				}
				m.client = rpc.NewClient(rpc.ClientConfig{Dial: l.Dial, Seed: 1, Self: func() rpc.Caller {
					return rpc.Caller{Name: "a2", Instance: m.self.Instance, Boot: m.self.Boot, Crawl: m.id()}
				}})
				defer m.client.Close()
				_, err = m.find(t.Context())
				if text.WriteByte('\n'); err != nil {
					fmt.Fprintln(&text, m.refused(err))
				}
				if diff := cmp.Diff(c.want, text.String()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
