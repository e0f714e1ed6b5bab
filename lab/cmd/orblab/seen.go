package main

import (
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// SeenCmd implements "orblab seen".
type SeenCmd struct {
	flags
	lab.Seen
	Billion bool `help:"${billion}"`
}

// Help explains the result.
func (SeenCmd) Help() string {
	return `The stores run one after the other, each as a process of its own, with the same
stream of links, of which one in ten is new. The experiment checks every answer. If
a store that must be exact gives a wrong answer, the exit code is 1.

  orblab seen --quick --out /tmp/lab
  orblab seen --only drum,pebble --keys 20000000 --work /big/disk

The program keeps the text below the marker in NAME.md.`
}

// Run runs the experiment.
func (c *SeenCmd) Run(out io.Writer) error {
	bad := usageErrorf
	switch {
	case c.Keys < 0 || c.Memory < 0 || c.Most < 0 || c.Each < 0 || c.Common < 0:
		return bad("--keys, --memory, --most, --each and --common are above 0")
	case c.Common > 0 && c.Common < 1000:
		return bad("--common %d is too small; give at least 1000", c.Common)
	case c.Keys > 0 && c.Keys < 1000:
		return bad("--keys %d is too small; give at least 1000", c.Keys)
	case c.Keys > 0 && c.Billion:
		return bad("--billion means --keys 1000000000: give one or the other")
	}
	if err := anyOf("--only", c.Stores, lab.StoreNames()); err != nil {
		return err
	}
	if err := anyOf("--shape", c.Shapes, lab.ShapeNames()); err != nil {
		return err
	}
	if err := makeDir(c.Profiles); err != nil {
		return err
	}
	if c.Billion {
		c.Keys = 1e9
	}
	return c.measure(out, false, &c.Seen)
}
