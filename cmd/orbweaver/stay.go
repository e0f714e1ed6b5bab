package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
)

// stays lists the ends after which --stay keeps the process: another run would do nothing, or soon
// reach the same limit.
var stays = []crawl.Stop{crawl.Finished, crawl.OnlyBlocked, crawl.Left, crawl.PageLimit, crawl.SizeLimit,
	crawl.TimeLimit}

// over reports whether --stay keeps a process from running the crawl again. After a limit the crawl
// runs again, because the limit may have been raised.
func (c *CrawlCmd) over() (bool, error) {
	if !c.Stay || !c.Resume {
		return false, nil
	}
	end, err := node.Ended(c.Dir)
	return !end.Nothing && (end.Reason == crawl.Finished || end.Reason == crawl.Left), err
}

// stay waits for a signal if --stay keeps the process after a run that returned result.
func (c *CrawlCmd) stay(errs io.Writer, result error) error {
	if exit := (*exitError)(nil); !c.Stay || result != nil && !errors.As(result, &exit) {
		return nil
	} else if exit != nil && !slices.Contains([]int{exitPageLimit, exitSizeLimit, exitTimeLimit}, exit.code) {
		return nil
	}
	end, err := node.Ended(c.Dir)
	if err != nil || end.Nothing || !slices.Contains(stays, end.Reason) {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	defer signal.Stop(signals)
	if !c.Quiet {
		fmt.Fprintf(errs, "orbweaver: the crawl in %s has ended (%s): waiting for a signal, because of --stay\n",
			c.Dir, end.Reason)
	}
	<-signals
	return nil
}

// CtlHealthCmd implements "ctl health".
type CtlHealthCmd struct {
	JSON bool `name:"json" help:"Print the answer as one JSON object."`
}

// Run asks the crawl whether it runs. A crawl that has ended is healthy, because --stay keeps its
// process.
func (h CtlHealthCmd) Run(c *commands, out io.Writer) error {
	_, err := os.Stat(filepath.Join(c.Ctl.Dir, crawldir.APIFile))
	if err == nil {
		return c.Ctl.health(out, JSONFlag(h))
	}
	end, err := node.Ended(c.Ctl.Dir)
	switch {
	case err != nil:
		return err
	case end.Nothing || !slices.Contains(stays, end.Reason):
		return &exitError{exitOther, fmt.Sprintf(
			"no crawl with an API is running in %s, and none has ended there; "+
				"name another directory with --dir", c.Ctl.Dir)}
	}
	return JSONFlag(h).print(out, []*pb.Answer{{Text: fmt.Sprintf("ended: %s\n", end.Reason)}})
}
