package placement

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Categories assigns the categories of pages to agents (X4, a topic-partitioned crawler: paper, section 4). It never
// changes, and any goroutine may use it.
//
// A category has one or more equal parts, so that there are at least as many parts as agents. Each agent gets its share
// of the parts by its capacity, rounded up or down, so the agents of a cluster have nearly the same number of parts.
// The parts of a lost agent go to those next in line. A few other parts may move as well, to keep the numbers equal.
type Categories struct {
	parts  int      // of each category
	owners []string // by category and part
}

// NewCategories divides n categories among agents, at least one each. The result depends on the sets alone.
func NewCategories(n int, agents []Owner) *Categories {
	agents = slices.Clone(agents)
	slices.SortFunc(agents, func(a, b Owner) int { return cmp.Compare(a.Name, b.Name) })
	c := &Categories{parts: max(1, (len(agents)+max(n, 1)-1)/max(n, 1))}
	total := n * c.parts
	weights, weight := make([]int, len(agents)), 0
	for i, a := range agents {
		weights[i] = max(1, int(math.Round(a.Capacity*Replicas)))
		weight += weights[i]
	}
	type place struct {
		agent, slot int
		draw        uint64
	}
	// Each agent draws a number for each part. The smallest numbers are served first.
	var places []place
	for slot := range total {
		for i, a := range agents {
			draw := mix(xxhash.Sum64String(a.Name) + uint64(slot+1)*gamma)
			places = append(places, place{i, slot, draw})
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.draw, b.draw), cmp.Compare(a.slot, b.slot), cmp.Compare(a.agent, b.agent))
	})
	c.owners = make([]string, total)
	has := make([]int, len(agents))
	for _, extra := range []int{0, 1} { // each agent's share rounded down, then the rest
		for _, p := range places {
			share := total * weights[p.agent] / weight
			if c.owners[p.slot] == "" && has[p.agent] < share+extra {
				c.owners[p.slot] = agents[p.agent].Name
				has[p.agent]++
			}
		}
	}
	return c
}

// Owner returns the agent that has pages of a category, from 0, with a hash of their content.
func (c *Categories) Owner(category int, hash uint64) string {
	part, _ := bits.Mul64(hash, uint64(c.parts))
	return c.owners[category*c.parts+int(part)]
}

// Parts returns the number of parts of each category.
func (c *Categories) Parts() int { return c.parts }

// Of returns the parts of an agent: the numbers of their categories, ascending, one for each part.
func (c *Categories) Of(agent string) (categories []int) {
	for slot, owner := range c.owners {
		if owner == agent {
			categories = append(categories, slot/c.parts)
		}
	}
	return categories
}
