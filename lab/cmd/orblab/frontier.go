package main

import (
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// FrontierCmd implements "orblab frontier".
type FrontierCmd struct {
	flags
	Hosts int64 `placeholder:"N" help:"Queue links of N hosts (default: 1000000, quick 20000)."`
	Links int64 `placeholder:"N" help:"Queue N links in all (default: 20 per host)."`
	Full  bool  `help:"Queue 200 million links of 10 million hosts."`
}

// Help explains the result.
func (FrontierCmd) Help() string {
	return `The experiment fills the frontier with links, and at each step measures pushes and
pops in virtual time. If a link comes out twice or out of order, the exit code is 1.

  orblab frontier --quick --out /tmp/lab
  orblab frontier --full --work /big/disk`
}

// Run runs the experiment.
func (c *FrontierCmd) Run(out io.Writer) error {
	hosts, links := c.Hosts, c.Links
	switch {
	case hosts < 0 || links < 0 || hosts >= 1e8 || links >= 1e9:
		return usageErrorf("--hosts and --links: give values above 0, less than 100 million hosts and a billion links")
	case c.Full && (hosts > 0 || links > 0):
		return usageErrorf("--full means --hosts 10000000 --links 200000000: give one or the other")
	case c.Full:
		hosts, links = 10_000_000, 200_000_000
	}
	return c.measure(out, false, &lab.Frontier{Hosts: hosts, Links: links})
}
