package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/lab"
)

// SeenCmd is "lab seen".
type SeenCmd struct {
	flags
	Only       []string      `placeholder:"STORE" help:"Only these stores: ${stores}."`
	Shape      []string      `placeholder:"SHAPE" help:"Only this shape of the stream: uniform, zipf."`
	Keys       int64         `placeholder:"N" help:"Measure up to so many known keys (default: 100000000, quick 1000000)."`
	Billion    bool          `help:"Measure up to a billion known keys, into seen-billion.md and so on; takes most of an hour for ours alone, and tens of GB of disk."`
	Memory     int64         `placeholder:"BYTES" help:"Memory of a store that can be told (default: 512 MB, 2 GB with --billion, 32 MB with --quick)."`
	Most       int64         `placeholder:"BYTES" help:"Stop a store that takes more memory than this (default: 8 GB)."`
	CPUProfile string        `name:"cpuprofile" placeholder:"DIR" help:"Keep a processor profile of the last measurement of each here."`
	Each       time.Duration `placeholder:"D" help:"${each}"`
	Common     int64         `placeholder:"N" help:"${common}"`
	PageCache  *cli.ByteSize `placeholder:"BYTES" help:"${page_cache}"`
	Cgroup     string        `placeholder:"DIR" help:"${cgroup}"`
}

// Help says what comes out.
func (SeenCmd) Help() string {
	return `Each store is a process of its own, one after the other, with the same stream of
links, of which one in ten is new. Every answer is checked; a false one of a store
that is to be exact ends the experiment with exit code 1.

  orblab seen --quick --out /tmp/lab
  orblab seen --only drum,pebble --keys 20000000 --work /big/disk

With the stores really on disk, as root, where cgroup v2 is mounted:

  mkdir /sys/fs/cgroup/lab
  echo +memory > /sys/fs/cgroup/lab/cgroup.subtree_control
  orblab seen --page-cache 256MB --cgroup /sys/fs/cgroup/lab

What people write below the marker in NAME.md stays.`
}

// Run measures.
func (c *SeenCmd) Run(out io.Writer) error {
	bad := usageErrorf
	switch {
	case c.Keys < 0 || c.Memory < 0 || c.Most < 0 || c.Each < 0 || c.Common < 0:
		return bad("--keys, --memory, --most, --each and --common are above 0")
	case c.Common > 0 && c.Common < 1000:
		return bad("--common %d: at least 1000", c.Common)
	case (c.PageCache != nil) != (c.Cgroup != ""):
		return bad("--page-cache and --cgroup go together")
	case c.PageCache != nil && *c.PageCache < 1<<20:
		return bad("--page-cache %d: at least 1MiB", int64(*c.PageCache))
	case c.Keys > 0 && c.Keys < 1000:
		return bad("--keys %d: at least 1000", c.Keys)
	case c.Keys > 0 && c.Billion:
		return bad("--billion is --keys 1000000000")
	}
	for _, s := range c.Only {
		if !slices.Contains(lab.StoreNames(), s) {
			return bad("--only %s: none of %s", s, strings.Join(lab.StoreNames(), ", "))
		}
	}
	for _, s := range c.Shape {
		if !slices.Contains(lab.ShapeNames(), s) {
			return bad("--shape %s: none of %s", s, strings.Join(lab.ShapeNames(), ", "))
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
	x := &lab.Seen{
		Stores: c.Only, Shapes: c.Shape, Keys: keys, Memory: c.Memory, Most: c.Most, Each: c.Each, Common: c.Common,
		Group: c.Cgroup, Profiles: c.CPUProfile, Again: c.again(),
	}
	if c.PageCache != nil {
		x.PageCache = int64(*c.PageCache)
	}
	return c.measure(out, false, x)
}

// again is the command that measures the same.
func (c *SeenCmd) again() string {
	s := "orblab seen"
	add := func(told bool, format string, value any) {
		if told {
			s += fmt.Sprintf(" "+format, value)
		}
	}
	add(c.Quick, "%s", "--quick")
	add(c.Billion, "%s", "--billion")
	add(c.Seed != 1, "--seed %d", c.Seed)
	add(len(c.Only) > 0, "--only %s", strings.Join(c.Only, ","))
	add(len(c.Shape) > 0, "--shape %s", strings.Join(c.Shape, ","))
	add(c.Keys > 0, "--keys %d", c.Keys)
	add(c.Memory > 0, "--memory %d", c.Memory)
	add(c.Most > 0, "--most %d", c.Most)
	add(c.Each > 0, "--each %s", c.Each)
	add(c.Common > 0, "--common %d", c.Common)
	if c.PageCache != nil {
		add(true, "--page-cache %d --cgroup DIR", int64(*c.PageCache))
	}
	return s
}
