package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

const defaultDir = "./crawl"

// startFlags say where a crawl is, and whether it begins or continues. Their tag for is as in package settings; with
// "command" only the command line can set a flag.
type startFlags struct {
	Seeds         []string `short:"i" placeholder:"FILE" sep:"none" for:"run"`
	Dir           string   `short:"o" default:"./crawl" placeholder:"DIR" for:"run"`
	Config        string   `placeholder:"FILE" for:"command"`
	Resume        bool     `for:"command"`
	Overwrite     bool     `for:"command"`
	StartOrResume bool     `for:"command"`
	Stay          bool     `for:"run"`
	DryRun        bool     `short:"n" for:"command"`
	Example       []string `placeholder:"URL" sep:"none" for:"command"`
	Unblock       []string `placeholder:"HOST" for:"command"`
}

// briefly lists the flags that "crawl --help" shows.
var briefly = []string{"help-all", "seeds", "dir", "config", "resume", "dry-run", "scope", "include", "exclude",
	"depth", "page-limit", "time-limit", "requisites", "keep", "strategy", "delay", "rate", "contact", "workers", "api",
	"quiet"}

// CrawlCmd implements "crawl". Its flags are also the keys of the YAML file. The help of a flag is the text of its name
// in crawlHelp.
type CrawlCmd struct {
	Seed []string `arg:"" optional:"" name:"seed" help:"${seed}"`

	HelpAll cli.HelpAll `help:"Show all flags." for:"command"`

	startFlags `embed:"" group:"Start and resume"`

	Settings settings.Settings `embed:""`

	APIFlags `embed:"" group:"Monitoring"`

	Stream string `enum:",jsonl" default:"" placeholder:"FORMAT" group:"Monitoring" for:"run"`
	JSON   bool   `name:"json" group:"Monitoring" for:"run"`
	Quiet  bool   `short:"q" group:"Monitoring" for:"run"`

	Profiles `embed:"" group:"Monitoring"`

	hosts          []sheet.Entry // the section hosts: of a settings file
	skippedCookies []error       // lines of --cookie-file
}

// Help returns the examples and explanations of "crawl --help".
func (CrawlCmd) Help() string {
	return `Crawl one site politely, with 2 s between requests to a host and by its robots.txt:

  orbweaver crawl --contact you@example.org https://example.org/

Crawl a list of sites, at most 10,000 pages per host, without the images, styles
and scripts that the pages need:

  orbweaver crawl --contact you@example.org --seeds sites.txt \
    --no-requisites --host-page-limit 10000

Watch a site: visit each page again as often as it changes, but not within an hour.
A page that has not changed is not transferred again; the archive gets a revisit
record:

  orbweaver crawl --contact you@example.org --strategy recrawl \
    --recrawl-min 1h https://example.org/

Ctrl-C waits for the requests in progress and saves. A second Ctrl-C exits at once.
Continue after either, or after a crash:

  orbweaver crawl --resume

BYTES is a number with or without a unit: 500MB (millions), 2GiB (powers of
1024), 1048576. D is a duration: 500ms, 90s, 2h30m. RE is a regular expression
in Go's syntax and matches anywhere in the URL. You may repeat flags for lists.

You can put flags into a YAML file and give it with --config crawl.yaml:

  contact: you@example.org
  page-limit: 10000
  exclude: ['\.(zip|iso)$', '/calendar/']

Exit codes: ` + exitBriefs() + "."
}

// Run crawls until the crawl ends or a signal stops it.
func (c *CrawlCmd) Run(k *kong.Context, out io.Writer, errs cli.ErrorOutput, given *elsewhere) (err error) {
	if !c.JSON && !c.Quiet {
		for _, note := range given.ignored {
			fmt.Fprintf(errs, "orbweaver: %s\n", note)
		}
		if slices.Contains(c.Seeds, "-") && term.IsTerminal(int(os.Stdin.Fd())) {
			fmt.Fprintln(errs, "Enter seeds, one URL per line, then Ctrl-D:")
		}
	}
	if err := crawldir.Vacant(c.Dir); err != nil {
		return err // before --resume asks for secrets
	}
	if over, err := c.over(); !c.DryRun && (over || err != nil) {
		return errors.Join(err, c.stay(errs, err))
	}
	cfg, err := c.config()
	if err != nil {
		return err
	}
	c.noteCookies(errs)
	if err := c.notOfProgram(); err != nil {
		return err
	}
	if err := c.checkUnused(k, given); err != nil {
		return err
	}
	if cfg.Effective, err = c.effective(k); err != nil {
		return err
	}
	if c.DryRun {
		return c.dryRun(k, cfg, given, out)
	}
	end, err := c.begin()
	if err != nil {
		return err
	}
	defer func() {
		if bad := end(); bad != nil {
			fmt.Fprintln(errs, "orbweaver:", bad)
			if err == nil {
				err = &exitError{code: exitOther}
			}
		}
	}()
	name := ""
	if cfg.Cluster != nil {
		name = cfg.Cluster.Name
	}
	limits := &c.Settings.Limits
	d := &display{
		agent: name, dir: c.Dir, out: out, json: c.JSON, quiet: c.Quiet, resumable: true,
		pageLimit: limits.PageLimit, sizeLimit: int64(limits.SizeLimit), timeLimit: limits.TimeLimit,
	}
	endStream := c.stream(&cfg, d, errs)
	err = runCrawl(cfg, c.APIFlags, d)
	if bad := endStream(); bad != nil {
		return bad
	}
	if bad := c.stay(errs, err); bad != nil {
		return errors.Join(err, bad)
	}
	return err
}

