package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/graph"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/output/wacz"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/weblinks"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// GraphBuildCmd implements "graph build".
type GraphBuildCmd struct {
	Out        string   `short:"o" help:"${graph_out}" placeholder:"FILE"`
	Hosts      bool     `help:"${graph_hosts}"`
	Visited    bool     `help:"${graph_visited}"`
	SelfLinks  bool     `help:"${graph_self}"`
	Kind       []string `help:"${graph_kind}" placeholder:"KIND"`
	Requisites bool     `help:"${graph_requisites}"`
	Edges      string   `help:"${graph_edges}" placeholder:"FILE"`
	Vertices   string   `help:"${graph_vertices}" placeholder:"FILE"`
	Nodes      uint64   `help:"${graph_nodes}" placeholder:"N"`
	JSON       bool     `help:"Print one JSON object."`
	Dirs       []string `arg:"" optional:"" name:"path" help:"${graph_dirs}"`

	in *crawls.FS // of Dirs
}

// Help explains nodes and memory.
func (GraphBuildCmd) Help() string {
	return `Each page, and each URL that a page links to, becomes a node. Several links from one
node to another count once. The command reads the link logs of crawls with --links.
Without a link log it reads the pages in the WARC files of the crawl, or of another
crawler: this takes longer.

The command takes up to about 300 MB of memory; the rest is in temporary files in
$TMPDIR.

  orbweaver graph build --out pages.graph crawl
  orbweaver graph build --out hosts.graph --hosts agent1 agent2 agent3
  orbweaver graph build --out pages.graph *.warc.gz
  orbweaver graph build --out cc.graph --hosts \
    --vertices vertices.txt.gz --edges edges.txt.gz`
}

// A graphBuilt is the JSON of "graph build".
type graphBuilt struct {
	Type string `json:"type"` // "graph-built"
	graphSize
	// Of link logs:
	DamagedLines int64 `json:"damaged_lines,omitempty"`
	DamagedFiles int64 `json:"damaged_files,omitempty"`
	// Of WARC files:
	DamagedPlaces int64 `json:"damaged_places,omitempty"`
	NoOriginal    int64 `json:"no_original,omitempty"`
	Incomplete    int64 `json:"incomplete_pages,omitempty"`
}

// warn says what could not be read. first describes the first damage.
func (r *graphBuilt) warn(errs io.Writer, first string) {
	if r.DamagedLines+r.DamagedFiles > 0 {
		fmt.Fprintf(errs, "orbweaver: the link log is damaged: %s and %s could not be read to their end; "+
			"the first: %s\n", plural(r.DamagedLines, "line"), plural(r.DamagedFiles, "file"), report.OneLine(first))
	}
	if r.DamagedPlaces > 0 {
		fmt.Fprintf(errs, "orbweaver: the WARC files are damaged: %s could not be read; the first: %s\n",
			plural(r.DamagedPlaces, "place"), report.OneLine(first))
	}
	if r.NoOriginal > 0 {
		fmt.Fprintf(errs, "orbweaver: %s without links, because these are revisit records whose originals are in none "+
			"of the files; name the WARC files that have them, too\n", plural(r.NoOriginal, "page"))
	}
	if r.Incomplete > 0 {
		fmt.Fprintf(errs, "orbweaver: %s with only a part of the links, because the body is too long or damaged\n",
			plural(r.Incomplete, "page"))
	}
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
	case c.Edges != "" && len(c.Dirs) > 0:
		return bad("--edges and the directory %s: give only one of them", c.Dirs[0])
	case c.Edges != "" && (c.Visited || c.SelfLinks || c.Requisites || len(c.Kind) > 0):
		return bad("--edges with --visited, --self-links, --requisites or --kind: leave these out; they are " +
			"about crawls")
	case c.Nodes > graph.MaxNodes:
		return bad("--nodes %d: give at most %d", c.Nodes, uint64(graph.MaxNodes))
	}
	return checkOutput("--out", c.Out, append(c.Dirs, c.Edges, c.Vertices)...)
}

// archives returns the WARC files to read: none if the crawl directories have link logs.
func (c *GraphBuildCmd) archives(errs io.Writer) (files []string, err error) {
	logged, archived := "", ""
	for _, dir := range c.Dirs {
		if has, err := weblinks.HasLog(c.in, dir); has && err == nil {
			logged = dir
			continue
		}
		archived = dir
		more, err := warcFiles(c.in, errs, []string{dir})
		if err != nil {
			return nil, err
		}
		switch {
		case len(more) == 0:
			return nil, bad("%s: the archive is empty; name a crawl that has visited pages", dir)
		case wacz.Is(dir) && slices.Contains(more, dir):
			return nil, bad("%s: graph build opens no WACZ; unpack it, and name its WARC files", dir)
		}
		if is, err := c.in.IsCrawlDir(dir); is && err == nil {
			fmt.Fprintf(errs, "orbweaver: the crawl in %s has no link log; reads its WARC files\n", crawls.Name(dir))
		}
		files = append(files, more...)
	}
	switch {
	case logged != "" && archived != "":
		return nil, bad("%s has a link log and %s has none; give only crawls with a link log, or only WARC files, "+
			"such as %s", logged, archived, filepath.Join(logged, "archive"))
	case logged != "" && c.Requisites:
		return nil, bad("--requisites: the link log of %s has the links that the crawl has read; leave it out", logged)
	}
	return files, checkOutput("--out", c.Out, files...)
}

