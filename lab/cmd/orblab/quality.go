package main

import (
	"fmt"
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// QualityCmd is "lab quality".
type QualityCmd struct {
	flags
	Graph string `default:"../shared/data/graph" placeholder:"FILE|DIR" help:"The links: a line \"from TAB to\" each, by number of page, perhaps in gzip; or the folder with one *.tsv.gz."`
	Draws int64  `placeholder:"N" help:"Sets of seeds (default: 20, quick 2)."`
	Seeds int64  `placeholder:"N" help:"Pages in each (default: 10)."`
}

// Help says what comes out.
func (QualityCmd) Help() string {
	return `A real link graph is crawled in several orders, without a network and in virtual
time: breadth-first, host by host, as this crawler would, at random. What comes out
is the mean indegree of the pages fetched so far, with 1, 4 and 16 agents.

  orblab quality --quick --out /tmp/lab`
}

// Run measures.
func (c *QualityCmd) Run(out io.Writer) error {
	if c.Draws < 0 || c.Seeds < 0 {
		return usageErrorf("--draws and --seeds are above 0")
	}
	again := "orblab quality"
	add := func(told bool, format string, value any) {
		if told {
			again += fmt.Sprintf(" "+format, value)
		}
	}
	add(c.Quick, "%s", "--quick")
	add(c.Seed != 1, "--seed %d", c.Seed)
	add(c.Draws > 0, "--draws %d", c.Draws)
	add(c.Seeds > 0, "--seeds %d", c.Seeds)
	return c.measure(out, false, &lab.Quality{Graph: c.Graph, Draws: c.Draws, Seeds: c.Seeds, Again: again})
}
