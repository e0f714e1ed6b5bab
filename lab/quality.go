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
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Quality answers: does a crawl that goes host by host, or politely, still fetch the pages with
// many inlinks early?
//
// It runs in this process and measures no times, so the result is the same on every machine.
type Quality struct {
	// Graph is a file of links, or a folder with one *.tsv.gz.
	Graph string `default:"../shared/data/graph" placeholder:"FILE|DIR" help:"${quality_graph}"`
	// Draws is the number of sets of seeds. Zero means 20, with --quick 2.
	Draws int64 `placeholder:"N" help:"Draw N sets of seeds (default: 20, quick 2)."`
	// Seeds is the number of pages in a set. Zero means 10.
	Seeds int64 `placeholder:"N" help:"Draw N pages per set (default: 10)."`
}

// Errors of the experiment.
var (
	// ErrNoGraph reports that there is no link graph at the given path.
	ErrNoGraph = errors.New("the link graph is missing")
	// ErrOrders reports an order that fetched other pages than all others.
	ErrOrders = errors.New("an order did not fetch each reachable page once")
)

const (
	// atATime is the number of hosts that all agents together visit at a time.
	atATime = 500
	// slowAtATime is the number of pages fetched at a time by a crawl whose limit is its line,
	// not politeness.
	slowAtATime = 2
	// someThreads is the number of the paper's threads where the experiment tries one number.
	someThreads = 64
)

// FindGraph returns the file of the link graph at path, a file or a folder. The error is
// ErrNoGraph.
func FindGraph(path string) (string, error) {
	const where = "--graph names a list of links, \"from TAB to\" by number of page in the order of the URLs, " +
		"perhaps in gzip, or the folder with one *.tsv.gz; https://law.di.unimi.it/webdata/uk-2007-05@100000/ has " +
		"the graph, WebGraph's ArcListASCIIGraph makes a list of it"
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%w: %s does not exist; %s", ErrNoGraph, path, where)
	}
	if !info.IsDir() {
		return path, nil
	}
	lists, err := filepath.Glob(filepath.Join(path, "*.tsv.gz"))
	if err != nil || len(lists) != 1 {
		return "", fmt.Errorf("%w: %s contains %d files *.tsv.gz, not one; %s", ErrNoGraph, path, len(lists), where)
	}
	return lists[0], nil
}

// A linkWeb is a web without content: only its links are known.
type linkWeb struct {
	g        *gen.Graph
	indegree []int32 // number of inlinks in the whole graph, by page
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

// seedPages draws n pages that have links.
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

// An order is an order in which a crawl fetches pages. A page is known when a page that links
// to it has been fetched.
type order struct {
	name   string
	hosts  *division
	agents int
	fetch  func(ctx context.Context, seeds []uint32, r *rand.Rand, draw int) ([]uint32, error)
}

// The names of orders that the text mentions.
const (
	plainName  = "breadth-first"
	randomName = "random, of those discovered"
	bestName   = "by indegree, of those discovered"
	idealName  = "by indegree, were all known (bound)"
)

// agentNumbers are the numbers of agents that divide the hosts.
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

// qualityRun is a run of the experiment with its graph.
type qualityRun struct {
	*Quality
	t    *Trial
	web  *linkWeb
	main *division
	all  []*division
	got  []*QualityCurve
}

// divider returns which agent owns a host by rendezvous hashing, the default of a crawl. The
// agents have other names in each draw.
func (q *qualityRun) divider(agents, draw int) (func(host string) int, error) {
	if agents == 1 {
		return func(string) int { return 0 }, nil
	}
	d, err := placement.NewRendezvous(members(q.t.Seed, draw, agents, equal), 0)
	if err != nil {
		return nil, err
	}
	_, number := counter(d)
	return func(host string) int { return number[d.Owner(link.HostKey(host)).Name] }, nil
}

// perHost returns the paper's order with a number of threads in all agents together.
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

// crawler returns this crawler's order with a number of workers in all agents together.
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

// orders returns all orders of the experiment, breadth-first first.
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
	size(t.Quick, &y.Draws, 20, 2)
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

// run crawls in all orders with all draws.
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
			// Each order has the same seeds, and its own source of random numbers.
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
		q.got = append(q.got, c)
		half := c.Draws[0].Mean[:(len(c.Draws[0].Mean)+1)/2]
		done("mean indegree of the first pages in the first draw: %.1f", half[max(len(half)-2, 0):])
	}
	return nil
}

// check reports whether pages are the reachable pages, each once.
func (w *linkWeb) check(seeds, pages []uint32) error {
	reachable := w.breadthFirst(seeds)
	seen := make([]bool, w.g.Nodes())
	for _, p := range reachable {
		seen[p] = true
	}
	for i, p := range pages {
		if !seen[p] {
			return fmt.Errorf("%w: page %d came as the %dth, twice or unreachable", ErrOrders, p, i)
		}
		seen[p] = false
	}
	if len(pages) != len(reachable) {
		return fmt.Errorf("%w: %d of %d pages", ErrOrders, len(pages), len(reachable))
	}
	return nil
}
