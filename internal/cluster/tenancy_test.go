package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// order returns the agents of a view in a host's order: the first one owns the host.
func (c *cluster) order(host string, view int64) []string {
	return c.orderOf(link.HostKey(host), view)
}

func (c *cluster) orderOf(host uint64, view int64) []string {
	names := slices.Clone(c.members[view])
	if c.ring {
		return ringOrder(names, host)
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := xxhash.Sum64String(fmt.Sprint(a, host)), xxhash.Sum64String(fmt.Sprint(b, host))
		if x < y {
			return -1
		}
		return 1
	})
	return names
}

// onRing reports which half of the models divide hosts by the ring. The other half uses rendezvous
// hashing without buckets.
func onRing(seed uint64) bool { return seed/2%2 == 1 }

// rings has the rings that models have used, by the names of the agents.
var rings sync.Map

// ringOrder returns the agents in a host's order on a ring with few replicas, on which the agents'
// shares differ much.
func ringOrder(names []string, host uint64) []string {
	key := strings.Join(names, " ")
	ring, ok := rings.Load(key)
	if !ok {
		var agents []placement.Owner
		for _, n := range names {
			agents = append(agents, placement.Owner{Name: n, Capacity: 1})
		}
		r, err := placement.NewRing(agents, 10)
		if err != nil {
			panic(err)
		}
		ring, _ = rings.LoadOrStore(key, r)
	}
	order := make([]string, 0, len(names))
	for _, a := range ring.(*placement.Ring).Nearest(nil, host, len(names)) {
		order = append(order, a.Name)
	}
	return order
}

// sees gives a node a new view.
func (n *node) sees(view int64) {
	n.mu.Lock()
	n.views = append(n.views, view)
	n.mu.Unlock()
	n.view.Store(view)
}

func (n *node) Tenure(host string) (owner string, mine bool, since uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i := len(n.views) - 1
	if owner = n.c.order(host, n.views[i])[0]; owner != n.name {
		return owner, false, 0
	}
	for i > 0 && n.c.order(host, n.views[i-1])[0] == n.name {
		i--
	}
	if i == 0 && n.boots == 1 && n.views[0] == 0 {
		return owner, true, 0
	}
	return owner, true, uint64(n.boots*1000 + i + 1)
}

func (n *node) Before(host string) ([]string, int) {
	names, enough := slices.DeleteFunc(n.c.order(host, n.view.Load()), func(a string) bool { return a == n.name }), 2
	if l := n.c.leaver.Load(); l != nil && l.w.Load() != nil && !slices.Contains(names, l.name) && l != n {
		return append([]string{l.name}, names...), enough + 1
	}
	return names, enough
}

func (n *node) View() uint64 { return uint64(n.view.Load()) + 1 }

func (n *node) Had(host string) (ever, began bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range n.views {
		ever = ever || n.c.order(host, v)[0] == n.name
	}
	return ever || n.boots > 1, n.boots == 1 && n.views[0] == 0 && n.c.order(host, 0)[0] == n.name
}

func (n *node) Heirs() Heirs { return nodeHeirs{n, n.view.Load()} }

// nodeHeirs are the heirs of a node in a view.
type nodeHeirs struct {
	n    *node
	view int64
}

func (h nodeHeirs) Heir(host uint64) string {
	for _, name := range h.n.c.orderOf(host, h.view) {
		if name != h.n.name {
			return name
		}
	}
	return ""
}

func (n *node) Inheriting() bool { return false }

func (n *node) Unheard(time.Time) time.Duration { return 0 }

// Recall implements Exchange. No strategy of these stories is a Sharer.
func (n *node) Recall(context.Context, string, *pb.RecallRequest) (*pb.RecallResponse, error) {
	return nil, errLost
}

func (n *node) Boot(string) uint64 { return 1 }

func (n *node) Identity(agent string) string { return identityOf(rpc.Caller{Name: agent}) }

// way makes a call to a node. If harsh, the call and its answer may be lost, late or repeated.
func (n *node) way(ctx context.Context, agent string, call func(w *world) error) error {
	c := n.c
	i := slices.IndexFunc(c.nodes, func(m *node) bool { return m.name == agent })
	wait := func() { time.Sleep(time.Duration(c.Roll(300)) * time.Millisecond) }
	times := 1
	if c.harsh {
		wait()
		switch c.Roll(8) {
		case 0:
			return errLost
		case 1:
			times = 2
		}
	} else {
		time.Sleep(time.Millisecond)
	}
	for range times {
		w := c.nodes[i].w.Load()
		if w == nil {
			return errLost
		}
		if err := call(w); err != nil {
			return err
		}
		if c.nodes[i].w.Load() != w {
			return errLost // the process is dead: its calls have no effect
		}
	}
	if c.harsh {
		wait()
		if c.Roll(8) == 0 {
			return errLost
		}
	}
	return nil
}

