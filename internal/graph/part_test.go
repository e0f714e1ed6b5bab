package graph

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// links yields the links of lists, the last first and each twice.
func links(lists [][]uint32) func(yield func(from, to uint32) bool) {
	return func(yield func(from, to uint32) bool) {
		for range 2 {
			for from, l := range slices.Backward(lists) {
				for _, to := range slices.Backward(l) {
					if !yield(uint32(from), to) {
						return
					}
				}
			}
		}
	}
}

func listsOf(t rapid.TB, g Graph) (lists [][]uint32) {
	err := g.Links(func(_ uint32, to []uint32) error {
		lists = append(lists, slices.Clone(to))
		return nil
	})
	must.Do(t, err)
	return lists
}

func TestFromLinks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lists := drawLists(rt)
		m, err := FromLinks(uint32(len(lists)), links(lists))
		if err != nil || !equalLists(listsOf(rt, m), lists) {
			rt.Fatalf("got %v, want %v; %v", listsOf(rt, m), lists, err)
		}
	})
	for _, lists := range [][][]uint32{{{1}}, {{}, {7}}} {
		if _, err := FromLinks(uint32(len(lists)), links(lists)); err == nil {
			t.Errorf("%v: no error", lists)
		}
	}
	if m, err := FromLinks(0, links(nil)); err != nil || m.Nodes() != 0 {
		t.Error(m, err)
	}
}

func TestBuilderMemory(t *testing.T) {
	b := NewBuilder(BuildConfig{Kind: Pages, Sort: extsort.Config{Prefix: filepath.Join(t.TempDir(), "s")}})
	defer b.Close()
	err := errors.Join(b.Page("http://b.example/"), b.Link("http://a.example/"), b.Link("http://b.example/"))
	must.Do(t, err)
	m, names, err := b.Memory()
	if err != nil || !equalLists(listsOf(t, m), [][]uint32{nil, {0}}) ||
		!slices.Equal(names, []string{"http://a.example/", "http://b.example/"}) {
		t.Error(m, names, err)
	}
}

// The part has the links between its nodes and no others.
func TestInduced(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lists := drawLists(rt)
		kept := rapid.SliceOfN(rapid.Bool(), len(lists), len(lists)).Draw(rt, "kept")
		part, nodes, err := Induced(memory(lists), func(node uint32) bool { return kept[node] })
		if err != nil {
			rt.Fatal(err)
		}
		got, want := map[string]bool{}, map[string]bool{}
		for from, l := range listsOf(rt, part) {
			for _, to := range l {
				got[fmt.Sprint(nodes[from], nodes[to])] = true
			}
		}
		n := 0
		for from, l := range lists {
			if kept[from] {
				n++
			}
			for _, to := range l {
				if kept[from] && kept[to] {
					want[fmt.Sprint(from, to)] = true
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || len(nodes) != n || part.Nodes() != uint64(n) ||
			!slices.IsSorted(nodes) {
			rt.Fatalf("got %v of the nodes %v, want %v", got, nodes, want)
		}
	})
}

// The ranks within a part, beside those of the whole graph.
func TestPairs(t *testing.T) {
	// 0 and 1 link to 2; 3 to 8 link to 1. So the whole has 1 above 0, and a part without 3 to 8 has them equal.
	lists := [][]uint32{{2}, {2}, nil, {1}, {1}, {1}, {1}, {1}, {1}}
	whole, err := PageRank(memory(lists), exact)
	must.Do(t, err)
	tau := func(keep func(node uint32) bool) Correlation {
		t.Helper()
		part, nodes, err := Induced(memory(lists), keep)
		must.Do(t, err)
		ranks, err := PageRank(part, exact)
		must.Do(t, err)
		c, err := Kendall(Pairs(whole.Of, ranks.Of, nodes, 9))
		must.Do(t, err)
		return c
	}
	if c := tau(func(uint32) bool { return true }); math.Abs(c.Tau()-1) > 1e-12 || c.Nodes != 9 {
		t.Errorf("the whole graph: %+v", c)
	}
	want := Correlation{Nodes: 3, Pairs: 3, Concordant: 2, TiesB: 1}
	if c := tau(func(node uint32) bool { return node < 3 }); c != want {
		t.Errorf("a part: got %+v, want %+v", c, want)
	}
	if _, _, err := Induced(memory(lists), func(uint32) bool { return false }); err != nil {
		t.Error(err)
	}
}
