package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// A cluster is several crawls of one web. Each of them owns some hosts.
type cluster struct {
	textweb.Diary
	t     *testing.T
	nodes []*node
	harsh bool // batches and answers get lost, late and repeated

	ring    bool       // the members divide the hosts by UbiCrawler's ring
	members [][]string // of each view; nil: all agents are in every view
	leaver  atomic.Pointer[node]
}

// A node is one agent, with all its processes.
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

// ownerOf returns the owner of a host in a view.
func (c *cluster) ownerOf(host string, view int64) string {
	if c.members != nil {
		return c.order(host, view)[0]
	}
	return c.nodes[xxhash.Sum64String(fmt.Sprint(host, view))%uint64(len(c.nodes))].name
}

func (n *node) Owner(host string) (string, bool) {
	a := n.c.ownerOf(host, n.view.Load())
	return a, a == n.name
}

var errLost = errors.New("lost on its way")

// Push implements Exchange.
func (n *node) Push(ctx context.Context, agent string, links []byte, count, hops int) error {
	ls, err := textweb.DecodeLinks(links)
	if err != nil {
		return err
	}
	if len(ls) != count {
		return fmt.Errorf("%d links, %d said", len(ls), count)
	}
	return n.way(ctx, agent, func(w *world) error { return w.cl.Receive(ctx, ls, hops) })
}

// open starts a process.
func (n *node) open() {
	w, err := n.story.open(n.mem)
	if err != nil {
		n.c.t.Fatal(n.name, err)
	}
	if n.bars != nil {
		if err := w.Bar(context.Background(), n.bars()); err != nil {
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
				c.t.Errorf("%s does not end: %+v %v, %d pending, %d in the outbox", n.name, p, err, w.Status().Queued,
					w.Status().Outgoing)
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

// A shape says which events happen to a cluster.
type shape struct {
	agents  int
	harsh   bool
	ends    int  // at most, for each agent's processes
	crashes bool // some are power failures
	tiny    bool // the seen-set and the outboxes are tiny
	written bool // links are acknowledged when written
}

func (sh shape) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 11))
	pages := 12
	if sh.tiny {
		pages = 40
	}
	web := textweb.NewRandom(rng, pages, true)
	c := &cluster{t: t, Diary: textweb.NewDiary(textweb.Parse(t, web.Text), seed, 12), harsh: sh.harsh}
	for i := range sh.agents {
		n := &node{c: c, mem: testdisk.NewMem(), story: randomStory(rng, seed, c.Web, fmt.Sprint("a", i))}
		n.cfg.AckWritten = sh.written
		oc := outbox.Config{BatchLinks: 1 + rng.IntN(20), Seed: seed, ParkWait: time.Second}
		if sh.tiny {
			n.seen = testparts.Tiny(seed)
			oc.MemoryBytes = 1
		}
		n.with = func() (Others, error) {
			box, err := outbox.Open(n.mem, testparts.Dir+"/state/outbox", oc)
			return Others{Peers: n, Outbox: box}, err
		}
		c.nodes = append(c.nodes, n)
	}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, %+v\n%s\n%s\n%s", seed, sh, web.Text, c.Log.String(), c.Web.ByAgent())
		}
	}()
	for _, n := range c.nodes {
		n.open()
	}
	// The events, in the order of time.
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	for _, n := range c.nodes {
		at := time.Duration(0)
		for range rng.IntN(sh.ends + 1) {
			at += time.Duration(1+rng.IntN(3000)) * time.Millisecond
			var p pause
			switch k := rng.IntN(5); {
			case k == 0:
			case k <= 2 || !sh.crashes:
				p.kill = true
			default:
				p.crash, p.takes = true, testparts.Takes(rng)
			}
			gap := time.Duration(rng.IntN(2000)) * time.Millisecond
			events = append(events, event{at, func() { n.end(p) }}, event{at + gap, func() { n.open() }})
			at += gap + 101*time.Millisecond
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range events {
		time.Sleep(e.at - time.Since(c.Web.Start))
		e.do()
	}
	c.finish()
	pages, sent := 0, int64(0)
	for _, n := range c.nodes {
		w := n.w.Load()
		if stop := <-n.ended; stop != crawl.Finished || w.Pending() != 0 {
			t.Errorf("%s: stop %s, %d pending", n.name, stop, w.Pending())
		}
		n.accounts(t, w)
		pages += int(w.Tally.Finished())
		sent += w.Tally.Summary(0, "").Sent
		if err := errors.Join(w.close(), w.cl.Outbox.Close()); err != nil {
			t.Fatal(err)
		}
		testparts.Verify(t, n.mem)
	}
	if pages != len(web.Reach) {
		t.Errorf("%d URLs finished, %d reachable", pages, len(web.Reach))
	}
	c.check(web, sh)
	t.Logf("%d URLs, %d sent", pages, sent)
}

// check checks coverage, overlap and owners by the server's log.
func (c *cluster) check(web textweb.Random, sh shape) {
	visits := map[string][]textweb.Request{}
	lastOf := map[string]textweb.Request{}
	for _, r := range c.Web.Told() {
		if before, ok := lastOf[r.Host]; ok && r.At-before.End < 200*time.Millisecond {
			c.t.Errorf("%s at %s, %s after %s", r.URL, r.At, r.At-before.End, before.URL)
		}
		lastOf[r.Host] = r
		if !strings.HasSuffix(r.URL, "/robots.txt") {
			visits[r.URL] = append(visits[r.URL], r)
		}
	}
	for u := range web.Reach {
		if len(visits[u]) == 0 {
			c.t.Errorf("%s was never asked for", u)
		}
	}
	for u, rs := range visits {
		if !web.Reach[u] {
			c.t.Errorf("%s is not reachable", u)
		}
		last := map[string]textweb.Request{}
		for _, r := range rs {
			if own := c.ownerOf(r.Host, 0); r.By != own {
				c.t.Errorf("%s was fetched by %s, its owner is %s", u, r.By, own)
			}
			before, again := last[r.By]
			if last[r.By] = r; !again || before.Status == 503 {
				continue
			}
			n := c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n.name == r.By })]
			i := slices.IndexFunc(n.ends, func(p pause) bool { return p.at >= before.At && p.at <= r.At })
			if i < 0 {
				c.t.Errorf("%s by %s at %s and %s, without an end of the process", u, r.By, before.At, r.At)
				continue
			}
			switch p := n.ends[i]; {
			case p.kill && before.End+150*time.Millisecond < p.at, p.crash && before.End+1300*time.Millisecond < p.at,
				!p.kill && !p.crash && before.End < p.at:
				c.t.Errorf("%s by %s ended at %s, the process at %s (%+v), asked for again at %s", u, r.By, before.End,
					p.at, p, r.At)
			}
		}
	}
}

