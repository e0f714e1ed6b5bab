package main

import (
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// QualityCmd implements "orblab quality".
type QualityCmd struct {
	flags
	lab.Quality
}

// Help explains the result.
func (QualityCmd) Help() string {
	return `The experiment crawls a real link graph in several orders, without a network and in
virtual time: breadth-first, host by host, like this crawler, at random. The result
is the mean number of inlinks of the pages fetched so far, with 1, 4 and 16 agents.

  orblab quality --quick --out /tmp/lab`
}

// Run runs the experiment.
func (c *QualityCmd) Run(out io.Writer) error {
	if c.Draws < 0 || c.Seeds < 0 {
		return usageErrorf("--draws and --seeds: give values above 0")
	}
	return c.measure(out, false, &c.Quality)
}
