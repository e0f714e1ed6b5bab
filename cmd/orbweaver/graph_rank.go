package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/graph"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// GraphPagerankCmd implements "graph pagerank".
type GraphPagerankCmd struct {
	Damping    float64           `help:"${graph_damping}" default:"${damping}" placeholder:"P"`
	Tolerance  float64           `help:"${graph_tolerance}" default:"${tolerance}" placeholder:"X"`
	Iterations int               `help:"${graph_iterations}" default:"${iterations}" placeholder:"N"`
	Top        int               `help:"${graph_top}" default:"20" placeholder:"N"`
	Memory     quantity.ByteSize `help:"${graph_memory}" default:"1GB" placeholder:"BYTES"`
	Out        string            `short:"o" help:"${graph_ranks_out}" placeholder:"FILE"`
	JSON       bool              `help:"Print one JSON object."`
	Graph      string            `arg:"" help:"Read this graph file."`
}

// Help explains the method.
func (GraphPagerankCmd) Help() string {
	return `A surfer follows a random link of a node with the probability --damping, and
otherwise jumps to any node. From a node without links the surfer always jumps. The
PageRank of a node is the share of time that the surfer spends there. With the
defaults, no graph needs more than 90 iterations.

The file of --out has the rank, a tab and the name of each node.

  orbweaver graph pagerank pages.graph
  orbweaver graph pagerank --out ranks.tsv.gz pages.graph`
}

// A graphRanks is the JSON of "graph pagerank".
type graphRanks struct {
	Type       string       `json:"type"` // "pagerank"
	Nodes      uint64       `json:"nodes"`
	Links      uint64       `json:"links"`
	Damping    float64      `json:"damping"`
	Tolerance  float64      `json:"tolerance"`
	Iterations int          `json:"iterations"`
	Change     float64      `json:"change"`
	Converged  bool         `json:"converged"`
	Top        []rankedNode `json:"top"`
}

// A rankedNode is a node with its rank.
type rankedNode struct {
	Rank float64 `json:"rank"`
	Node uint32  `json:"node"`
	Name string  `json:"name"`
}

func (c *GraphPagerankCmd) check() error {
	switch {
	case !(c.Damping >= 0 && c.Damping < 1):
		return bad("--damping %v: give a number from 0 up to less than 1, such as 0.85", c.Damping)
	case !(c.Tolerance >= 0):
		return bad("--tolerance %v: give 0 or more, such as 1e-6", c.Tolerance)
	case c.Iterations < 1:
		return bad("--iterations %d: give 1 or more", c.Iterations)
	case c.Top < 0 || c.Top > 1e6:
		return bad("--top %d: give 0 to 1000000", c.Top)
	}
	return checkOutput("--out", c.Out, c.Graph)
}

// Run computes the ranks.
func (c *GraphPagerankCmd) Run(out io.Writer, errs cli.ErrorOutput) error {
	if err := c.check(); err != nil {
		return err
	}
	return untilSignal(func(ctx context.Context) error {
		return withGraph(ctx, c.Graph, func(g *graph.File) error {
			ranks, err := c.compute(ctx, g, errs)
			if err != nil {
				return err
			}
			if c.Out != "" {
				if err := c.write(g, ranks); err != nil {
					return err
				}
			}
			if !ranks.Converged {
				fmt.Fprintf(errs, "orbweaver: the ranks still changed by %.3g in the last of %s; for more exact ranks "+
					"raise --iterations\n", ranks.Change, plural(int64(ranks.Iterations), "iteration"))
			}
			r, err := c.answer(g, ranks)
			if err != nil {
				return err
			}
			if c.JSON {
				return json.NewEncoder(out).Encode(r)
			}
			return r.print(out)
		})
	})
}

