package main

import (
	"io"
	"slices"

	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/lab"
)

// ScalingCmd implements "orblab scaling".
type ScalingCmd struct {
	flags
	lab.Scaling
	Line *quantity.Bandwidth `name:"bandwidth" placeholder:"RATE" help:"Limit the line of each agent to RATE (default: 4Mbit)."`
}

// Help explains the result.
func (ScalingCmd) Help() string {
	return `1 to 16 agents crawl one web together, each with its own limited line. The result is
how many pages each agent fetches, and how many links it sends to other agents.

  orblab scaling --quick --out /tmp/lab`
}

// Run runs the experiment.
func (c *ScalingCmd) Run(out io.Writer) error {
	bad := usageErrorf
	switch {
	case c.Runs < 0 || c.Measured < 0:
		return bad("--runs and --duration: give values above 0")
	case len(c.Agents) > 0 && (slices.Min(c.Agents) < 1 || slices.Max(c.Agents) > 64):
		return bad("--agents %v: give numbers from 1 to 64", c.Agents)
	}
	if c.Line != nil {
		c.Bandwidth = int64(*c.Line)
	}
	return c.measure(out, true, &c.Scaling)
}
