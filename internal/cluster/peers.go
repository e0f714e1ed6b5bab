package cluster

import "context"

// A Placement says which agent crawls a host, since when, who crawled it before, and who has its
// replica. All answers belong to a view of the cluster. Safe for concurrent use.
//
// The agents may compute the owners, or a coordinator may assign them: a host may have no owner for
// any time. When the owner of such a host becomes known, the caller calls Clustered.Assigned. When the
// View changes, or a host gets another owner, it calls Clustered.ViewChanged.
type Placement interface {
	// View identifies the view: two agents with the same View see the same agents in the same states,
	// and no host has different owners in them.
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
}

// Heirs assigns an heir to each host, by one view of the cluster.
type Heirs interface {
	// Heir returns the agent that has the replica of the host with this key (link.HostKey), or
	// "" if there is no other agent.
	Heir(host uint64) string
}

// An Exchange calls other agents. Safe for concurrent use.
type Exchange interface {
	// Push sends concatenated encodings of count links to an agent. It returns nil when they
	// are durable there. hops is how often they were passed on before. After an error the
	// crawl pushes the links again, so an agent may get links twice. links is valid until
	// Push returns.
	Push(ctx context.Context, agent string, links []byte, count, hops int) error
	// Claim asks an agent for hosts, by the asker's View. Without an error there is a verdict for
	// each.
	Claim(ctx context.Context, agent string, view uint64, hosts []string) ([]ClaimAnswer, error)
	// Hand sends an agent count concatenated encodings of handoff.Records, at most handoff.MaxBatch
	// bytes. It returns nil when they are durable there.
	Hand(ctx context.Context, agent string, records []byte, count int) error
	// Recall asks an agent what its strategy knows of URLs, given by concatenated encodings of count
	// links. If accept is true, the agent owns the URLs, and accepts those that it does not know.
	// Without an error there is an answer for each.
	Recall(ctx context.Context, agent string, links []byte, count int, accept bool) ([]Recalled, error)
	// Identity returns a name that identifies an agent and its crawl directory.
	Identity(agent string) string
}
