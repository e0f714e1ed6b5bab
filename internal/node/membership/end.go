package membership

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
)

// busy is the termination.Agent of an agent.
type busy struct{ c *Membership }

// Settled implements termination.Agent: this agent has applied the current view, has no takeover left to do, reads no
// list of a lost archive, waits for the owner of no host and has no archive file to copy.
func (b busy) Settled() bool {
	v := b.c.Members.View()
	return b.c.Division.TakenOver(v) && b.c.refetch.Settled() && b.c.sites.Agrees(v) && b.c.spares.Settled()
}

// Missing implements termination.Agent.
func (b busy) Missing() bool { return len(b.c.joining.gone()) > 0 }

// Expected implements termination.Agent.
func (b busy) Expected(v *gossip.View, now time.Time) bool {
	return b.c.joining.admissions.expected(v, now)
}

// Hold implements termination.Agent.
func (b busy) Hold(until time.Time) { b.c.joining.admissions.hold(until) }

// Close implements termination.Agent.
func (b busy) Close() { b.c.joining.admissions.set(ended) }

// Lost implements termination.Agent.
func (b busy) Lost(v *gossip.View) bool { return b.c.refetch.Wanted(v) }

// Refetch implements termination.Agent.
func (b busy) Refetch(v *gossip.View) bool { return b.c.refetch.Begin(v) }
