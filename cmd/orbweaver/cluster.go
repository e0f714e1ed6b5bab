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
	Keys   ClusterKeysCmd   `cmd:"" help:"Make the keys with which agents on several machines recognize each other."`
	Status ClusterStatusCmd `cmd:"" help:"Print what the coordinators know: agents, hosts, entries, and who leads."`
	Forget ClusterForgetCmd `cmd:"" help:"Tell the coordinators that an agent does not run, so that others get its hosts."`
}

// ClusterKeysCmd implements "cluster keys".
type ClusterKeysCmd struct {
	Out          string   `short:"o" help:"${keys_out}" required:"" placeholder:"DIR"`
	Agents       []string `help:"Make keys for the agents of these names, separated by commas." placeholder:"NAME"`
	Coordinators []string `help:"${keys_coordinators}" placeholder:"NAME"`
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

A coordinator's directory, from --coordinators, holds ca.pem, coordinator.pem and
coordinator.key. An agent's keys do not make a coordinator.

keys/authority holds the authority's private key. Anybody who has this key can
add agents: keep it off the machines that crawl. The command never overwrites a
file. If a key becomes known to others, make a new authority in another
directory, and copy new keys to all agents. Certificates are valid for ten years.

Agents that all run on one machine, on loopback, need no keys.`
}

// A bearer is an agent or a coordinator that is to get keys.
type bearer struct{ flag, kind, name string }

// bearers returns the agents and the coordinators, in the order of the command line.
func (c *ClusterKeysCmd) bearers() (all []bearer, err error) {
	seen := map[string]bool{}
	for _, list := range []struct {
		flag, kind string
		names      []string
	}{{"--agents", "agent", c.Agents}, {"--coordinators", "coordinator", c.Coordinators}} {
		for _, name := range list.names {
			name = strings.TrimSpace(name)
			if err := rpc.CheckName(name); err != nil {
				return nil, fmt.Errorf("%s: %w", list.flag, err)
			}
			if seen[name] {
				return nil, fmt.Errorf("%s: %s %q is named twice; give each its own name", list.flag, list.kind, name)
			}
			seen[name] = true
			all = append(all, bearer{list.flag, list.kind, name})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("cluster keys needs --agents NAME or --coordinators NAME: give names, such as a1,a2,a3")
	}
	return all, nil
}

// Run makes the keys of all agents and coordinators, or none if one of them cannot be made.
func (c *ClusterKeysCmd) Run(out io.Writer) error {
	bad := func(err error) error { return &exitError{exitConfig, words(err)} }
	bearers, err := c.bearers()
	if err != nil {
		return bad(err)
	}
	refused := func(err error) error {
		text := strings.TrimPrefix(err.Error(), rpc.ErrKeys.Error()+": ") +
			"; restore the files, or make a new authority in another directory"
		if errors.Is(err, disk.ErrForeign) {
			return bad(fmt.Errorf("--out %s: the work folder for the keys cannot be used: %s; move it away",
				c.Out, strings.TrimPrefix(err.Error(), rpc.ErrKeys.Error()+": ")))
		}
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
	for _, b := range bearers {
		if err := a.Check(b.name); err != nil {
			if errors.Is(err, rpc.ErrExists) {
				return bad(fmt.Errorf("%s %s: %s exists, and an agent or coordinator may be using its keys; "+
					"no keys were made: leave the name out, or choose another --out", b.flag, b.name,
					filepath.Join(c.Out, b.name)))
			}
			return refused(err)
		}
	}
	for _, b := range bearers {
		issue := a.Issue
		if b.kind == "coordinator" {
			issue = a.IssueCoordinator
		}
		dir, err := issue(b.name)
		if err != nil {
			return refused(err)
		}
		fmt.Fprintf(out, "%s  the keys of %s %s\n", dir, b.kind, b.name)
	}
	return nil
}
