package main

import (
	"io"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/lab"
)

// ScalingCmd implements "orblab scaling".
type ScalingCmd struct {
	flags
	Agents    []int               `placeholder:"N" help:"${scaling_agents}"`
	Bandwidth *quantity.Bandwidth `placeholder:"RATE" help:"Limit the line of each agent to RATE (default: 4Mbit)."`
	Runs      int                 `placeholder:"N" help:"Run each number of agents N times (default: 3, quick 1)."`
	Duration  time.Duration       `placeholder:"D" help:"Measure D of each run (default: 25s, quick 4s)."`
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
	case c.Runs < 0 || c.Duration < 0:
		return bad("--runs and --duration: give values above 0")
	case len(c.Agents) > 0 && (slices.Min(c.Agents) < 1 || slices.Max(c.Agents) > 64):
		return bad("--agents %v: give numbers from 1 to 64", c.Agents)
	}
	x := &lab.Scaling{Agents: c.Agents, Runs: c.Runs, Measured: c.Duration}
	if c.Bandwidth != nil {
		x.Bandwidth = int64(*c.Bandwidth)
	}
	return c.measure(out, true, x)
}
