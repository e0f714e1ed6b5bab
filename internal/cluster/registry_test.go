package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// A registry assigns each host when an agent first asks for its owner. Its answers come late and in
// any order, and it changes its mind: then a view begins in which some hosts have other owners.
type registry struct {
	c      *cluster
	clerks []*clerk

	mu    sync.Mutex // guards the fields below, and those of the clerks
	hosts map[string][]assignment
	view  uint64
}

// An assignment gives a host to an agent from a view on. The first one of a host has view 0: the
// agents hear of it one by one, in any view.
type assignment struct {
	agent string
	view  uint64
}

// A clerk is the copy of the registry that one agent has. It is the agent's Peers.
type clerk struct {
	*node
	r     *registry
	known map[string]int // number of assignments
	view  uint64
}

// after calls fn after a random time below most.
func (r *registry) after(most time.Duration, fn func()) {
	time.AfterFunc(time.Duration(r.c.Roll(int(most))), fn)
}

// known returns the assignments of a host that the clerk knows. The first question for a host lets
// the registry assign it.
func (k *clerk) assignments(host string) []assignment {
	r := k.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.hosts[host]; !ok {
		r.hosts[host] = nil
		r.after(3*time.Second, func() { r.assign(host) })
	}
	return r.hosts[host][:k.known[host]]
}

func (r *registry) assign(host string) {
	r.mu.Lock()
	agent := r.clerks[r.c.Roll(len(r.clerks))].name
	r.hosts[host] = append(r.hosts[host], assignment{agent: agent})
	r.mu.Unlock()
	r.c.Note("%s is assigned to %s", host, agent)
	for _, k := range r.clerks {
		r.after(3*time.Second, func() {
			r.mu.Lock()
			k.known[host] = max(k.known[host], 1)
			r.mu.Unlock()
			if w := k.w.Load(); w != nil {
				w.cl.Assigned(host)
			}
		})
	}
}

// change gives some of the assigned hosts to other agents.
func (r *registry) change(rng *rand.Rand) {
	r.mu.Lock()
	r.view++
	view := r.view
	for host, as := range r.hosts {
		if len(as) > 0 && rng.IntN(3) == 0 {
			to := r.clerks[rng.IntN(len(r.clerks))].name
			r.c.Note("view %d: %s from %s to %s", view, host, as[len(as)-1].agent, to)
			r.hosts[host] = append(as, assignment{to, view})
		}
	}
	r.mu.Unlock()
	for _, k := range r.clerks {
		r.after(1200*time.Millisecond, func() { k.learn(view) })
	}
}

// learn tells an agent a view, unless it knows a later one.
func (k *clerk) learn(view uint64) {
	k.r.mu.Lock()
	if view <= k.view {
		k.r.mu.Unlock()
		return
	}
	k.view = view
	for host, as := range k.r.hosts {
		for i, a := range as {
			if a.view > 0 && a.view <= view {
				k.known[host] = max(k.known[host], i+1)
			}
		}
	}
	k.r.mu.Unlock()
	if w := k.w.Load(); w != nil {
		w.cl.ViewChanged()
	}
}

// Owner implements Placement.
func (k *clerk) Owner(host string) (string, bool) {
	as := k.assignments(host)
	if len(as) == 0 {
		return "", false
	}
	agent := as[len(as)-1].agent
	return agent, agent == k.name
}

// Tenure implements Placement.
func (k *clerk) Tenure(host string) (owner string, mine bool, since uint64) {
	as := k.assignments(host)
	if len(as) == 0 {
		return "", false, 0
	}
	last := len(as) - 1
	if as[last].agent != k.name {
		return as[last].agent, false, 0
	}
	for last > 0 && as[last-1].agent == k.name {
		last--
	}
	return k.name, true, as[last].view + uint64(k.process()-1)*1000 // it claims its hosts again after a restart
}

// Before implements Placement.
func (k *clerk) Before(host string) (agents []string, enough int) {
	for _, a := range k.assignments(host) {
		if a.agent != k.name && !slices.Contains(agents, a.agent) {
			agents = append(agents, a.agent)
		}
	}
	return agents, len(agents)
}

// process returns the number of the agent's process.
func (k *clerk) process() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.boots
}

// View implements Placement.
func (k *clerk) View() uint64 {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	return k.view
}

// Had implements Placement.
func (k *clerk) Had(host string) (ever, began bool) {
	as := k.assignments(host)
	return slices.ContainsFunc(as, func(a assignment) bool { return a.agent == k.name }),
		len(as) > 0 && as[0].agent == k.name && k.process() == 1
}

// TestRegistry lets agents crawl together whose placement answers late, in any order, and changes its
// mind. Some of them are stopped or killed, and start again. All pages are fetched, and none twice,
// except just before a kill.
func TestRegistry(t *testing.T) {
	models(t, 60, registryOnce)
}

func registryOnce(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 31))
	web := textweb.NewRandom(rng, 30, true)
	c := &cluster{t: t, Diary: textweb.NewDiary(textweb.Parse(t, web.Text), seed, 32), harsh: seed%2 == 1}
	r := &registry{c: c, hosts: map[string][]assignment{}}
	for i := range 2 + int(seed%3) {
		n := &node{c: c, mem: testdisk.NewMem(), story: randomStory(rng, seed, c.Web, fmt.Sprint("a", i))}
		n.frontier.SlowMax = 5 * time.Second
		oc := outbox.Config{BatchLinks: 1 + rng.IntN(20), Seed: seed, ParkWait: time.Second}
		if seed%4 > 1 {
			oc.MemoryBytes = 1
		}
		k := &clerk{node: n, r: r, known: map[string]int{}}
		n.with = func() (Others, error) {
			box, err := outbox.Open(n.mem, testparts.Dir+"/state/outbox", oc)
			return Others{Peers: k, Outbox: box}, err
		}
		r.clerks, c.nodes = append(r.clerks, k), append(c.nodes, n)
	}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d\n%s\n%s\n%s", seed, web.Text, c.Log.String(), c.Web.ByAgent())
		}
	}()
	for _, n := range c.nodes {
		n.start(0)
	}
	for range rng.IntN(5) {
		time.Sleep(time.Duration(rng.IntN(6000)) * time.Millisecond)
		if n := c.nodes[rng.IntN(len(c.nodes))]; rng.IntN(4) == 0 {
			n.end(pause{kill: rng.IntN(2) == 0})
			n.start(0)
			continue
		}
		r.change(rng)
	}
	time.Sleep(7 * time.Second) // the agents know the last view
	c.finish()
	for _, n := range c.nodes {
		w := n.w.Load()
		if stop := <-n.ended; stop != crawl.Finished || w.Pending() != 0 {
			t.Errorf("%s: stop %s, %d pending", n.name, stop, w.Pending())
		}
		n.accounts(t, w)
		if err := errors.Join(w.close(), w.cl.Outbox.Close()); err != nil {
			t.Fatal(err)
		}
		testparts.Verify(t, n.mem)
	}
	c.checkMoves(web, moves{})
	t.Logf("%d URLs of %d hosts, %d changes", len(web.Reach), len(r.hosts), r.view)
}
