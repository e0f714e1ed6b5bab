package graph

// A Memory is a graph in memory: 4 bytes a link and 4 a node.
type Memory struct {
	degrees []uint32
	to      []uint32
}

// Load reads the links into memory.
func (g *File) Load() (*Memory, error) {
	// A damaged trailer may claim too many links. Graphs with more links than bits are rare.
	room := min(g.info.Links, 8*uint64(g.info.LinkBytes))
	m := &Memory{degrees: make([]uint32, 0, g.info.Nodes), to: make([]uint32, 0, room)}
	err := g.Links(func(_ uint32, to []uint32) error {
		m.Add(to)
		return nil
	})
	return m, err
}

// MemoryBytes returns how many bytes Load takes.
func (g *File) MemoryBytes() uint64 { return 4 * (g.info.Nodes + g.info.Links) }

// Add adds a node with its links: node numbers, ascending, each once.
func (m *Memory) Add(to []uint32) {
	m.degrees = append(m.degrees, uint32(len(to)))
	m.to = append(m.to, to...)
}

// Nodes returns the number of nodes.
func (m *Memory) Nodes() uint64 { return uint64(len(m.degrees)) }

// Links calls fn for each node, in the order of their numbers, with its links. fn must not change them. Links returns
// the first error of fn.
func (m *Memory) Links(fn func(node uint32, to []uint32) error) error {
	rest := m.to
	for x, n := range m.degrees {
		if err := fn(uint32(x), rest[:n:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}
