package gen

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
)

// A Graph is a link graph in memory. It takes 4 bytes for each link and 4 for each node (compressed sparse rows).
type Graph struct {
	ends []uint32 // for each node, the end of its links in to
	to   []uint32
}

// maxGraph is the largest number of nodes, and of links.
const maxGraph = 1 << 28

// OpenGraph reads a file in the format of ReadGraph, which may be compressed with gzip. The error names the file.
func OpenGraph(name string) (*Graph, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<16)
	var in io.Reader = r
	if magic, _ := r.Peek(2); string(magic) == "\x1f\x8b" {
		if in, err = gzip.NewReader(r); err != nil {
			return nil, fmt.Errorf("graph %s: %w", name, err)
		}
	}
	g, err := ReadGraph(in)
	if err != nil {
		return nil, fmt.Errorf("graph %s: %w", name, err)
	}
	return g, nil
}

// ReadGraph reads a graph as lines of text. Each line is a link: the number of the node where it starts, a tab, and the
// number of the node to which it leads. The lines must be sorted by the first number. An error names the link.
func ReadGraph(r io.Reader) (*Graph, error) {
	g := &Graph{}
	nodes := uint32(0)
	in := bufio.NewReaderSize(r, 1<<16)
	number := func(end byte) (n uint32, err error) {
		for digits := 0; ; digits++ {
			c, err := in.ReadByte()
			switch {
			case err != nil && (err != io.EOF || end != '\n' || digits == 0):
				return 0, err
			case err != nil || c == end && digits > 0:
				return n, nil
			case c < '0' || c > '9' || digits > 8:
				return 0, fmt.Errorf("link %d: not two numbers with a tab between them", len(g.to)+1)
			}
			n = n*10 + uint32(c-'0')
		}
	}
	for {
		from, err := number('\t')
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		to, err := number('\n')
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if from >= maxGraph || to >= maxGraph || len(g.to) >= maxGraph {
			return nil, fmt.Errorf("link %d: more than %d nodes or links", len(g.to)+1, maxGraph)
		}
		if int(from) < len(g.ends)-1 {
			return nil, fmt.Errorf("link %d: the links are not sorted by their first number", len(g.to)+1)
		}
		for len(g.ends) <= int(from) {
			g.ends = append(g.ends, uint32(len(g.to)))
		}
		g.to = append(g.to, to)
		g.ends[from] = uint32(len(g.to))
		nodes = max(nodes, from+1, to+1)
	}
	if nodes == 0 {
		return nil, errors.New("the graph has no links")
	}
	for len(g.ends) < int(nodes) {
		g.ends = append(g.ends, uint32(len(g.to)))
	}
	g.ends, g.to = slices.Clip(g.ends), slices.Clip(g.to)
	return g, nil
}

// Nodes returns the number of nodes.
func (g *Graph) Nodes() int { return len(g.ends) }

// Links returns the number of links.
func (g *Graph) Links() int { return len(g.to) }

// Out returns the nodes to which a node links. The caller must not change them.
func (g *Graph) Out(node uint32) []uint32 {
	from := uint32(0)
	if node > 0 {
		from = g.ends[node-1]
	}
	return g.to[from:g.ends[node]]
}

// A division assigns numbered pages to hosts: the nodes of a graph, or those of a TextWeb. Each host has a range of
// them. Graphs are numbered by URL, and so most neighbours belong to the same host.
type division struct {
	first []uint32 // for each host its first page; at the end the number of pages
	host  []uint32 // for each page its host, to save time; nil: it is searched
}

// place returns the host of a page, and its number in the host.
func (d *division) place(page uint32) (host, n int64) {
	if d.host != nil {
		host = int64(d.host[page])
	} else {
		host = int64(sort.Search(len(d.first), func(h int) bool { return d.first[h] > page })) - 1
	}
	return host, int64(page - d.first[host])
}

// divide divides the graph into about Spec.Hosts hosts.
func (w *Web) divide() {
	nodes := w.spec.Graph.Nodes()
	d := &w.division
	d.host = make([]uint32, 0, nodes)
	for h := int64(0); len(d.host) < nodes; h++ {
		d.first = append(d.first, uint32(len(d.host)))
		for n := min(int(w.sizes.size(h)), nodes-len(d.host)); n > 0; n-- {
			d.host = append(d.host, uint32(h))
		}
	}
	w.spec.Hosts = int64(len(d.first))
	d.first = append(d.first, uint32(nodes))
}

// given appends the links that a page has in the graph or in the library.
func (w *Web) given(host, page int64, dst []Ref) []Ref {
	d := &w.division
	from := d.first[host] + uint32(page)
	var list []uint32
	if w.texts != nil {
		list = w.texts.appendLinks(nil, from)
	} else {
		list = w.spec.Graph.Out(from)
	}
	for _, to := range list {
		ref := Ref{form: absolute, number: loose}
		ref.Host, ref.Page = d.place(to)
		if ref.Host == host {
			ref.form = formOf(uint64(to))
		}
		dst = append(dst, ref)
	}
	return dst
}
