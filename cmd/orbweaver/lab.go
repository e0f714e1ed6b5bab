package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/lab"
	"github.com/orbweaver/orbweaver/lab/bare"
)

// LabCmd is "lab": the experiments.
type LabCmd struct {
	Throughput    LabThroughputCmd    `cmd:"" help:"Pages a second of an agent beside the least work that still counts as crawling; memory of a long crawl."`
	Seen          LabSeenCmd          `cmd:"" help:"What it costs to find out which links are new, as known URLs grow in number: ours beside other stores."`
	Frontier      LabFrontierCmd      `cmd:"" help:"How many links a second wait and come out again, in how much memory, and whether whales slow the others."`
	Ring          LabRingCmd          `cmd:"" help:"How evenly agents divide the hosts, what it costs to know whose a host is, and what moves when one joins."`
	Quality       LabQualityCmd       `cmd:"" help:"Whether the pages that many others link to are fetched early, by order of the crawl and number of agents."`
	Freshness     LabFreshnessCmd     `cmd:"" help:"${lab_freshness}"`
	Scaling       LabScalingCmd       `cmd:"" help:"Whether each agent fetches as many pages among many as alone, and what it costs to exchange links."`
	Web           LabWebCmd           `cmd:"" hidden:"" help:"Serve the web of an experiment."`
	Bare          LabBareCmd          `cmd:"" hidden:"" help:"Run the yardstick of an experiment."`
	SeenStore     LabSeenStoreCmd     `cmd:"" hidden:"" help:"Run one store of an experiment."`
	FrontierQueue LabFrontierQueueCmd `cmd:"" hidden:"" help:"Run the frontier of an experiment."`
}

// LabBareCmd is "lab bare": the yardstick in a process of its own.
type LabBareCmd struct {
	Args []string `arg:"" optional:"" passthrough:"" help:"Flags of the yardstick: -h lists them."`
}

// Run measures.
func (c *LabBareCmd) Run(out io.Writer) error {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return bare.Run(args, out)
}

// labFlags are those of every experiment.
type labFlags struct {
	Quick bool   `help:"In under a minute; too short to quote."`
	Seed  uint64 `default:"1" help:"Of all that is drawn at random."`
	Out   string `placeholder:"DIR" help:"Write NAME.md, NAME.csv, NAME.svg and NAME.json here (default: docs/lab; of a quick run orbweaver-lab among the temporary files)."`
	Work  string `placeholder:"DIR" help:"Run in a new folder in here, on the disk that is to be measured (default: that for temporary files)."`
}

// LabThroughputCmd is "lab throughput".
type LabThroughputCmd struct {
	labFlags
	Agent []string `placeholder:"[NAME=]FILE" sep:"none" help:"Measure this orbweaver program. Repeatable: they take turns (default: this one)."`

	Hosts      int64         `placeholder:"N" help:"Hosts of the web (default: 20000, quick 2000; of the memory run 1000000, quick 30000)."`
	PagesMean  float64       `default:"20" placeholder:"X" help:"Pages of a host on average."`
	Runs       int           `placeholder:"N" help:"Runs of each (default: 3, quick 1)."`
	Duration   time.Duration `placeholder:"D" help:"${lab_duration}"`
	Only       []string      `placeholder:"KIND" help:"Only these ways of serving: ${labkinds}."`
	CPUProfile string        `name:"cpuprofile" placeholder:"DIR" help:"Keep the profiles here, and take them when quick, too."`

	MemoryRun bool     `help:"Instead: crawl many pages, and note memory and speed each second."`
	Pages     int64    `placeholder:"N" help:"Pages of the memory run (default: 3000000, quick 60000)."`
	PageBytes byteSize `placeholder:"BYTES" help:"Mean length of a page of the memory run (default: 22.3KB)."`
	Memory    byteSize `placeholder:"BYTES" help:"${lab_memory}"`
}

