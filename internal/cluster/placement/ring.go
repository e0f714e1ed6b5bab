package placement

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
)

// A Ring assigns a host to the agent with the nearest replica, as UbiCrawler does
// (see the package comment). It never changes.
//
// NewRing sorts all replicas, k times the sum of the capacities. For 100 agents of capacity 1 with
// 200 replicas these are 20,000, in less than 20 ms and 520 KB. A binary search for the replica
// nearest to a host would take time logarithmic in that number. A table, which divides the circle
// into as many parts as there are replicas, makes the time constant on average. It implements Placement.
type Ring struct {
	k        int
	agents   []Owner   // ordered by name
	replicas []replica // ordered by point
	// first divides the circle into equal parts, as many as there are replicas,
	// rounded up to a power of two. It has the index of the first replica in
	// each part or above it, and at the end the number of all replicas.
	first []uint32
	shift uint // from a point to its part
}

// A replica is one of an agent's points.
type replica struct {
	point uint64
	agent uint16 // index in Ring.agents
}

// NewRing returns the Ring of agents, with k replicas for a capacity of 1: from 1
// to MaxReplicas, or zero for Replicas. An agent of another capacity has k times
// its capacity, rounded, and at least one. The error is ErrAgent, ErrDuplicate,
// ErrConflict or, without any agent, ErrEmpty.
func NewRing(agents []Owner, k int) (*Ring, error) {
	k = cmp.Or(k, Replicas)
	if k < 1 || k > MaxReplicas {
		return nil, fmt.Errorf("placement: %d replicas, which should be 1 to %d", k, MaxReplicas)
	}
	agents, err := ordered(agents, k)
	if err != nil {
		return nil, err
	}
	var rs []replica
	for i, a := range agents {
		rs = append(rs, replicasOf(a, i, k)...)
	}
	slices.SortFunc(rs, func(a, b replica) int { return cmp.Compare(a.point, b.point) })
	return ringOf(agents, k, rs)
}

// replicasOf returns the replicas of agent a, which has index i.
func replicasOf(a Owner, i, k int) []replica {
	rs := make([]replica, a.weight(k))
	for j, p := range distinct(twister(a.Name).Uint64, len(rs)) {
		rs[j] = replica{p, uint16(i)}
	}
	return rs
}

// ringOf returns the Ring of sorted replicas. The error is ErrConflict if two are at
// one point.
func ringOf(agents []Owner, k int, rs []replica) (*Ring, error) {
	for i := 1; i < len(rs); i++ {
		if rs[i-1].point == rs[i].point {
			a, b := rs[i-1].agent, rs[i].agent
			return nil, fmt.Errorf("placement: agents %q and %q: %w", agents[min(a, b)].Name, agents[max(a, b)].Name,
				ErrConflict)
		}
	}
	r := &Ring{k: k, agents: agents, replicas: rs}
	parts := bits.Len(uint(len(rs) - 1)) // the logarithm of their number
	r.shift = uint(64 - parts)
	r.first = make([]uint32, 1<<parts+1)
	n := 0
	for part := range r.first {
		for n < len(rs) && rs[n].point>>r.shift < uint64(part) {
			n++
		}
		r.first[part] = uint32(n)
	}
	return r, nil
}

// With returns the Ring with one more agent. It returns the same errors as NewRing.
func (r *Ring) With(a Owner) (*Ring, error) {
	agents, at, err := with(r.agents, a, r.k)
	if err != nil {
		return nil, err
	}
	own := replicasOf(a, at, r.k)
	rs := make([]replica, 0, len(r.replicas)+len(own))
	for _, old := range r.replicas {
		for len(own) > 0 && own[0].point <= old.point {
			rs, own = append(rs, own[0]), own[1:]
		}
		if int(old.agent) >= at {
			old.agent++
		}
		rs = append(rs, old)
	}
	return ringOf(agents, r.k, append(rs, own...))
}

// Without returns the Ring without the agent of this name. The error is ErrUnknown
// if there is none, ErrEmpty if it is the last.
func (r *Ring) Without(name string) (*Ring, error) {
	agents, at, err := without(r.agents, name)
	if err != nil {
		return nil, err
	}
	rs := make([]replica, 0, len(r.replicas))
	for _, old := range r.replicas {
		if int(old.agent) == at {
			continue
		}
		if int(old.agent) > at {
			old.agent--
		}
		rs = append(rs, old)
	}
	return ringOf(agents, r.k, slices.Clip(rs))
}

