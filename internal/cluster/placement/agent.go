package placement

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// An Owner owns hosts.
type Owner struct {
	// Name identifies the agent: 1 to 255 octets. Two names are equal if all octets are.
	Name string
	// Capacity is the agent's share of the hosts relative to the other agents:
	// above 0, at most 1000. It counts in steps of 1/Replicas, on a Ring in
	// steps of one replica.
	Capacity float64
}

const (
	// Replicas is the default number of replicas of an agent of capacity 1 on a
	// Ring (κ in the UbiCrawler paper). MaxReplicas is the largest one.
	Replicas    = 200
	MaxReplicas = 1000
	// maxName and maxCapacity bound one agent. maxAgents is the number of values
	// of a 16-bit index. maxWeight bounds the replicas of all agents together:
	// with 200 replicas, 10,000 agents of capacity 8.
	maxName     = 255
	maxCapacity = 1000
	maxAgents   = 1 << 16
	maxWeight   = 1 << 24
)

// Errors.
var (
	// ErrAgent: a name, a capacity or the sum of all capacities is out of bounds.
	ErrAgent = errors.New("invalid agent")
	// ErrDuplicate: two agents have the same name.
	ErrDuplicate = errors.New("another agent has this name")
	// ErrConflict: the names of two agents have the same hash or replica. Choose another name.
	ErrConflict = errors.New("their names hash to the same point: choose another name for the agent that joins")
	// ErrUnknown: no agent has this name.
	ErrUnknown = errors.New("no agent has this name")
	// ErrEmpty: the set would have no agents.
	ErrEmpty = errors.New("no agent is left to own the hosts")
)

// check returns an error if the name or the capacity is out of bounds.
func (a Owner) check() error {
	switch {
	case a.Name == "":
		return fmt.Errorf("placement: %w: its name is empty", ErrAgent)
	case len(a.Name) > maxName:
		return fmt.Errorf("placement: agent %.20q...: %w: its name has %d octets, at most %d", a.Name, ErrAgent,
			len(a.Name), maxName)
	case !(a.Capacity > 0) || a.Capacity > maxCapacity: // NaN, too
		return fmt.Errorf("placement: agent %q: %w: capacity %v, which should be above 0 and at most %d", a.Name,
			ErrAgent, a.Capacity, maxCapacity)
	}
	return nil
}

// weight returns the agent's capacity in replicas, with k for a capacity of 1.
func (a Owner) weight(k int) int {
	// IEEE 754 defines the product and the rounding on every machine. There is
	// no addition, which a compiler could fuse with the product.
	return max(1, int(math.Round(float64(float64(k)*a.Capacity))))
}

func byName(a, b Owner) int { return strings.Compare(a.Name, b.Name) }

// ordered returns a copy of agents, ordered by name. k is the number of replicas
// of a capacity of 1. The error says why these agents cannot be a set.
func ordered(agents []Owner, k int) ([]Owner, error) {
	if len(agents) == 0 {
		return nil, fmt.Errorf("placement: %w", ErrEmpty)
	}
	if len(agents) > maxAgents {
		return nil, fmt.Errorf("placement: %w: %d agents, at most %d", ErrAgent, len(agents), maxAgents)
	}
	out := slices.Clone(agents)
	slices.SortFunc(out, byName)
	all := 0
	for i, a := range out {
		if err := a.check(); err != nil {
			return nil, err
		}
		if i > 0 && out[i-1].Name == a.Name {
			return nil, fmt.Errorf("placement: agent %q: %w", a.Name, ErrDuplicate)
		}
		if all += a.weight(k); all > maxWeight {
			return nil, fmt.Errorf("placement: %w: the capacities come to more than %d", ErrAgent, maxWeight/k)
		}
	}
	return out, nil
}

// with returns agents, which are ordered by name, and a, and the index of a.
func with(agents []Owner, a Owner, k int) (all []Owner, at int, err error) {
	if all, err = ordered(append(slices.Clip(agents), a), k); err != nil {
		return nil, 0, err
	}
	at, _ = slices.BinarySearchFunc(all, a, byName)
	return all, at, nil
}

// without returns agents, which are ordered by name, without one of them, and the
// index that it had.
func without(agents []Owner, name string) (rest []Owner, at int, err error) {
	at, ok := slices.BinarySearchFunc(agents, Owner{Name: name}, byName)
	switch {
	case !ok:
		return nil, 0, fmt.Errorf("placement: agent %q: %w", name, ErrUnknown)
	case len(agents) == 1:
		return nil, 0, fmt.Errorf("placement: without agent %q: %w", name, ErrEmpty)
	}
	return slices.Delete(slices.Clone(agents), at, at+1), at, nil
}
