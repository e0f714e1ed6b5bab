package lab

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Quality asks: does a crawl that goes host by host, or politely, still come to
// the pages early that many others link to?
//
// It runs in this process and measures no times, so that it gives the same on
// every machine.
type Quality struct {
	// Graph is a file of links, or the folder with the one *.tsv.gz.
	Graph string
	// Draws are how many sets of seeds are drawn. Zero means 20, when quick 2.
	Draws int64
	// Seeds are in each. Zero means 10.
	Seeds int64
	Again string
}

// Errors of the experiment.
var (
	// ErrNoGraph is a link graph that is not where it was said to be.
	ErrNoGraph = errors.New("the link graph is missing")
	// ErrOrders are orders that did not come to the same pages.
	ErrOrders = errors.New("an order did not fetch what can be reached, once each")
)

const (
	// atATime are the hosts that are visited at a time, in all agents together.
	atATime = 500
	// slowAtATime are the pages fetched at a time of a crawl that is held back by
	// its line, not by politeness.
	slowAtATime = 2
	// someThreads are the paper's threads where only one number is tried.
	someThreads = 64
)

// FindGraph is the file of the link graph at path, which may be its folder. The
// error is ErrNoGraph.
func FindGraph(path string) (string, error) {
	const where = "--graph names a list of links, \"from TAB to\" by number of page in the order of the URLs, " +
		"perhaps in gzip, or the folder with one *.tsv.gz; https://law.di.unimi.it/webdata/uk-2007-05@100000/ has " +
		"the graph, WebGraph's ArcListASCIIGraph makes a list of it"
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%w: %s is not there; %s", ErrNoGraph, path, where)
	}
	if !info.IsDir() {
		return path, nil
	}
	lists, err := filepath.Glob(filepath.Join(path, "*.tsv.gz"))
	if err != nil || len(lists) != 1 {
		return "", fmt.Errorf("%w: %s holds %d of *.tsv.gz, not one; %s", ErrNoGraph, path, len(lists), where)
	}
	return lists[0], nil
}

// A linkWeb is a web of which only the links are known.
type linkWeb struct {
	g        *gen.Graph
	indegree []int32 // in the whole graph
}

func newLinkWeb(g *gen.Graph) *linkWeb {
	w := &linkWeb{g: g, indegree: make([]int32, g.Nodes())}
	for p := range uint32(g.Nodes()) {
		for _, to := range g.Out(p) {
			w.indegree[to]++
		}
	}
	return w
}

// seedPages draws n pages with links out.
func (w *linkWeb) seedPages(r *rand.Rand, n int) (seeds []uint32) {
	var pages []uint32
	for p := range uint32(w.g.Nodes()) {
		if len(w.g.Out(p)) > 0 {
			pages = append(pages, p)
		}
	}
	for _, i := range r.Perm(len(pages))[:min(n, len(pages))] {
		seeds = append(seeds, pages[i])
	}
	return seeds
}

// An order is one in which pages are fetched, each known only when a page that
// links to it was fetched.
type order struct {
	name   string
	hosts  *division
	agents int
	fetch  func(ctx context.Context, seeds []uint32, r *rand.Rand, draw int) ([]uint32, error)
}

// The names of orders that the text picks out.
const (
	plainName  = "breadth-first"
	randomName = "random, of those discovered"
	bestName   = "by indegree, of those discovered"
	idealName  = "by indegree, were all known (bound)"
)

// agentNumbers are how many share the hosts.
var agentNumbers = []int{1, 4, 16}

func perHostName(threads int) string {
	if threads == 1 {
		return "per host, 1 thread"
	}
	return fmt.Sprintf("per host, %d threads", threads)
}

func crawlerName(workers int) string {
	if workers == slowAtATime {
		return fmt.Sprintf("this crawler, %.0f pages/s", slowAtATime/fetchTime.Seconds())
	}
	return fmt.Sprintf("this crawler, %d hosts at a time", workers)
}

// qualityRun is one with its graph.
type qualityRun struct {
	*Quality
	t    *Trial
	web  *linkWeb
	main *division
	all  []*division
	got  []*QualityCurve
}

// divider returns which of so many agents owns a host by rendezvous hashing, the
// default of a crawl. The agents have other names in each draw.
func (q *qualityRun) divider(agents, draw int) (func(host string) int, error) {
	if agents == 1 {
		return func(string) int { return 0 }, nil
	}
	d, err := placement.NewRendezvous(members(q.t.Seed, draw, agents, equal), 0)
	if err != nil {
		return nil, err
	}
	number := make(map[string]int, agents)
	for i, a := range d.Agents() {
		number[a.Name] = i
	}
	return func(host string) int { return number[d.Owner(weburl.HostKey(host)).Name] }, nil
}

// perHost is the paper's order with so many threads in all agents together.
func (q *qualityRun) perHost(d *division, threads, agents int) order {
	name := perHostName(threads)
	return order{name: name, hosts: d, agents: agents,
		fetch: func(ctx context.Context, seeds []uint32, _ *rand.Rand, draw int) ([]uint32, error) {
			of, err := q.divider(agents, draw)
			if err != nil {
				return nil, err
			}
			return q.web.perHost(d, seeds, agents, max(threads/agents, 1), of), ctx.Err()
		}}
}

