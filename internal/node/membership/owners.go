package membership

import (
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/contents"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/replicas"
	"github.com/orbweaver/orbweaver/internal/cluster/sites/follower"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// recoveryDefault is how many agents are asked what they know of a host.
const recoveryDefault = 2

// A Division tells which agent owns a host, and what else belongs to which agent. It is a cluster.Placement. Safe for
// concurrent use.
type Division struct {
	cfg       *Config
	members   *members.Members
	sites     *follower.Follower             // nil: no coordinator assigns the hosts
	replicas  *replicas.Replicas             // nil: replication is off
	placed    atomic.Pointer[placement.View] // see Owners
	unheard   atomic.Pointer[time.Time]      // see Unheard; nil: before the first view
	takesPart atomic.Bool                    // this agent is in that view
	saw       atomic.Uint64                  // digest of the view that owners belong to
}

// Owners implements local.Placed: it returns the placement of the view that this agent applied last, or nil before the
// first view.
func (d *Division) Owners() *placement.View { return d.placed.Load() }

func (d *Division) Owner(host string) (string, bool) {
	if d.cfg.ByPages() && d.takesPart.Load() {
		return d.cfg.Name, true
	}
	return d.ready(d.OwnerOf(host), host)
}

// OwnerOf implements replicas.Owners: it returns the agent that owns a host by the view, or "" if it is not known.
func (d *Division) OwnerOf(host string) string {
	if d.sites != nil {
		return d.sites.Owner(host)
	}
	owners := d.Owners()
	if owners == nil {
		return ""
	}
	return owners.Owner(link.HostKey(host)).Name
}

func (d *Division) Tenure(host string) (owner string, mine bool, since uint64) {
	if d.cfg.ByPages() && d.takesPart.Load() {
		return d.cfg.Name, true, 0
	}
	if o := d.sites; o != nil {
		name, since := o.Tenure(host)
		if owner, mine = d.ready(name, host); !mine {
			since = 0
		}
		return owner, mine, since
	}
	owners, key := d.Owners(), link.HostKey(host)
	if owners == nil {
		return "", false, 0
	}
	if owner, mine = d.ready(owners.Owner(key).Name, host); mine {
		since = uint64(owners.Tenure(key).Since)
	}
	return owner, mine, since
}

func (d *Division) View() uint64 {
	if d.sites != nil {
		return d.sites.Table.View()
	}
	return d.saw.Load()
}

func (d *Division) Had(host string) (ever, began bool) {
	if d.sites != nil {
		return d.sites.Table.Had(host)
	}
	owners := d.Owners()
	if owners == nil {
		return false, false
	}
	t := owners.Tenure(link.HostKey(host))
	return t.Ever, t.Began
}

func (d *Division) Inheriting() bool { return !d.replicas.Settled() }

// Unheard implements cluster.Placement. It may be called after Meet.
func (d *Division) Unheard(now time.Time) time.Duration { return now.Sub(*d.unheard.Load()) }

// Before implements cluster.Placement. It returns the agents that are leaving, then those that are back
// and not up yet, then all others. The others are in the host's order: first the agent that would
// own the host if this one were absent, and so on.
func (d *Division) Before(host string) (agents []string, enough int) {
	enough = d.cfg.Recovery
	if enough <= 0 {
		enough = recoveryDefault
	}
	if d.sites != nil {
		agents, leaving := d.sites.Table.Before(host)
		return agents, enough + leaving
	}
	for _, a := range d.members.View().Agents {
		back := a.State == gossip.Joining && a.Boot > 1
		if (a.State == gossip.Leaving || back) && a.Name != d.members.Self.Name {
			agents = append(agents, a.Name)
			enough++
		}
	}
	return append(agents, d.Owners().Others(link.HostKey(host))...), enough
}

func (d *Division) Heirs() cluster.Heirs {
	if d.sites != nil {
		if heirs := d.sites.Table.Heirs(); heirs != nil {
			return heirs
		}
		return nil
	}
	if owners := d.Owners(); owners != nil {
		return owners
	}
	return nil // not a nil *View in an interface
}

func (d *Division) SecondAgent(content contents.Digest) string {
	owners := d.Owners()
	if owners == nil {
		return ""
	}
	return owners.Owner(binary.BigEndian.Uint64(content[:])).Name
}

func (d *Division) DividesRate() string {
	owners := d.Owners()
	if owners == nil {
		return ""
	}
	return owners.Owner(link.HostKey("rate")).Name
}

// ready returns the owner that Owner reports. A host that a lost agent may have owned has no owner
// until its takeover is done.
func (d *Division) ready(name, host string) (string, bool) {
	if name != d.cfg.Name {
		return name, false
	}
	if d.replicas.Barred(host) {
		return "", false
	}
	return name, true
}

func (d *Division) TakenOver(v *gossip.View) bool {
	return d.saw.Load() == v.Digest() && d.replicas.Settled()
}

// settle records which agents own the hosts from now on. late reports that the others had begun when this agent came.
func (d *Division) settle(owners placement.Placement, late bool) {
	self := func(a placement.Owner) bool { return a.Name == d.members.Self.Name }
	d.takesPart.Store(slices.ContainsFunc(owners.Agents(), self))
	if old := d.Owners(); old != nil {
		d.placed.Store(old.Next(owners))
		return
	}
	// Agents that wait for each other begin together, with the same view. An agent came later if it
	// finds more agents, or if it was told that the crawl has begun.
	first := d.members.Self.Boot == 1 && !late && len(owners.Agents()) == max(d.cfg.Agents, 1)
	d.placed.Store(placement.NewView(owners, d.members.Self.Name, placement.Begin{First: first,
		Before: d.members.Self.Boot > 1}))
}
