package main

import (
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// RingCmd implements "orblab ring".
type RingCmd struct {
	flags
	Hosts  *int64 `placeholder:"N" help:"Divide up to N hosts (default: 10000000, quick 200000)."`
	Agents *int64 `placeholder:"N" help:"Divide them among up to N agents (default: 1000, quick 100)."`
	Sets   *int64 `placeholder:"N" help:"Try N sets of agent names (default: 50, quick 5)."`
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
	x := &lab.Ring{}
	for _, f := range []struct {
		name        string
		given       *int64
		least, most int64
		to          *int64
	}{
		{"hosts", c.Hosts, 1, 1e9, &x.Hosts},
		{"agents", c.Agents, 2, 1000, &x.Agents},
		{"sets", c.Sets, 1, 1e6, &x.Sets},
	} {
		if f.given == nil {
			continue
		}
		if *f.to = *f.given; *f.to < f.least || *f.to > f.most {
			return bad("--%s %d: give a number from %d to %d", f.name, *f.to, f.least, f.most)
		}
	}
	return c.measure(out, false, x)
}
