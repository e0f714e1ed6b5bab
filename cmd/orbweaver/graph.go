package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/graph"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// graphHelp holds the help texts of "graph".
var graphHelp = cli.Texts{
	"graph_hosts": "Make the nodes hosts, not pages. With --edges: the names are reversed hosts.",
	"graph_visited": "Leave out pages (with --hosts: hosts) that the crawl has not visited, and the links to them " +
		"(default: keep them).",
	"graph_self": "Keep the links of a node to itself (default: leave them out).",
	"graph_kind": "Read only the links of this kind, such as a@href or redirect; \"links\" lists the kinds. " +
		"Repeatable (default: all kinds).",
	"graph_edges": "Read the links from this text file instead of a crawl: two node numbers and a tab between " +
		"them a line; plain or gzip.",
	"graph_vertices": "Read the names of the nodes from this text file: number, tab, name a line, in the order of " +
		"the numbers from 0; plain or gzip (default: no names). Needs --edges.",
	"graph_nodes": "Make at least N nodes (default: as many as the vertices, or up to the largest number of a link). " +
		"Needs --edges.",
	"graph_dirs": "Read the link logs of these crawl directories, such as those of all agents, or of stores; " +
		"without a " +
		"link log, the WARC files of these crawls. Or read these WARC files, or those of these directories " +
		"(default: ./crawl).",
	"graph_requisites": "Of WARC files, also read the links to the images, styles and scripts that a page needs.",
	"graph_out":        "Write the graph to FILE, whose directory is created if needed.",
	"graph_damping":    "Follow a link with this probability, from 0 up to less than 1; otherwise jump to any node.",
	"graph_tolerance":  "Stop when the ranks, which sum up to 1, have changed by at most this in an iteration.",
	"graph_iterations": "Stop after N iterations at most.",
	"graph_top":        "Print the N nodes with the highest ranks.",
	"graph_memory": "Keep the links in memory if they take at most this; otherwise read the file in each " +
		"iteration. The ranks take 16 bytes a node besides.",
	"graph_ranks_out": "Write the ranks of all nodes to FILE, compressed if it ends in .gz.",
	"graph_digits":    "Round the ranks to N significant digits before they are compared (default: 0, do not round).",
}

// graphSortMemory is how many bytes of RAM each of the two sorts takes that run at a time.
const graphSortMemory = 64 << 20

// GraphCmd implements "graph".
type GraphCmd struct {
	Build    GraphBuildCmd    `cmd:"" help:"Make a graph file from link logs, WARC files or text files."`
	Stats    GraphStatsCmd    `cmd:"" help:"Print the size and the degrees of a graph."`
	Pagerank GraphPagerankCmd `cmd:"" help:"Compute the PageRank of all nodes."`
	Tau      GraphTauCmd      `cmd:"" help:"Compare two lists of ranks by Kendall's tau."`
	Export   GraphExportCmd   `cmd:"" help:"Write a graph as text files of vertices and edges."`
}

// Help shows the commands together.
func (GraphCmd) Help() string {
	return `The nodes of a graph are the pages of a crawl, or their hosts.

  orbweaver crawl --links --contact you@example.org https://example.org/
  orbweaver graph build --out pages.graph crawl
  orbweaver graph pagerank --out ranks.tsv pages.graph
  orbweaver graph tau ranks.tsv other.tsv`
}

// withGraph calls fn with an open graph file, and makes errors of the file clear to users. The end of ctx ends the
// reading of the file.
func withGraph(ctx context.Context, name string, fn func(g *graph.File) error) error {
	g, err := graph.Open(disk.OS, name)
	if err == nil {
		defer g.Close()
		g.Stop = ctx
		err = fn(g)
	} else if _, ok := errors.AsType[*graph.FormatError](err); !ok {
		return unreadable("the graph "+name, name, err, "make one with \"graph build\"")
	}
	if damage, ok := errors.AsType[*graph.FormatError](err); ok {
		return bad("the graph %s: %s; make one with \"graph build\"", name, damage.Text)
	}
	return err
}

// memory returns how much memory this process can have. Tests replace it.
var memory = cli.Memory

// needs returns an error if a graph is too large for the memory that this process can have. what takes need bytes.
func needs(what, name string, g *graph.File, need uint64) error {
	have := memory()
	if need <= uint64(have) {
		return nil
	}
	return bad("the graph %s has %s, and %s takes %s of memory; there are %s; use a machine with more memory, or "+
		"make a smaller graph, such as one of hosts with \"graph build --hosts\"", name,
		plural(int64(g.Nodes()), "node"), what, size(float64(need)), size(float64(have)))
}

// A stoppable is a graph whose reading ends with a context.
type stoppable struct {
	graph.Graph
	ctx context.Context
}

