package main

import (
	"fmt"
	"io"
	"time"

	"github.com/orbweaver/orbweaver/lab"
)

// FreshnessCmd is "lab freshness".
type FreshnessCmd struct {
	flags
	Hosts int64         `placeholder:"N" help:"${hosts}"`
	Day   time.Duration `placeholder:"D" help:"${day}"`
	Days  int64         `placeholder:"N" help:"${days}"`
}

// Help says what comes out.
func (FreshnessCmd) Help() string {
	return `A made-up web changes at known rates. It is crawled with --strategy recrawl, and
again with as many visits at one fixed interval. The web says what share of the
copies was up to date, and how old the others were. It takes twice the crawl's
time: DAYS times DAY.

  orblab freshness --quick --out /tmp/lab`
}

// Run measures.
func (c *FreshnessCmd) Run(out io.Writer) error {
	switch {
	case c.Hosts < 0 || c.Day < 0 || c.Days < 0:
		return usageErrorf("--hosts, --day and --days are above 0")
	case c.Day > 0 && c.Day < 100*time.Millisecond:
		return usageErrorf("--day %s: at least 100ms, or no crawl keeps up", c.Day)
	case c.Days > 0 && c.Days < 4:
		return usageErrorf("--days %d: at least 4", c.Days)
	}
	again := "orblab freshness"
	add := func(told bool, format string, value any) {
		if told {
			again += fmt.Sprintf(" "+format, value)
		}
	}
	add(c.Quick, "%s", "--quick")
	add(c.Seed != 1, "--seed %d", c.Seed)
	add(c.Hosts > 0, "--hosts %d", c.Hosts)
	add(c.Day > 0, "--day %s", c.Day)
	add(c.Days > 0, "--days %d", c.Days)
	return c.measure(out, true, &lab.Freshness{Hosts: c.Hosts, Day: c.Day, Days: c.Days, Again: again})
}
