package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// CoordinatorCmd implements "coordinator".
type CoordinatorCmd struct {
	Listen      string   `help:"${coordinator_listen}" default:"127.0.0.1:7490" placeholder:"ADDR"`
	Coordinator []string `help:"${coordinator_members}" placeholder:"ADDR"`
	Keys        string   `help:"${coordinator_keys}" placeholder:"DIR"`
	Dir         string   `short:"o" help:"${coordinator_dir}" default:"./coordinator" placeholder:"DIR"`
	Assign      string   `help:"${coordinator_assign}" default:"roundrobin" enum:"${assignments}" placeholder:"KIND"`
	DNS         []string `name:"dns" help:"${coordinator_dns}" placeholder:"ADDR"`
	Proxy       string   `help:"${coordinator_proxy}" placeholder:"URL"`
	DryRun      bool     `short:"n" help:"Check the flags and the keys, print what the coordinator would do, and exit."`
	JSON        bool     `name:"json" help:"Print progress as JSON lines on standard output."`
	Quiet       bool     `short:"q" help:"Print no progress."`
}

// Help teaches how to start a crawl with coordinators.
func (CoordinatorCmd) Help() string {
	return `The agents of a crawl with --partition=sites do not compute which agent owns a
host: a coordinator assigns each host to an agent, when an agent has found the
first link to it. The coordinator is never on the path of a page. If it is away,
the agents go on with the hosts that they have, and new hosts wait.

On one machine, without keys:

  orbweaver coordinator
  orbweaver crawl --partition sites --coordinator 127.0.0.1:7490 \
    --listen 127.0.0.1:7471 --name a1 --dir a1 …
  orbweaver crawl --partition sites --coordinator 127.0.0.1:7490 \
    --listen 127.0.0.1:7472 --name a2 --dir a2 --join 127.0.0.1:7471 …

If the agents look names up with --dns or --proxy, give the coordinator the same.

On several machines, with three coordinators: if one of them fails, the others go
on, and no assignment is lost. Give the same list to all coordinators and agents:

  orbweaver cluster keys --out keys --agents a1,a2 --coordinators c1,c2,c3
  orbweaver coordinator --keys keys/c1 --listen 192.0.2.1:7490 \
    --coordinator 192.0.2.1:7490,192.0.2.2:7490,192.0.2.3:7490

Three coordinators begin when all of them run. From then on two are enough. Five
survive the loss of two. Stop and start a coordinator at any time: it continues
from its directory. A coordinator that has lost its directory may start with an
empty one, if more than half of the others run. One directory keeps the
assignments of one crawl: give a new crawl another directory.

See what the coordinators know:

  orbweaver cluster status --coordinator 192.0.2.1:7490 --keys keys/a1

Ctrl-C stops the coordinator. Exit codes: 0 stopped, 3 disk full, 4 bad
configuration, 17 the disk or the coordinator's files are broken.`
}

// config returns the coordinator's configuration. Its errors name the flag, the value and what would be right.
func (c *CoordinatorCmd) config() (cfg coordination.Config, err error) {
	cfg = coordination.Config{Version: node.Version, Dir: c.Dir, Keys: c.Keys, Assign: c.Assign, Self: c.Listen}
	if cfg.Listen, err = input.ListenAddr(c.Listen); err != nil {
		return cfg, err
	}
	for _, addr := range c.Coordinator {
		cfg.Members = append(cfg.Members, strings.TrimSpace(addr))
	}
	if !slices.Contains(cfg.Members, cfg.Self) {
		cfg.Self = cfg.Listen // with the IP address in place of an interface or a name
	}
	cfg.DNS.Servers = c.DNS
	if c.Proxy != "" {
		proxy, err := settings.ParseProxy(c.Proxy)
		if err != nil {
			return cfg, err
		}
		fc := fetch.Config{Proxy: proxy}
		f, err := fetch.New(fc)
		if err != nil {
			return cfg, input.SettingError(err)
		}
		f.Close()
		cfg.Unchecked = !fc.LooksUp()
		if cfg.Unchecked && len(c.DNS) > 0 {
			return cfg, bad("--dns has no effect with --proxy %s: the proxy looks the names up; leave one of them out",
				settings.RedactProxy(c.Proxy))
		}
	}
	return cfg, cfg.Check()
}

// Run runs the coordinator until a signal stops it.
func (c *CoordinatorCmd) Run(out io.Writer, errs cli.ErrorOutput) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	if c.DryRun {
		return c.explain(out, &cfg)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	shows := &coordinatorDisplay{out: errs, quiet: c.Quiet}
	if c.JSON {
		shows.out, shows.json = out, true
	}
	cfg.Events = shows
	n, err := coordination.Open(cfg)
	if err != nil {
		return coordinatorError(c.Dir, err)
	}
	shows.begin(n)
	err = n.Run(ctx)
	stop() // another Ctrl-C ends the process at once
	shows.end()
	if err == nil {
		shows.stopped(n.Status().Hosts, c.Dir)
	}
	err = cmp.Or(err, n.Close())
	return coordinatorError(c.Dir, err)
}

// explain prints what the coordinator would do.
func (c *CoordinatorCmd) explain(out io.Writer, cfg *coordination.Config) error {
	alone := "alone; if its directory is lost, so are the assignments"
	if n := len(cfg.Members); n > 1 {
		alone = fmt.Sprintf("with %d others; %d of the %d may fail", n-1, n/2, n)
	}
	keys, hosts := "none: only processes of this machine can call", "are looked up before they are assigned"
	if c.Keys != "" {
		keys = c.Keys
	}
	if cfg.Unchecked {
		hosts = "are assigned without a look-up, because the proxy looks names up"
	}
	_, err := fmt.Fprintf(out, "listens      %s\nworks        %s\nkeys         %s\ndirectory    %s\nassigns      %s\n"+
		"new hosts    %s\n", cfg.Listen, alone, keys, c.Dir, cfg.Assign, hosts)
	return err
}

