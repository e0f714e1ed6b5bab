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

// A division says which pages make a host, in a graph whose URLs are not known.
//
// Pages are numbered so that those of a host stand together, as in a list of
// URLs, so a host is taken to be a run of numbers. Where runs end is told by
// the links: a link inside a host of s pages names one of s, another one of all
// n, which makes log2(n/s) bits less. Hosts are the runs of which the sum of what
// is saved is the greatest, when a host costs a fixed number of bits; the
// more it costs, the fewer hosts there are.
type division struct {
	name   string
	host   []int32 // of each page
	sizes  []int   // pages of each host
	names  []string
	urls   []weburl.URL // of each page
	inside float64      // share of the links that stay on their host
}

func (d *division) hosts() int { return len(d.sizes) }

const (
	// runStep is how many pages apart hosts may begin: looking at each takes its
	// square times as long, and moves a boundary by two pages.
	runStep = 5
	// maxRun bounds a host's pages.
	maxRun = 20_000
)

// hostCosts are the bits that a host costs. The first is that of the
// experiment, the others are there to see what hangs on it.
var hostCosts = []struct {
	name string
	bits float64
}{{"hosts", 200}, {"more hosts", 50}, {"fewer hosts", 5000}}

// divideHosts divides the pages in some ways: by the links at several costs, and
// into hosts of the first one's sizes with pages that have nothing to do with
// each other.
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

// complete names hosts and pages, and counts links.
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

// runs are the first pages of the hosts, for each number of bits that one costs:
// of all ways to cut at every step-th page the best one. It takes time and
// memory for all pages of the longest run, at every step.
func runs(ctx context.Context, g *gen.Graph, step int, bits []float64) ([][]int, error) {
	n := g.Nodes()
	// below are the ends of links with the lower numbers, as steps, of each step.
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
	saved := make([]float64, longest+1) // a link, in a run of so many steps
	for s := 1; s <= longest; s++ {
		saved[s] = max(math.Log2(float64(n)/float64(s*step)), 0)
	}
	inside := make([]int64, steps) // links inside a run from each step to here
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
