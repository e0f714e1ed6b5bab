package main

import (
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// RateCmd implements "orblab rate".
type RateCmd struct {
	flags
}

// Help explains the result.
func (RateCmd) Help() string {
	return `Agents crawl a web with --rate, while orders change the rate, agents join and die, and
servers are slow. The web counts the requests. It takes about eight minutes; --quick leaves out most crawls.

  orblab rate --quick --out /tmp/lab`
}

// Run runs the experiment.
func (c *RateCmd) Run(out io.Writer) error {
	return c.measure(out, true, &lab.Speed{})
}
