package node

import (
	"context"
	"errors"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/sites"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/input"
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
			MemoryBytes: a.budget.of(shareSites), Now: a.now},
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
	if s := d.a.crawler.Status(); s != nil {
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

// errEnded reports a crawl that the coordinators have ended.
var errEnded = errors.New("the coordinators have ended this crawl")

// obey ends this agent's run when the coordinators have ended the crawl. Nothing waits then, unless the agent was
// not in the crawl at its end. Such an agent cannot ask the others about its hosts. It need not if it has no URLs.
func (d *commonEnd) obey(ctx context.Context, fail func(error)) {
	select {
	case <-d.c.sites.Over():
	case <-ctx.Done():
		return
	}
	p, err := d.c.a.cluster.Pulse(ctx)
	if err != nil {
		return
	}
	if !d.endOwn(ctx, p.Activity) {
		left, err := d.c.a.cluster.EndWithoutLinks(ctx)
		if err != nil {
			return
		}
		if left {
			fail(input.Errorf("--coordinator %s: %v, and URLs wait in %s; to crawl them, start the coordinators and "+
				"the agents with new directories", strings.Join(d.c.cfg.Coordinators, ","), errEnded, d.c.a.cfg.Dir))
			return
		}
	}
	d.ended.Store(true)
	d.c.joining.admissions.set(ended)
}
