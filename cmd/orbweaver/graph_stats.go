package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/orbweaver/orbweaver/internal/graph"
)

// GraphStatsCmd implements "graph stats".
type GraphStatsCmd struct {
	JSON  bool   `help:"Print one JSON object."`
	Graph string `arg:"" help:"Read this graph file."`
}

// Help explains the table.
func (GraphStatsCmd) Help() string {
	return `The table counts the nodes by the number of their links, and by the number of links
that lead to them. The command reads the whole file, so it also says whether the
file is damaged. It takes 8 bytes of memory a node.`
}

// A graphStats is the JSON of "graph stats".
type graphStats struct {
	Type string `json:"type"` // "graph"
	graphSize
	MeanDegree float64      `json:"mean_degree"`
	Dangling   uint64       `json:"dangling"`
	Unlinked   uint64       `json:"unlinked"`
	SelfLinks  uint64       `json:"self_links"`
	Hosts      uint64       `json:"hosts,omitempty"`
	SameHost   *float64     `json:"same_host_share,omitempty"`
	MostOut    *graphDegree `json:"most_links_out,omitempty"`
	MostIn     *graphDegree `json:"most_links_in,omitempty"`
	Out        []uint64     `json:"nodes_by_links_out"`
	In         []uint64     `json:"nodes_by_links_in"`
}

// A graphDegree is a node with many links.
type graphDegree struct {
	Node  uint32 `json:"node"`
	Name  string `json:"name,omitempty"`
	Links uint32 `json:"links"`
}

// Run prints the counts.
func (c *GraphStatsCmd) Run(out io.Writer) error {
	return untilSignal(func(ctx context.Context) error {
		return withGraph(ctx, c.Graph, func(g *graph.File) error {
			if err := needs("counting the links", c.Graph, g, g.StatsBytes()); err != nil {
				return err
			}
			hosts, err := g.NumberHosts()
			if err != nil {
				return err
			}
			s, err := graph.Measure(g, hosts)
			if err != nil {
				return err
			}
			names, err := graphNames(g, []uint32{s.MaxOut.Node, s.MaxIn.Node})
			if err != nil {
				return err
			}
			r := newGraphStats(g.Info(), s, names)
			if c.JSON {
				return json.NewEncoder(out).Encode(r)
			}
			return r.write(out)
		})
	})
}

func newGraphStats(info graph.Info, s *graph.Stats, names map[uint32]string) *graphStats {
	r := &graphStats{Type: "graph", graphSize: sizeOf(info), Dangling: s.Dangling, Unlinked: s.Unlinked,
		SelfLinks: s.SelfLinks, Hosts: s.Hosts, Out: s.Out, In: s.In}
	if s.Nodes > 0 {
		r.MeanDegree = float64(s.Links) / float64(s.Nodes)
	}
	if s.Links == 0 {
		return r
	}
	if s.Hosts > 0 {
		share := float64(s.SameHost) / float64(s.Links)
		r.SameHost = &share
	}
	for _, m := range []struct {
		d  graph.Degree
		to **graphDegree
	}{{s.MaxOut, &r.MostOut}, {s.MaxIn, &r.MostIn}} {
		*m.to = &graphDegree{Node: m.d.Node, Links: m.d.Degree}
		if info.Named {
			(*m.to).Name = names[m.d.Node]
		}
	}
	return r
}

// write writes the table for people.
func (r *graphStats) write(out io.Writer) error {
	r.print(out)
	fmt.Fprintf(out, "mean        %.2f links a node\ndangling    %s without links\n", r.MeanDegree,
		plural(int64(r.Dangling), "node"))
	fmt.Fprintf(out, "unlinked    %s that no link leads to\n", plural(int64(r.Unlinked), "node"))
	if r.SelfLinks > 0 {
		fmt.Fprintf(out, "self-links  %s\n", whole(float64(r.SelfLinks)))
	}
	if r.SameHost != nil {
		fmt.Fprintf(out, "hosts       %s; %.1f %% of the links stay within a host\n", whole(float64(r.Hosts)),
			100**r.SameHost)
	}
	for _, m := range []struct {
		what string
		d    *graphDegree
	}{{"most out", r.MostOut}, {"most in", r.MostIn}} {
		if m.d != nil {
			name := m.d.Name
			if name == "" {
				name = fmt.Sprintf("node %d", m.d.Node)
			}
			fmt.Fprintf(out, "%-11s %s, %s\n", m.what, plural(int64(m.d.Links), "link"), warcCell(name))
		}
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nlinks\tnodes by links out\tby links in\t\n")
	for i := range max(len(r.Out), len(r.In)) {
		class := "0"
		switch {
		case i == 1:
			class = "1"
		case i > 1:
			class = fmt.Sprintf("%s to %s", whole(float64(uint64(1)<<(i-1))), whole(float64(uint64(1)<<i-1)))
		}
		at := func(counts []uint64) string {
			if i < len(counts) {
				return whole(float64(counts[i]))
			}
			return "0"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", class, at(r.Out), at(r.In))
	}
	return w.Flush()
}
