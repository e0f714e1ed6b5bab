package graph

import (
	"errors"
	"math"
)

// A Graph is what PageRank and Measure read. Links calls fn for each node in order, with its links.
type Graph interface {
	Nodes() uint64
	Links(fn func(node uint32, to []uint32) error) error
}

// The defaults of RankConfig.
const (
	Damping    = 0.85
	Tolerance  = 1e-6
	Iterations = 100
)

// A RankConfig tunes PageRank. The zero RankConfig is not valid: use the constants above.
type RankConfig struct {
	// Damping is the probability that the surfer follows a link: at least 0, less than 1.
	Damping float64
	// Tolerance ends the iterations: the sum of the absolute changes of all ranks is at most this. The ranks then
	// differ from the true ones by at most Tolerance*Damping/(1-Damping) in the same sum.
	Tolerance float64
	// Iterations bounds the iterations. With a damping of 0.85 and a tolerance of 1e-6 no graph needs more than 90.
	Iterations int
	// Step is called after each iteration, if it is not nil. Its error ends the work.
	Step func(iteration int, change float64) error
}

// Ranks are the PageRanks of the nodes. Their sum is 1.
type Ranks struct {
	Of         []float64
	Iterations int
	Change     float64 // of the last iteration
	Converged  bool    // Change is at most the tolerance
}

// ErrEmpty means that a graph has no nodes.
var ErrEmpty = errors.New("the graph has no nodes")

// RankBytes returns how many bytes of memory PageRank takes for a graph of so many nodes, besides the graph.
func RankBytes(nodes uint64) uint64 { return 16 * nodes }

// PageRank computes the PageRank of all nodes by the power method (Page, Brin, Motwani, Winograd, 1998). The surfer
// jumps to any node with the same probability, and always jumps from a node without links. It takes RankBytes,
// and reads the graph once an iteration.
func PageRank(g Graph, c RankConfig) (*Ranks, error) {
	n := g.Nodes()
	if n == 0 {
		return nil, ErrEmpty
	}
	r := &Ranks{Of: make([]float64, n)}
	next := make([]float64, n)
	for i := range r.Of {
		r.Of[i] = 1 / float64(n)
	}
	for r.Iterations < c.Iterations && !r.Converged {
		clear(next)
		var stuck sum
		err := g.Links(func(node uint32, to []uint32) error {
			rank := r.Of[node]
			if len(to) == 0 {
				stuck.add(rank)
				return nil
			}
			share := rank / float64(len(to))
			for _, v := range to {
				next[v] += share
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		jump := (1 - c.Damping + c.Damping*stuck.value()) / float64(n)
		var change, all sum
		for i, x := range next {
			x = c.Damping*x + jump
			next[i] = x
			all.add(x)
			change.add(math.Abs(x - r.Of[i]))
		}
		for i := range next { // rounding must not add up over the iterations
			next[i] /= all.value()
		}
		r.Of, next = next, r.Of
		r.Iterations++
		r.Change = change.value()
		r.Converged = r.Change <= c.Tolerance
		if c.Step != nil {
			if err := c.Step(r.Iterations, r.Change); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// A sum adds numbers without adding up their rounding errors (Kahan).
type sum struct{ total, lost float64 }

func (s *sum) add(x float64) {
	y := x - s.lost
	t := s.total + y
	s.lost = t - s.total - y
	s.total = t
}

func (s *sum) value() float64 { return s.total }
