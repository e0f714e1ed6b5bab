package main

import (
	"fmt"
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// RingCmd implements "orblab ring".
type RingCmd struct {
	flags
	Hosts  int64 `placeholder:"N" help:"Divide up to N hosts (default: 10000000, quick 200000)."`
	Agents int64 `placeholder:"N" help:"Divide them among up to N agents (default: 1000, quick 100)."`
	Sets   int64 `placeholder:"N" help:"Try N sets of agent names (default: 50, quick 5)."`
}

// Help explains the result.
func (RingCmd) Help() string {
	return `The experiment measures two ways to assign hosts to 2 to 1,000 agents: how evenly
they divide the hosts, the time of a look-up and of a change of the agents, and which
hosts move.

  orblab ring --quick --out /tmp/lab`
}

// Run runs the experiment.
func (c *RingCmd) Run(out io.Writer) error {
	bad := usageErrorf
	switch {
	case c.Hosts < 0 || c.Agents < 0 || c.Sets < 0:
		return bad("--hosts, --agents and --sets: give values above 0")
	case c.Hosts > 1e9:
		return bad("--hosts %d is too large; give at most a billion", c.Hosts)
	case c.Agents == 1 || c.Agents > 1000:
		return bad("--agents %d: give a number from 2 to 1000", c.Agents)
	}
	again := "orblab ring"
	add := func(told bool, format string, value any) {
		if told {
			again += fmt.Sprintf(" "+format, value)
		}
	}
	add(c.Quick, "%s", "--quick")
	add(c.Seed != 1, "--seed %d", c.Seed)
	add(c.Hosts > 0, "--hosts %d", c.Hosts)
	add(c.Agents > 0, "--agents %d", c.Agents)
	add(c.Sets > 0, "--sets %d", c.Sets)
	return c.measure(out, false, &lab.Ring{Hosts: c.Hosts, Agents: c.Agents, Sets: c.Sets, Again: again})
}