// compute computes the ranks, with the links in memory if they fit.
func (c *GraphPagerankCmd) compute(ctx context.Context, g *graph.File, errs io.Writer) (*graph.Ranks, error) {
	progress := newSteps(errs)
	links := graph.Graph(g)
	ranks := graph.RankBytes(g.Nodes())
	if err := needs("ranking them", c.Graph, g, ranks); err != nil {
		return nil, err
	}
	if n := g.MemoryBytes(); n <= uint64(c.Memory) && ranks+n <= uint64(memory()) {
		m, err := g.Load()
		if err != nil {
			return nil, err
		}
		links = m
	} else {
		fmt.Fprintf(errs, "orbweaver: the links would take %s of memory; reads the file in each iteration\n",
			size(float64(g.MemoryBytes())))
	}
	found, err := graph.PageRank(stoppable{links, ctx}, graph.RankConfig{
		Damping: c.Damping, Tolerance: c.Tolerance, Iterations: c.Iterations,
		Step: func(n int, change float64) error {
			progress.say("iteration %d of at most %d: the ranks changed by %.3g", n, c.Iterations, change)
			return ctx.Err()
		},
	})
	if errors.Is(err, graph.ErrEmpty) {
		return nil, bad("the graph %s has no nodes; name a graph of pages or hosts", c.Graph)
	}
	return found, err
}

// write writes the ranks of all nodes.
func (c *GraphPagerankCmd) write(g *graph.File, ranks *graph.Ranks) error {
	return writeText("--out", c.Out, func(w *bufio.Writer) error {
		var line []byte
		if !g.Info().Named {
			for node, rank := range ranks.Of {
				line = graph.AppendRank(line[:0], rank, strconv.AppendInt(nil, int64(node), 10))
				if _, err := w.Write(line); err != nil {
					return err
				}
			}
			return nil
		}
		return g.Names(func(node uint32, name []byte) error {
			line = graph.AppendRank(line[:0], ranks.Of[node], name)
			_, err := w.Write(line)
			return err
		})
	})
}

// answer finds the nodes with the highest ranks, of equal ones the first.
func (c *GraphPagerankCmd) answer(g *graph.File, ranks *graph.Ranks) (*graphRanks, error) {
	r := &graphRanks{Type: "pagerank", Nodes: g.Nodes(), Links: g.Info().Links, Damping: c.Damping,
		Tolerance: c.Tolerance, Iterations: ranks.Iterations, Change: ranks.Change, Converged: ranks.Converged,
		Top: []rankedNode{}}
	for node, rank := range ranks.Of {
		n := len(r.Top)
		if n == c.Top && (n == 0 || rank <= r.Top[n-1].Rank) {
			continue
		}
		at, _ := slices.BinarySearchFunc(r.Top, rank, func(t rankedNode, rank float64) int {
			if t.Rank >= rank {
				return -1
			}
			return 1
		})
		r.Top = slices.Insert(r.Top[:min(n, c.Top-1)], at, rankedNode{Rank: rank, Node: uint32(node)})
	}
	var nodes []uint32
	for _, t := range r.Top {
		nodes = append(nodes, t.Node)
	}
	names, err := graphNames(g, nodes)
	for i, t := range r.Top {
		r.Top[i].Name = names[t.Node]
	}
	return r, err
}

func (r *graphRanks) print(out io.Writer) error {
	fmt.Fprintf(out, "%s, %s; %s, last change %.2g\n", plural(int64(r.Nodes), "node"), plural(int64(r.Links), "link"),
		plural(int64(r.Iterations), "iteration"), r.Change)
	if len(r.Top) > 0 {
		fmt.Fprintf(out, "\n%12s  NODE\n", "RANK")
	}
	for _, t := range r.Top {
		if _, err := fmt.Fprintf(out, "%12.6g  %s\n", t.Rank, warcCell(t.Name)); err != nil {
			return err
		}
	}
	return nil
}

// GraphTauCmd implements "graph tau".
type GraphTauCmd struct {
	Digits int    `help:"${graph_digits}" placeholder:"N"`
	JSON   bool   `help:"Print one JSON object."`
	First  string `arg:"" help:"Read ranks from this file, plain or gzip."`
	Second string `arg:"" help:"Compare them with the ranks of this file."`
}

