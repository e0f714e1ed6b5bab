package coordinator

import (
	"math"
	"math/bits"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
)

// A turn is an agent that gets new hosts. Weight is its capacity in whole numbers, so that all coordinators compute
// the same.
type turn struct {
	Name   string `json:"name"`
	Weight uint64 `json:"weight"`
	// Given counts the hosts that the agent got since the round began.
	Given uint64 `json:"given"`
	// load is used by least-loaded only.
	load uint64
}

// weight returns a capacity as package placement rounds it.
func weight(capacity float64) uint64 { return max(1, uint64(math.Round(200*capacity))) }

// A chooser picks the agent of each new host, in turns by capacity. It is part of the replicated state.
//
// A round has as many hosts as all weights together. Within a round, an agent may get its next host only when its
// share of the hosts so far is more than it has; of these agents, the one goes first whose share is first used up.
// So after any number of hosts each agent has its share, less or more than one host (it is the earliest-deadline
// schedule of periodic jobs, which meets all deadlines). With equal capacities the agents take turns by name.
type chooser struct {
	Turns []turn `json:"turns"` // by name
	total uint64 // of all weights
	given uint64 // in this round
}

// candidates sets the agents that get hosts from here on: those that are up, without those of away. If no other is
// up, those of away get hosts. If the agents or their weights changed, a new round begins. It reports whether there
// is an agent.
func (c *chooser) candidates(r *assignment.Roster, away []string) bool {
	turns := make([]turn, 0, len(r.Members))
	for _, all := range []bool{false, true} {
		for _, m := range r.Members {
			if m.State == assignment.Up && (all || !slices.Contains(away, m.Name)) {
				turns = append(turns, turn{Name: m.Name, Weight: weight(m.Capacity)})
			}
		}
		if len(turns) > 0 {
			break
		}
	}
	same := slices.EqualFunc(turns, c.Turns, func(a, b turn) bool { return a.Name == b.Name && a.Weight == b.Weight })
	if !same {
		c.Turns = turns
		c.sum()
	}
	return len(c.Turns) > 0
}

// sum computes what follows from Turns.
func (c *chooser) sum() {
	c.total, c.given = 0, 0
	for _, t := range c.Turns {
		c.total, c.given = c.total+t.Weight, c.given+t.Given
	}
}

// next returns the index in Turns of the agent whose turn it is.
func (c *chooser) next() int {
	c.given++
	best := -1
	for i := range c.Turns {
		t := &c.Turns[i]
		if t.Given*c.total >= c.given*t.Weight {
			continue // it has its share
		}
		if best < 0 || less(t.Given+1, t.Weight, c.Turns[best].Given+1, c.Turns[best].Weight) {
			best = i
		}
	}
	c.Turns[best].Given++
	if c.given == c.total { // each agent has got its weight
		for i := range c.Turns {
			c.Turns[i].Given = 0
		}
		c.given = 0
	}
	return best
}

// least returns the index in Turns of the agent with the least load for its capacity, and adds unit to its load.
func (c *chooser) least(unit uint64) int {
	best := 0
	for i := range c.Turns {
		if t, b := &c.Turns[i], &c.Turns[best]; less(t.load, t.Weight, b.load, b.Weight) {
			best = i
		}
	}
	c.Turns[best].load += unit
	return best
}

// less reports whether a/b is less than c/d.
func less(a, b, c, d uint64) bool {
	ah, al := bits.Mul64(a, d)
	ch, cl := bits.Mul64(c, b)
	return ah < ch || ah == ch && al < cl
}
