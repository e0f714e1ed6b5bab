package membership

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/lease"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/replicas"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Meet finds the other agents and returns when enough of them are present. paused tells how long operators have paused
// the crawl. If another agent refuses this one, the error is an *input.ConfigError.
func (c *Membership) Meet(ctx context.Context, paused pauses) error {
	c.joining.paused = paused
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.running.Go(func() {
		if err := c.server.Run(run); err != nil {
			c.events.Write("calls-failed", report.F("error", err))
		}
	})
	if c.contents != nil {
		c.contents.Begin(run)
	}
	at, err := c.joining.find(ctx)
	if err != nil {
		return c.joining.refused(err)
	}
	if c.joining.who.Crawl != c.Members.Crawl().String() {
		c.joining.who.Crawl = c.Members.Crawl().String()
		if err := c.joining.remember(); err != nil {
			return err
		}
	}
	calls := gossiping{&c.joining, c.leases}
	m, err := gossip.Open(gossip.Config{
		Self: c.Members.Self, Advertise: netip.MustParseAddrPort(c.Members.Self.Addr),
		Label: c.Members.Crawl().String(), Secret: c.secret(),
		Packets: c.joining.listener.Packets(), Streams: c.joining.listener.Gossip(),
		Calls: calls, Watcher: calls, Ended: c.joining.endings.Gossip(),
	})
	if err != nil {
		return err
	}
	c.Members.Join(m)
	if err := c.joining.enter(ctx, m, at); err != nil {
		return c.joining.refused(err)
	}
	told, cancelTold := context.WithTimeout(ctx, time.Second)
	m.Announce(told, gossip.Up) // agents that are not told in time hear it by gossip
	cancelTold()
	c.running.Go(func() { c.sites.Run(run) })
	c.events.Write("joined", report.F("agent", c.Members.Self.Name), report.F("address", c.Members.Self.Addr),
		report.F("crawl", c.Members.Crawl().String()))
	v, err := c.joining.wait(ctx, m)
	if err != nil {
		return err
	}
	c.age.Since(0, c.joining.Clock.Now()) // the wait does not count as running time
	c.leases.Join(c.joining.who.Others)
	c.sites.Answer()
	if err := c.see(v); err != nil {
		return err
	}
	c.joining.unmet = ""
	return nil
}

// gossiping is what gossip calls, and whom it tells. It implements gossip.Calls and gossip.Watcher.
type gossiping struct {
	joining *joining
	leases  *lease.Service
}

func (g gossiping) Dial(ctx context.Context, addr, name string) (net.Conn, error) {
	return rpc.DialGossip(ctx, g.joining.keys, g.joining.cfg.network().Dial, addr, name)
}

func (g gossiping) Hello(ctx context.Context, addr string) error {
	_, err := g.joining.ask(ctx, addr)
	return err
}

func (g gossiping) Pinged(digest uint64, sent time.Time) { g.leases.Contact(digest, sent) }

func (g gossiping) Refused() { g.joining.listener.RefusedGossip() }

func (c *Membership) secret() []byte {
	if c.joining.keys == nil {
		return nil
	}
	return c.joining.keys.Gossip()
}

// see applies a view of the cluster.
func (c *Membership) see(v *gossip.View) error {
	if err := c.leases.Look(v); err != nil {
		return err
	}
	c.joining.nameMembers(v)
	c.gone.See(v)
	c.miss(v)
	defer c.replicas.Wake() // for the lists of archives
	return c.divide(v)
}

// divide assigns the hosts to the agents of a view.
func (c *Membership) divide(v *gossip.View) error {
	up, old := members.Up(v), c.Division.Owners()
	c.most.Store(max(c.most.Load(), int64(len(up))))
	if c.replicas != nil && c.sites == nil {
		var before replicas.OwnersBefore
		if old != nil {
			before = func(host string) string { return old.Owner(link.HostKey(host)).Name }
		}
		c.replicas.Lose(v, before, c.joining.Clock.Now()) // before any caller asks for the owner of their hosts
		defer c.replicas.TakeOver()                       // when the new owners are known
	}
	defer c.Division.saw.Store(v.Digest())
	if len(up) == 0 || old != nil && slices.Equal(old.Agents(), up) {
		return nil
	}
	owners, err := c.cfg.Place(up)
	if err != nil {
		return err
	}
	c.Division.settle(owners, c.joining.late.Load())
	var names []string
	for _, a := range up {
		names = append(names, a.Name)
	}
	c.events.Write("view", report.F("agents", names))
	return nil
}

// miss notes since when the agents that are gone in a view cannot have made requests. It ends the calls to
// those that have been started again.
func (c *Membership) miss(v *gossip.View) {
	last := c.Division.unheard.Load()
	if last == nil {
		last = &c.started
	}
	if c.seen != nil {
		for _, a := range c.seen.Agents {
			b, there := v.Agent(a.Name)
			if there && b.Instance == a.Instance && b.Boot == a.Boot {
				continue
			}
			if there && a.Name != c.Members.Self.Name {
				// It has been started again. After a power failure its earlier connections are silent.
				c.Members.Client.Forget(a.Name)
			}
			if at := c.joining.Clock.Now().Add(-c.Members.Gossip().Silent(a)); at.After(*last) {
				last = &at
			}
		}
	}
	c.seen = v
	c.Division.unheard.Store(last)
}

