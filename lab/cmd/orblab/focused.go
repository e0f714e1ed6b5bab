package main

import (
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// FocusedCmd implements "orblab focused".
type FocusedCmd struct {
	flags
	lab.Focused
}

// Help explains the result.
func (FocusedCmd) Help() string {
	return `The experiment crawls an encyclopedia and a generated web whose pages have topics,
breadth-first and with --strategy focused, and compares how many of the first pages
are of the wanted topic. It also measures what each kind of evidence adds: the page,
the anchor text, the URL and the host.

  orblab focused --quick --out /tmp/lab`
}

// Run runs the experiment.
func (c *FocusedCmd) Run(out io.Writer) error {
	return c.measure(out, false, &c.Focused)
}
