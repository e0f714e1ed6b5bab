package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/urlfrontier"
)

// FrontierCmd implements "frontier".
type FrontierCmd struct {
	Dir         string            `arg:"" help:"${frontier_dir}" placeholder:"DIR"`
	Listen      string            `help:"${frontier_listen}" default:"127.0.0.1:7071" placeholder:"ADDR"`
	AllowRemote bool              `help:"${frontier_remote}"`
	Memory      quantity.ByteSize `help:"${frontier_memory}" default:"2GiB" placeholder:"BYTES"`
	Quiet       bool              `short:"q" help:"Print no progress."`
}

// Help teaches how to use the frontier.
func (FrontierCmd) Help() string {
	return `The command serves the gRPC API of URL Frontier (crawler-commons), with which
StormCrawler and other crawlers keep their URLs outside of the crawler. It
answers a call only when its changes are on disk. Delays, blocks, limits and
leases outlive a restart and a kill, as the URLs do.

  orbweaver frontier urls

Ctrl-C stops it; start it again with the same directory. The API has no
password: all users of this machine can call it. docs/urlfrontier.md lists the
calls.

Exit codes: 0 stopped, 3 disk full, 4 bad configuration, 17 the disk or the
files are broken.`
}

// Run serves the frontier until a signal stops it.
func (c *FrontierCmd) Run(errs cli.ErrorOutput) error {
	if c.Memory <= 0 {
		return bad("--memory %v: give a size above 0, such as 2GiB", c.Memory)
	}
	addr, err := input.ListenAddr(c.Listen)
	if err != nil {
		return err
	}
	ln, err := urlfrontier.Listen(addr, c.AllowRemote)
	if errors.Is(err, urlfrontier.ErrAddr) {
		return bad("--%v;\ngive a loopback address, or --allow-remote behind a firewall", err)
	}
	if err != nil {
		return bad("--%v", err)
	}
	defer ln.Close()
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return bad("DIR %s: %s; choose a directory that this user can read and write", c.Dir, cause(err))
	}
	debug.SetMemoryLimit(urlfrontier.RuntimeLimit(int64(c.Memory)))
	began := time.Now()
	s, err := urlfrontier.Open(disk.OS, c.Dir, urlfrontier.Config{MemoryBytes: int64(c.Memory)})
	if err != nil {
		return frontierError(c.Dir, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	v := urlfrontier.Serve(s, ln, nil)
	if !c.Quiet {
		fmt.Fprintf(errs, "frontier at %s, with %s, read in %s; Ctrl-C stops it\n", v.Addr(), plural(s.URLs(), "URL"),
			time.Since(began).Round(time.Millisecond))
	}
	select {
	case <-ctx.Done():
	case <-s.Failed():
	}
	stop()        // another Ctrl-C ends the process at once
	_ = v.Close() // calls that are cut off are not acknowledged
	if err := s.Close(); err != nil {
		return frontierError(c.Dir, err)
	}
	if !c.Quiet {
		fmt.Fprintf(errs, "stopped; %s keeps all URLs\n", c.Dir)
	}
	return nil
}

// frontierError adds what to do to an error of the frontier, and its exit code.
func frontierError(dir string, err error) error {
	switch {
	case errors.Is(err, disk.ErrLocked):
		return err
	case disk.IsFull(err):
		return &exitError{exitDiskFull, "the disk is full: " + err.Error() +
			"\nNo acknowledged URL is lost. Free disk space, then start the frontier again."}
	}
	return &exitError{exitFatal, err.Error() + "\nRemove the cause, then start the frontier again with " + dir + "."}
}
