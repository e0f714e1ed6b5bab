package graph

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// A Correlation counts how two lists of ranks order all pairs of nodes.
type Correlation struct {
	Nodes      int64
	Pairs      int64
	Concordant int64 // pairs that both lists order alike
	Discordant int64 // pairs that they order the other way round
	TiesA      int64 // pairs with equal ranks in the first list; those of both lists included
	TiesB      int64 // in the second list
	TiesBoth   int64
}

// Tau returns Kendall's tau-b: from -1 (reversed) over 0 to 1 (the same order).
func (c *Correlation) Tau() float64 {
	tau := float64(c.Concordant-c.Discordant) / math.Sqrt(float64(c.Pairs-c.TiesA)) /
		math.Sqrt(float64(c.Pairs-c.TiesB))
	return max(-1, min(1, tau))
}

// The errors of Kendall.
var (
	ErrFew   = errors.New("less than two nodes are in both files")
	ErrTiedA = errors.New("all ranks of the first file are equal")
	ErrTiedB = errors.New("all ranks of the second file are equal")
)

// A Pair has the ranks of a node in two lists.
type Pair struct{ A, B float64 }

// KendallBytes is how many bytes of memory a node takes at most that is in both lists: in Joiner.Pairs, whose list may
// grow by a quarter too much, and in Kendall.
const KendallBytes = 40

// Kendall counts exactly how two lists order the nodes, in O(n log n) (Knight, "A computer method for calculating
// Kendall's tau with ungrouped data", 1966). It sorts pairs, and takes 16 bytes a node besides them. No rank is NaN.
// There are at most MaxNodes pairs. It is an error if tau is undefined.
func Kendall(pairs []Pair) (c Correlation, err error) {
	n := int64(len(pairs))
	c.Nodes, c.Pairs = n, choose2(n)
	if n < 2 {
		return c, ErrFew
	}
	slices.SortFunc(pairs, func(p, q Pair) int { return cmp.Or(cmp.Compare(p.A, q.A), cmp.Compare(p.B, q.B)) })
	c.TiesA = ties(n, func(i int64) bool { return pairs[i].A == pairs[i-1].A })
	c.TiesBoth = ties(n, func(i int64) bool { return pairs[i] == pairs[i-1] })
	b := make([]float64, n)
	for i, p := range pairs {
		b[i] = p.B
	}
	c.Discordant = inversions(b, make([]float64, n))
	c.TiesB = ties(n, func(i int64) bool { return b[i] == b[i-1] }) // b is sorted now
	c.Concordant = c.Pairs - c.TiesA - c.TiesB + c.TiesBoth - c.Discordant
	switch c.Pairs {
	case c.TiesA:
		return c, ErrTiedA
	case c.TiesB:
		return c, ErrTiedB
	}
	return c, nil
}

func choose2(n int64) int64 {
	if n%2 == 0 {
		return n / 2 * (n - 1)
	}
	return (n - 1) / 2 * n
}

// ties counts the equal pairs of n sorted values. equal says whether the i-th is equal to the one before.
func ties(n int64, equal func(i int64) bool) (pairs int64) {
	run := int64(1)
	for i := int64(1); i < n; i++ {
		if equal(i) {
			run++
			continue
		}
		pairs += choose2(run)
		run = 1
	}
	return pairs + choose2(run)
}

// inversions sorts v and returns how many pairs were in descending order. space is as long as v.
func inversions(v, space []float64) (n int64) {
	if len(v) < 2 {
		return 0
	}
	half := len(v) / 2
	a, b := v[:half], v[half:]
	n = inversions(a, space[:half]) + inversions(b, space[half:])
	out := space[:0]
	for len(a) > 0 && len(b) > 0 {
		if b[0] < a[0] {
			n += int64(len(a))
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	out = append(append(out, a...), b...)
	copy(v, out)
	return n
}
