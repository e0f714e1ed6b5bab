package membership

import (
	"context"
	"errors"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gone"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// leaveTime bounds what an agent does to tell the others that it goes.
const leaveTime = 3 * time.Second

// Leave makes this agent hand all its hosts to the other agents, within a time, and then end. Applications have the
// time collect to collect its pages. It returns the number of other agents when the handoff has started. The error is
// crawl.ErrNotRunning if the crawl loop ends already. Safe for concurrent use.
func (c *Membership) Leave(ctx context.Context, within, collect time.Duration) (others int, err error) {
	m := c.Members.Gossip()
	if others = len(c.Others()); others == 0 {
		return 0, errors.New("no other agent is present that could take the hosts")
	}
	if err := c.Cluster.Leave(ctx, within, collect); err != nil {
		return others, err
	}
	c.sites.WillLeave()
	// Agents that are not told in time hear it by gossip. Until then they pass on the links that
	// they get.
	if err := m.Announce(ctx, gossip.Leaving); err != nil {
		c.events.Write("leave-unheard", report.F("error", err))
	}
	return others, nil
}

// stay undoes a Leave if all agents are leaving: the first of them by name must take the hosts of
// the others. Otherwise each would give everything to the next, which would give it back.
func (c *Membership) stay(ctx context.Context, m *gossip.Member) {
	if o := c.sites; o != nil {
		if !o.IsLast() {
			return
		}
	} else if !lastLeaving(m.View(), c.Members.Self.Name) {
		return
	}
	if was, err := c.Cluster.Stay(ctx); err != nil || !was {
		return // the crawl is over
	}
	c.sites.Stays()
	told, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	if err := m.Announce(told, gossip.Up); err != nil {
		c.events.Write("leave-unheard", report.F("error", err))
	}
}

// lastLeaving reports whether all agents are leaving, and the one with this name is the first of them by name.
func lastLeaving(v *gossip.View, name string) bool {
	var self gossip.State
	for _, a := range v.Agents {
		switch {
		case a.State == gossip.Up, a.State == gossip.Leaving && a.Name < name:
			return false
		case a.Name == name:
			self = a.State
		}
	}
	return self == gossip.Leaving
}

// Entrust leaves the lists of lost archives to the other agents, when this agent has handed over its hosts.
func (c *Membership) Entrust() error { return c.lists.Entrust() }

// Part tells other agents why this one ends, before it departs. It takes at most a second. If all end together, it
// tells no agent.
func (c *Membership) Part(stop crawl.Stop, err error) {
	reason := string(stop)
	switch {
	case disk.IsFull(err):
		reason = gone.DiskFull
	case err != nil:
		reason = gone.Failed
	case stop == crawl.Finished || stop == crawl.PageLimit || stop == crawl.TimeLimit:
		return
	}
	c.gone.Part(reason)
}

// Depart leaves the cluster, and waits for this membership's goroutines. If it is not in order, the others take this
// agent for lost, with its archive. A second call does nothing.
func (c *Membership) Depart(inOrder bool) error {
	if c.stop == nil {
		return nil
	}
	var err error
	if m := c.Members.Gossip(); m != nil {
		ctx, cancel := context.WithTimeout(context.Background(), leaveTime/2)
		c.sites.Leave(ctx)
		cancel()
		ctx, cancel = context.WithTimeout(context.Background(), leaveTime)
		if inOrder {
			m.Leave(ctx) // agents that do not hear it detect it
		}
		cancel()
		err = m.Close()
	}
	c.stop()
	c.running.Wait()
	c.stop = nil
	return err
}
