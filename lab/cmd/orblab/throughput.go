package main

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/lab"
)

// ThroughputCmd implements "orblab throughput".
type ThroughputCmd struct {
	flags
	Agent []string `placeholder:"[NAME=]FILE" sep:"none" help:"${agent}"`

	lab.Throughput

	MemoryRun bool              `help:"Instead, crawl many pages, and record memory and speed each second."`
	Pages     int64             `placeholder:"N" help:"With --memory-run: crawl N pages (default: 3000000, quick 60000)."`
	PageBytes quantity.ByteSize `placeholder:"BYTES" help:"With --memory-run: make pages BYTES long on average (default: 22.3KB)."`
	Memory    quantity.ByteSize `placeholder:"BYTES" help:"${memory}"`
}

// Help explains the result.
func (ThroughputCmd) Help() string {
	return `The web, the agent and the yardstick are processes of their own; agent and yardstick
take turns. If the web sees a violation of politeness, or a page fetched twice, or if
a finished crawl missed a page, the exit code is 1.

  orblab throughput --quick --out /tmp/lab
  orblab throughput --agent before=./orbweaver.old --agent after=./orbweaver --only gzip
  orblab throughput --memory-run

The program keeps the text below the marker in NAME.md.`
}

// Run runs the experiment.
func (c *ThroughputCmd) Run(out io.Writer) error {
	bad := usageErrorf
	switch {
	case c.Hosts < 0 || c.Runs < 0 || c.Duration < 0 || c.Pages < 0:
		return bad("--hosts, --runs, --duration and --pages: give values above 0")
	case c.PagesMean < 1:
		return bad("--pages-mean %g is too small; give at least 1", c.PagesMean)
	case (c.Pages > 0 || c.PageBytes > 0 || c.Memory > 0) && !c.MemoryRun:
		return bad("--pages, --page-bytes and --memory have no effect without --memory-run: add it")
	}
	if err := anyOf("--only", c.Kinds, lab.Kinds()); err != nil {
		return err
	}
	for _, a := range c.Agent {
		p, err := program(a)
		if err != nil {
			return err
		}
		c.Agents = append(c.Agents, p)
	}
	if len(c.Agents) == 0 {
		path, err := findOrbweaver(c.Orbweaver)
		if err != nil {
			return err
		}
		c.Agents = []lab.Program{{Name: "agent", Path: path}}
	}
	if c.MemoryRun {
		return c.measure(out, true, &lab.Memory{
			Agent: c.Agents[0], Hosts: c.Hosts, PagesMean: c.PagesMean, Pages: c.Pages, PageBytes: int(c.PageBytes),
			Duration: c.Duration, Budget: int64(c.Memory),
		})
	}
	if err := makeDir(c.Profiles); err != nil {
		return err
	}
	return c.measure(out, true, &c.Throughput)
}

// program reads the value of --agent, [NAME=]FILE.
func program(s string) (lab.Program, error) {
	name, path, ok := strings.Cut(s, "=")
	if !ok {
		name, path = strings.TrimSuffix(filepath.Base(s), filepath.Ext(s)), s
	}
	path, err := runnable("--agent", path)
	if err != nil {
		return lab.Program{}, err
	}
	if name == "" || name == "bare" || strings.ContainsAny(name, "/\\") {
		return lab.Program{}, usageErrorf("--agent %s: %q cannot be the program's name in the results; choose one "+
			"with NAME=FILE", s, name)
	}
	return lab.Program{Name: name, Path: path}, nil
}