func (n *node) Claim(ctx context.Context, agent string, q *pb.ClaimRequest) (r *pb.ClaimResponse, err error) {
	err = n.way(ctx, agent, func(w *world) (err error) {
		r, err = w.cl.tenants.answerClaim(ctx, n.caller(), q)
		return err
	})
	n.c.Note("%s claims of %s: %v: %v %v", n.name, agent, q.Hosts, r.GetVerdicts(), err)
	return r, err
}

func (n *node) Hand(ctx context.Context, agent string, q *pb.HandRequest) error {
	err := n.way(ctx, agent, func(w *world) error {
		_, err := w.cl.tenants.answerHand(ctx, n.caller(), q)
		return err
	})
	n.c.Note("%s hands %s: %s: %v", n.name, agent, summary(q.Records), err)
	return err
}

// moves is a crawl during which agents come and go.
type moves struct {
	agents, begin int    // number of agents, and of those that begin
	kind          string // join, leave, return, flap; empty: no host moves
	harsh, tiny   bool
	ends          int
	crashes       bool             // some ends are power failures
	written       bool             // links are acknowledged when written
	away          string           // the agent that is absent for a while, with its disk
	rounds        int              // visits after the first to each page
	before        func(n *node)    // called before an agent leaves; nil: nothing
	after         func(c *cluster) // called after it has left
}

