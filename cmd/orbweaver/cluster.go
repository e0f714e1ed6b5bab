package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// ClusterCmd is about agents that crawl together.
type ClusterCmd struct {
	Keys ClusterKeysCmd `cmd:"" help:"Make the keys with which agents on several machines know each other."`
}

// A ClusterKeysCmd is "cluster keys".
type ClusterKeysCmd struct {
	Out    string   `help:"Directory of the cluster's authority, with a directory for each agent in it; made if it is not there." required:"" placeholder:"DIR"`
	Agents []string `help:"Names of agents, with commas between them." required:"" placeholder:"NAME"`
}

// Help teaches what becomes of the files.
func (ClusterKeysCmd) Help() string {
	return `Agents on other machines are let in only with a certificate of the cluster's
authority. Make one directory for each agent, on a machine that you trust, and
bring each to its own machine:

  orbweaver cluster keys --out keys --agents a1,a2,a3
  scp -r keys/a2 second.example.org:

An agent that comes later gets its keys from the same authority:

  orbweaver cluster keys --out keys --agents a4

What is in an agent's directory, readable for its owner alone:

  ca.pem      the authority's certificate: whom to believe
  agent.pem   the agent's certificate, with its name
  agent.key   the key that belongs to it; no other machine needs it
  gossip.key  the secret of the whole cluster, for the packets of gossip

keys/authority has the authority's own key. Who has that can make agents: keep
it off the machines that crawl. Nothing is ever overwritten. When a key is lost
to somebody, make a new authority in another directory, and bring new keys to
all agents. Certificates are good for ten years.

Agents that are all on one machine, on loopback, need no keys.`
}

// Run makes all the bundles, or none if one cannot be made.
func (c *ClusterKeysCmd) Run(out io.Writer) error {
	bad := func(err error) error { return &exitError{exitConfig, err.Error()} }
	if len(c.Agents) == 0 {
		return bad(errors.New("--agents: the names of the agents that are to have keys, such as a1,a2,a3"))
	}
	seen := map[string]bool{}
	for i, name := range c.Agents {
		c.Agents[i] = strings.TrimSpace(name)
		if err := rpc.CheckName(c.Agents[i]); err != nil {
			return bad(err)
		}
		if seen[c.Agents[i]] {
			return bad(fmt.Errorf("agent %q is named twice: each needs a name of its own", name))
		}
		seen[c.Agents[i]] = true
	}
	a, err := rpc.OpenAuthority(disk.OS, c.Out, time.Now())
	if err != nil {
		return bad(err)
	}
	if a.Made {
		fmt.Fprintf(out, "%s  the cluster's authority: keep it off the machines that crawl\n", a.Dir())
	}
	for _, name := range c.Agents {
		if err := a.Check(name); err != nil {
			return bad(fmt.Errorf("%w; no keys were made: an agent may be using these", err))
		}
	}
	for _, name := range c.Agents {
		dir, err := a.Issue(name)
		if err != nil {
			return bad(err)
		}
		fmt.Fprintf(out, "%s  the keys of agent %s\n", dir, name)
	}
	return nil
}
