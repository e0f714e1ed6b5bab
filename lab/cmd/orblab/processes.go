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

// BareCmd is "orblab bare": the yardstick in a process of its own.
type BareCmd struct {
	Args []string `arg:"" optional:"" passthrough:"" help:"Flags of the yardstick: -h lists them."`
}

// Run measures.
func (c *BareCmd) Run(out io.Writer) error {
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	return bare.Run(args, out)
}

// WebCmd is "lab web": the process that an experiment starts for its web.
type WebCmd struct {
	Spec  string `arg:"" help:"The web, as JSON."`
	CAOut string `required:"" placeholder:"FILE" help:"Write the certificate of the web's own authority here."`
}

// Run serves until a signal comes or standard input ends.
func (c *WebCmd) Run(out io.Writer) error {
	return lab.ServeWeb(context.Background(), []byte(c.Spec), c.CAOut, os.Stdin, out)
}

// SeenStoreCmd is "lab seen-store": the process of one store.
type SeenStoreCmd struct {
	Spec string `arg:"" help:"What to run, as JSON."`
}

// Run runs it, until it is done, a signal comes or standard input ends: when
// the experiment ends, however that may be.
func (c *SeenStoreCmd) Run(out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return lab.RunStore(ctx, []byte(c.Spec), out)
}

// FrontierQueueCmd is "lab frontier-queue": the process of a frontier.
type FrontierQueueCmd struct {
	Spec string `arg:"" help:"What to run, as JSON."`
}

// Run runs it, as SeenStoreCmd does.
func (c *FrontierQueueCmd) Run(out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return lab.RunQueue(ctx, []byte(c.Spec), out)
}
