package node_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A watchedConn is a connection to the web, which watched counts: those that are open, and those that are closed only
// after their agent has announced that it is gone.
type watchedConn struct {
	net.Conn
	w    *watched
	done atomic.Bool
}

type watched struct {
	agent      *node.Agent
	open, late atomic.Int64
}

func (c *watchedConn) Close() error {
	if !c.done.Swap(true) {
		c.w.open.Add(-1)
		if c.w.agent.IsGone() {
			c.w.late.Add(1)
		}
	}
	return c.Conn.Close()
}

// TestConnectionsCloseFirst: however its run ends, an agent closes its connections before it announces
// that it is gone. From then on other agents contact its hosts. If its disk is broken, it announces nothing: the others
// take its archive for lost.
func TestConnectionsCloseFirst(t *testing.T) {
	halt := func(stop context.CancelFunc, _ *testdisk.Faulty) { stop() }
	fill := func(_ context.CancelFunc, d *testdisk.Faulty) { d.Break(testdisk.FailFrom(1, syscall.ENOSPC)) }
	damage := func(_ context.CancelFunc, d *testdisk.Faulty) { d.Break(testdisk.FailFrom(1, syscall.EIO)) }
	for _, c := range []struct {
		name  string
		pages int64 // a limit
		end   func(stop context.CancelFunc, faulty *testdisk.Faulty)
		hangs bool // the second connection to the web gets no answer
		stop  crawl.Stop
		err   error
	}{
		{"finished", 0, nil, false, crawl.Finished, nil},
		{"page limit", 9, nil, false, crawl.PageLimit, nil},
		{"stopped", 0, halt, false, crawl.Signal, nil},
		{"stopped, visits abandoned", 0, halt, true, crawl.Signal, nil},
		{"disk full", 0, fill, false, "", syscall.ENOSPC},
		{"disk full, visits under way", 0, fill, true, "", syscall.ENOSPC},
		{"disk broken", 0, damage, false, "", syscall.EIO},
	} {
		synctest.Test(t, func(t *testing.T) {
			seen, faulty := &watched{}, testdisk.NewFaulty(testdisk.NewMem(), nil)
			cfg := newSmallWeb(t).config(t, faulty)
			cfg.Crawl.PageLimit, cfg.Crawl.DrainTimeout = c.pages, 50*time.Millisecond
			cfg.Cluster = &membership.Config{Name: "a1", Capacity: 1, Listen: "127.0.0.1:7470", Network: newLoop()}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			over, dial := make(chan struct{}), cfg.Fetch.Dial
			var dials atomic.Int64
			cfg.Fetch.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				here, err := dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				if seen.open.Add(1); dials.Add(1) == 2 && c.hangs {
					here.Close()
					other, there := net.Pipe()
					here = other
					go func() {
						defer there.Close()
						there.Read(make([]byte, 1))
						c.end(stop, faulty)
						<-over
					}()
				}
				return &watchedConn{Conn: here, w: seen}, nil
			}
			a := must.Get(node.Open(cfg))(t)
			seen.agent = a
			if c.end != nil && !c.hangs {
				go func() {
					for seen.open.Load() < 2 {
						time.Sleep(time.Millisecond)
					}
					c.end(stop, faulty)
				}()
			}
			if res, err := a.Run(ctx); c.err == nil && res.Stop != c.stop || !errors.Is(err, c.err) {
				t.Errorf("%s: stop %q, %v", c.name, res.Stop, err)
			}
			gone := c.err != syscall.EIO
			if open, late := seen.open.Load(), seen.late.Load(); a.IsGone() != gone || open > 0 || late > 0 {
				t.Errorf("%s: it has announced that it is gone: %v; %d connections were open then, and %d more were "+
					"closed after that", c.name, a.IsGone(), open, late)
			}
			close(over)
			faulty.Heal()
			if err := a.Close(); err != nil && !disk.IsFull(err) && !errors.Is(err, syscall.EIO) {
				t.Error(err)
			}
		})
	}
}
