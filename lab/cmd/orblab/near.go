package main

import (
	"io"

	"github.com/orbweaver/orbweaver/lab"
)

// NearCmd implements "orblab near".
type NearCmd struct {
	flags
	lab.Near
}

// Help explains the result.
func (NearCmd) Help() string {
	return `The experiment compares three detectors of near-duplicates, odd sketches, MinHash
and SimHash, with the exact similarity of pages: versions of Debian's llvm-13-doc
to llvm-16-doc, and copies in generated webs with a known rate of edits.

  orblab near --quick --out /tmp/lab`
}

// Run runs the experiment.
func (c *NearCmd) Run(out io.Writer) error {
	return c.measure(out, false, &c.Near)
}
