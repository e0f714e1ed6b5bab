package node

import (
	"encoding/binary"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/contents"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// recoveryDefault is how many agents are asked what they know of a host.
const recoveryDefault = 2

// owners returns the placement of the view that this agent applied last, or nil before the first
// view.
func (c *membership) owners() *placement.View { return c.placed.Load() }

// Owner implements cluster.Placement.
func (c *membership) Owner(host string) (string, bool) {
	if c.cfg.byPages() && c.takesPart.Load() {
		return c.cfg.Name, true
	}
	return c.ready(c.OwnerOf(host), host)
}

// OwnerOf implements replicas.Owners: it returns the agent that owns a host by the view, or "" if it is not known.
func (c *membership) OwnerOf(host string) string {
	if c.sites != nil {
		return c.sites.Owner(host)
	}
	owners := c.owners()
	if owners == nil {
		return ""
	}
	return owners.Owner(link.HostKey(host)).Name
}

// Tenure implements cluster.Placement.
func (c *membership) Tenure(host string) (owner string, mine bool, since uint64) {
	if c.cfg.byPages() && c.takesPart.Load() {
		return c.cfg.Name, true, 0
	}
	if o := c.sites; o != nil {
		name, since := o.Tenure(host)
		if owner, mine = c.ready(name, host); !mine {
			since = 0
		}
		return owner, mine, since
	}
	owners, key := c.owners(), link.HostKey(host)
	if owners == nil {
		return "", false, 0
	}
	if owner, mine = c.ready(owners.Owner(key).Name, host); mine {
		since = uint64(owners.Tenure(key).Since)
	}
	return owner, mine, since
}

// View implements cluster.Placement.
func (c *membership) View() uint64 {
	if c.sites != nil {
		return c.sites.Table.View()
	}
	return c.saw.Load()
}

// Had implements cluster.Placement.
func (c *membership) Had(host string) (ever, began bool) {
	if c.sites != nil {
		return c.sites.Table.Had(host)
	}
	owners := c.owners()
	if owners == nil {
		return false, false
	}
	t := owners.Tenure(link.HostKey(host))
	return t.Ever, t.Began
}

// Inheriting implements cluster.Placement.
func (c *membership) Inheriting() bool { return !c.replicas.Settled() }

// Before implements cluster.Placement. It returns the agents that are leaving, then those that are back
// and not up yet, then all others. The others are in the host's order: first the agent that would
// own the host if this one were absent, and so on.
func (c *membership) Before(host string) (agents []string, enough int) {
	enough = c.cfg.Recovery
	if enough <= 0 {
		enough = recoveryDefault
	}
	if c.sites != nil {
		agents, leaving := c.sites.Table.Before(host)
		return agents, enough + leaving
	}
	for _, a := range c.members.View().Agents {
		back := a.State == gossip.Joining && a.Boot > 1
		if (a.State == gossip.Leaving || back) && a.Name != c.members.Self.Name {
			agents = append(agents, a.Name)
			enough++
		}
	}
	return append(agents, c.owners().Others(link.HostKey(host))...), enough
}

// Heirs implements cluster.Placement.
func (c *membership) Heirs() cluster.Heirs {
	if c.sites != nil {
		if heirs := c.sites.Table.Heirs(); heirs != nil {
			return heirs
		}
		return nil
	}
	if owners := c.owners(); owners != nil {
		return owners
	}
	return nil // not a nil *View in an interface
}

// SecondAgent implements contents.Placed.
func (c *membership) SecondAgent(content contents.Digest) string {
	owners := c.owners()
	if owners == nil {
		return ""
	}
	return owners.Owner(binary.BigEndian.Uint64(content[:])).Name
}

// DividesRate implements shares.Placed.
func (c *membership) DividesRate() string {
	owners := c.owners()
	if owners == nil {
		return ""
	}
	return owners.Owner(link.HostKey("rate")).Name
}

// ready returns the owner that Owner reports. A host that a lost agent may have owned has no owner
// until its takeover is done.
func (c *membership) ready(name, host string) (string, bool) {
	if name != c.cfg.Name {
		return name, false
	}
	if c.replicas.Barred(host) {
		return "", false
	}
	return name, true
}

// TakenOver implements spare.Takeovers.
func (c *membership) TakenOver(v *gossip.View) bool {
	return c.saw.Load() == v.Digest() && c.replicas.Settled()
}
