package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// ClusterCmd implements "cluster": commands for agents that crawl together.
type ClusterCmd struct {
	Keys ClusterKeysCmd `cmd:"" help:"Make the keys with which agents on several machines recognize each other."`
}

// ClusterKeysCmd implements "cluster keys".
type ClusterKeysCmd struct {
	Out    string   `short:"o" help:"${keys_out}" required:"" placeholder:"DIR"`
	Agents []string `help:"Make keys for the agents of these names, separated by commas." required:"" placeholder:"NAME"`
}

// Help explains the files and where to put them.
func (ClusterKeysCmd) Help() string {
	return `Agents on several machines accept each other only with a certificate of the
cluster's authority. Make one directory for each agent, on a machine that you
trust, and copy each to its own machine:

  orbweaver cluster keys --out keys --agents a1,a2,a3
  scp -r keys/a2 second.example.org:

To add an agent later, make its keys with the same authority:

  orbweaver cluster keys --out keys --agents a4

An agent's directory holds these files, which only the file owner can read:

  ca.pem      the authority's certificate
  agent.pem   the agent's certificate, with its name
  agent.key   the agent's private key; no other machine needs it
  gossip.key  the secret of the whole cluster, which encrypts its gossip

keys/authority holds the authority's private key. Anybody who has this key can
add agents: keep it off the machines that crawl. The command never overwrites a
file. If a key becomes known to others, make a new authority in another
directory, and copy new keys to all agents. Certificates are valid for ten years.

Agents that all run on one machine, on loopback, need no keys.`
}

// Run makes the keys of all agents, or of none if one of them cannot be made.
func (c *ClusterKeysCmd) Run(out io.Writer) error {
	bad := func(err error) error { return &exitError{exitConfig, err.Error()} }
	if len(c.Agents) == 0 {
		return bad(errors.New("--agents is empty: give the names of the agents, such as a1,a2,a3"))
	}
	seen := map[string]bool{}
	for i, name := range c.Agents {
		c.Agents[i] = strings.TrimSpace(name)
		if err := rpc.CheckName(c.Agents[i]); err != nil {
			return bad(fmt.Errorf("--agents: %w", err))
		}
		if seen[c.Agents[i]] {
			return bad(fmt.Errorf("--agents: agent %q is named twice; give each agent its own name", name))
		}
		seen[c.Agents[i]] = true
	}
	refused := func(err error) error {
		text := strings.TrimPrefix(err.Error(), rpc.ErrKeys.Error()+": ") +
			"; restore the files, or make a new authority in another directory"
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			remedy := "choose a directory that this user can read and write"
			if errors.Is(p, fs.ErrNotExist) {
				remedy = "restore the file, or make a new authority in another directory"
			}
			text = fmt.Sprintf("%s: %v; %s", p.Path, p.Err, remedy)
		}
		return bad(fmt.Errorf("--out %s: %s", c.Out, text))
	}
	a, err := rpc.OpenAuthority(disk.OS, c.Out, time.Now())
	if err != nil {
		return refused(err)
	}
	if a.Made {
		fmt.Fprintf(out, "%s  the cluster's authority: keep it off the machines that crawl\n", a.Dir())
	}
	for _, name := range c.Agents {
		if err := a.Check(name); err != nil {
			if errors.Is(err, rpc.ErrExists) {
				return bad(fmt.Errorf("--agents %s: %s exists, and an agent may be using its keys; no keys were made: "+
					"leave the name out, or choose another --out", name, filepath.Join(c.Out, name)))
			}
			return refused(err)
		}
	}
	for _, name := range c.Agents {
		dir, err := a.Issue(name)
		if err != nil {
			return refused(err)
		}
		fmt.Fprintf(out, "%s  the keys of agent %s\n", dir, name)
	}
	return nil
}
