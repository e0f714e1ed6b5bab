package main

import (
	"io"
	"time"

	"github.com/orbweaver/orbweaver/lab"
)

// FreshnessCmd implements "orblab freshness".
type FreshnessCmd struct {
	flags
	lab.Freshness
}

// Help explains the result.
func (FreshnessCmd) Help() string {
	return `The pages of a generated web change at known rates. The experiment crawls the web
with --strategy recrawl, and again with as many visits at one fixed interval. The
web reports the share of up-to-date copies and the age of the others. The two
crawls take DAYS times DAY each.

  orblab freshness --quick --out /tmp/lab`
}

// Run runs the experiment.
func (c *FreshnessCmd) Run(out io.Writer) error {
	switch {
	case c.Hosts < 0 || c.Day < 0 || c.Days < 0:
		return usageErrorf("--hosts, --day and --days: give values above 0")
	case c.Day > 0 && c.Day < 100*time.Millisecond:
		return usageErrorf("--day %s is too short for a crawl to keep up; give at least 100ms", c.Day)
	case c.Days > 0 && c.Days < 4:
		return usageErrorf("--days %d is too small; give at least 4", c.Days)
	}
	return c.measure(out, true, &c.Freshness)
}
