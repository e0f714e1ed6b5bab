package membership

import (
	"fmt"
	"maps"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// Terms returns the settings of the cluster that must be equal at all agents.
func (c *Config) Terms() map[string]string {
	t := map[string]string{"partition": c.partitionTerms(), "replicas": strconv.Itoa(max(c.Replicas, 1)),
		agentsSetting: strconv.Itoa(max(c.Agents, 1))}
	if c.OnLoss == LossRefetch {
		t["on-loss"] = LossRefetch
	}
	if c.ArchiveCopies == 2 {
		t["archive-copies"] = "2"
	}
	return t
}

const (
	// agentsSetting is compared only between agents that begin together.
	agentsSetting = "agents"
	begunAlready  = "begun"
)

// terms returns the settings as other agents are told them now.
func (j *joining) terms() map[string]string {
	t := maps.Clone(j.settings)
	if j.begun.Load() {
		t[agentsSetting] = begunAlready
	}
	return t
}

// sharedTerms returns the settings that are equal for all agents at any time, for the coordinators.
func (j *joining) sharedTerms() map[string]string {
	t := maps.Clone(j.settings)
	delete(t, agentsSetting)
	return t
}

// differ returns a refusal if the settings of another agent differ from ours, except --agents; otherwise nil.
func (j *joining) differ(h rpc.Hello) error {
	ours := j.terms()
	delete(ours, agentsSetting)
	h.Settings = maps.Clone(h.Settings)
	delete(h.Settings, agentsSetting)
	return h.Differ(ours)
}

// otherStart refuses an agent whose --agents differs from ours, if neither agent has begun to crawl.
func (j *joining) otherStart(h rpc.Hello) error {
	our, their := j.terms()[agentsSetting], h.Settings[agentsSetting]
	if our == their || our == begunAlready || their == begunAlready || j.late.Load() {
		return nil
	}
	const text = "agent %q has --agents %s, and the agents that are present have --agents %s: use the same --agents, " +
		"or join after the crawl has started"
	return &rpc.Refusal{Reason: "settings", Text: fmt.Sprintf(text, h.Agent.Name, their, our)}
}
