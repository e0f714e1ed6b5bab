package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/input"
)

// ClusterForgetCmd implements "cluster forget".
type ClusterForgetCmd struct {
	Agent       string   `arg:"" help:"Forget the agent of this name."`
	Coordinator []string `help:"${status_coordinators}" default:"127.0.0.1:7490" placeholder:"ADDR"`
	Keys        string   `help:"${forget_keys}" placeholder:"DIR"`
}

// Help explains when the command is needed.
func (ClusterForgetCmd) Help() string {
	return `Coordinators give the hosts of a lost agent to its heirs only if another agent
confirms that the lost one is silent. Only an agent can that was in the crawl when
the lost one last heard from the coordinators. If there is none, "orbweaver cluster
status" shows an agent as up that has not been heard of for long, and its hosts wait.

If you know that the agent does not run, say so:

  orbweaver cluster forget a2 --keys keys/c1 --coordinator 192.0.2.1:7490

If it runs all the same, two agents may crawl its hosts at the same time. The
coordinators refuse to forget an agent that they have heard of in the last 9 s. The
agent may come back later: it then joins like a new one.

The keys must be a coordinator's.`
}

// forgetPatience bounds the whole command: the coordinators may be electing a leader.
const forgetPatience = 30 * time.Second

// Run asks the coordinators, one after the other, until the one that leads has obeyed.
func (c *ClusterForgetCmd) Run(out io.Writer) error {
	ask, err := coordination.Ask(c.Keys, c.Coordinator)
	if err != nil {
		return err
	}
	defer ask.Close()
	ctx, cancel := context.WithTimeout(context.Background(), forgetPatience)
	defer cancel()
	if err := ask.Forget(ctx, c.Coordinator, c.Agent); err != nil {
		if setting, ok := errors.AsType[*input.ConfigError](err); ok {
			return setting
		}
		return &exitError{exitOther, fmt.Sprintf("%v\nSee \"orbweaver cluster status\".", err)}
	}
	_, err = fmt.Fprintf(out, "agent %s is off the roster: its heirs continue with its hosts\n", c.Agent)
	return err
}
