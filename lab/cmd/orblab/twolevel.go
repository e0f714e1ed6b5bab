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
	lab.TwoLevel
	PageSize *quantity.ByteSize  `name:"page-bytes" placeholder:"BYTES" help:"${twolevel_page_bytes}"`
	Line     *quantity.Bandwidth `name:"bandwidth" placeholder:"RATE" help:"${twolevel_bandwidth}"`
}

// Help explains the result.
func (TwoLevelCmd) Help() string {
	return `The experiment repeats those of the paper on FC2L-UDCbot, a crawler with a
coordinator. It has five parts:

  model     the paper's estimates of up to 300 agents, beside ours (figure 12, Eq. 4)
  coverage  crawls of webs with pages that only other hosts link to, against the truth
  speed     speed with full and with two-level coverage, once all agents crawl (figure 7)
  crawls    speed and overhead with --partition sites and rendezvous, by the number of
            agents and of pages, and the fit of the paper's model (figures 8 to 11)
  fast      one agent at the paper's speed, and as fast as the machine allows

The part model needs no crawls. It uses the crawls if they run, too.

  orblab twolevel --quick --out /tmp/lab
  orblab twolevel --part model`
}

// Run runs the experiment.
func (c *TwoLevelCmd) Run(out io.Writer) error {
	parts := lab.TwoLevelParts()
	for _, p := range c.Parts {
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
	case c.PageSize != nil && (*c.PageSize < 1 || *c.PageSize > 1<<20):
		return usageErrorf("--page-bytes %s: give a size from 1 byte to 1MiB", c.PageSize)
	case c.Hosts < 0 || c.Hosts > 1e6:
		return usageErrorf("--hosts %d: give a number from 1 to 1000000", c.Hosts)
	}
	if c.PageSize != nil {
		c.PageBytes = int(*c.PageSize)
	}
	if c.Line != nil {
		c.Bandwidth = int64(*c.Line)
	}
	crawls := len(c.Parts) == 0
	for _, p := range []string{"coverage", "speed", "crawls", "fast"} {
		crawls = crawls || slices.Contains(c.Parts, p)
	}
	return c.measure(out, crawls, &c.TwoLevel)
}
