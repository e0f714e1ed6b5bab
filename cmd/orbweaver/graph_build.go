package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/graph"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// GraphBuildCmd implements "graph build".
type GraphBuildCmd struct {
	Out       string   `short:"o" help:"${graph_out}" placeholder:"FILE"`
	Hosts     bool     `help:"${graph_hosts}"`
	Visited   bool     `help:"${graph_visited}"`
	SelfLinks bool     `help:"${graph_self}"`
	Kind      []string `help:"${graph_kind}" placeholder:"KIND"`
	Edges     string   `help:"${graph_edges}" placeholder:"FILE"`
	Vertices  string   `help:"${graph_vertices}" placeholder:"FILE"`
	Nodes     uint64   `help:"${graph_nodes}" placeholder:"N"`
	JSON      bool     `help:"Print one JSON object."`
	Dirs      []string `arg:"" optional:"" name:"dir" help:"${graph_dirs}"`
}

// Help explains nodes and memory.
func (GraphBuildCmd) Help() string {
	return `A crawl with --links writes link logs. Each page, and each URL that a page links
to, becomes a node. Several links from one node to another count once. WARC files
are not read.

The sorts take about 300 MB of memory; the rest is in temporary files in $TMPDIR.

  orbweaver graph build --out pages.graph crawl
  orbweaver graph build --out hosts.graph --hosts agent1 agent2 agent3
  orbweaver graph build --out cc.graph --hosts --vertices vertices.txt.gz --edges edges.txt.gz`
}

// A graphBuilt is the JSON of "graph build".
type graphBuilt struct {
	Type string `json:"type"` // "graph-built"
	graphSize
	DamagedLines int64 `json:"damaged_lines,omitempty"`
	DamagedFiles int64 `json:"damaged_files,omitempty"`
}

// check returns an error for flags that do not fit together.
func (c *GraphBuildCmd) check() error {
	const text = "give --edges FILE, too, or leave it out"
	switch {
	case c.Out == "":
		return bad("--out is missing; name the file for the graph")
	case c.Edges == "" && c.Vertices != "":
		return bad("--vertices without --edges; %s", text)
	case c.Edges == "" && c.Nodes > 0:
		return bad("--nodes without --edges; %s", text)
	case c.Edges == "" && len(c.Dirs) == 0:
		return bad("nothing to read: name the directory of a crawl with --links, or a file with --edges")
	case c.Edges != "" && len(c.Dirs) > 0:
		return bad("--edges and the directory %s: give only one of them", c.Dirs[0])
	case c.Edges != "" && (c.Visited || c.SelfLinks || len(c.Kind) > 0):
		return bad("--edges with --visited, --self-links or --kind: leave these out, they are about link logs")
	case c.Nodes > graph.MaxNodes:
		return bad("--nodes %d: give at most %d", c.Nodes, uint64(graph.MaxNodes))
	}
	for _, dir := range c.Dirs {
		if err := hasLinkLog(dir); err != nil {
			return err
		}
	}
	return nil
}

// Run builds the graph.
func (c *GraphBuildCmd) Run(out io.Writer, errs cli.ErrorOutput) error {
	if err := c.check(); err != nil {
		return err
	}
	return untilSignal(func(ctx context.Context) error {
		tmp, err := temporary("orbweaver-graph-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		sort := extsort.Config{Prefix: filepath.Join(tmp, "sort-"), Memory: graphSortMemory, Stop: ctx.Err}
		var info graph.Info
		var d linklog.Damage
		if c.Edges != "" {
			info, err = c.fromText(ctx, sort, newSteps(errs))
		} else {
			info, d, err = c.fromLinkLogs(ctx, sort, newSteps(errs))
		}
		if err != nil {
			return err
		}
		if d.Any() {
			fmt.Fprintf(errs, "orbweaver: the link log is damaged: %s and %s could not be read to their end; "+
				"the first: %s\n", plural(d.Lines, "line"), plural(d.Files, "file"), report.OneLine(d.First))
		}
		r := graphBuilt{"graph-built", sizeOf(info), d.Lines, d.Files}
		if c.JSON {
			return json.NewEncoder(out).Encode(r)
		}
		fmt.Fprintf(out, "graph       %s\n", c.Out)
		r.print(out)
		return nil
	})
}

// fromLinkLogs builds the graph of link logs.
func (c *GraphBuildCmd) fromLinkLogs(ctx context.Context, sort extsort.Config, progress *steps) (info graph.Info,
	d linklog.Damage, err error) {
	config := graph.BuildConfig{Sort: sort, Kind: graph.Pages, Visited: c.Visited, SelfLinks: c.SelfLinks}
	name := func(url string) string { return url }
	if c.Hosts {
		config.Kind = graph.Hosts
		name = graph.ReversedHost
	}
	b := graph.NewBuilder(config)
	defer b.Close()
	pages, links := int64(0), int64(0)
	kinds := map[string]bool{}
	d, err = linklog.Current(disk.OS, c.Dirs, sort,
		func(p *linklog.Page, status, newest bool) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			from := name(p.URL)
			if from == "" || !status && !newest {
				return nil
			}
			pages++
			progress.say("has read %s with %s", plural(pages, "page"), plural(links, "link"))
			if err := b.Page(from); err != nil || !newest {
				return err
			}
			for i := range p.Links {
				l := &p.Links[i]
				kinds[l.Kind] = true
				to := name(l.Target)
				if len(c.Kind) > 0 && !slices.Contains(c.Kind, l.Kind) || to == "" || strings.IndexByte(to, 0) >= 0 {
					continue
				}
				links++
				if err := b.Link(to); err != nil {
					return err
				}
			}
			return nil
		})
	if err != nil {
		return info, d, err
	}
	if pages == 0 {
		where := ""
		if d.Any() {
			where = ": " + report.OneLine(d.First)
		}
		return info, d, bad("the link log of %s has no page%s; name a crawl that has visited pages",
			strings.Join(c.Dirs, ", "), where)
	}
	for _, k := range c.Kind {
		if !kinds[k] {
			return info, d, bad("--kind %q: the link log has no such link; give some of %s", k, someOf(kinds))
		}
	}
	info, err = c.write(config.Kind, func(w *graph.Writer) error {
		progress.say("has read all %s; sorts them", plural(links, "link"))
		return b.Write(w)
	})
	return info, d, err
}