func (r *Ring) Agents() []Owner { return slices.Clone(r.agents) }

// from returns the index of the first replica at p or above it, or the number of
// replicas if there is none up to the end of the circle.
func (r *Ring) from(p uint64) int {
	i := int(r.first[p>>r.shift])
	for i < len(r.replicas) && r.replicas[i].point < p {
		i++
	}
	return i
}

// around returns the indices of the nearest replicas above p, or at it, and below.
func (r *Ring) around(p uint64) (up, down int) {
	up = r.from(p)
	down = r.below(up)
	if up == len(r.replicas) {
		up = 0
	}
	return up, down
}

func (r *Ring) below(i int) int {
	if i == 0 {
		i = len(r.replicas)
	}
	return i - 1
}

func (r *Ring) above(i int) int {
	if i++; i == len(r.replicas) {
		i = 0
	}
	return i
}

func (r *Ring) Owner(host uint64) Owner { return r.agents[r.owner(Point(host))] }

// owner returns the index of the agent with the nearest replica to p.
func (r *Ring) owner(p uint64) uint16 {
	up, down := r.around(p)
	// Differences wrap around as the circle does.
	if p-r.replicas[down].point < r.replicas[up].point-p {
		up = down
	}
	return r.replicas[up].agent
}

// Nearest implements Placement. It walks the circle from the host in both
// directions.
func (r *Ring) Nearest(dst []Owner, host uint64, t int) []Owner {
	return r.nearest(dst, Point(host), t)
}

func (r *Ring) nearest(dst []Owner, p uint64, t int) []Owner {
	t = min(t, len(r.agents))
	if t <= 0 {
		return dst
	}
	up, down := r.around(p)
	var few [16]uint16
	met := few[:0]
	var known []bool // used instead of a search in met
	if t > len(few) {
		known = make([]bool, len(r.agents))
	}
	for range r.replicas {
		var who uint16
		if p-r.replicas[down].point < r.replicas[up].point-p {
			who = r.replicas[down].agent
			down = r.below(down)
		} else {
			who = r.replicas[up].agent
			up = r.above(up)
		}
		if known != nil && known[who] || known == nil && slices.Contains(met, who) {
			continue
		}
		if known != nil {
			known[who] = true
		} else {
			met = append(met, who)
		}
		dst = append(dst, r.agents[who])
		if t--; t == 0 {
			break
		}
	}
	return dst
}

// Ranges implements Placement. It visits all replicas.
func (r *Ring) Ranges(name string) iter.Seq[Range] {
	at, ok := slices.BinarySearchFunc(r.agents, Owner{Name: name}, byName)
	return joined(func(add func(Range)) {
		if ok {
			r.eachRange(func(i int, first, last uint64) {
				if int(r.replicas[i].agent) == at {
					add(Range{first, last})
				}
			})
		}
	})
}

// eachRange calls add for the range of each replica, in ascending order. One of them may have two: the range of replica
// 0 may begin below 0, which is at the end of the circle, or that of the last one end above it.
func (r *Ring) eachRange(add func(i int, first, last uint64)) {
	last := len(r.replicas) - 1
	from, begin := uint64(0), r.behind(last)
	split := begin > r.replicas[0].point
	if !split && begin > 0 {
		add(last, 0, begin-1)
		from = begin
	}
	for i := range last {
		next := r.behind(i)
		add(i, from, next-1)
		from = next
	}
	if split {
		add(last, from, begin-1)
		add(0, begin, math.MaxUint64)
	} else {
		add(last, from, math.MaxUint64)
	}
}

// behind returns the first point above replica i that is as near to the next
// replica, or nearer.
func (r *Ring) behind(i int) uint64 {
	p := r.replicas[i].point
	return p + (r.replicas[r.above(i)].point-p-1)/2 + 1
}

// Shares returns each agent's part of the circle, in the order of Agents. It is the
// agent's share of the hosts if there are very many.
func (r *Ring) Shares() []float64 {
	shares := make([]float64, len(r.agents))
	for i := range r.replicas {
		// A replica has half of the way to each neighbour. A single replica has the whole circle.
		a, b := r.replicas[i], r.replicas[r.above(i)]
		gap := float64(b.point-a.point) / (1 << 64)
		if len(r.replicas) == 1 {
			gap = 1
		}
		shares[a.agent] += gap / 2
		shares[b.agent] += gap / 2
	}
	return shares
}
