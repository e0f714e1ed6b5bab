package main

import (
	"io"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/lab"
)

// TwoLevelCmd implements "orblab twolevel".
type TwoLevelCmd struct {
	flags
	Part      []string            `placeholder:"PART" help:"${twolevel_part}"`
	Agents    []int               `placeholder:"N" help:"${twolevel_agents}"`
	Pages     []int64             `placeholder:"N" help:"${twolevel_pages}"`
	PageBytes *quantity.ByteSize  `placeholder:"BYTES" help:"${twolevel_page_bytes}"`
	Bandwidth *quantity.Bandwidth `placeholder:"RATE" help:"${twolevel_bandwidth}"`
	Hosts     int64               `placeholder:"N" help:"${twolevel_hosts}"`
}

// Help explains the result.
func (TwoLevelCmd) Help() string {
	return `The experiment repeats those of the paper on FC2L-UDCbot, a crawler with a
coordinator. It has four parts:

  model     the paper's estimates of up to 300 agents, beside ours (figure 12, Eq. 4)
  coverage  crawls of webs with pages that only other hosts link to, against the truth
  crawls    speed and overhead with --partition sites and rendezvous, by the number of
            agents and of pages, and the fit of the paper's model (figures 7 to 11)
  fast      one agent at the paper's speed, and as fast as the machine allows

The part model needs no crawls. It uses the crawls if they run, too.

  orblab twolevel --quick --out /tmp/lab
  orblab twolevel --part model`
}

// Run runs the experiment.
func (c *TwoLevelCmd) Run(out io.Writer) error {
	parts := lab.TwoLevelParts()
	for _, p := range c.Part {
		if !slices.Contains(parts, p) {
			return usageErrorf("--part %q: give %s", p, strings.Join(parts, ", "))
		}
	}
	switch {
	case len(c.Agents) > 0 && (slices.Min(c.Agents) < 1 || slices.Max(c.Agents) > 64):
		return usageErrorf("--agents %v: give numbers from 1 to 64", c.Agents)
	case len(c.Agents) > 0 && c.Agents[0] != 1:
		return usageErrorf("--agents %v: begin with 1, with which the others are compared", c.Agents)
	case len(c.Pages) > 0 && (slices.Min(c.Pages) < 1 || slices.Max(c.Pages) > 1e9 || !slices.IsSorted(c.Pages)):
		return usageErrorf("--pages %v: give numbers from 1 to 1000000000, from low to high", c.Pages)
	case c.PageBytes != nil && (*c.PageBytes < 1 || *c.PageBytes > 1<<20):
		return usageErrorf("--page-bytes %s: give a size from 1 byte to 1MiB", c.PageBytes)
	case c.Hosts < 0 || c.Hosts > 1e6:
		return usageErrorf("--hosts %d: give a number from 1 to 1000000", c.Hosts)
	}
	x := &lab.TwoLevel{Parts: c.Part, Agents: c.Agents, Pages: c.Pages, Hosts: c.Hosts}
	if c.PageBytes != nil {
		x.PageBytes = int(*c.PageBytes)
	}
	if c.Bandwidth != nil {
		x.Bandwidth = int64(*c.Bandwidth)
	}
	crawls := len(c.Part) == 0
	for _, p := range []string{"coverage", "crawls", "fast"} {
		crawls = crawls || slices.Contains(c.Part, p)
	}
	return c.measure(out, crawls, x)
}
