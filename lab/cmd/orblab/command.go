package main

import (
	"io"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/lab"
)

// A command is that of an experiment whose fields are its flags.
type command[E any] struct {
	flags
	Experiment E `embed:""`
}

// Run runs the experiment.
func (c *command[E]) Run(out io.Writer) error {
	e := any(&c.Experiment).(lab.Experiment)
	crawls, err := check(e)
	if err != nil {
		return err
	}
	return c.measure(out, crawls, e)
}

// check refuses values that make no sense. crawls says whether the experiment runs orbweaver.
func check(e lab.Experiment) (crawls bool, err error) {
	switch x := e.(type) {
	case *lab.Quality:
		if x.Draws < 0 || x.Seeds < 0 {
			return false, usageErrorf("--draws and --seeds: give values above 0")
		}
		return false, nil
	case *lab.Freshness:
		switch {
		case x.Hosts < 0 || x.Day < 0 || x.Days < 0:
			err = usageErrorf("--hosts, --day and --days: give values above 0")
		case x.Day > 0 && x.Day < 100*time.Millisecond:
			err = usageErrorf("--day %s is too short for a crawl to keep up; give at least 100ms", x.Day)
		case x.Days > 0 && x.Days < 4:
			err = usageErrorf("--days %d is too small; give at least 4", x.Days)
		}
		return true, err
	case *lab.Scaling:
		switch {
		case x.Runs < 0 || x.Measured < 0:
			err = usageErrorf("--runs and --duration: give values above 0")
		case len(x.Agents) > 0 && (slices.Min(x.Agents) < 1 || slices.Max(x.Agents) > 64):
			err = usageErrorf("--agents %v: give numbers from 1 to 64", x.Agents)
		}
		return true, err
	case *lab.Speed:
		return true, nil
	}
	return false, nil
}

// Help explains the result.
func (c *command[E]) Help() string {
	switch any(&c.Experiment).(type) {
	case *lab.Near:
		return `The experiment compares three detectors of near-duplicates, odd sketches, MinHash
and SimHash, with the exact similarity of pages: versions of Debian's llvm-13-doc
to llvm-16-doc, and copies in generated webs with a known rate of edits.

  orblab near --quick --out /tmp/lab`
	case *lab.Focused:
		return `The experiment crawls an encyclopedia and a generated web whose pages have topics,
breadth-first and with --strategy focused, and compares how many of the first pages
are of the wanted topic. It also measures what each kind of evidence adds: the page,
the anchor text, the URL and the host.

  orblab focused --quick --out /tmp/lab`
	case *lab.Quality:
		return `The experiment crawls a real link graph in several orders, without a network and in
virtual time: breadth-first, host by host, like this crawler, at random. The result
is the mean number of inlinks of the pages fetched so far, with 1, 4 and 16 agents.

  orblab quality --quick --out /tmp/lab`
	case *lab.Freshness:
		return `The pages of a generated web change at known rates. The experiment crawls the web
with --strategy recrawl, and again with as many visits at one fixed interval. The
web reports the share of up-to-date copies and the age of the others. The two
crawls take DAYS times DAY each.

  orblab freshness --quick --out /tmp/lab`
	case *lab.Speed:
		return `Agents crawl a web with --rate, while orders change the rate, agents join and die, and
servers are slow. The web counts the requests. It takes about eight minutes; --quick leaves out most crawls.

  orblab rate --quick --out /tmp/lab`
	case *lab.Scaling:
		return `1 to 16 agents crawl one web together, each with its own limited line. The result is
how many pages each agent fetches, and how many links it sends to other agents.

  orblab scaling --quick --out /tmp/lab`
	}
	return ""
}
