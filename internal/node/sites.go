package node

import (
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/sites"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
)

// sitesDir has the table of hosts and their agents.
const sitesDir = "state/sites"

// openSites opens the table of hosts, if coordinators assign them.
func (a *Agent) openSites() error {
	c := a.membership
	if c.cfg.partition() != PartitionSites {
		return nil
	}
	f, err := follower.Open(follower.Config{
		Sites: sites.Config{FS: a.fs, Dir: a.dir(sitesDir), Coordinators: c.cfg.Coordinators,
			MemoryBytes: a.budget.of(shareSites), Clock: a.cfg.Clock},
		Members: c.members, Settings: c.joining.sharedTerms(), Agent: followed{a}, Events: a.parts.Events,
	})
	if err != nil {
		return err
	}
	a.onClose(f.Close)
	c.sites, c.members.Roster, c.joining.sites = f, f, f
	a.others.Right, a.others.WaitsFor, a.others.PeekOwner = f.Table.Right().May, f.Waits, f.Table.Peek
	return nil
}

// followed is the follower.Agent of an agent.
type followed struct{ a *Agent }

// Waiting implements follower.Agent.
func (d followed) Waiting() (hosts, urls uint64) {
	if s := d.a.crawler.View.Status(); s != nil {
		hosts, urls = uint64(max(0, s.Frontier.Hosts)), uint64(max(0, s.Queued))
	}
	return hosts, urls
}

// Unchecked implements follower.Agent. Hosts that a proxy looks up, or that --connect-to leads elsewhere, may have no
// address here.
func (d followed) Unchecked(host string) bool {
	return d.a.cfg.Fetch.Proxy != nil || d.a.fetcher.Leads(host)
}

// Lose implements follower.Agent.
func (d followed) Lose(v *gossip.View, owner func(host string) string) {
	if k := d.a.membership.replicas; k != nil {
		k.Lose(v, owner, d.a.now())
	}
}

// TakeOver implements follower.Agent.
func (d followed) TakeOver() {
	if k := d.a.membership.replicas; k != nil {
		k.TakeOver()
	}
}
