package placement

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// An Agent is one of those that hosts are assigned to.
type Agent struct {
	// Name is what all others know it by: 1 to 255 octets, taken as they are.
	Name string
	// Capacity is its share of the hosts relative to the others': above 0, at
	// most 1000, told apart in steps of 1/200.
	Capacity float64
}

const (
	// Replicas are those of an agent with a capacity of 1, κ in the paper.
	Replicas = 200
	// maxName and maxCapacity bound an agent, maxAgents what an index of 16 bits
	// tells apart, maxWeight all agents: 10,000 of capacity 8.
	maxName     = 255
	maxCapacity = 1000
	maxAgents   = 1 << 16
	maxWeight   = 1 << 24
)

// Errors.
var (
	// ErrAgent is an agent that cannot be: its name or capacity is out of bounds.
	ErrAgent = errors.New("no such agent can be")
	// ErrDuplicate are two agents of one name.
	ErrDuplicate = errors.New("another agent has this name")
	// ErrConflict are two agents whose names come to the same point, which
	// another name remedies.
	ErrConflict = errors.New("their names come to the same point: choose another name for the one that joins")
	// ErrUnknown is an agent that is not among those there are.
	ErrUnknown = errors.New("no agent has this name")
	// ErrEmpty is a set without agents.
	ErrEmpty = errors.New("there would be no agent to have the hosts")
)

// check says why a cannot be an agent.
func (a Agent) check() error {
	switch {
	case a.Name == "":
		return fmt.Errorf("ring: %w: its name is empty", ErrAgent)
	case len(a.Name) > maxName:
		return fmt.Errorf("ring: agent %.20q...: %w: its name has %d octets, at most %d", a.Name, ErrAgent, len(a.Name), maxName)
	case !(a.Capacity > 0) || a.Capacity > maxCapacity: // NaN, too
		return fmt.Errorf("ring: agent %q: %w: capacity %v, which should be above 0 and at most %d", a.Name, ErrAgent, a.Capacity, maxCapacity)
	}
	return nil
}

// weight is the agent's capacity in replicas, k for a capacity of 1.
func (a Agent) weight(k int) int {
	// A product and a rounding, each exact or nearest on every machine; nothing
	// is added that could be fused.
	return max(1, int(math.Round(float64(float64(k)*a.Capacity))))
}

func byName(a, b Agent) int { return strings.Compare(a.Name, b.Name) }

// ordered is a copy of agents by name, if they can be together.
func ordered(agents []Agent, k int) ([]Agent, error) {
	if len(agents) == 0 {
		return nil, fmt.Errorf("ring: %w", ErrEmpty)
	}
	if len(agents) > maxAgents {
		return nil, fmt.Errorf("ring: %w: %d agents, at most %d", ErrAgent, len(agents), maxAgents)
	}
	out := slices.Clone(agents)
	slices.SortFunc(out, byName)
	all := 0
	for i, a := range out {
		if err := a.check(); err != nil {
			return nil, err
		}
		if i > 0 && out[i-1].Name == a.Name {
			return nil, fmt.Errorf("ring: agent %q: %w", a.Name, ErrDuplicate)
		}
		if all += a.weight(k); all > maxWeight {
			return nil, fmt.Errorf("ring: %w: the capacities come to more than %d", ErrAgent, maxWeight/k)
		}
	}
	return out, nil
}

// with is agents, which are by name, and one more, and where it stands.
func with(agents []Agent, a Agent, k int) (all []Agent, at int, err error) {
	if all, err = ordered(append(slices.Clip(agents), a), k); err != nil {
		return nil, 0, err
	}
	at, _ = slices.BinarySearchFunc(all, a, byName)
	return all, at, nil
}

// without is agents, which are by name, but one, and where that stood.
func without(agents []Agent, name string) (rest []Agent, at int, err error) {
	at, ok := slices.BinarySearchFunc(agents, Agent{Name: name}, byName)
	switch {
	case !ok:
		return nil, 0, fmt.Errorf("ring: agent %q: %w", name, ErrUnknown)
	case len(agents) == 1:
		return nil, 0, fmt.Errorf("ring: without agent %q: %w", name, ErrEmpty)
	}
	return slices.Delete(slices.Clone(agents), at, at+1), at, nil
}

// gamma is SplitMix64's increment, 2^64 by the golden ratio.
const gamma = 0x9e3779b97f4a7c15

// mix is SplitMix64's finalizer (Stafford's thirteenth), a bijection.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// point is where a host's key stands on the circle.
func point(key uint64) uint64 { return mix(key + gamma) }