// Links calls fn for each node.
func (s stoppable) Links(fn func(node uint32, to []uint32) error) error {
	return s.Graph.Links(func(node uint32, to []uint32) error {
		if node%4096 == 0 {
			if err := s.ctx.Err(); err != nil {
				return err
			}
		}
		return fn(node, to)
	})
}

// readText calls fn with the content of a text file, plain or gzip. remedy says what file to name.
func readText(fsys disk.FS, name, remedy string, fn func(r io.Reader) error) error {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return unreadable("the file "+name, name, err, remedy)
	}
	defer f.Close()
	r, err := unpacked("the file "+name, f)
	if err != nil {
		return bad("%v; %s", err, remedy)
	}
	err = fn(r)
	wrong, is := errors.AsType[*graph.FormatError](err)
	switch {
	case is:
		return bad("%s, %s", name, wrong.Text)
	case errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF):
		return bad("the file %s: %v; the gzip file is damaged; %s", name, cause(err), remedy)
	case err != nil && isDirectory(name):
		return unreadable("the file "+name, name, err, remedy)
	}
	return err
}

// unpacked returns a reader of a text file, plain or gzip. what names it for an error.
func unpacked(what string, file io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(file, 1<<20)
	if magic, _ := in.Peek(2); string(magic) != "\x1f\x8b" {
		return in, nil
	}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, bad("%s: %v; the file is damaged", what, err)
	}
	return z, nil
}

// checkOutput returns an error for a file to write that a flag names, if it is a directory, or one of the files that
// the command reads or writes otherwise.
func checkOutput(flag, name string, others ...string) error {
	if isDirectory(name) {
		return bad("%s %s is a directory; name a file", flag, name)
	}
	for _, other := range others {
		if name != "" && other != "" && sameFile(name, other) {
			return bad("%s %s is the file %s of the same command; name another file", flag, name, other)
		}
	}
	return nil
}

// sameFile reports whether two names mean the same file.
func sameFile(a, b string) bool {
	x, errA := os.Stat(a)
	y, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(x, y) || filepath.Clean(a) == filepath.Clean(b)
}

func isDirectory(name string) bool {
	st, err := os.Stat(name)
	return err == nil && st.IsDir()
}

// writeFile writes a file that a flag names, all of it or nothing. What is no regular file gets the bytes as they come.
func writeFile(flag, name string, fn func(w io.Writer) error) error {
	err := disk.OS.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = disk.WriteOutput(disk.OS, name, fn)
	}
	if wrong, ok := errors.AsType[*input.ConfigError](err); ok {
		return wrong // the content is wrong, not the file to write
	}
	return refused(flag+" "+name, name, err)
}

// writeText writes a text file that a flag names, compressed if it ends in .gz.
func writeText(flag, name string, fn func(w *bufio.Writer) error) error {
	return writeFile(flag, name, func(out io.Writer) error {
		var z *gzip.Writer
		if strings.HasSuffix(name, ".gz") {
			z = gzip.NewWriter(out)
			out = z
		}
		w := bufio.NewWriterSize(out, 1<<20)
		err := fn(w)
		if err == nil {
			err = w.Flush()
		}
		if err == nil && z != nil {
			err = z.Close()
		}
		return err
	})
}

// A graphSize is the JSON of the size of a graph.
type graphSize struct {
	Kind         string  `json:"kind"`
	Nodes        uint64  `json:"nodes"`
	Links        uint64  `json:"links"`
	Bytes        int64   `json:"bytes"`
	BitsPerLink  float64 `json:"bits_per_link,omitempty"`
	BytesPerName float64 `json:"bytes_per_name,omitempty"`
}

func sizeOf(i graph.Info) graphSize {
	s := graphSize{Kind: i.Kind.String(), Nodes: i.Nodes, Links: i.Links, Bytes: i.NameBytes + i.LinkBytes}
	if i.Links > 0 {
		s.BitsPerLink = 8 * float64(i.LinkBytes) / float64(i.Links)
	}
	if i.Named && i.Nodes > 0 {
		s.BytesPerName = float64(i.NameBytes) / float64(i.Nodes)
	}
	return s
}

func (s graphSize) print(out io.Writer) {
	kind := s.Kind
	if kind == graph.Numbers.String() {
		kind = "nodes without names"
	}
	fmt.Fprintf(out, "nodes       %s %s\nlinks       %s\nsize        %s", whole(float64(s.Nodes)), kind,
		whole(float64(s.Links)), size(float64(s.Bytes)))
	if s.Links > 0 {
		fmt.Fprintf(out, "; %.2f bits a link", s.BitsPerLink)
	}
	if s.BytesPerName > 0 {
		fmt.Fprintf(out, "; %.1f bytes a name", s.BytesPerName)
	}
	fmt.Fprintln(out)
}
