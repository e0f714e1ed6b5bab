package lab

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Profiled is a profile of a crawl: the tree of its processor time, and its pages.
type Profiled struct {
	Name  string // of the program
	Tree  *Node
	Pages int64
}

// page returns a node's time per page, in microseconds, or 0 if there is no such node.
func (p *Profiled) page(path ...string) float64 {
	n := p.Tree
	for _, name := range path {
		if n = n.find(name); n == nil {
			return 0
		}
	}
	return float64(n.Time) / float64(time.Microsecond) / float64(max(p.Pages, 1))
}

func (n *Node) find(name string) *Node {
	for _, k := range n.Kids {
		if k.Name == name {
			return k
		}
	}
	return nil
}

// Compare returns a table of several trees side by side, two levels deep, in microseconds per
// page. It omits nodes that take less than the share least in each tree.
func Compare(ps []Profiled, least float64) *Table {
	t := &Table{Columns: []Column{{Name: "where"}}}
	for _, p := range ps {
		t.Columns = append(t.Columns, Column{Name: p.Name, Unit: "µs", Digits: 1})
	}
	if len(ps) == 2 {
		t.Columns = append(t.Columns, Column{Name: "difference", Unit: "µs", Digits: 1})
	}
	add := func(name string, path ...string) {
		row := []any{name}
		for _, p := range ps {
			row = append(row, p.page(path...))
		}
		if len(ps) == 2 {
			row = append(row, ps[1].page(path...)-ps[0].page(path...))
		}
		t.Add(row...)
	}
	for _, pkg := range branches(ps, least) {
		add(pkg, pkg)
		for _, work := range branches(ps, least, pkg) {
			add(indent+work, pkg, work)
		}
	}
	add("all")
	return t
}

// indent precedes the names of the second level. Markdown would drop ordinary spaces.
var indent = strings.Repeat("\u00a0", 4)

// branches returns the names below path in any of the trees, the largest first.
func branches(ps []Profiled, least float64, path ...string) []string {
	most := map[string]float64{}
	for i := range ps {
		p := &ps[i]
		n := p.Tree
		for _, name := range path {
			if n = n.find(name); n == nil {
				break
			}
		}
		if n == nil {
			continue
		}
		for _, k := range n.Kids {
			v := p.page(append(slices.Clone(path), k.Name)...)
			if v >= least*p.page() {
				most[k.Name] = max(most[k.Name], v)
			}
		}
	}
	var names []string
	for name := range most {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(most[b], most[a]), cmp.Compare(a, b)) })
	return names
}