func (mv moves) run(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 21))
	pages := 40
	if mv.kind == "" && !mv.tiny {
		pages = 12
	}
	web := textweb.NewRandom(rng, pages, true)
	c := &cluster{t: t, Diary: textweb.NewDiary(textweb.Parse(t, web.Text), seed, 22), harsh: mv.harsh,
		ring: onRing(seed)}
	for i := range mv.agents {
		n := &node{c: c, mem: testdisk.NewMem(), story: randomStory(rng, seed, c.Web, fmt.Sprint("a", i))}
		n.frontier.SlowMax = 5 * time.Second
		n.cfg.AckWritten = mv.written
		if rng.IntN(3) == 0 {
			n.frontier.Active = 1 // links to other hosts wait in pools
		}
		oc := outbox.Config{BatchLinks: 1 + rng.IntN(20), Seed: seed, ParkWait: time.Second}
		if mv.tiny {
			n.seen = testparts.Tiny(seed)
			oc.MemoryBytes = 1
		}
		if mv.rounds > 0 {
			n.strategy = func(fs disk.FS) (visit.Strategy, error) {
				return strategy.OpenRecrawl(strategy.Place{FS: fs, Dir: testparts.Dir + "/state/strategy"},
					strategy.RecrawlConfig{Min: time.Second, Max: 4 * time.Second, Rounds: mv.rounds})
			}
		}
		n.joins(c, oc)
	}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, ring %v, %+v\n%s\n%s\n%s", seed, c.ring, mv, web.Text, c.Log.String(), c.Web.ByAgent())
		}
	}()
	var all, first []string
	for i, n := range c.nodes {
		all = append(all, n.name)
		if i < mv.begin {
			first = append(first, n.name)
		}
	}
	c.members = [][]string{first}
	type event struct {
		at time.Duration
		do func()
	}
	var events []event
	add := func(at time.Duration, do func()) { events = append(events, event{at, do}) }
	ms := func(n int) time.Duration { return time.Duration(rng.IntN(n)) * time.Millisecond }
	// Each node learns a new view at its own time.
	change := func(at time.Duration, members []string) {
		view := int64(len(c.members))
		c.members = append(c.members, members)
		for _, n := range c.nodes {
			if !slices.Contains(members, n.name) && n.name != mv.away {
				continue
			}
			add(at+ms(1200), func() {
				if w := n.w.Load(); w != nil && n.view.Load() < view {
					c.Note("%s has view %d", n.name, view)
					n.sees(view)
					w.cl.ViewChanged()
				}
			})
		}
	}
	last := func() int64 { return int64(len(c.members) - 1) }
	for _, n := range c.nodes[:mv.begin] {
		at := time.Duration(0)
		for range rng.IntN(mv.ends + 1) {
			at += time.Duration(1+rng.IntN(3000)) * time.Millisecond
			var p pause
			switch k := rng.IntN(5); {
			case k == 0:
			case k <= 2 || !mv.crashes:
				p.kill = true
			default:
				p.crash, p.takes = true, testparts.Takes(rng)
			}
			gap := ms(2000)
			add(at, func() { n.end(p) })
			add(at+gap, func() { n.start(n.view.Load()) })
			at += gap + 101*time.Millisecond
		}
	}
	at := 500*time.Millisecond + ms(3500)
	switch mv.kind {
	case "join":
		for i := mv.begin; i < mv.agents; i++ {
			n := c.nodes[i]
			change(at, all[:i+1])
			view := last()
			add(at, func() { n.start(view) })
			at += 1300*time.Millisecond + ms(2000)
		}
	case "flap": // it joins, is invisible for a while, and is visible again
		n := c.nodes[mv.begin]
		for k := range 3 {
			change(at, all[:mv.begin+1])
			view := last()
			if k == 0 {
				add(at, func() { n.start(view) })
			}
			at += 1300*time.Millisecond + ms(2000)
			if k < 2 {
				change(at, first)
				v := last()
				add(at, func() { n.sees(v); n.w.Load().cl.ViewChanged() }) // it knows
				at += 1300*time.Millisecond + ms(2000)
			}
		}
	case "leave": // one agent hands over all its hosts
		n := c.nodes[rng.IntN(mv.begin)]
		mv.away = n.name
		add(at, func() {
			if mv.before != nil {
				mv.before(n)
			}
			n.leave()
		})
		change(at+time.Millisecond, slices.DeleteFunc(slices.Clone(first), func(a string) bool { return a == n.name }))
	case "return": // one agent is absent with its disk, and comes back
		n := c.nodes[rng.IntN(mv.begin)]
		mv.away = n.name
		add(at, func() { n.end(pause{kill: rng.IntN(2) == 0}) })
		change(at+time.Millisecond, slices.DeleteFunc(slices.Clone(first), func(a string) bool { return a == n.name }))
		at += 1300*time.Millisecond + ms(4000)
		change(at, first)
		view := last()
		add(at, func() { n.start(view) })
	}
	for _, n := range c.nodes[:mv.begin] {
		n.start(0)
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	for _, e := range events {
		time.Sleep(e.at - time.Since(c.Web.Start))
		e.do()
	}
	for mv.kind == "leave" && !c.leaver.Load().left.Load() {
		time.Sleep(time.Second)
	}
	if mv.after != nil {
		mv.after(c)
	}
	for _, n := range c.present() { // an agent that was down at that time knows the view now
		if w := n.w.Load(); n.view.Load() < last() {
			n.sees(last())
			w.cl.ViewChanged()
		}
	}
	c.finish()
	claimed, finished := int64(0), 0
	var ended, left []*world
	if n := c.leaver.Load(); n != nil {
		left = append(left, n.gone.Load())
	}
	for _, n := range c.present() {
		w := n.w.Load()
		ended = append(ended, w)
		if stop := <-n.ended; stop != crawl.Finished || w.View.Pending() != 0 {
			t.Errorf("%s: stop %s, %d pending", n.name, stop, w.View.Pending())
		}
		n.accounts(t, w)
		claimed += w.cl.tenants.n.Claimed
		finished += int(w.Tally.Finished())
		must.Do(t, errors.Join(w.close(), w.cl.Outbox.Close()))
		testparts.Verify(t, n.mem)
	}
	if mv.kind == "" && finished != len(web.Reach) {
		t.Errorf("%d URLs finished, %d reachable", finished, len(web.Reach))
	}
	c.checkMoves(web, mv)
	if mv.rounds == 0 {
		hosts := map[string]int64{}
		for _, r := range c.Web.Told() {
			hosts[r.Host] = 0
		}
		checkPages(t, ended, left, hosts, hosts)
	}
	t.Logf("%d URLs, %d hosts claimed", len(web.Reach), claimed)
}

// joins adds a node to a cluster in which hosts move.
func (n *node) joins(c *cluster, oc outbox.Config) {
	n.with = func() (Others, error) {
		box, err := outbox.Open(n.mem, testparts.Dir+"/state/outbox", oc)
		return Others{Placement: n, Exchange: n, Outbox: box, Counter: counterOf(n.name)}, err
	}
	c.nodes = append(c.nodes, n)
}

