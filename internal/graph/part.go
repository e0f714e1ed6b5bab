package graph

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
)

// FromLinks returns the graph of links between node numbers below nodes, in any order. A link that comes several times
// counts once. It takes 8 bytes a link besides the graph.
func FromLinks(nodes uint32, links iter.Seq2[uint32, uint32]) (*Memory, error) {
	var all []uint64
	for from, to := range links {
		if from >= nodes || to >= nodes {
			return nil, damaged("a link from node %d to node %d, but there are %d nodes", from, to, nodes)
		}
		all = append(all, uint64(from)<<32|uint64(to))
	}
	slices.Sort(all)
	all = slices.Compact(all)
	m := &Memory{degrees: make([]uint32, nodes), to: make([]uint32, 0, len(all))}
	for _, l := range all {
		m.degrees[l>>32]++
		m.to = append(m.to, uint32(l))
	}
	return m, nil
}

// Memory returns the graph and the names of its nodes in memory. The Builder is then empty.
func (b *Builder) Memory() (m *Memory, names []string, err error) {
	var out bytes.Buffer
	w, err := NewWriter(&out, b.c.Kind)
	if err == nil {
		err = b.Write(w)
	}
	if err == nil {
		_, err = w.Finish()
	}
	if err != nil {
		return nil, nil, err
	}
	g, err := NewFile(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		return nil, nil, err
	}
	err = g.Names(func(_ uint32, name []byte) error {
		names = append(names, string(name))
		return nil
	})
	if err == nil {
		m, err = g.Load()
	}
	return m, names, err
}

// Induced returns a part of a graph: the nodes for which keep returns true, and all links between them. nodes has, for
// each node of the part, its number in g, ascending. It calls keep once for each node of g. It takes 4 bytes a node of
// g besides the part.
func Induced(g Graph, keep func(node uint32) bool) (part *Memory, nodes []uint32, err error) {
	const out = MaxNodes // no node has this number
	number := make([]uint32, g.Nodes())
	for i := range number {
		if number[i] = out; keep(uint32(i)) {
			number[i] = uint32(len(nodes))
			nodes = append(nodes, uint32(i))
		}
	}
	part = new(Memory)
	var list []uint32
	err = g.Links(func(node uint32, to []uint32) error {
		if number[node] == out {
			return nil
		}
		list = list[:0]
		for _, v := range to {
			if number[v] != out {
				list = append(list, number[v])
			}
		}
		part.Add(list)
		return nil
	})
	return part, nodes, err
}

// Pairs returns, for Kendall, the ranks of the nodes of a part in the whole graph (A) and in the part (B). nodes is
// that of Induced. If digits is not zero, both are rounded to so many significant digits: ranks that should be equal
// may differ in their last digits.
func Pairs(whole, part []float64, nodes []uint32, digits int) []Pair {
	pairs := make([]Pair, len(nodes))
	for i, node := range nodes {
		pairs[i] = Pair{round(whole[node], digits), round(part[i], digits)}
	}
	return pairs
}

// round rounds a rank to so many significant digits, if digits is not zero.
func round(rank float64, digits int) float64 {
	if digits == 0 {
		return rank
	}
	rank, _ = strconv.ParseFloat(strconv.FormatFloat(rank, 'e', digits-1, 64), 64)
	return rank
}
