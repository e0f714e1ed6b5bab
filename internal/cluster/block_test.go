package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestBlockMoves blocks a host at all agents; then an agent joins that owns the host. The links move to it: no agent
// contacts the host, and the new owner alone has links of it. When the host is unblocked and the new owner leaves, the
// old one crawls the host.
func TestBlockMoves(t *testing.T) {
	for _, b := range []blockMoves{
		{name: "before it is found", block: 100 * time.Millisecond, join: time.Second},
		{name: "while its links wait", block: 100 * time.Millisecond, join: 8 * time.Second},
		{name: "while it is crawled", block: 6 * time.Second, join: 8 * time.Second},
		{name: "while its new owner is away", block: 100 * time.Millisecond, join: 8 * time.Second, away: true},
		{name: "while a request is under way", block: 5900 * time.Millisecond, join: 5950 * time.Millisecond},
	} {
		t.Run(b.name, func(t *testing.T) { models(t, 16, func(t *testing.T, seed uint64) { b.run(t, seed) }) })
	}
}

type blockMoves struct {
	name        string
	block, join time.Duration
	away        bool // the new owner is killed before it is told, and the old one restarts meanwhile
}

func (b blockMoves) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 31))
	first, all := []string{"a0", "a1"}, []string{"a0", "a1", "a2"}
	c := &cluster{t: t, Diary: textweb.NewDiary(nil, seed, 32), harsh: seed%2 == 1, ring: onRing(seed),
		members: [][]string{first, all, first}}
	host := ""
	for i := 0; host == "" || c.order(host, 0)[0] != "a0" || c.order(host, 1)[0] != "a2"; i++ {
		host = fmt.Sprintf("t%d.example", i)
	}
	// The first link to the host is on a page that is fetched after five seconds.
	web := fmt.Sprintf("dns s.example 192.0.2.1\ndns %s 192.0.2.2\n", host)
	for i := range 40 {
		web += fmt.Sprintf("http://s.example/%d /%d", i, i+1)
		if i == 10 {
			web += fmt.Sprintf(" http://%s/0", host)
		}
		web += "\n"
	}
	web += "http://s.example/40 200\n"
	const pages = 20
	for i := range pages {
		web += fmt.Sprintf("http://%s/%d /%d\n", host, i, i+1)
	}
	c.Web = textweb.Parse(t, web)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, host %s\n%s\n%s", seed, host, c.Log.String(), c.Web.ByAgent())
		}
	}()
	for _, name := range all {
		n := &node{c: c, mem: testdisk.NewMem(), story: &story{
			cfg: crawl.Config{Config: visit.Config{Workers: 2}, DrainTimeout: 100 * time.Millisecond,
				SnapshotBytes: 1 << (8 + 2*rng.IntN(8))},
			frontier: frontier.Config{HostDelay: 400 * time.Millisecond, Seed: seed},
			scope:    scope.Config{Scope: scope.Any},
			seeds:    []weburl.URL{weburl.MustParse("http://s.example/0")},
			web:      c.Web, name: name,
		}}
		n.fetch.UserAgent, n.fetch.AllowPrivate = "orbweaver", true
		n.joins(c, outbox.Config{Seed: seed, ParkWait: time.Second})
	}
	until := func(at time.Duration) { time.Sleep(at - time.Since(c.Web.Start)) }
	sees := func(view int64, ns ...*node) {
		for _, n := range ns {
			time.Sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
			n.sees(view)
			n.w.Load().cl.ViewChanged()
		}
	}
	restart := func(n *node, view int64) {
		if c.harsh && rng.IntN(2) == 0 {
			time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
			n.end(pause{kill: rng.IntN(2) == 0})
			n.start(view)
		}
	}
	a0, a1, a2 := c.nodes[0], c.nodes[1], c.nodes[2]
	var bars []crawl.Bar // what each agent has, because the orders are the same at all
	for _, n := range c.nodes {
		n.bars = func() []crawl.Bar { return bars }
	}
	order := func(now ...crawl.Bar) {
		bars = now
		for _, n := range c.nodes {
			if w := n.w.Load(); w != nil {
				must.Do(t, w.Orders.Bar(t.Context(), bars))
			}
		}
	}
	a0.start(0)
	a1.start(0)
	until(b.block)
	order(crawl.Bar{Host: host})
	blocked := time.Since(c.Web.Start)
	until(b.join)
	a2.start(1)
	if b.away {
		a2.end(pause{kill: true})
	}
	sees(1, a0, a1)
	if b.away {
		time.Sleep(2 * time.Second)
		a0.end(pause{})
		a0.start(1)
		a2.start(1)
	}
	restart(a0, 1)
	restart(a2, 1)
	until(b.join + 40*time.Second)
	for _, n := range c.nodes {
		var waits []string
		w := n.w.Load()
		must.Do(t, w.cl.run.Do(t.Context(), "test", func(time.Time) {
			waits = w.cl.loop.Gate.BlockedHosts()
		}))
		if slices.Contains(waits, host) != (n == a2) {
			t.Errorf("blocked at %s: %q; want %s at a2 alone", n.name, waits, host)
		}
	}
	order()
	unblocked := time.Since(c.Web.Start)
	time.Sleep(2 * time.Second)
	a2.leave()
	sees(2, a0, a1, a2)
	for !a2.left.Load() {
		time.Sleep(time.Second)
	}
	c.finish()
	asked := map[string]bool{}
	for _, r := range c.Web.Told() {
		asked[r.URL] = true
		if r.Host == host && r.At > blocked && r.At < unblocked {
			t.Errorf("%s by %s at %s: blocked from %s to %s", r.URL, r.By, r.At, blocked, unblocked)
		}
	}
	for i := range pages {
		if u := fmt.Sprintf("http://%s/%d", host, i); !asked[u] {
			t.Errorf("%s was never asked for", u)
		}
	}
	for _, n := range c.present() {
		w := n.w.Load()
		if stop := <-n.ended; stop != crawl.Finished || w.View.Pending() != 0 {
			t.Errorf("%s: stop %s, %d pending", n.name, stop, w.View.Pending())
		}
		must.Do(t, errors.Join(w.close(), w.cl.Outbox.Close()))
	}
}
