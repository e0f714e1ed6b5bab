package main

import (
	"io"
	"slices"

	"github.com/orbweaver/orbweaver/lab"
)

// LinksCmd implements "orblab links".
type LinksCmd struct {
	flags
	Agents []int `placeholder:"N" help:"${links_agents}"`
	Hosts  int64 `placeholder:"N" help:"${links_hosts}"`
}

// Help explains the result.
func (LinksCmd) Help() string {
	return `Several agents crawl one web to the end. The result is how many links and bytes they
send to each other for each page, at several shares of the web's pages, and a model of
ways to send fewer.

  orblab links --quick --out /tmp/lab`
}

// Run runs the experiment.
func (c *LinksCmd) Run(out io.Writer) error {
	switch {
	case c.Hosts < 0:
		return usageErrorf("--hosts %d: give a number above 0", c.Hosts)
	case len(c.Agents) > 0 && (slices.Min(c.Agents) < 2 || slices.Max(c.Agents) > 64):
		return usageErrorf("--agents %v: give numbers from 2 to 64", c.Agents)
	}
	again := "orblab links"
	add := flagsOf(&again)
	add(c.Quick, "%s", "--quick")
	add(c.Seed != 1, "--seed %d", c.Seed)
	for _, n := range c.Agents {
		add(true, "--agents %d", n)
	}
	add(c.Hosts > 0, "--hosts %d", c.Hosts)
	return c.measure(out, true, &lab.Links{Agents: c.Agents, Hosts: c.Hosts, Again: again})
}