// Run builds the graph.
func (c *GraphBuildCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) error {
	if c.Edges == "" {
		c.Dirs = given.dirs(c.Dirs)
	}
	if err := c.check(); err != nil {
		return err
	}
	return untilSignal(func(ctx context.Context) (err error) {
		if c.in, err = openInputs(ctx, c.Dirs); err != nil {
			return err
		}
		files, err := c.archives(errs)
		if err != nil {
			return err
		}
		tmp, err := temporary("orbweaver-graph-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		sort := extsort.Config{Prefix: filepath.Join(tmp, "sort-"), Memory: graphSortMemory, Stop: ctx}
		progress := newSteps(errs)
		r := graphBuilt{Type: "graph-built"}
		var info graph.Info
		if c.Edges != "" {
			info, err = c.fromText(ctx, sort, progress)
		} else {
			info, err = c.fromPages(ctx, files, sort, progress, &r, errs)
		}
		if err != nil {
			return err
		}
		if r.graphSize = sizeOf(info); c.JSON {
			err = json.NewEncoder(out).Encode(r)
		} else {
			fmt.Fprintf(out, "graph       %s\n", c.Out)
			r.print(out)
		}
		if err == nil && r.DamagedLines+r.DamagedFiles+r.DamagedPlaces > 0 {
			err = &exitError{code: exitOther}
		}
		return err
	})
}

// fromPages builds the graph of pages.
func (c *GraphBuildCmd) fromPages(ctx context.Context, files []string, sort extsort.Config, progress *steps,
	r *graphBuilt, errs io.Writer) (graph.Info, error) {
	info, res, err := weblinks.Build(ctx, weblinks.Config{FS: c.in, Dirs: c.Dirs, Files: files, Sort: sort,
		Requisites: c.Requisites, Hosts: c.Hosts, Visited: c.Visited, SelfLinks: c.SelfLinks, Kind: c.Kind,
		Progress: progress}, c)
	of, has := "the link log", "the link log of "+strings.Join(c.Dirs, ", ")+" has"
	if len(files) > 0 {
		of, has = "the archive", "the WARC files have"
	}
	if _, none := errors.AsType[*weblinks.NoPageError](err); none {
		return info, bad("%s %v; name a crawl that has visited pages", has, err)
	}
	if e, ok := errors.AsType[*weblinks.KindError](err); ok {
		return info, bad("--kind %q: %s has no such link; give some of %s", e.Kind, of, someOf(e.Have))
	}
	if wrong, ok := errors.AsType[*fs.PathError](err); ok && len(files) > 0 && slices.Contains(files, wrong.Path) {
		return info, noWARC(wrong.Path, wrong)
	}
	if err == nil {
		r.DamagedLines, r.DamagedFiles, r.DamagedPlaces = res.DamagedLines, res.DamagedFiles, res.DamagedPlaces
		r.NoOriginal, r.Incomplete = res.NoOriginal, res.Incomplete
		r.warn(errs, res.First)
	}
	return info, err
}

// someOf lists the kinds of links of a link log.
func someOf(kinds map[string]bool) string {
	names := slices.Sorted(maps.Keys(kinds))
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
	err := readText(disk.OS, c.Edges, "name a file of edges", func(r io.Reader) error {
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
	return c.WriteGraph(kind, func(w *graph.Writer) error {
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
	err = readText(disk.OS, c.Vertices, "name a file of vertices", func(r io.Reader) error {
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

// WriteGraph writes the graph that fill makes.
func (c *GraphBuildCmd) WriteGraph(kind graph.Kind, fill func(w *graph.Writer) error) (info graph.Info, err error) {
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

  orbweaver graph export --vertices vertices.txt.gz \
    --edges edges.txt.gz hosts.graph`
}

// Run writes the files.
func (c *GraphExportCmd) Run(errs cli.ErrorOutput) error {
	if c.Vertices == "" && c.Edges == "" {
		return bad("nothing to write: give --vertices FILE, --edges FILE or both")
	}
	err := checkOutput("--vertices", c.Vertices, c.Graph, c.Edges)
	if err == nil {
		err = checkOutput("--edges", c.Edges, c.Graph)
	}
	if err != nil {
		return err
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
