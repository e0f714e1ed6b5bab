package membership

import (
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// Config configures an agent that crawls together with others.
type Config struct {
	// Name is the agent's name. No other agent of the cluster may have it.
	Name string
	// Capacity is the agent's weight: its share of the hosts, relative to the other
	// agents. It is above 0, at most 1000.
	Capacity float64
	// Listen is the IP address and the port at which other agents reach this one. It
	// must be a loopback address, unless there are Keys.
	Listen string
	// Join lists the listen addresses of other agents. At least one of them must answer. An address may
	// have a host name in place of the IP address; all addresses of the name are asked.
	Join []string
	// Founder is the name of the agent that starts the cluster; it is the same at all agents. If it is
	// empty, this agent starts the cluster if Join is empty or begins with Listen.
	Founder string
	// Keys is the directory that "cluster keys" made for this agent.
	Keys string
	// Partition is how the agents divide the work: PartitionRendezvous, PartitionRing,
	// PartitionHash, PartitionSites or PartitionTopic. Empty means PartitionRendezvous.
	Partition string
	// TwoLevel crawls the root page of each host, and sends no links to other agents. It requires PartitionSites.
	TwoLevel bool
	// Coordinators are the addresses of the coordinators. PartitionSites requires them, and nothing else has them.
	Coordinators []string
	// Kappa is the number of replicas of an agent of capacity 1 on the ring, at most
	// placement.MaxReplicas. Zero means placement.Replicas. It requires PartitionRing.
	Kappa int
	// Replicas is the number of agents, 1 or 2, that keep the records of a host. Zero
	// means 1.
	Replicas int
	// OnLoss says what becomes of the pages of an archive that was lost with its agent: LossKeep or LossRefetch. Empty
	// means LossKeep. LossRefetch requires 2 Replicas.
	OnLoss string
	// Agents is the number of agents that must be present before the crawl starts. Zero
	// means 1.
	Agents int
	// Boundary says what becomes of a page that belongs to another agent: BoundaryContents, BoundaryURLs, or "" for the
	// default of the partition.
	Boundary string
	// ContentHash is the hash that says which agent a page belongs to, with PartitionHash and BoundaryContents:
	// ContentExact or ContentNear. Empty means ContentExact.
	ContentHash string
	// Classifier gives a page its category, with PartitionTopic; the same at all agents. Nil means the program's model
	// of topics.
	Classifier *classify.Classifier
	// Recovery is the number of agents that this one asks for the known URLs of a host
	// when it becomes the host's owner. Zero means 2.
	Recovery int
	// SavesState tells that the agents save their states in a store: links that another agent has are kept until its
	// saved state has them. It is the same at all agents.
	SavesState bool
	// Network opens the connections to other agents. Nil means the machine's network.
	Network rpc.Network
}

// network returns Network, or the machine's network.
func (c *Config) network() rpc.Network {
	if c.Network == nil {
		return rpc.System
	}
	return c.Network
}

// The values of Config.OnLoss.
const (
	// LossKeep leaves it to the operator to fetch the pages of a lost archive again. It is the default.
	LossKeep = "keep"
	// LossRefetch lets the other agents fetch the pages of a lost archive again before the crawl ends.
	LossRefetch = "refetch"
)

// OnLosses returns the values of Config.OnLoss that are not empty.
func OnLosses() []string { return []string{LossKeep, LossRefetch} }

// CheckOnLoss returns an *input.ConfigError if agents with this number of replicas cannot treat the loss of an archive
// so. Empty means LossKeep.
func CheckOnLoss(how string, replicas int) error {
	switch {
	case how == "" || how == LossKeep:
		return nil
	case how != LossRefetch:
		return input.Errorf("{on-loss} %s: this version knows %s", how, strings.Join(OnLosses(), " and "))
	case replicas < 2:
		return input.Errorf("{on-loss} %s: with {replicas} 1 no agent knows which pages a lost archive had; "+
			"give {replicas} 2", how)
	}
	return nil
}

// CheckPlanner returns an *input.ConfigError if agents that treat the loss of an archive so cannot have a strategy that
// fetches pages again by itself. Open checks it too late to leave the directory unchanged, because it must open the
// strategy first.
func CheckPlanner(onLoss, strategy string) error {
	if onLoss == LossRefetch {
		return input.Errorf("{on-loss} %s: {strategy} %s decides itself which pages it fetches again; leave it out",
			onLoss, strategy)
	}
	return nil
}
