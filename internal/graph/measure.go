package graph

import "math/bits"

// A Degree is a node and how many links it has.
type Degree struct {
	Node   uint32
	Degree uint32
}

// Stats are what Measure finds.
type Stats struct {
	Nodes, Links uint64
	SelfLinks    uint64
	Dangling     uint64 // nodes without links to others or to themselves
	Unlinked     uint64 // nodes to which no link leads
	MaxOut       Degree // the first node with the most links
	MaxIn        Degree // the first node to which the most links lead
	// Out and In count nodes by degree: 0, 1, 2 to 3, 4 to 7 and so on.
	Out, In []uint64
	// With hosts: Hosts is how many there are, SameHost how many links stay within one.
	Hosts, SameHost uint64
}

// StatsBytes returns how many bytes of memory NumberHosts and Measure take together.
func (g *File) StatsBytes() uint64 {
	if g.hasPages() {
		return 8 * g.info.Nodes
	}
	return 4 * g.info.Nodes
}

// hasPages reports whether the nodes are pages with names.
func (g *File) hasPages() bool { return g.info.Kind == Pages && g.info.Named }

// Measure counts. hosts has for each node a number of its host, ascending from 0; it may be nil. It takes 4 bytes a
// node.
func Measure(g Graph, hosts []uint32) (*Stats, error) {
	s := &Stats{Nodes: g.Nodes()}
	in := make([]uint32, s.Nodes)
	err := g.Links(func(node uint32, to []uint32) error {
		n := uint32(len(to))
		s.Links += uint64(n)
		s.Out = count(s.Out, n)
		if n > s.MaxOut.Degree {
			s.MaxOut = Degree{node, n}
		}
		for _, v := range to {
			in[v]++
			if v == node {
				s.SelfLinks++
			}
			if hosts != nil && hosts[v] == hosts[node] {
				s.SameHost++
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for v, n := range in {
		s.In = count(s.In, n)
		if n > s.MaxIn.Degree {
			s.MaxIn = Degree{uint32(v), n}
		}
	}
	if len(s.Out) > 0 {
		s.Dangling, s.Unlinked = s.Out[0], s.In[0]
	}
	if len(hosts) > 0 {
		s.Hosts = uint64(hosts[len(hosts)-1]) + 1
	}
	return s, nil
}

// count adds a node of a degree to the counts of the classes.
func count(classes []uint64, degree uint32) []uint64 {
	class := bits.Len32(degree)
	for len(classes) <= class {
		classes = append(classes, 0)
	}
	classes[class]++
	return classes
}

// NumberHosts returns for each node of a graph of pages the number of its host, for Measure. It takes 4 bytes a node.
// It is nil if the nodes are not pages with names, or not in the order of a Builder.
func (g *File) NumberHosts() ([]uint32, error) {
	if !g.hasPages() {
		return nil, nil
	}
	hosts := make([]uint32, 0, g.info.Nodes)
	host, order, n, sorted := "", "", uint32(0), true
	err := g.Names(func(_ uint32, name []byte) error {
		if h := hostOf(string(name)); h != host || len(hosts) == 0 {
			o := Reverse(h)
			sorted = sorted && o >= order
			if len(hosts) > 0 {
				n++
			}
			host, order = h, o
		}
		hosts = append(hosts, n)
		return nil
	})
	if !sorted {
		hosts = nil
	}
	return hosts, err
}
