package lab

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/orbweaver/orbweaver/internal/testweb/gen"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A division assigns pages to hosts, in a graph whose URLs are not known.
//
// The pages are numbered in the order of their URLs, so the pages of a host have consecutive
// numbers. The links tell where a host ends. A link within a host of s pages names one of s
// pages; any other link names one of all n pages and needs log2(n/s) bits more. The division
// chooses the runs of numbers that save the most bits in all, if each host costs a fixed
// number of bits. The more a host costs, the fewer hosts there are.
type division struct {
	name   string
	host   []int32 // by page
	sizes  []int   // pages, by host
	names  []string
	urls   []weburl.URL // by page
	inside float64      // share of the links that stay within their host
}

func (d *division) hosts() int { return len(d.sizes) }

const (
	// runStep is the distance in pages between possible starts of hosts. A step of 1 would
	// take runStep squared times as long, and move a boundary by two pages.
	runStep = 5
	// maxRun bounds the pages of a host.
	maxRun = 20_000
)

// hostCosts are costs of a host in bits. The experiment uses the first; the others show how
// much the result depends on it.
var hostCosts = []struct {
	name string
	bits float64
}{{"hosts", 200}, {"more hosts", 50}, {"fewer hosts", 5000}}

// divideHosts divides the pages in several ways: by the links at several costs, and into hosts
// of the same sizes as the first, but with random pages.
func divideHosts(ctx context.Context, g *gen.Graph, r *rand.Rand) (ds []*division, err error) {
	bits := make([]float64, len(hostCosts))
	for i, c := range hostCosts {
		bits[i] = c.bits
	}
	begins, err := runs(ctx, g, runStep, bits)
	if err != nil {
		return nil, err
	}
	for i, c := range hostCosts {
		d := &division{name: c.name, host: make([]int32, g.Nodes())}
		for h, from := range begins[i] {
			to := g.Nodes()
			if h+1 < len(begins[i]) {
				to = begins[i][h+1]
			}
			for p := from; p < to; p++ {
				d.host[p] = int32(h)
			}
			d.sizes = append(d.sizes, to-from)
		}
		ds = append(ds, d)
	}
	mixed := &division{name: "hosts of any pages", host: slices.Clone(ds[0].host), sizes: ds[0].sizes}
	r.Shuffle(len(mixed.host), func(i, j int) { mixed.host[i], mixed.host[j] = mixed.host[j], mixed.host[i] })
	ds = append(ds, mixed)
	for _, d := range ds {
		if err := d.complete(g); err != nil {
			return nil, err
		}
	}
	return ds, nil
}

// complete names the hosts and pages, and counts the links within hosts.
func (d *division) complete(g *gen.Graph) error {
	for h := range d.sizes {
		d.names = append(d.names, fmt.Sprintf("h%06d.example", h))
	}
	d.urls = make([]weburl.URL, g.Nodes())
	inside := 0
	for p := range d.urls {
		u, err := weburl.Parse(fmt.Sprintf("http://%s/%d", d.names[d.host[p]], p))
		if err != nil {
			return err
		}
		d.urls[p] = u
		for _, to := range g.Out(uint32(p)) {
			if d.host[to] == d.host[p] {
				inside++
			}
		}
	}
	d.inside = float64(inside) / float64(max(g.Links(), 1))
	return nil
}

// runs returns the first pages of the hosts, for each cost of a host in bits. It finds the best
// of all divisions whose hosts begin at multiples of step. Time and memory grow with the
// product of the number of steps and the longest run.
func runs(ctx context.Context, g *gen.Graph, step int, bits []float64) ([][]int, error) {
	n := g.Nodes()
	// below holds, for each step, the steps of the other ends of its links with lower numbers.
	steps := (n + step - 1) / step
	below := make([]map[int32]int32, steps)
	for p := range n {
		for _, to := range g.Out(uint32(p)) {
			high, low := int32(max(p, int(to))/step), int32(min(p, int(to))/step)
			if below[high] == nil {
				below[high] = map[int32]int32{}
			}
			below[high][low]++
		}
	}
	longest := max(maxRun/step, 1)
	saved := make([]float64, longest+1) // bits saved by a link within a run, by the run's steps
	for s := 1; s <= longest; s++ {
		saved[s] = max(math.Log2(float64(n)/float64(s*step)), 0)
	}
	inside := make([]int64, steps) // links within a run from each step to this one
	links := make([]int64, steps)
	best, from := make([][]float64, len(bits)), make([][]int, len(bits))
	for i := range bits {
		best[i], from[i] = make([]float64, steps+1), make([]int, steps+1)
	}
	for last := range steps {
		least := max(last+1-longest, 0)
		for low, k := range below[last] {
			links[low] = int64(k)
		}
		for i := range bits {
			best[i][last+1] = math.Inf(-1)
		}
		more := int64(0)
		for first := last; first >= least; first-- {
			more += links[first]
			inside[first] += more
			gain := float64(inside[first]) * saved[last+1-first]
			for i, cost := range bits {
				if sum := best[i][first] + gain - cost; sum > best[i][last+1] {
					best[i][last+1], from[i][last+1] = sum, first
				}
			}
		}
		for low := range below[last] {
			links[low] = 0
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	begins := make([][]int, len(bits))
	for i := range bits {
		for end := steps; end > 0; end = from[i][end] {
			begins[i] = append(begins[i], from[i][end]*step)
		}
		slices.Reverse(begins[i])
	}
	return begins, nil
}
