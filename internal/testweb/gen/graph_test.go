package gen

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

// testGraph returns a random graph, so sparse that not all of it can be reached.
func testGraph() *Graph {
	rng := rand.New(rand.NewPCG(5, 6))
	g := &Graph{}
	for range 1000 {
		for range rng.IntN(7) {
			g.to = append(g.to, uint32(rng.IntN(1000)))
		}
		g.ends = append(g.ends, uint32(len(g.to)))
	}
	return g
}

func TestReadGraph(t *testing.T) {
	g, err := ReadGraph(strings.NewReader("0\t1\n0\t2\n3\t0\n3\t7\n"))
	must.Do(t, err)
	if g.Nodes() != 8 || g.Links() != 4 || len(g.Out(0)) != 2 || len(g.Out(1)) != 0 || g.Out(3)[1] != 7 ||
		len(g.Out(7)) != 0 {
		t.Errorf("got %+v, want 8 nodes and 4 links", g)
	}
	for _, bad := range []string{
		"", "\n", "0", "0\t", "0\t\n", "a\tb\n", "0 1\n", "1\t0\n0\t1\n", "0\t9999999999\n", "0\t999999999\n",
		"0\t-1\n", "0\t1\nx",
	} {
		if _, err := ReadGraph(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

const realGraph = "../../../../shared/data/graph/uk-2007-05@100000.tsv.gz"

func TestRealGraph(t *testing.T) {
	if _, err := os.Stat(realGraph); err != nil {
		testneed.Missing(t, err)
	}
	g, err := OpenGraph(realGraph)
	must.Do(t, err)
	if g.Nodes() != 100_000 || g.Links() != 3_050_615 {
		t.Fatalf("got %d nodes and %d links, want 100000 and 3050615", g.Nodes(), g.Links())
	}
	w := newWeb(t, Spec{Graph: g, Hosts: 500})
	pages, links, local := int64(0), 0, 0
	var refs []Ref
	for h := range w.Hosts() {
		pages += w.Pages(h)
		for p := range w.Pages(h) {
			refs = w.Links(h, p, refs[:0])
			links += len(refs)
			for _, r := range refs {
				if r.Host == h {
					local++
				}
			}
		}
	}
	t.Logf("%d hosts, share of links within the host %.3f", w.Hosts(), float64(local)/float64(links))
	if pages != 100_000 || links != g.Links() || w.Hosts() < 250 || w.Hosts() > 1000 {
		t.Errorf("got %d pages and %d links on %d hosts, want 100000 and %d on 250 to 1000",
			pages, links, w.Hosts(), g.Links())
	}
}

func FuzzReadGraph(f *testing.F) {
	f.Add("0\t1\n0\t2\n3\t0\n")
	f.Add("1\t0\n0\t1\n")
	f.Add("99999999\t0\n")
	f.Fuzz(func(t *testing.T, s string) {
		isOther := func(r rune) bool { return r > '9' }
		if len(s) > 1000 || strings.Contains(s, "00000") || strings.ContainsFunc(s, isOther) {
			t.Skip()
		}
		if len(s) > 6 && strings.IndexAny(s, "\t\n") > 6 {
			t.Skip() // a graph of millions of nodes takes too long to read
		}
		g, err := ReadGraph(strings.NewReader(s))
		if err == nil && (g.Nodes() == 0 || g.ends[len(g.ends)-1] != uint32(len(g.to))) {
			t.Errorf("%q: %+v", s, g)
		}
	})
}
