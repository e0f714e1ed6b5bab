package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/lab"
)

// ThroughputCmd is "orblab throughput".
type ThroughputCmd struct {
	flags
	Agent []string `placeholder:"[NAME=]FILE" sep:"none" help:"Measure this orbweaver program. Repeatable: they take turns (default: that of --orbweaver)."`

	Hosts      int64         `placeholder:"N" help:"Hosts of the web (default: 20000, quick 2000; of the memory run 1000000, quick 30000)."`
	PagesMean  float64       `default:"20" placeholder:"X" help:"Pages of a host on average."`
	Runs       int           `placeholder:"N" help:"Runs of each (default: 3, quick 1)."`
	Duration   time.Duration `placeholder:"D" help:"${duration}"`
	Only       []string      `placeholder:"KIND" help:"Only these ways of serving: ${kinds}."`
	CPUProfile string        `name:"cpuprofile" placeholder:"DIR" help:"Keep the profiles here, and take them when quick, too."`

	MemoryRun bool         `help:"Instead: crawl many pages, and note memory and speed each second."`
	Pages     int64        `placeholder:"N" help:"Pages of the memory run (default: 3000000, quick 60000)."`
	PageBytes cli.ByteSize `placeholder:"BYTES" help:"Mean length of a page of the memory run (default: 22.3KB)."`
	Memory    cli.ByteSize `placeholder:"BYTES" help:"${memory}"`
}

// Help says what comes out.
func (ThroughputCmd) Help() string {
	return `Web, agent and yardstick run as processes of their own and take turns. A run in
which the web saw a violation, a page fetched twice or, of a crawl that ended by
itself, a page missed ends the experiment with exit code 1.

  orblab throughput --quick --out /tmp/lab
  orblab throughput --agent before=./orbweaver.old --agent after=./orbweaver --only gzip
  orblab throughput --memory-run

What people write below the marker in NAME.md stays.`
}

// Run measures.
func (c *ThroughputCmd) Run(out io.Writer) error {
	bad := usageErrorf
	switch {
	case c.Hosts < 0 || c.Runs < 0 || c.Duration < 0 || c.Pages < 0:
		return bad("--hosts, --runs, --duration and --pages are above 0")
	case c.PagesMean < 1:
		return bad("--pages-mean %g: at least 1", c.PagesMean)
	case (c.Pages > 0 || c.PageBytes > 0 || c.Memory > 0) && !c.MemoryRun:
		return bad("--pages, --page-bytes and --memory are for --memory-run")
	}
	for _, k := range c.Only {
		if !slices.Contains(lab.Kinds(), k) {
			return bad("--only %s: none of %s", k, strings.Join(lab.Kinds(), ", "))
		}
	}
	var agents []lab.Program
	for _, a := range c.Agent {
		p, err := program(a)
		if err != nil {
			return err
		}
		agents = append(agents, p)
	}
	if len(agents) == 0 {
		path, err := findOrbweaver(c.Orbweaver)
		if err != nil {
			return err
		}
		agents = []lab.Program{{Name: "agent", Path: path}}
	}
	again := c.again(agents)
	if c.MemoryRun {
		return c.measure(out, true, &lab.Memory{
			Agent: agents[0], Hosts: c.Hosts, PagesMean: c.PagesMean, Pages: c.Pages, PageBytes: int(c.PageBytes),
			Duration: c.Duration,
			Budget:   int64(c.Memory), Again: again,
		})
	}
	if c.CPUProfile != "" {
		if err := os.MkdirAll(c.CPUProfile, 0o755); err != nil {
			return fmt.Errorf("cpuprofile: %w", err)
		}
	}
	return c.measure(out, true, &lab.Throughput{
		Agents: agents, Hosts: c.Hosts, PagesMean: c.PagesMean, Runs: c.Runs, Duration: c.Duration,
		Profile: !c.Quick || c.CPUProfile != "", Profiles: c.CPUProfile, Kinds: c.Only, Again: again,
	})
}

// again is the command that measures the same, without the places of files,
// which are other ones elsewhere.
func (c *ThroughputCmd) again(agents []lab.Program) string {
	s := "orblab throughput"
	add := func(told bool, format string, value any) {
		if told {
			s += fmt.Sprintf(" "+format, value)
		}
	}
	add(c.Quick, "%s", "--quick")
	add(c.MemoryRun, "%s", "--memory-run")
	add(c.Seed != 1, "--seed %d", c.Seed)
	add(c.Hosts > 0, "--hosts %d", c.Hosts)
	add(c.PagesMean != 20, "--pages-mean %g", c.PagesMean)
	add(c.Pages > 0, "--pages %d", c.Pages)
	add(c.PageBytes > 0, "--page-bytes %d", int64(c.PageBytes))
	add(c.Memory > 0, "--memory %d", int64(c.Memory))
	add(c.Runs > 0, "--runs %d", c.Runs)
	add(c.Duration > 0, "--duration %s", c.Duration)
	for _, k := range c.Only {
		add(true, "--only %s", k)
	}
	for _, a := range agents {
		add(len(c.Agent) > 0, "--agent %s=FILE", a.Name)
	}
	return s
}

// program reads [NAME=]FILE.
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
		return lab.Program{}, usageErrorf("--agent %s: give it a name: NAME=FILE", s)
	}
	return lab.Program{Name: name, Path: path}, nil
}
