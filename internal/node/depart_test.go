package node

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A watched counts the open connections to the web, and those that are closed only after their
// agent has said that it is gone.
type watched struct {
	agent      *Agent
	open, late atomic.Int64
}

type watchedConn struct {
	net.Conn
	w    *watched
	done atomic.Bool
}

func (c *watchedConn) Close() error {
	if !c.done.Swap(true) {
		c.w.open.Add(-1)
		if c.w.gone() {
			c.w.late.Add(1)
		}
	}
	return c.Conn.Close()
}

func (w *watched) gone() bool {
	m := w.agent.membership.member.Load()
	return m != nil && (m.View().Agents[0].State == gossip.Gone)
}

// TestConnectionsCloseFirst: however its run ends, an agent closes its connections before it announces
// that it is gone. From then on other agents contact its hosts.
func TestConnectionsCloseFirst(t *testing.T) {
	halt := func(stop context.CancelFunc, _ *testdisk.Faulty) { stop() }
	fill := func(_ context.CancelFunc, d *testdisk.Faulty) { d.Break(testdisk.FailFrom(1, syscall.ENOSPC)) }
	damage := func(_ context.CancelFunc, d *testdisk.Faulty) { d.Break(testdisk.FailFrom(1, syscall.EIO)) }
	ended := func(want crawl.Stop) func(crawl.Stop, error) bool {
		return func(s crawl.Stop, err error) bool { return s == want && err == nil }
	}
	for _, c := range []struct {
		name  string
		pages int64 // a limit
		end   func(stop context.CancelFunc, faulty *testdisk.Faulty)
		hangs bool // the web stops answering
		want  func(crawl.Stop, error) bool
	}{
		{"finished", 0, nil, false, ended(crawl.Finished)},
		{"page limit", 9, nil, false, ended(crawl.PageLimit)},
		{"stopped", 0, halt, false, ended(crawl.Signal)},
		{"stopped, visits abandoned", 0, halt, true, ended(crawl.Signal)},
		{"disk full", 0, fill, false, func(_ crawl.Stop, err error) bool { return disk.IsFull(err) }},
		{"disk full, visits under way", 0, fill, true, func(_ crawl.Stop, err error) bool { return disk.IsFull(err) }},
		{"disk broken", 0, damage, false, func(_ crawl.Stop, err error) bool { return errors.Is(err, syscall.EIO) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web, seen := newSmallWeb(), &watched{}
				faulty := testdisk.NewFaulty(testdisk.NewMem(), nil)
				cfg := web.config(t, faulty)
				cfg.Crawl.PageLimit, cfg.Crawl.DrainTimeout = c.pages, 50*time.Millisecond
				cfg.Cluster = &Cluster{Name: "a1", Capacity: 1, Listen: "127.0.0.1:7470", Network: newLoop()}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var dials atomic.Int64
				over := make(chan struct{})
				cfg.Fetch.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					here, err := web.dial(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					seen.open.Add(1)
					if c.hangs && addr != "" { // the second host never answers
						if dials.Add(1) == 2 {
							other, there := net.Pipe()
							here.Close()
							here = other
							go func() {
								defer there.Close()
								there.Read(make([]byte, 1))
								c.end(stop, faulty)
								<-over
							}()
						}
					}
					return &watchedConn{Conn: here, w: seen}, nil
				}
				a, err := Open(cfg)
				if err != nil {
					t.Fatal(err)
				}
				seen.agent = a
				if c.end != nil && !c.hangs {
					go func() {
						for seen.open.Load() < 2 {
							time.Sleep(time.Millisecond)
						}
						c.end(stop, faulty)
					}()
				}
				res, err := a.Run(ctx)
				if !c.want(res.Stop, err) {
					t.Errorf("stop %q, %v", res.Stop, err)
				}
				if !seen.gone() {
					t.Error("it has not announced that it is gone")
				}
				if open, late := seen.open.Load(), seen.late.Load(); open > 0 || late > 0 {
					t.Errorf("%d connections were open when it announced its end, and %d more were closed after that",
						open, late)
				}
				close(over)
				faulty.Heal()
				if err := a.Close(); err != nil && !disk.IsFull(err) && !errors.Is(err, syscall.EIO) {
					t.Error(err)
				}
			})
		})
	}
}