// coordinatorError adds what to do to an error of a coordinator, and its exit code.
func coordinatorError(dir string, err error) error {
	switch _, setting := errors.AsType[*input.ConfigError](err); {
	case err == nil || setting || errors.Is(err, disk.ErrLocked):
		return err
	case disk.IsFull(err):
		return &exitError{exitDiskFull, "the disk is full: " + err.Error() +
			"\nNo assignment is lost. Free disk space, then start the coordinator again."}
	}
	return &exitError{exitFatal, err.Error() + "\nRemove the cause, then start the coordinator again. If a file in " +
		dir + " is damaged and other coordinators run, empty the directory first."}
}

// A coordinatorDisplay prints the progress of a coordinator.
type coordinatorDisplay struct {
	out         io.Writer
	json, quiet bool
	stop        chan struct{}
	wg          sync.WaitGroup
	last        string     // the last state that was printed
	mu          sync.Mutex // held while a line is written to out
}

// progressEvery is the time between two lines about the same, if it has changed.
const progressEvery = 10 * time.Second

// Event prints an event that a person wants to know at once.
func (d *coordinatorDisplay) Event(name string, fields ...any) {
	if d.quiet || d.json {
		return
	}
	value := map[string]any{}
	for i := 0; i+1 < len(fields); i += 2 {
		value[fields[i].(string)] = fields[i+1]
	}
	switch name {
	case "consensus-waiting":
		if value["for"] == "" {
			d.print(fmt.Sprintf("the directory is empty, and %v of the other coordinators have theirs: waiting until "+
				"more than half have. If that cannot be, stop all, and give each an empty directory", value["whole"]))
			break
		}
		d.print(fmt.Sprintf("waiting for %v", value["for"]))
	case "consensus-founded":
		d.print("all coordinators have met")
	case "consensus-catching-up":
		d.print("the directory is empty: getting everything from the other coordinators")
	case "consensus-caught-up":
		d.print("caught up with the other coordinators")
	case "consensus-refused":
		d.print(fmt.Sprintf("refused %v: %v", value["from"], value["cause"]))
	case "agent-ahead":
		d.print(fmt.Sprintf("refused agent %v: it has %v entries of other coordinators, this one has %v; start the "+
			"coordinators with their directories, or resume it", value["agent"], value["read"], value["entries"]))
	case "agent-lost":
		d.print(fmt.Sprintf("agent %v is lost: its hosts go to its heirs", value["agent"]))
	}
}

func (d *coordinatorDisplay) print(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, "%s  %s\n", time.Now().Format("15:04:05"), line)
}

// begin says where the coordinator listens, and prints its state when that changes.
func (d *coordinatorDisplay) begin(n *coordination.Coordinator) {
	d.stop = make(chan struct{})
	if d.quiet {
		return
	}
	if !d.json {
		d.print(fmt.Sprintf("coordinator at %s; Ctrl-C stops it", n.Addr()))
	}
	d.wg.Go(func() {
		every := time.NewTicker(time.Second)
		defer every.Stop()
		var printed time.Time
		role, over := "", false
		for {
			s := n.Status()
			now := time.Now()
			if s.Ended && !over && !d.json {
				over = true
				d.print("the crawl has ended; stop the coordinator with Ctrl-C")
			}
			if r := roleOf(&s); r != role || now.Sub(printed) >= progressEvery {
				role, printed = r, now
				d.state(&s)
			}
			select {
			case <-every.C:
			case <-d.stop:
				return
			}
		}
	})
}

// end waits for the last line.
func (d *coordinatorDisplay) end() {
	close(d.stop)
	d.wg.Wait()
}

// stopped prints the last line, so that nobody fears for the assignments.
func (d *coordinatorDisplay) stopped(hosts uint64, dir string) {
	if !d.quiet && !d.json {
		d.print(fmt.Sprintf("stopped; %s keeps %s; start the coordinator again to go on", dir,
			plural(int64(hosts), "assignment")))
	}
}

// state prints a state if it differs from the last one.
func (d *coordinatorDisplay) state(s *coordination.Status) {
	line := stateLine(s)
	if d.last == line {
		return
	}
	d.last = line
	if d.json {
		d.mu.Lock()
		defer d.mu.Unlock()
		_ = json.NewEncoder(d.out).Encode(s) // a closed pipe ends the process
		return
	}
	d.print(line)
}

// roleOf says what a coordinator does, in a few words.
func roleOf(s *coordination.Status) string {
	switch {
	case s.Leads:
		return "leads"
	case s.Leader != "":
		return "follows " + s.Leader
	case !s.Voting:
		return "has no vote yet"
	}
	return "knows of no leader"
}

// stateLine describes a coordinator on one line.
func stateLine(s *coordination.Status) string {
	up, lost := 0, 0
	for _, a := range s.Agents {
		switch a.State {
		case "up":
			up++
		case "lost":
			lost++
		}
	}
	line := fmt.Sprintf("%s; %s up, %s assigned", roleOf(s), plural(int64(up), "agent"), plural(int64(s.Hosts), "host"))
	if lost > 0 {
		line += fmt.Sprintf(", %d lost", lost)
	}
	if s.Pending > 0 {
		line += fmt.Sprintf(", %s in look-up", humanize.Comma(int64(s.Pending)))
	}
	if s.Dead > 0 {
		line += fmt.Sprintf(", %s without an address", humanize.Comma(int64(s.Dead)))
	}
	line += fmt.Sprintf(", entry %s", humanize.Comma(int64(s.Entries)))
	if s.Ended {
		line += "; the crawl has ended"
	}
	return line
}
