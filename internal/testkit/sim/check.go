package sim

import (
	"fmt"
	"slices"
)

// kinds lists all kinds of faults.
var kinds = []Kind{Kill, Power, Lose, Replace, Old, KillAll, Full, Fail, Stop, Leave, Pause, Exclude, Join, Cut,
	OneWay, Lossy, Slow, Offline, NoDNS, NoWeb, Clock, KillLeader, KillCoordinator, PowerCoordinator, LoseCoordinator,
	FullCoordinator, NoCoordinators, CutCoordinator, Blind}

// ofNoAgent lists the kinds of faults that need no agent.
var ofNoAgent = []Kind{KillAll, Lossy, NoDNS, NoWeb, KillLeader, NoCoordinators}

// mostAgents bounds the agents of a story: the last byte of an agent's address is its number.
const mostAgents = 250

// check reports why no story can have the plan.
func (p Plan) check() error {
	all := max(p.Agents, 1) + p.Spare
	switch {
	case p.Agents < 0 || p.Spare < 0 || all > mostAgents:
		return fmt.Errorf("%d agents and %d more: give 1 to %d together", p.Agents, p.Spare, mostAgents)
	case p.HostPages < 0 || p.HostDepth < 0:
		return fmt.Errorf("the bounds of a host must not be negative")
	case p.Hosts < 0 || p.Pages < 0 || p.Delay < 0 || p.Replicas < 0 || p.Latency < 0 || p.Pause < 0:
		return fmt.Errorf("hosts, pages, delay, replicas, latency and pause must not be negative")
	}
	for _, share := range p.shares() {
		if !(share.of >= 0 && share.of <= 1) {
			return fmt.Errorf("share %v of the web is %s: give 0 to 1", share.of, share.name)
		}
	}
	if n := p.Coordinators; n < 0 || n > mostCoordinators || n > 0 && n%2 == 0 || n == 0 && p.Partition == sites {
		return fmt.Errorf("%d coordinators: give 1, 3 or 5 with the partition %s", n, sites)
	}
	for i, f := range p.Faults {
		one, are := ofCoordinators[f.Kind]
		switch {
		case are && p.Coordinators == 0:
			return fmt.Errorf("fault %d: %s: the plan has no coordinators", i+1, f.Kind)
		case one && (f.Agent < 1 || f.Agent > p.Coordinators):
			return fmt.Errorf("fault %d: %s %d: the plan has coordinators 1 to %d", i+1, f.Kind, f.Agent,
				p.Coordinators)
		case !slices.Contains(kinds, f.Kind):
			return fmt.Errorf("fault %d: no such kind: %q", i+1, f.Kind)
		case !one && (f.Agent < 0 || f.Agent > all || f.Agent == 0 && !slices.Contains(ofNoAgent, f.Kind)):
			return fmt.Errorf("fault %d: %s of agent %d: the plan has agents 1 to %d", i+1, f.Kind, f.Agent, all)
		case !(f.At >= 0 && f.At <= 1):
			return fmt.Errorf("fault %d: at %v: give a share of the pages from 0 to 1", i+1, f.At)
		case f.After < 0 || f.For < 0 && f.Kind != Clock:
			return fmt.Errorf("fault %d: after %s, for %s: must not be negative", i+1, f.After, f.For)
		}
	}
	return nil
}