// leave makes a node hand over all its hosts. It returns at once; left is set at the end.
func (n *node) leave() {
	t, w := n.c.t, n.w.Load()
	n.c.leaver.Store(n)
	n.c.Note("%s leaves", n.name)
	if err := w.cl.Leave(context.Background(), time.Hour, time.Hour/2); err != nil {
		t.Error(err)
	}
	go func() {
		stop := <-n.ended
		n.left.Store(true)
		n.c.Note("%s has left: %s, %d pending", n.name, stop, w.View.Pending())
		if stop != crawl.Left || w.View.Pending() != 0 {
			t.Errorf("%s: stop %s, %d pending", n.name, stop, w.View.Pending())
		}
		n.ended <- stop
		n.gone.Store(w)
		n.w.Store(nil)
		n.accounts(t, w)
		if err := errors.Join(w.close(), w.cl.Outbox.Close()); err != nil {
			t.Error(err)
		}
		testparts.Verify(t, n.mem)
	}()
}

// start opens a process with its first view.
func (n *node) start(view int64) {
	n.mu.Lock()
	n.views = nil
	n.boots++
	n.mu.Unlock()
	n.sees(view)
	n.open()
}

// checkMoves checks coverage by the server's log. It also checks overlap, except for pages that
// ended just before a process did.
func (c *cluster) checkMoves(web textweb.Random, mv moves) {
	if c.Web.Busy != "" {
		c.t.Errorf("%s was asked by two at once", c.Web.Busy)
	}
	visits := map[string][]textweb.Request{}
	lastOf := map[string]textweb.Request{}
	for _, r := range c.Web.Told() {
		if before, ok := lastOf[r.Host]; ok && r.At-before.End < 200*time.Millisecond {
			c.t.Errorf("%s at %s by %s, %s after %s by %s", r.URL, r.At, r.By, r.At-before.End, before.URL, before.By)
		}
		lastOf[r.Host] = r
		if len(r.URL) < 11 || r.URL[len(r.URL)-11:] != "/robots.txt" {
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
		if mv.rounds > 0 {
			if answered := answers(rs); answered > 0 && answered != 1+mv.rounds {
				c.t.Errorf("%s was answered %d times, want %d: %v", u, answered, 1+mv.rounds, rs)
			}
			continue
		}
		if own := c.order(rs[0].Host, 0)[0]; mv.kind == "" && slices.ContainsFunc(rs, func(r textweb.Request) bool {
			return r.By != own
		}) {
			c.t.Errorf("%s was fetched by others than %s, its owner", u, own)
		}
		for i, r := range rs[1:] {
			before := rs[i]
			if before.Status == 503 || before.Status == 0 {
				continue
			}
			n := c.nodes[slices.IndexFunc(c.nodes, func(n *node) bool { return n.name == before.By })]
			excused := mv.kind == "return" && before.By == mv.away // its finished URLs were unknown while it was absent
			for _, p := range n.ends {
				late := time.Duration(0) // what ended before is in the journal
				if p.kill {
					late = 150 * time.Millisecond
				} else if p.crash {
					late = 1300 * time.Millisecond
				}
				excused = excused || p.at >= before.At && p.at <= r.At && p.at <= before.End+late
			}
			if !excused {
				c.t.Errorf("%s by %s at %s, and by %s at %s", u, before.By, before.At, r.By, r.At)
			}
		}
	}
}

func movesModel(t *testing.T, n uint64, of func(seed uint64) moves) {
	models(t, n, func(t *testing.T, seed uint64) { of(seed).run(t, seed) })
}

// TestMovesJoin lets agents join while others crawl. No page is missed, none is fetched twice, and
// no two agents contact a host at once.
func TestMovesJoin(t *testing.T) {
	movesModel(t, 20, func(seed uint64) moves {
		return moves{agents: 3, begin: 1 + int(seed%2), kind: "join", tiny: seed%3 == 2}
	})
}

// The same with calls that get lost, late and repeated, and with processes that end in between.
func TestMovesJoinHarsh(t *testing.T) {
	movesModel(t, 30, func(seed uint64) moves {
		return moves{agents: 3, begin: 1 + int(seed%2), kind: "join", tiny: seed%3 == 2, harsh: true, ends: 3,
			crashes: true}
	})
}

// An agent joins and leaves repeatedly, so hosts move back and forth.
func TestMovesFlap(t *testing.T) {
	movesModel(t, 20, func(seed uint64) moves {
		return moves{agents: 3, begin: 2, kind: "flap", tiny: seed%3 == 2, harsh: seed%2 == 1, ends: int(seed % 3),
			crashes: true}
	})
}

// An agent is absent for a while, and comes back with its disk.
func TestMovesReturn(t *testing.T) {
	movesModel(t, 20, func(seed uint64) moves {
		return moves{agents: 3, begin: 3, kind: "return", tiny: seed%3 == 2, harsh: seed%2 == 1}
	})
}

// An agent leaves for good, and cannot be asked later.
func TestMovesLeave(t *testing.T) {
	movesModel(t, 20, func(seed uint64) moves {
		return moves{agents: 3, begin: 3, kind: "leave", tiny: seed%3 == 2, harsh: seed%2 == 1}
	})
}

func TestHandedRecord(t *testing.T) {
	for _, want := range []handed{{1, true, 0}, {7, false, state.MaxNumber}} {
		host, got, err := decodeHanded(appendHanded(nil, 1<<63+5, want))
		if err != nil || host != 1<<63+5 || got != want {
			t.Errorf("%+v came back as %d %+v, %v", want, host, got, err)
		}
	}
}

// FuzzTenancyRecords: what is read from the journal is written again as it was read.
func FuzzTenancyRecords(f *testing.F) {
	f.Add(byte(0), appendHanded(nil, 5, handed{3, true, 9}))
	f.Add(byte(1), state.AppendList(nil, 5, keyset.List{Width: 42, Paths: []uint64{1, 1 << 41}}))
	f.Add(byte(2), appendPages(nil, "a.example", pageCount{1 << 63, 300}))
	f.Fuzz(func(t *testing.T, kind byte, p []byte) {
		read := func(p []byte) (v any, again []byte, err error) {
			switch kind % 3 {
			case 0:
				host, h, err := decodeHanded(p)
				return []any{host, h}, appendHanded(nil, host, h), err
			case 1:
				host, l, err := state.DecodeList(p)
				return []any{host, l}, state.AppendList(nil, host, l), err
			}
			host, c, err := decodePages(p)
			return []any{host, c}, appendPages(nil, host, c), err
		}
		first, written, err := read(p)
		if err != nil {
			return
		}
		second, _, err := read(written)
		if err != nil || !reflect.DeepEqual(first, second) || kind%3 == 1 && !slices.Equal(written, p) {
			t.Fatalf("%x is %+v, which came back as %+v, %v", p, first, second, err)
		}
	})
}

// has compares the bits of a path that both sides know.
func TestPaths(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	widths := []uint{38, 42, 46, 50, 54, 58, 62, 64}
	for range 300 {
		var s keyset.Paths
		in := map[uint64]uint{}
		for range rng.IntN(40) {
			p, w := rng.Uint64(), widths[rng.IntN(len(widths))]
			in[p] = w
			s.Add(keyset.List{Width: w, Paths: []uint64{p >> (64 - w)}})
		}
		s.Order()
		if s.N != len(in) {
			t.Fatalf("%d paths, not %d", s.N, len(in))
		}
		for p := range in {
			for _, w := range widths {
				if !s.Has(w, p>>(64-w)) {
					t.Fatalf("%x of %d bits is not there", p, w)
				}
			}
			if q := p ^ 1<<(63-uint(rng.IntN(38))); s.Has(64, q) {
				if _, ok := in[q]; !ok {
					t.Fatalf("%x is there", q)
				}
			}
		}
		other := keyset.Paths{}
		for p := range in {
			if p%2 == 0 {
				other.Add(keyset.List{Width: 50, Paths: []uint64{p >> 14}})
			}
		}
		other.Order()
		odd, even := s.Without(&other), s.Within(&other)
		for p := range in {
			if odd.Has(64, p) == (p%2 == 0) || even.Has(64, p) == (p%2 == 1) {
				t.Fatalf("%x is on the wrong side", p)
			}
		}
	}
}

// The same if a host gets its last request just before its agent leaves: the agent must hand over
// the result as well.
func TestMovesLeaveInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moves{agents: 3, begin: 3, kind: "leave"}.run(t, 3108)
	})
}

// summary says what records tell.
func summary(records []byte) string {
	var b strings.Builder
	for len(records) > 0 {
		r, n, err := handoff.Decode(records, nil)
		if err != nil {
			return err.Error()
		}
		switch r.Kind {
		case handoff.Known:
			fmt.Fprintf(&b, "%d keys of %d bits ", len(r.Paths), r.Width)
		case handoff.Clock:
			fmt.Fprintf(&b, "of %s; ", r.Name)
		}
		records = records[n:]
	}
	return b.String()
}
