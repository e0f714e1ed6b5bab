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
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/warclinks"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/web/parse"
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
		logs, err := linklog.Files(disk.OS, dir)
		if err == nil && len(logs) > 0 {
			logged = dir
			continue
		}
		archived = dir
		more, err := warcFiles(errs, []string{dir})
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			return nil, bad("%s: the archive is empty; name a crawl that has visited pages", dir)
		}
		if isCrawlDir(dir) {
			fmt.Fprintf(errs, "orbweaver: the crawl in %s has no link log; reads its WARC files\n", dir)
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
	files, err := c.archives(errs)
	if err != nil {
		return err
	}
	return untilSignal(func(ctx context.Context) error {
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
			source := c.linkLogs(sort, &r)
			if len(files) > 0 {
				source = c.archived(ctx, files, sort, progress, &r)
			}
			info, err = c.fromPages(ctx, source, sort, progress)
			if err == nil {
				r.warn(errs, source.first)
			}
		}
		if err != nil {
			return err
		}
		r.graphSize = sizeOf(info)
		if c.JSON {
			return json.NewEncoder(out).Encode(r)
		}
		fmt.Fprintf(out, "graph       %s\n", c.Out)
		r.print(out)
		return nil
	})
}

// A pageSource calls fn for the pages of a crawl, as linklog.Current does.
type pageSource struct {
	name string // for messages: what is read
	of   string // for messages: "NAME of DIRS has"
	read func(fn func(p *linklog.PageLine, status, links bool) error) error
	// first describes the first damage, after read; "" if there is none.
	first string
}

// linkLogs returns the pages of the link logs. It notes their damage in r.
func (c *GraphBuildCmd) linkLogs(sort extsort.Config, r *graphBuilt) *pageSource {
	s := &pageSource{name: "the link log", of: "the link log of " + strings.Join(c.Dirs, ", ") + " has"}
	s.read = func(fn func(p *linklog.PageLine, status, links bool) error) error {
		d, err := linklog.Current(disk.OS, c.Dirs, sort, fn)
		r.DamagedLines, r.DamagedFiles, s.first = d.Lines, d.Files, d.First
		return err
	}
	return s
}

// archived returns the pages of WARC files. It notes in r what cannot be read.
func (c *GraphBuildCmd) archived(ctx context.Context, files []string, sort extsort.Config, progress *steps,
	r *graphBuilt) *pageSource {
	s := &pageSource{name: "the archive", of: "the WARC files have"}
	s.read = func(fn func(p *linklog.PageLine, status, links bool) error) error {
		res, err := warclinks.Read(ctx, files, warclinks.Config{
			Sort: sort, Parse: parse.Options{Requisites: c.Requisites},
			Step: func(done, total int64) {
				progress.say("has read %s of %s (the files, twice)", size(float64(done)), size(float64(total)))
			},
		}, fn)
		r.DamagedPlaces, r.NoOriginal, r.Incomplete, s.first = res.Damaged, res.NoOriginal, res.Cut, res.First
		if wrong, ok := errors.AsType[*fs.PathError](err); ok {
			return noWARC(wrong.Path, wrong)
		}
		return err
	}
	return s
}

// fromPages builds the graph of pages.
func (c *GraphBuildCmd) fromPages(ctx context.Context, source *pageSource, sort extsort.Config, progress *steps) (
	info graph.Info, err error) {
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
	err = source.read(func(p *linklog.PageLine, status, newest bool) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := name(p.URL)
		if from == "" || !status && !newest {
			return nil
		}
		if status {
			pages++
		}
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
		return info, err
	}
	if pages == 0 {
		where := ""
		if source.first != "" {
			where = ": " + report.OneLine(source.first)
		}
		return info, bad("%s no page%s; name a crawl that has visited pages", source.of, where)
	}
	for _, k := range c.Kind {
		if !kinds[k] {
			return info, bad("--kind %q: %s has no such link; give some of %s", k, source.name, someOf(kinds))
		}
	}
	return c.write(config.Kind, func(w *graph.Writer) error {
		progress.say("has read all %s; sorts them", plural(links, "link"))
		return b.Write(w)
	})
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
