package cluster

import (
	"time"
)

// A Placement says which agent crawls a host, since when, who crawled it before, and who has its
// replica. All answers belong to a view of the cluster. Safe for concurrent use.
//
// The agents may compute the owners, or a coordinator may assign them: a host may have no owner for
// any time. When the owner of such a host becomes known, the caller calls Clustered.Assigned. When the
// View changes, or a host gets another owner, it calls Clustered.ViewChanged.
type Placement interface {
	// View identifies the view: two agents with the same View see the same agents in the same states,
	// and no host has different owners in them. It is 0 before the first view.
	View() uint64
	// Owner returns the agent that crawls a host. mine reports that it is this agent. If agent is
	// empty and mine is false, the owner is not known yet.
	Owner(host string) (agent string, mine bool)
	// Tenure is Owner, and tells since when this agent owns the host. since identifies the period of
	// ownership: it differs for each period, and 0 means since the start of the crawl.
	Tenure(host string) (agent string, mine bool, since uint64)
	// Had reports what this agent may know about a host that another agent owns. ever: this agent
	// has owned the host, or has taken over from a lost agent. began: it owned the host at the
	// start of the crawl.
	Had(host string) (ever, began bool)
	// Before returns the agents that may have owned a host of this agent, the most likely first,
	// and the number of answers that are needed.
	Before(host string) (agents []string, enough int)
	// Heirs returns the present heirs, or nil if they are not known yet. Values of the same view are
	// equal.
	Heirs() Heirs
	// Inheriting reports whether this agent still has to take over hosts of a lost agent. When it
	// ends, the caller calls Clustered.ViewChanged.
	Inheriting() bool
	// Unheard returns how long it is since another agent may have made a request to a host of this agent without
	// telling it.
	Unheard(now time.Time) time.Duration
}

// Heirs assigns an heir to each host, by one view of the cluster.
type Heirs interface {
	// Heir returns the agent that has the replica of the host with this key (link.HostKey), or
	// "" if there is no other agent.
	Heir(host uint64) string
}

// Coordinators has what the coordinators of a crawl have said to this agent. Safe for concurrent use.
type Coordinators interface {
	// May reports whether visits may begin now. If it no longer does, call Clustered.CutAll, and Clustered.Resume when
	// it does again.
	May(now time.Time) bool
	// Peek is the Placement's Owner for a question that must not have consequences: if the owner is not known, nobody
	// is asked for it.
	Peek(host string) (agent string, mine bool)
	// Keep tells that this agent has links of a host since before its start, and that the host has no owner yet.
	Keep(host string)
	// Waits says in words what this agent waits for; "": nothing.
	Waits() string
}

// An End tells how the crawl of this agent ends. Safe for concurrent use.
type End interface {
	// Ending reports that this agent has agreed to end the crawl together with the others.
	Ending() bool
	// Uncollected says in words which pages applications have still to collect from this agent; "": none.
	Uncollected() string
	// Unclaimed says in words which saved states of agents wait for an agent; "": none.
	Unclaimed() string
}