// Help says what comes out.
func (LabThroughputCmd) Help() string {
	return `Web, agent and yardstick run as processes of their own and take turns. A run in
which the web saw a violation, a page fetched twice or, of a crawl that ended by
itself, a page missed ends the experiment with exit code 1.

  orbweaver lab throughput --quick --out /tmp/lab
  orbweaver lab throughput --agent before=./orbweaver.old --agent after=./orbweaver --only gzip
  orbweaver lab throughput --memory-run

What people write below the marker in NAME.md stays.`
}

// Run measures.
func (c *LabThroughputCmd) Run(out io.Writer) error {
	bad := func(format string, args ...any) error { return &node.ConfigError{Text: fmt.Sprintf(format, args...)} }
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
	self, err := itself()
	if err != nil {
		return fmt.Errorf("lab: %w", err)
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
		agents = []lab.Program{{Name: "agent", Path: self}}
	}
	again := c.again(agents)
	if c.MemoryRun {
		return c.run(out, self, &lab.Memory{
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
	return c.run(out, self, &lab.Throughput{
		Agents: agents, Self: self, Hosts: c.Hosts, PagesMean: c.PagesMean, Runs: c.Runs, Duration: c.Duration,
		Profile: !c.Quick || c.CPUProfile != "", Profiles: c.CPUProfile, Kinds: c.Only, Again: again,
	})
}

// again is the command that measures the same, without the places of files,
// which are other ones elsewhere.
func (c *LabThroughputCmd) again(agents []lab.Program) string {
	s := "orbweaver lab throughput"
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

// itself is the file of this program as it was called, since it may go by
// several names.
func itself() (string, error) {
	if name, err := exec.LookPath(os.Args[0]); err == nil {
		return filepath.Abs(name)
	}
	return os.Executable()
}

// program reads [NAME=]FILE.
func program(s string) (lab.Program, error) {
	name, path, ok := strings.Cut(s, "=")
	if !ok {
		name, path = strings.TrimSuffix(filepath.Base(s), filepath.Ext(s)), s
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return lab.Program{}, fmt.Errorf("agent %s: %w", s, err)
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return lab.Program{}, &node.ConfigError{Text: fmt.Sprintf("--agent %s: no program; build one with \"go build -o %s ./cmd/orbweaver\"", s, path)}
	}
	if name == "" || name == "bare" || strings.ContainsAny(name, "/\\") {
		return lab.Program{}, &node.ConfigError{Text: fmt.Sprintf("--agent %s: give it a name: NAME=FILE", s)}
	}
	return lab.Program{Name: name, Path: path}, nil
}

// run runs an experiment, until it is over or a signal comes.
func (f *labFlags) run(out io.Writer, self string, e lab.Experiment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t := &lab.Trial{Quick: f.Quick, Seed: f.Seed, Program: self, Dir: f.Work, Screen: out}
	if file := terminal(out); file != nil && os.Getenv("TERM") != "dumb" {
		t.Live, t.Screen = true, file
		if w, _, err := term.GetSize(int(file.Fd())); err == nil {
			t.Width = w
		}
	}
	err := lab.Do(ctx, e, t, f.dir())
	switch {
	case errors.Is(err, lab.ErrNoGraph) || errors.Is(err, lab.ErrGroup):
		return &node.ConfigError{Text: err.Error()}
	case ctx.Err() != nil:
		return &exitError{code: exitSignal, text: "interrupted"}
	}
	return err
}

// dir is where the results go. Those of a quick run do not take the place of
// those that somebody has explained.
func (f *labFlags) dir() string {
	switch {
	case f.Out != "":
		return f.Out
	case f.Quick:
		return filepath.Join(os.TempDir(), "orbweaver-lab")
	}
	return filepath.Join("docs", "lab")
}

// LabWebCmd is "lab web": the process that an experiment starts for its web.
type LabWebCmd struct {
	Spec  string `arg:"" help:"The web, as JSON."`
	CAOut string `required:"" placeholder:"FILE" help:"Write the certificate of the web's own authority here."`
}

// Run serves until a signal comes or standard input ends.
func (c *LabWebCmd) Run(out io.Writer) error {
	return lab.ServeWeb(context.Background(), []byte(c.Spec), c.CAOut, os.Stdin, out)
}
