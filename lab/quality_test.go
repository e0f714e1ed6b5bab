package lab

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// sevenPages is a graph of three hosts: pages 0 to 2, 3 to 5, and 6.
func sevenPages(t *testing.T) (*linkWeb, *division) {
	t.Helper()
	g := must.Get(gen.ReadGraph(strings.NewReader("0\t1\n0\t3\n1\t6\n2\t3\n2\t6\n3\t4\n4\t2\n4\t5\n5\t0\n5\t6\n")))(t)
	d := &division{name: "hosts", host: []int32{0, 0, 0, 1, 1, 1, 2}, sizes: []int{3, 3, 1}}
	must.Do(t, d.complete(g))
	if d.inside != 0.3 { // 0-1, 3-4, 4-5
		t.Fatalf("%g of the links inside", d.inside)
	}
	return newLinkWeb(g), d
}

// Each order agrees with its rule, followed by hand.
func TestQualityOrders(t *testing.T) {
	w, d := sevenPages(t)
	seeds := []uint32{0}
	one := func(string) int { return 0 }
	apart := func(host string) int { // the first host's agent has no other
		if host == d.names[0] {
			return 0
		}
		return 1
	}
	crawled := func(agents int, of func(string) int) []uint32 {
		pages := must.Get(w.crawled(context.Background(),
			crawlSpec{dir: t.TempDir(), hosts: d, agents: agents, active: 10, workers: 10, of: of, seed: 1}, seeds))(t)
		return pages
	}
	for _, c := range []struct {
		name      string
		got, want []uint32
	}{
		{"breadth-first", w.breadthFirst(seeds), []uint32{0, 1, 3, 6, 4, 2, 5}},
		{"one thread", w.perHost(d, seeds, 1, 1, one), []uint32{0, 1, 3, 4, 5, 6, 2}},
		{"two threads", w.perHost(d, seeds, 1, 2, one), []uint32{0, 1, 3, 6, 4, 2, 5}},
		{"two agents", w.perHost(d, seeds, 2, 1, apart), []uint32{0, 1, 3, 4, 2, 5, 6}},
		{"best of those discovered", w.bestFirst(seeds), []uint32{0, 3, 1, 6, 4, 2, 5}},
		{"bound", w.ideal(seeds), []uint32{6, 3, 0, 1, 2, 4, 5}},
		// 0 s: 0; 0.1: 3; 2.1: 1; 2.2: 4, and 6 as soon as it is known; 4.2: 2; 4.3: 5.
		{"this crawler", crawled(1, one), []uint32{0, 3, 1, 4, 6, 2, 5}},
		{"two of this crawler", crawled(2, apart), []uint32{0, 3, 1, 4, 6, 2, 5}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
		if err := w.check(seeds, c.got); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, wrong := range [][]uint32{{0, 1, 3, 6, 4, 2}, {0, 1, 3, 6, 4, 2, 2}, {0, 1, 3, 6, 4, 2, 5, 5}} {
		if err := w.check(seeds, wrong); !errors.Is(err, ErrOrders) {
			t.Errorf("%d: %v, want ErrOrders", wrong, err)
		}
	}
}

// randomGraph returns a graph of n pages and about n*links links.
func randomGraph(t *testing.T, r *rand.Rand, n, links int) *gen.Graph {
	t.Helper()
	var b strings.Builder
	for p := range n {
		for range r.IntN(2*links + 1) {
			fmt.Fprintf(&b, "%d\t%d\n", p, (p+r.IntN(1+r.IntN(n)))%n)
		}
	}
	fmt.Fprintf(&b, "%d\t0\n", n-1)
	g := must.Get(gen.ReadGraph(strings.NewReader(b.String())))(t)
	return g
}

// Every order fetches each page once, after a page that links to it, and the same seed gives the
// same order.
func TestQualityOrdersKnowOnlyTheDiscovered(t *testing.T) {
	seed := testseed.New(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 8 {
		g := randomGraph(t, r, 2+r.IntN(300), 1+r.IntN(4))
		w := newLinkWeb(g)
		d := &division{name: "hosts", sizes: make([]int, 1+r.IntN(40))}
		for range g.Nodes() {
			h := r.IntN(d.hosts())
			d.host = append(d.host, int32(h))
			d.sizes[h]++
		}
		must.Do(t, d.complete(g))
		q := &qualityRun{Quality: &Quality{}, t: (&Trial{Seed: seed, Screen: io.Discard}).with(t.TempDir()), web: w,
			main: d, all: []*division{d}}
		seeds := w.seedPages(r, 1+r.IntN(5))
		for _, o := range q.orders() {
			pages := must.Get(o.fetch(context.Background(), seeds, newRand(seed), 0))(t)
			if again, err := o.fetch(context.Background(), seeds, newRand(seed), 0); err != nil ||
				!slices.Equal(pages, again) {
				t.Fatalf("%s, %d agents: the second time it was another; %v", o.name, o.agents, err)
			}
			if err := w.check(seeds, pages); err != nil {
				t.Fatalf("%s: %v", o.name, err)
			}
			if o.name == idealName {
				continue
			}
			known := map[uint32]bool{}
			for _, p := range seeds {
				known[p] = true
			}
			for _, p := range pages {
				if !known[p] {
					t.Fatalf("%s, %d agents: page %d was not discovered", o.name, o.agents, p)
				}
				for _, to := range g.Out(p) {
					known[to] = true
				}
			}
		}
	}
}

// The runs are the best of all divisions.
func TestRuns(t *testing.T) {
	r := testseed.Rand(t)
	for range 60 {
		g := randomGraph(t, r, 2+r.IntN(10), 1+r.IntN(3))
		n := g.Nodes()
		// saved returns the bits that a division at begins saves.
		saved := func(begins []int, cost float64) (sum float64) {
			for i, from := range begins {
				to := n
				if i+1 < len(begins) {
					to = begins[i+1]
				}
				sum -= cost
				for p := from; p < to; p++ {
					for _, q := range g.Out(uint32(p)) {
						if int(q) >= from && int(q) < to {
							sum += math.Log2(float64(n) / float64(to-from))
						}
					}
				}
			}
			return sum
		}
		costs := []float64{0.5, 2, 8, 1e6}
		got := must.Get(runs(context.Background(), g, 1, costs))(t)
		for i, cost := range costs {
			best := math.Inf(-1)
			for cuts := range 1 << (n - 1) {
				begins := []int{0}
				for p := 1; p < n; p++ {
					if cuts>>(p-1)&1 == 1 {
						begins = append(begins, p)
					}
				}
				best = max(best, saved(begins, cost))
			}
			if s := saved(got[i], cost); math.Abs(s-best) > 1e-6*max(1, math.Abs(best)) {
				t.Errorf("%d pages, cost %g: runs from %d save %g, at best it is %g", n, cost, got[i], s, best)
			}
		}
	}
}

// runs finds two hosts with links inside and one link between them, with boundaries that may be off
// by less than a step.
func TestDivideHosts(t *testing.T) {
	var b strings.Builder
	for p := range 400 {
		for k := range 20 {
			to := p/200*200 + (p*7+k*31)%200
			if p == 5 && k == 0 {
				to = 399
			}
			fmt.Fprintf(&b, "%d\t%d\n", p, to)
		}
	}
	g := must.Get(gen.ReadGraph(strings.NewReader(b.String())))(t)
	ds := must.Get(divideHosts(context.Background(), g, newRand(1)))(t)
	if d := ds[0]; !slices.Equal(d.sizes, []int{200, 200}) || math.Abs(d.inside-7999.0/8000) > 1e-9 {
		t.Errorf("%d, %g inside", d.sizes, d.inside)
	}
	mixed := ds[len(ds)-1]
	counts := make([]int, mixed.hosts())
	for _, h := range mixed.host {
		counts[h]++
	}
	if !slices.Equal(counts, mixed.sizes) || math.Abs(mixed.inside-0.5) > 0.05 {
		t.Errorf("mixed: %d, %g inside", counts, mixed.inside)
	}
}

func TestQualityCurve(t *testing.T) {
	if got, want := qualityPoints(2000), []int{100, 200, 500, 1000, 2000}; !slices.Equal(got, want) {
		t.Errorf("points %d, want %d", got, want)
	}
	// Page p has indegree p. If pages come from the last to the first, the mean of the first
	// hundred is that of 199 to 100, and both best pages are among them.
	w := &linkWeb{}
	var pages []uint32
	for p := range 200 {
		w.indegree = append(w.indegree, int32(p))
		pages = append(pages, uint32(199-p))
	}
	down, up := &QualityCurve{}, &QualityCurve{}
	down.add(w, pages)
	slices.Reverse(pages)
	up.add(w, pages)
	for _, c := range []struct {
		curve          *QualityCurve
		mean, all, top float64
	}{{down, 149.5, 99.5, 1}, {up, 49.5, 99.5, 0}} {
		d := c.curve.Draws[0]
		if !slices.Equal(d.Mean, []float64{c.mean, c.all}) || !slices.Equal(d.Top, []float64{c.top, 1}) ||
			d.All != c.all || d.Reached != 200 {
			t.Errorf("%+v, want %+v", d, c)
		}
	}
}

func TestFindGraph(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "none"), dir} {
		if _, err := FindGraph(path); !errors.Is(err, ErrNoGraph) ||
			!strings.Contains(err.Error(), "https://law.di.unimi.it/") {
			t.Errorf("%s: %v", path, err)
		}
	}
	file := filepath.Join(dir, "a.tsv.gz")
	f := must.Get(os.Create(file))(t)
	z := gzip.NewWriter(f)
	fmt.Fprint(z, "0\t1\n1\t0\n")
	must.Do(t, errors.Join(z.Close(), f.Close()))
	for _, path := range []string{file, dir} {
		if got, err := FindGraph(path); got != file || err != nil {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	// A graph that is too small for a point still has its tables and its picture.
	r := must.Get((&Quality{Graph: dir, Draws: 1}).Run(context.Background(),
		(&Trial{Seed: 1, Screen: io.Discard}).with(t.TempDir())))(t)
	if text := rendered(t, r); !strings.Contains(text, "| breadth-first                       | 1.0 |") {
		t.Error(text)
	}
}

// On the real graph the bound is one, and all orders have the same mean at the end.
func TestQualityOfTheRealGraph(t *testing.T) {
	testtier.OnlySoak(t, "a graph of 3 million links; the script quality has a small one")
	const graph = "../../shared/data/graph"
	if _, err := FindGraph(graph); err != nil {
		testneed.Missing(t, err)
	}
	r, err := (&Quality{Graph: graph, Draws: 1}).Run(context.Background(),
		(&Trial{Seed: 3, Screen: io.Discard}).with(t.TempDir()))
	must.Do(t, err)
	if f := r.Rows.facts; f["web_pages"] != "100000" || f["web_links"] != "3050615" {
		t.Errorf("%s pages, %s links", f["web_pages"], f["web_links"])
	}
	const above = "sum(mean_indegree > 1e-9 + at(mean_indegree, \"order\", \"" + idealName + "\")) + " +
		"sum(top_share > 1e-9 + at(top_share, \"order\", \"" + idealName + "\"))"
	one := must.Get(subset{d: r.Rows}.and("hosts=" + hostCosts[0].name + ", agents=1"))(t)
	orders, err := one.keys("order")
	if err != nil || len(orders) != 9 {
		t.Fatalf("%d orders, %v", len(orders), err)
	}
	for _, o := range orders {
		at := one.at([]string{"order"}, o)
		if n, err := at.value(above); err != nil || n.one() != 0.0 {
			t.Errorf("%s: %v values are above the bound, %v", o[0], n.one(), err)
		}
		all, err := at.value("abs(at(mean_indegree, \"pages\", \"all\") - " +
			"at(mean_indegree, \"pages\", \"all\", \"order\", \"" + idealName + "\")) < 1e-9")
		if err != nil || all.one() != 1.0 {
			t.Errorf("%s: all pages have another mean than those of the bound: %v, %v", o[0], all, err)
		}
	}
	if text := rendered(t, r); !strings.Contains(text, "## The influence of the hosts") {
		t.Error(text)
	}
}
