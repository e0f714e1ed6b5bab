package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/lab"
)

// SeenCmd implements "orblab seen".
type SeenCmd struct {
	flags
	Only       []string      `placeholder:"STORE" help:"Measure only these stores: ${stores}."`
	Shape      []string      `placeholder:"SHAPE" help:"Measure only these shapes of the stream: uniform, zipf."`
	Keys       int64         `placeholder:"N" help:"Measure up to N known keys (default: 100000000, quick 1000000)."`
	Billion    bool          `help:"${billion}"`
	Memory     int64         `placeholder:"BYTES" help:"${store_memory}"`
	Most       int64         `placeholder:"BYTES" help:"Stop a store that takes more than BYTES of memory (default: 8 GB)."`
	CPUProfile string        `name:"cpuprofile" placeholder:"DIR" help:"Write a processor profile of the last measurement of each store to DIR."`
	Each       time.Duration `placeholder:"D" help:"${each}"`
	Common     int64         `placeholder:"N" help:"${common}"`
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
	for _, s := range c.Only {
		if !slices.Contains(lab.StoreNames(), s) {
			return bad("--only %s: not one of %s", s, strings.Join(lab.StoreNames(), ", "))
		}
	}
	for _, s := range c.Shape {
		if !slices.Contains(lab.ShapeNames(), s) {
			return bad("--shape %s: not one of %s", s, strings.Join(lab.ShapeNames(), ", "))
		}
	}
	if c.CPUProfile != "" {
		if err := os.MkdirAll(c.CPUProfile, 0o755); err != nil {
			return fmt.Errorf("cpuprofile: %w", err)
		}
	}
	keys := c.Keys
	if c.Billion {
		keys = 1e9
	}
	return c.measure(out, false, &lab.Seen{
		Stores: c.Only, Shapes: c.Shape, Keys: keys, Memory: c.Memory, Most: c.Most, Each: c.Each, Common: c.Common,
		Profiles: c.CPUProfile,
	})
}