// someOf lists the kinds of links of a link log.
func someOf(kinds map[string]bool) string {
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "another crawl: this one has no links"
	}
	return strings.Join(names, ", ")
}

// fromText builds the graph of text files.
func (c *GraphBuildCmd) fromText(ctx context.Context, sort extsort.Config, progress *steps) (graph.Info, error) {
	b := graph.NewNumbered(sort)
	defer b.Close()
	links := int64(0)
	err := readText(c.Edges, "name a file of edges", func(r io.Reader) error {
		return graph.ReadEdges(r, func(from, to uint32) error {
			if links++; links%4096 == 0 {
				progress.say("has read %s", plural(links, "link"))
				if err := ctx.Err(); err != nil {
					return err
				}
			}
			return b.Link(from, to)
		})
	})
	if err != nil {
		return graph.Info{}, err
	}
	kind := graph.Numbers
	switch {
	case c.Hosts:
		kind = graph.Hosts
	case c.Vertices != "":
		kind = graph.Pages
	case b.Nodes() == 0 && c.Nodes == 0:
		return graph.Info{}, bad("the file %s is empty; name a file of edges, or give the number of nodes with --nodes",
			c.Edges)
	}
	return c.write(kind, func(w *graph.Writer) error {
		nodes := max(b.Nodes(), c.Nodes)
		if c.Vertices != "" {
			named, err := c.name(w)
			if err != nil {
				return err
			}
			if named < nodes {
				return bad("%s has %d nodes, but %s or --nodes has %d; name the vertices of these edges", c.Vertices,
					named, c.Edges, nodes)
			}
			nodes = named
		}
		return b.Write(w, nodes)
	})
}

// name gives the nodes the names of the file of vertices.
func (c *GraphBuildCmd) name(w *graph.Writer) (n uint64, err error) {
	err = readText(c.Vertices, "name a file of vertices", func(r io.Reader) error {
		return graph.ReadVertices(r, func(name []byte) error {
			n++
			return w.Name(name)
		})
	})
	if err == nil && n == 0 {
		err = bad("the file %s is empty; name a file of vertices", c.Vertices)
	}
	return n, err
}

// write writes the graph that fill makes.
func (c *GraphBuildCmd) write(kind graph.Kind, fill func(w *graph.Writer) error) (info graph.Info, err error) {
	err = writeFile("--out", c.Out, func(out io.Writer) error {
		w, err := graph.NewWriter(out, kind)
		if err == nil {
			err = fill(w)
		}
		if err == nil {
			info, err = w.Finish()
		}
		return err
	})
	return info, err
}

// GraphExportCmd implements "graph export".
type GraphExportCmd struct {
	Vertices string `help:"Write the names of the nodes to FILE, compressed if it ends in .gz." placeholder:"FILE"`
	Edges    string `help:"Write the links to FILE, compressed if it ends in .gz." placeholder:"FILE"`
	Graph    string `arg:"" help:"Read this graph file."`
}

// Help explains the files.
func (GraphExportCmd) Help() string {
	return `The files have the form of Common Crawl's web graphs. Numbers begin with 0:

  vertices  number of the node, tab, its URL or its reversed host
  edges     number of the node, tab, number of the node to which it links

  orbweaver graph export --vertices vertices.txt.gz --edges edges.txt.gz hosts.graph`
}

// Run writes the files.
func (c *GraphExportCmd) Run(errs cli.ErrorOutput) error {
	if c.Vertices == "" && c.Edges == "" {
		return bad("nothing to write: give --vertices FILE, --edges FILE or both")
	}
	return untilSignal(func(ctx context.Context) error {
		return withGraph(ctx, c.Graph, func(g *graph.File) error {
			if c.Vertices != "" && !g.Info().Named {
				return bad("--vertices: the nodes of %s have no names; leave it out", c.Graph)
			}
			return exportGraph(g, c.Vertices, c.Edges, newSteps(errs))
		})
	})
}
