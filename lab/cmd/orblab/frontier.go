package main

import (
	"fmt"
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// FrontierCmd is "lab frontier".
type FrontierCmd struct {
	flags
	Hosts int64 `placeholder:"N" help:"Hosts with links that wait (default: 1000000, quick 20000)."`
	Links int64 `placeholder:"N" help:"Links that wait at the end (default: 20 for each host)."`
	Full  bool  `help:"10 million hosts and 200 million links."`
}

// Help says what comes out.
func (FrontierCmd) Help() string {
	return `Links are pushed until so many wait; at each step pushes and pops are measured, in
virtual time. Then whales, crowds and shared addresses try to slow the others: less
than 0.95 of what politeness allows ends the experiment with exit code 1.

  orblab frontier --quick --out /tmp/lab
  orblab frontier --full --work /big/disk`
}

// Run measures.
func (c *FrontierCmd) Run(out io.Writer) error {
	hosts, links := c.Hosts, c.Links
	again := "orblab frontier"
	switch {
	case hosts < 0 || links < 0 || hosts >= 1e8 || links >= 1e9:
		return usageErrorf("--hosts and --links are above 0, and below 100 million and a billion")
	case c.Full && (hosts > 0 || links > 0):
		return usageErrorf("--full is --hosts 10000000 --links 200000000")
	case c.Full:
		hosts, links = 10_000_000, 200_000_000
		again += " --full"
	}
	if c.Quick {
		again += " --quick"
	}
	if c.Seed != 1 {
		again += fmt.Sprintf(" --seed %d", c.Seed)
	}
	if c.Hosts > 0 {
		again += fmt.Sprintf(" --hosts %d", hosts)
	}
	if c.Links > 0 {
		again += fmt.Sprintf(" --links %d", links)
	}
	return c.measure(out, false, &lab.Frontier{Hosts: hosts, Links: links, Again: again})
}