func clusterModel(t *testing.T, n uint64, shapeOf func(seed uint64) shape) {
	models(t, n, func(t *testing.T, seed uint64) { shapeOf(seed).run(t, seed) })
}

// TestCluster lets two and three agents crawl random webs together.
func TestCluster(t *testing.T) {
	clusterModel(t, 40, func(seed uint64) shape {
		return shape{agents: 2 + int(seed%2), tiny: seed%4 == 3}
	})
}

// The same with batches and answers that are lost, late and repeated, and with processes that end
// by signals, kills and power failures.
func TestClusterModel(t *testing.T) {
	clusterModel(t, 100, func(seed uint64) shape {
		return shape{agents: 2 + int(seed%2), harsh: true, ends: 4, crashes: true}
	})
}

// The same with a seen-set that holds back nearly all links for a while.
func TestClusterModelHeld(t *testing.T) {
	clusterModel(t, 60, func(seed uint64) shape {
		return shape{agents: 2 + int(seed%2), harsh: true, ends: 3, crashes: true, tiny: true}
	})
}

// The same with links that are acknowledged when they are written; processes end only by kills.
func TestClusterModelWritten(t *testing.T) {
	clusterModel(t, 40, func(seed uint64) shape {
		return shape{agents: 2, harsh: true, ends: 4, written: true, tiny: seed%2 == 1}
	})
}