// crawler is this crawler's order with so many workers in all agents together.
func (q *qualityRun) crawler(d *division, workers, agents int) order {
	name := crawlerName(workers)
	return order{name: name, hosts: d, agents: agents,
		fetch: func(ctx context.Context, seeds []uint32, _ *rand.Rand, draw int) ([]uint32, error) {
			of, err := q.divider(agents, draw)
			if err != nil {
				return nil, err
			}
			return q.web.crawled(ctx, crawlSpec{
				dir: q.t.Dir, hosts: d, agents: agents, active: max(atATime/agents, 1), workers: max(workers/agents, 1),
				of: of, seed: q.t.Seed,
			}, seeds)
		}}
}

// orders are all that are tried, breadth-first first.
func (q *qualityRun) orders() (os []order) {
	d := q.main
	simple := func(name string, f func(seeds []uint32, r *rand.Rand) []uint32) {
		os = append(os, order{name: name, hosts: d, agents: 1,
			fetch: func(ctx context.Context, seeds []uint32, r *rand.Rand, _ int) ([]uint32, error) {
				return f(seeds, r), ctx.Err()
			}})
	}
	simple(plainName, func(seeds []uint32, _ *rand.Rand) []uint32 { return q.web.breadthFirst(seeds) })
	os = append(os, q.perHost(d, 1, 1), q.perHost(d, 8, 1))
	for _, n := range agentNumbers {
		os = append(os, q.perHost(d, someThreads, n))
	}
	for _, n := range agentNumbers {
		os = append(os, q.crawler(d, atATime, n))
	}
	os = append(os, q.crawler(d, slowAtATime, 1))
	simple(randomName, q.web.random)
	simple(bestName, func(seeds []uint32, _ *rand.Rand) []uint32 { return q.web.bestFirst(seeds) })
	simple(idealName, func(seeds []uint32, _ *rand.Rand) []uint32 { return q.web.ideal(seeds) })
	for _, other := range q.all {
		if other != q.main {
			os = append(os, q.perHost(other, someThreads, 1), q.crawler(other, atATime, 1))
		}
	}
	return os
}

// Run implements Experiment.
func (x *Quality) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	if t.Quick {
		def(&y.Draws, 2)
	}
	def(&y.Draws, 20)
	def(&y.Seeds, 10)
	file, err := FindGraph(y.Graph)
	if err != nil {
		return nil, err
	}
	done := t.step("reading %s", filepath.Base(file))
	g, err := gen.OpenGraph(file)
	if err != nil {
		return nil, err
	}
	done("%s pages, %s links", humanize.Comma(int64(g.Nodes())), humanize.Comma(int64(g.Links())))
	q := &qualityRun{Quality: &y, t: t, web: newLinkWeb(g)}
	done = t.step("which pages make a host?")
	if q.all, err = divideHosts(ctx, g, newRand(t.Seed)); err != nil {
		return nil, err
	}
	q.main = q.all[0]
	done("%d hosts, %.0f %% of the links inside", q.main.hosts(), percent*q.main.inside)
	if err := q.run(ctx); err != nil {
		return nil, err
	}
	return q.result(), nil
}

// run measures all orders with all draws.
func (q *qualityRun) run(ctx context.Context) error {
	for _, o := range q.orders() {
		c := &QualityCurve{Order: o.name, Agents: o.agents, Hosts: o.hosts.name}
		what := o.name
		if o.agents > 1 {
			what += fmt.Sprintf(", %d agents", o.agents)
		}
		if o.hosts != q.main {
			what += ", " + o.hosts.name
		}
		done := q.t.step("%s", what)
		for draw := range int(q.Draws) {
			// Every order has the same seeds, and a source of its own.
			seeds := q.web.seedPages(rand.New(rand.NewPCG(q.t.Seed, uint64(draw))), int(q.Seeds))
			pages, err := o.fetch(ctx, seeds, rand.New(rand.NewPCG(q.t.Seed, 1<<32+uint64(draw))), draw)
			if err != nil {
				return fmt.Errorf("%s, draw %d: %w", o.name, draw, err)
			}
			if err := q.web.check(seeds, pages); err != nil {
				return fmt.Errorf("%s, draw %d: %w", o.name, draw, err)
			}
			c.add(q.web, pages)
			q.t.partial("draw %d of %d", draw+1, q.Draws)
		}
		c.sum()
		q.got = append(q.got, c)
		told := c.told()
		n := told[len(told)/2]
		done("mean indegree, %s: %.1f", firstPages(n), average(c.mean(n)))
	}
	return nil
}

// check holds pages against what can be reached.
func (w *linkWeb) check(seeds, pages []uint32) error {
	reachable := w.breadthFirst(seeds)
	seen := make([]bool, w.g.Nodes())
	for _, p := range reachable {
		seen[p] = true
	}
	for i, p := range pages {
		if !seen[p] {
			return fmt.Errorf("%w: page %d, the %dth", ErrOrders, p, i)
		}
		seen[p] = false
	}
	if len(pages) != len(reachable) {
		return fmt.Errorf("%w: %d of %d", ErrOrders, len(pages), len(reachable))
	}
	return nil
}
