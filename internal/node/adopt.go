package node

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
)

// An agent whose machine is lost, and which nobody resumes, has a saved state in the store. Another agent adopts it: it
// opens a second agent with the name and the state of the lost one, in a directory of its own. That one joins the
// cluster at a free port, leaves at once, and so hands all that it knows to the agents that are there.

// Claimed implements membership.Agent. An adopted agent is there to leave, and not to end the crawl.
func (m member) Claimed() bool {
	k := m.a.keeper
	return !m.a.cfg.adopted && (k == nil || k.Orphans == nil || k.Orphans.Claimed())
}

// Unclaimed implements membership.Agent.
func (m member) Unclaimed() string {
	if k := m.a.keeper; k != nil && k.Orphans != nil {
		return k.Orphans.Unclaimed()
	}
	return ""
}

// First implements past.Heir.
func (m member) First() bool { return m.a.membership.HasBegun() && m.a.membership.First() }

// Boots implements past.Heir.
func (m member) Boots() map[string]uint64 { return m.a.membership.Boots() }

// keysOf returns the directory with the keys of another agent: it is beside that of this agent.
func (m member) keysOf(agent string) string {
	own := m.a.given.Cluster.Keys
	if own == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(filepath.Clean(own)), agent)
}

// CanAdopt implements past.Heir.
func (m member) CanAdopt(agent string) error {
	keys := m.keysOf(agent)
	if keys == "" {
		return nil
	}
	if _, err := m.a.given.FS.Stat(keys); err != nil {
		return fmt.Errorf("%w: to take over the state of agent %s, put its keys there", err, agent)
	}
	return nil
}

// Adopt implements past.Heir.
func (m member) Adopt(ctx context.Context, agent, dir string) (err error) {
	cfg := m.a.given
	c := *cfg.Cluster
	c.Name, c.Keys, c.Founder, c.Agents = agent, m.keysOf(agent), "", 1
	c.Listen, c.Join = anyPort(c.Listen), []string{m.a.membership.Address()}
	cfg.Cluster, cfg.Dir, cfg.Archive.Agent, cfg.adopted = &c, dir, agent, true
	cfg.Seeds, cfg.Unblock, cfg.Resume, cfg.Overwrite, cfg.MemoryBytes = nil, nil, true, false, LeastMemory
	cfg.Note = func(text string) { noter(m.a.given.Note).Note("agent " + agent + ", adopted: " + text) }
	adopted, err := Open(cfg)
	if err != nil {
		return err
	}
	leaving, over := context.WithCancel(ctx)
	var left sync.WaitGroup
	left.Go(func() {
		for clock.Pause(leaving, 100*time.Millisecond) {
			if _, err := (member{adopted}).leave(leaving, adoptedLeaves, 0); err == nil {
				return
			}
		}
	})
	r, err := adopted.Run(ctx)
	over()
	left.Wait()
	if err = cmp.Or(err, adopted.Close()); err == nil && r.Stop != crawl.Left {
		err = fmt.Errorf("agent %s did not leave: it ended as %s", agent, r.Stop)
	}
	return err
}

// adoptedLeaves bounds the time in which an adopted agent hands over what it knows. If it is not enough, the state is
// adopted again.
const adoptedLeaves = 24 * time.Hour

// anyPort returns an address with the IP address of another one, and a port that is free.
func anyPort(addr string) string {
	at, _ := netip.ParseAddrPort(addr) // Open has checked it
	return netip.AddrPortFrom(at.Addr(), 0).String()
}
