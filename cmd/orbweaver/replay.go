package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/output/replay"
)

// ReplayCmd implements "replay".
type ReplayCmd struct {
	Dirs      []string `arg:"" optional:"" name:"path" help:"${replay_paths}"`
	Listen    string   `default:"127.0.0.1:0" placeholder:"ADDR" help:"${replay_listen}"`
	Originals []string `placeholder:"DIR" help:"${replay_originals}"`
}

// Help explains where the pages come from.
func (ReplayCmd) Help() string {
	return `The command prints a URL. Open it in a browser on this machine: it lists the
archived pages, and shows them as they were. Ctrl-C ends the command.

  orbweaver replay crawl
  orbweaver replay a1 a2 a3
  orbweaver replay *.warc.gz

The browser requests nothing from the live web: pages that the archive lacks are
shown as missing. Scripts of archived pages run, each archived site apart from
the others and from the viewer. The browser must resolve names below localhost
to this machine by itself: Chromium, Chrome, Edge and Firefox do.

The URL has a secret part, so that other users of the machine cannot read the
archive.`
}

// Run serves the archive until a signal ends the command.
func (c *ReplayCmd) Run(out io.Writer, errs cli.ErrorOutput, given *elsewhere) (err error) {
	c.Dirs = given.dirs(c.Dirs)
	name := strings.Join(c.Dirs, ", ")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	listeners, err := replay.Listen(c.Listen)
	if err != nil {
		return err
	}
	defer func() {
		for _, ln := range listeners {
			ln.Close() // unless serve has closed it
		}
	}()
	in, err := openInputs(ctx, c.Dirs, c.Originals)
	if err != nil {
		return err
	}
	archive, err := openArchive(ctx, errs, in, c.Dirs, c.Originals)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	if err := archive.pages(ctx); err != nil {
		return err
	}
	server := replay.New(replay.Config{Archive: archive.Archive, Addr: listeners[0].Addr().String(),
		Name: name})
	fmt.Fprintf(out, "Open this URL in a browser; Ctrl-C ends the replay:\n\n  %s\n", server.URL())
	return serve(ctx, server, listeners)
}

// serve serves the listeners until ctx ends. It closes them.
func serve(ctx context.Context, handler http.Handler, listeners []net.Listener) error {
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: log.New(io.Discard, "", 0)}
	group, ctx := errgroup.WithContext(ctx)
	for _, ln := range listeners {
		group.Go(func() error {
			if err := web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
	}
	group.Go(func() error {
		<-ctx.Done()
		return web.Close()
	})
	return group.Wait()
}
