package membership

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/sites"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/node/local"
)

// sitesDir has the table of hosts and their agents.
const sitesDir = "state/sites"

// openSites opens the table of hosts, if coordinators assign them.
func (c *Membership) openSites(m Memory) error {
	if !c.cfg.ByCoordinators() {
		return nil
	}
	f, err := follower.Open(follower.Config{
		Sites: sites.Config{FS: c.joining.FS, Dir: c.joining.path(sitesDir), Coordinators: c.cfg.Coordinators,
			MemoryBytes: m.Sites, Clock: c.joining.Clock},
		Members: c.Members, Calls: follower.Peers{Members: c.Members}, Settings: c.joining.sharedTerms(),
		Events: c.events, Agent: followed{c.agent, c.Division, c.joining.Clock},
	})
	if err != nil {
		return err
	}
	c.closers = append(c.closers, f)
	c.sites, c.Members.Roster, c.joining.sites, c.Division.sites = f, f, f, f
	c.parts.Coordinators = f
	return nil
}

// followed is a follower.Agent.
type followed struct {
	agent    Agent
	division *Division
	clock    clock.Clock
}

func (d followed) Waiting() (hosts, urls uint64) {
	if s := d.agent.Progress(); s != nil {
		hosts, urls = uint64(max(0, s.Frontier.Hosts)), uint64(max(0, s.Queued))
	}
	return hosts, urls
}

func (d followed) Unchecked(host string) bool { return d.agent.Unchecked(host) }

func (d followed) Lose(v *gossip.View, owner func(host string) string) {
	if k := d.division.replicas; k != nil {
		k.Lose(v, owner, d.clock.Now())
	}
}

func (d followed) TakeOver() {
	if k := d.division.replicas; k != nil {
		k.TakeOver()
	}
}

// Assigned returns what coordinators have said of hosts; nil: there are none.
func (c *Membership) Assigned() local.Assigned {
	if c.sites == nil {
		return nil
	}
	return assigned{c.sites}
}

// An assigned is a local.Assigned.
type assigned struct{ f *follower.Follower }

func (s assigned) LookUp(ctx context.Context, host string) {
	if s.f.IsAttached() {
		_, _ = s.f.Table.Lookup(ctx, []string{host})
	}
}
func (s assigned) Waits(host string) bool     { return s.f.Table.Waits(host) }
func (s assigned) Explain(host string) string { return s.f.Table.Explain(host) }
