package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// A cluster is several crawls of one web. Each of them owns some hosts.
type cluster struct {
	textweb.Diary
	t     *testing.T
	nodes []*node
	harsh bool // batches and answers get lost, late and repeated

	ring    bool       // the members divide the hosts by UbiCrawler's ring
	members [][]string // of each view
	leaver  atomic.Pointer[node]
}

// A node is one agent, with all its processes. It implements Exchange and Placement.
type node struct {
	*story
	c     *cluster
	view  atomic.Int64 // number of the view that it knows
	mem   *testdisk.Mem
	w     atomic.Pointer[world] // nil: no process runs
	stop  context.CancelFunc
	ended chan crawl.Stop
	ends  []pause            // of its processes
	bars  func() []crawl.Bar // the operator's blocks; nil: none

	mu    sync.Mutex // guards views and boots
	views []int64    // that this process has had
	boots int
	left  atomic.Bool           // it has left for good
	gone  atomic.Pointer[world] // its last process then
}

func (n *node) Owner(host string) (string, bool) {
	a := n.c.order(host, n.view.Load())[0]
	return a, a == n.name
}

var errLost = errors.New("lost on its way")

func (n *node) Push(ctx context.Context, agent string, q *pb.PushRequest) error {
	if err := checkPush(q); err != nil {
		return err
	}
	return n.way(ctx, agent, func(w *world) error {
		_, err := w.cl.links.answer(ctx, n.caller(), q)
		return err
	})
}

// caller is the node as a caller of others.
func (n *node) caller() rpc.Caller { return rpc.Caller{Name: n.name} }

// open starts a process.
func (n *node) open() {
	w, err := n.story.open(n.mem)
	if err != nil {
		n.c.t.Fatal(n.name, err)
	}
	if n.bars != nil {
		if err := w.Orders.Bar(context.Background(), n.bars()); err != nil {
			n.c.t.Fatal(n.name, err)
		}
	}
	n.accounts(n.c.t, w)
	n.c.Note("%s opens: %+v", n.name, w.rec)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan crawl.Stop, 1)
	n.stop, n.ended = cancel, ended
	n.w.Store(w)
	go func() {
		stop, err := w.Run(ctx)
		if err != nil && !w.dead.Load() {
			n.c.t.Error(n.name, err)
		}
		ended <- stop
	}()
}

// end ends a process by a signal, a kill or a power failure.
func (n *node) end(p pause) {
	w := n.w.Load()
	synctest.Wait()
	p.at = time.Since(n.c.Web.Start)
	n.c.Note("%s ends: %+v", n.name, p)
	switch {
	case p.kill:
		n.w.Store(nil)
		n.mem = w.kill(n.stop)
	case p.crash:
		n.w.Store(nil)
		if p.takes != nil {
			n.mem = n.mem.CrashOf(p.takes)
		} else {
			n.mem = n.mem.Crash(uint64(p.at))
		}
		w.kill(n.stop)
	}
	n.stop()
	<-n.ended
	n.w.Store(nil)
	if !p.kill && !p.crash {
		n.accounts(n.c.t, w)
	}
	if err := errors.Join(w.close(), w.cl.Outbox.Close()); err != nil {
		n.c.t.Fatal(err)
	}
	n.ends = append(n.ends, p)
}

// modelPatience is longer than the longest pause of an overloaded host.
const modelPatience = 24 * time.Hour

// finish waits for the end like the agents of a cluster: all agents are idle twice, with no
// activity in between.
func (c *cluster) finish() {
	ctx := context.Background()
	var before []uint64
	for end := time.Now().Add(modelPatience); ; {
		time.Sleep(300 * time.Millisecond)
		if time.Now().After(end) {
			for _, n := range c.present() {
				w := n.w.Load()
				p, err := w.cl.Pulse(ctx)
				s := w.View.Status()
				c.t.Errorf("%s does not end: %+v %v, %d pending, %d in the outbox", n.name, p, err, s.Queued,
					s.Cluster.Outgoing)
				n.stop()
			}
			return
		}
		var now []uint64
		idle := true
		for _, n := range c.present() {
			p, err := n.w.Load().cl.Pulse(ctx)
			if err != nil {
				c.t.Fatal(n.name, err)
			}
			idle = idle && p.Idle
			now = append(now, p.Activity)
		}
		if idle && slices.Equal(before, now) {
			break
		}
		if before = nil; idle {
			before = now
		}
	}
	for i, n := range c.present() {
		agreed, err := n.w.Load().cl.End(ctx, before[i])
		if err != nil || !agreed {
			c.t.Errorf("%s does not agree to the end: %v", n.name, err)
			n.stop()
		}
	}
}

// present returns the nodes that have not left for good.
func (c *cluster) present() (ns []*node) {
	for _, n := range c.nodes {
		if !n.left.Load() {
			ns = append(ns, n)
		}
	}
	return ns
}

// TestCluster lets two and three agents crawl random webs together.
func TestCluster(t *testing.T) {
	movesModel(t, 40, func(seed uint64) moves {
		n := 2 + int(seed%2)
		return moves{agents: n, begin: n, tiny: seed%4 == 3}
	})
}

// The same with batches and answers that are lost, late and repeated, and with processes that end
// by signals, kills and power failures.
func TestClusterModel(t *testing.T) {
	movesModel(t, 100, func(seed uint64) moves {
		n := 2 + int(seed%2)
		return moves{agents: n, begin: n, harsh: true, ends: 4, crashes: true}
	})
}

// The same with a seen-set that holds back nearly all links for a while.
func TestClusterModelHeld(t *testing.T) {
	movesModel(t, 60, func(seed uint64) moves {
		n := 2 + int(seed%2)
		return moves{agents: n, begin: n, harsh: true, ends: 3, crashes: true, tiny: true}
	})
}

// The same with links that are acknowledged when they are written; processes end only by kills.
func TestClusterModelWritten(t *testing.T) {
	movesModel(t, 40, func(seed uint64) moves {
		return moves{agents: 2, begin: 2, harsh: true, ends: 4, written: true, tiny: seed%2 == 1}
	})
}