// Help explains tau.
func (GraphTauCmd) Help() string {
	return `Both files have a rank, a tab and the name of a node on each line, as "graph
pagerank --out" writes them. The command compares the nodes that are in both files,
and prints Kendall's tau-b: 1 if both files have them in the same order, -1 if the
order is reversed. It is exact, also with equal ranks.

PageRanks of two nodes that should be equal may differ in their last digits. If
that matters, use --digits 6. The nodes of both files take 40 bytes of memory each.

  orbweaver graph tau global.tsv science.tsv`
}

// A graphTau is the JSON of "graph tau".
type graphTau struct {
	Type       string  `json:"type"` // "kendall-tau"
	Tau        float64 `json:"tau_b"`
	Nodes      int64   `json:"nodes"`
	OnlyFirst  int64   `json:"only_first"`
	OnlySecond int64   `json:"only_second"`
	Concordant int64   `json:"concordant"`
	Discordant int64   `json:"discordant"`
	TiesFirst  int64   `json:"ties_first"`
	TiesSecond int64   `json:"ties_second"`
	TiesBoth   int64   `json:"ties_both"`
}

// Run compares.
func (c *GraphTauCmd) Run(out io.Writer, errs cli.ErrorOutput) error {
	if c.Digits < 0 || c.Digits > 17 {
		return bad("--digits %d: give 1 to 17, or 0 to compare the ranks as they are", c.Digits)
	}
	return untilSignal(func(ctx context.Context) error {
		tmp, err := temporary("orbweaver-graph-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		j := graph.NewJoiner(extsort.Config{Prefix: filepath.Join(tmp, "sort-"), Memory: graphSortMemory,
			Stop: ctx})
		defer j.Close()
		j.Digits, j.Most = c.Digits, int(memory()/graph.KendallBytes)
		var nodes [2]int64
		in := reading(ctx, errs, disk.OS, c.First, c.Second)
		for i, name := range []string{c.First, c.Second} {
			err := readText(in, name, "name a file of \"graph pagerank --out\"", func(r io.Reader) (err error) {
				nodes[i], err = j.Read(byte(i), r)
				return err
			})
			if err != nil {
				return err
			}
		}
		defer sayLater(errs, "compares %s", plural(min(nodes[0], nodes[1]), "node"))()
		pairs, err := j.Pairs()
		if errors.Is(err, graph.ErrMemory) {
			return bad("%s, %s: more than %s are in both files, and each takes %d bytes of memory; there are %s; "+
				"compare fewer nodes, or use a machine with more memory", c.First, c.Second,
				plural(int64(j.Most), "node"), graph.KendallBytes, size(float64(memory())))
		}
		if twice, ok := errors.AsType[*graph.FormatError](err); ok {
			return bad("%s, %s: %s", c.First, c.Second, twice.Text)
		}
		if err != nil {
			return err
		}
		k, err := graph.Kendall(pairs)
		if err != nil {
			return bad("%s, %s: %v, so tau is undefined; name other files", c.First, c.Second, err)
		}
		r := graphTau{"kendall-tau", k.Tau(), k.Nodes, nodes[0] - k.Nodes, nodes[1] - k.Nodes, k.Concordant,
			k.Discordant, k.TiesA, k.TiesB, k.TiesBoth}
		if c.JSON {
			return json.NewEncoder(out).Encode(r)
		}
		fmt.Fprintf(out, "tau-b       %.6f\nnodes       %d; only in the first file %d, only in the second %d\n", r.Tau,
			r.Nodes, r.OnlyFirst, r.OnlySecond)
		_, err = fmt.Fprintf(out, "pairs       %d in the same order, %d reversed\n"+
			"ties        %d in the first file, %d in the second, %d in both\n", r.Concordant, r.Discordant, r.TiesFirst,
			r.TiesSecond, r.TiesBoth)
		return err
	})
}
