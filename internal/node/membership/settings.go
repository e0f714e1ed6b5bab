package membership

import (
	"fmt"
	"maps"
	"slices"
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
func (j *joining) differ(agent string, theirs map[string]string) error {
	ours := j.terms()
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if our, their := ours[name], theirs[name]; name != agentsSetting && their != our {
			return &rpc.Refusal{Reason: "settings", Text: fmt.Sprintf("agent %q has %s %q, the cluster has %q: all "+
				"agents must have the same", agent, name, their, our)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if _, ok := ours[name]; !ok && name != agentsSetting {
			return &rpc.Refusal{Reason: "settings", Text: fmt.Sprintf("agent %q has %s %q, the cluster does not know "+
				"it: all agents must have the same version", agent, name, theirs[name])}
		}
	}
	return nil
}

// otherStart refuses an agent whose --agents differs from ours, if neither agent has begun to crawl.
func (j *joining) otherStart(agent string, theirs map[string]string) error {
	our, their := j.terms()[agentsSetting], theirs[agentsSetting]
	if our == their || our == begunAlready || their == begunAlready || j.late.Load() {
		return nil
	}
	const text = "agent %q has the setting agents %s, and those that are present have agents %s: use the same, " +
		"or join after the crawl has started"
	return &rpc.Refusal{Reason: "settings", Text: fmt.Sprintf(text, agent, their, our)}
}
