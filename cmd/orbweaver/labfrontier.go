package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/lab"
)

// LabFrontierCmd is "lab frontier".
type LabFrontierCmd struct {
	labFlags
	Hosts int64 `placeholder:"N" help:"Hosts with links that wait (default: 1000000, quick 20000)."`
	Links int64 `placeholder:"N" help:"Links that wait at the end (default: 20 for each host)."`
	Full  bool  `help:"10 million hosts and 200 million links."`
}

// Help says what comes out.
func (LabFrontierCmd) Help() string {
	return `Links are pushed until so many wait; at each step pushes and pops are measured, in
virtual time. Then whales, crowds and shared addresses try to slow the others: less
than 0.95 of what politeness allows ends the experiment with exit code 1.

  orbweaver lab frontier --quick --out /tmp/lab
  orbweaver lab frontier --full --work /big/disk`
}

// Run measures.
func (c *LabFrontierCmd) Run(out io.Writer) error {
	hosts, links := c.Hosts, c.Links
	again := "orbweaver lab frontier"
	switch {
	case hosts < 0 || links < 0 || hosts >= 1e8 || links >= 1e9:
		return &node.ConfigError{Text: "--hosts and --links are above 0, and below 100 million and a billion"}
	case c.Full && (hosts > 0 || links > 0):
		return &node.ConfigError{Text: "--full is --hosts 10000000 --links 200000000"}
	case c.Full:
		hosts, links = 10_000_000, 200_000_000
		again += " --full"
	}
	if c.Quick {
		again += " --quick"
	}
	if c.Seed != 1 {
		again += fmt.Sprintf(" --seed %d", c.Seed)
	}
	if c.Hosts > 0 {
		again += fmt.Sprintf(" --hosts %d", hosts)
	}
	if c.Links > 0 {
		again += fmt.Sprintf(" --links %d", links)
	}
	self, err := itself()
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return c.run(out, self, &lab.Frontier{Hosts: hosts, Links: links, Again: again})
}

// LabFrontierQueueCmd is "lab frontier-queue": the process of a frontier.
type LabFrontierQueueCmd struct {
	Spec string `arg:"" help:"What to run, as JSON."`
}

// Run runs it, as LabSeenStoreCmd does.
func (c *LabFrontierQueueCmd) Run(out io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // ends with the process
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return lab.RunQueue(ctx, []byte(c.Spec), out)
}