// notOfProgram refuses to continue a crawl of a Go program, whose settings are not in crawl.yaml.
func (c *CrawlCmd) notOfProgram() error {
	if !c.Resume {
		return nil
	}
	theirs, err := crawldir.MadeByProgram(c.Dir)
	if err == nil && theirs {
		err = input.Errorf("the crawl in %s belongs to a Go program; continue it with that program", c.Dir)
	}
	return err
}

// runCrawl opens an agent, runs its crawl and shows it on d. Its result is an exitError
// unless the crawl finished.
func runCrawl(cfg node.Config, api APIFlags, d *display) error {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(node.RuntimeLimit(cfg.MemoryBytes)))
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	d.open(cancel)
	// Opening a large crawl takes time. Signals stop the crawl from here on.
	unwatch := watchSignals(d, func() { cancel(nil) })
	defer unwatch()
	// Reserve the port first: if it is in use, the directory stays unchanged.
	ln, err := api.open(cfg.Cluster, d.note)
	if err != nil {
		return err
	}
	cfg.Note = d.note
	stopShow := d.show()
	defer stopShow(false)
	if text := withheldFromSeeds(&cfg); text != "" {
		d.note(text)
	}
	a, err := node.Open(cfg)
	if err != nil {
		if ln != nil {
			err = errors.Join(err, ln.Close())
		}
		return err
	}
	if ln != nil {
		cert, err := api.certificate()
		if err == nil {
			err = a.Serve(ln, cert)
		}
		if err != nil {
			return errors.Join(err, a.Close())
		}
	}
	d.began(a)
	if ln != nil {
		d.note(api.greeting(cfg.Dir, ln.Addr()))
	}
	res, err := a.Run(ctx)
	stopShow(err == nil)
	cerr := a.Close()
	if unwatch(); err == nil {
		err = cerr
	}
	if err != nil {
		if _, setting := errors.AsType[*input.ConfigError](err); setting || disk.IsFull(err) {
			return err
		}
		return &exitError{exitFatal, words(err) +
			"\nNo accepted URL is lost. Remove the cause, then continue with --resume."}
	}
	if err := d.summary(cfg.Dir, res); err != nil && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	if res.Nothing && (res.FailedCount > 0 || res.Summary.Fetched > 0 || cfg.Cluster != nil) {
		return &exitError{exitNothing, nothingFetched(&cfg, res)}
	}
	switch res.Stop {
	case crawl.Signal, crawl.ByOperator, crawl.OutputClosed:
		return &exitError{code: exitSignal}
	case crawl.PageLimit:
		return &exitError{code: exitPageLimit}
	case crawl.SizeLimit:
		return &exitError{code: exitSizeLimit}
	case crawl.TimeLimit:
		return &exitError{code: exitTimeLimit}
	case crawl.DiskLow:
		return &exitError{code: exitDiskFull}
	}
	return nil
}

// watchSignals calls stop at the first SIGINT, SIGTERM or SIGHUP, and ends the process at
// the second SIGINT or SIGTERM, until unwatch is called. If SIGHUP was ignored when the
// program started, as nohup does it, it stays ignored.
func watchSignals(d *display, stop func()) (unwatch func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		obey(signals, over, func() {
			d.note("stopping: waiting for the requests in progress, then saving; press Ctrl-C again to exit at once")
			stop()
		}, func() {
			d.forced()
			os.Exit(exitForced) // safe at any moment: the journal has every accepted URL
		})
	}()
	return sync.OnceFunc(func() {
		signal.Stop(signals)
		close(over)
		<-done
	})
}

// sameSignal is how soon the same SIGINT or SIGTERM again counts as the first one. The command "timeout" sends
// each signal twice: to its child, and to its process group.
const sameSignal = 100 * time.Millisecond

// obey calls stop at the first signal, and force at the second SIGINT or SIGTERM. The same signal within
// sameSignal after the first is no second one. A SIGHUP never counts towards force: a terminal that closes sends two of
// them, and a supervisor may send one with a SIGTERM, in either order. obey returns after force, or when over
// is closed.
func obey(signals <-chan os.Signal, over <-chan struct{}, stop, force func()) {
	var first os.Signal     // the first SIGINT or SIGTERM
	var requested time.Time // when it was obeyed
	for stopping := false; ; {
		select {
		case s := <-signals:
			again := first != nil && s != syscall.SIGHUP
			if again && s == first && time.Since(requested) < sameSignal {
				continue
			}
			if again {
				force()
				return
			}
			if !stopping {
				stopping = true
				stop()
			}
			if s != syscall.SIGHUP {
				first, requested = s, time.Now() // after stop, which may take a while
			}
		case <-over:
			return
		}
	}
}
