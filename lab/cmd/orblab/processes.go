package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/orbweaver/orbweaver/lab"
	"github.com/orbweaver/orbweaver/lab/bare"
)

// BareCmd implements "orblab bare": it runs the yardstick as a process of its own.
type BareCmd struct {
	Args []string `arg:"" optional:"" passthrough:"" help:"Pass these flags to the yardstick; -h lists them."`
}

// Run runs the yardstick.
func (c *BareCmd) Run(out io.Writer) error {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return bare.Run(args, out)
}

// WebCmd implements "orblab web". An experiment starts this process for its web.
type WebCmd struct {
	Spec  string `arg:"" help:"Serve this web, a WebSpec as JSON."`
	CAOut string `required:"" placeholder:"FILE" help:"Write the certificate of the web's own authority to FILE."`
}

// Run serves until a signal arrives or standard input ends.
func (c *WebCmd) Run(out io.Writer) error {
	return untilEnd(func(ctx context.Context) error { return lab.ServeWeb(ctx, []byte(c.Spec), c.CAOut, out) })
}

// untilEnd calls f with a context that ends when a signal arrives or standard input ends. Standard input ends when the
// experiment ends, also when it is killed.
func untilEnd(f func(ctx context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return f(ctx)
}

// SeenStoreCmd implements "orblab seen-store". An experiment starts this process for one
// store.
type SeenStoreCmd struct {
	Spec string `arg:"" help:"What to run, as JSON."`
}

// Run runs the store until it is done, a signal arrives or standard input ends.
func (c *SeenStoreCmd) Run(out io.Writer) error {
	return untilEnd(func(ctx context.Context) error { return lab.RunStore(ctx, []byte(c.Spec), out) })
}

// FrontierQueueCmd implements "orblab frontier-queue". An experiment starts this process for
// a frontier.
type FrontierQueueCmd struct {
	Spec string `arg:"" help:"What to run, as JSON."`
}

// Run runs the frontier until it is done, a signal arrives or standard input ends.
func (c *FrontierQueueCmd) Run(out io.Writer) error {
	return untilEnd(func(ctx context.Context) error { return lab.RunQueue(ctx, []byte(c.Spec), out) })
}