// Tend applies new views and looks for the end until ctx is done. It keeps the leases until visiting is done. fail ends
// the run. Without Meet it does nothing.
func (c *Membership) Tend(ctx, visiting context.Context, fail func(error)) {
	m := c.Members.Gossip()
	if m == nil {
		return
	}
	c.leases.Tend(visiting, c.Cluster.Permits)
	if o := c.sites; o != nil {
		o.Attach(c.Cluster, c.Cluster.Permits) // from now on the crawl loop takes calls
		c.running.Go(func() {
			if c.ends.Obey(ctx) {
				fail(input.Errorf("{coordinator} %s: the coordinators have ended this crawl, and URLs wait in %s; to "+
					"crawl them, start the coordinators and the agents with new directories",
					strings.Join(c.cfg.Coordinators, ","), c.joining.Dir))
			}
		})
		c.running.Go(func() {
			select {
			case err := <-o.Failed():
				fail(c.joining.refused(err))
			case <-ctx.Done():
			}
		})
	}
	c.running.Go(func() {
		for {
			select {
			case <-c.sites.Changes():
				c.stay(ctx, m)
			case <-m.Changes():
				saw, bars := c.Division.View(), c.replicas.Barring()
				if err := c.see(m.View()); err != nil {
					fail(err)
				}
				if d := c.Division; c.sites == nil &&
					(d.View() != saw || c.replicas.Barring() != bars || d.Inheriting()) {
					c.Cluster.ViewChanged()
				}
				if err := c.joining.recall(m.View(), true); err != nil {
					fail(err)
				}
				c.stay(ctx, m)
			case err := <-m.Failed():
				fail(err)
				return
			case <-ctx.Done():
				return
			}
		}
	})
	c.running.Go(func() { c.ends.Seek(ctx) })
	c.running.Go(func() { c.orders.Tend(ctx) })
	c.running.Go(func() { c.gone.Tend(ctx) })
	if k := c.replicas; k != nil {
		c.running.Go(func() { k.Tend(ctx, c.Cluster) })
		c.running.Go(func() { c.lists.Tend(ctx) })
		if c.refetch != nil {
			c.running.Go(func() { c.refetch.Tend(ctx, c.Cluster) })
		}
		c.running.Go(func() {
			if err := k.Run(ctx); err != nil {
				fail(err)
			}
		})
		c.running.Go(func() {
			select {
			case err := <-k.Broken():
				fail(err)
			case <-ctx.Done():
			}
		})
	}
	if c.contents != nil {
		c.contents.Tend(ctx, fail)
	}
	c.running.Go(func() { c.limit.Keep(ctx, c.Cluster, c.atPageLimit) })
}

// atPageLimit stops this agent because the agents have reached the page limit.
func (c *Membership) atPageLimit(ctx context.Context) error {
	c.joining.admissions.set(ended)
	if err := c.agent.Halt(ctx, crawl.PageLimit); !errors.Is(err, crawl.ErrNotRunning) {
		return err
	}
	return nil
}

// present returns the names of the agents that are up, this one included. Safe for concurrent use.
func (c *Membership) present() (names []string) {
	if m := c.Members.Gossip(); m != nil {
		for _, a := range members.Up(m.View()) {
			names = append(names, a.Name)
		}
	}
	return names
}

// Others returns the names of the other agents that are up.
func (c *Membership) Others() []string {
	return slices.DeleteFunc(c.present(), func(name string) bool { return name == c.Members.Self.Name })
}

// Boots returns all agents that are there, this one included, with the numbers of their starts. Safe for concurrent
// use.
func (c *Membership) Boots() map[string]uint64 {
	boots := map[string]uint64{}
	if m := c.Members.Gossip(); m != nil {
		for _, a := range m.View().Agents {
			boots[a.Name] = a.Boot
		}
	}
	return boots
}

// First reports that no agent that is up has a name before that of this one. Safe for concurrent use.
func (c *Membership) First() bool {
	up := c.present()
	return len(up) > 0 && slices.Min(up) == c.Members.Self.Name
}

// Age returns how long the cluster has crawled, without the time before the first agent began.
func (c *Membership) Age() time.Duration { return c.age.Running(c.joining.Clock.Now()) }

// Nothing reports that the agents have ended the crawl together, and that none of them has fetched anything.
func (c *Membership) Nothing() bool { return c.ends.Nothing() }

// HasBegun reports whether this agent has met the others. Safe for concurrent use.
func (c *Membership) HasBegun() bool { return c.Members.Gossip() != nil && c.Division.Owners() != nil }
