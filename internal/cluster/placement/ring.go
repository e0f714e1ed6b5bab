package placement

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
)

// A Ring assigns a host to the agent with the nearest replica. It never
// changes.
type Ring struct {
	k        int
	agents   []Agent   // by name
	replicas []replica // by point
	// first has, for each of so many equal parts of the circle as there are
	// replicas, rounded up to a power of two, the number of the first replica
	// in it or above, and the number of all at the end. So a look-up costs the same
	// whatever the number of agents; the paper's tree takes its logarithm.
	first []uint32
	shift uint // of a point to its part
}

// A replica is one of an agent's points.
type replica struct {
	point uint64
	agent uint16 // in Ring.agents
}

// New makes the Ring of agents, with so many replicas for a capacity of 1; zero
// means Replicas. The time is that of a sort of all replicas. The error is
// ErrAgent, ErrDuplicate, ErrConflict or, without any agent, ErrEmpty.
func New(agents []Agent, replicas int) (*Ring, error) {
	if replicas == 0 {
		replicas = Replicas
	}
	if replicas < 1 || replicas > maxWeight {
		return nil, fmt.Errorf("ring: %d replicas, which should be 1 to %d", replicas, maxWeight)
	}
	agents, err := ordered(agents, replicas)
	if err != nil {
		return nil, err
	}
	var rs []replica
	for i, a := range agents {
		rs = append(rs, replicasOf(a, i, replicas)...)
	}
	slices.SortFunc(rs, func(a, b replica) int { return cmp.Compare(a.point, b.point) })
	return ringOf(agents, replicas, rs)
}

// replicasOf are those of the agent that is number i.
func replicasOf(a Agent, i, k int) []replica {
	rs := make([]replica, a.weight(k))
	for j, p := range distinct(twister(a.Name).Uint64, len(rs)) {
		rs[j] = replica{p, uint16(i)}
	}
	return rs
}

// ringOf is the Ring of sorted replicas, if no two are at one point.
func ringOf(agents []Agent, k int, rs []replica) (*Ring, error) {
	for i := 1; i < len(rs); i++ {
		if rs[i-1].point == rs[i].point {
			a, b := rs[i-1].agent, rs[i].agent
			return nil, fmt.Errorf("ring: agents %q and %q: %w", agents[min(a, b)].Name, agents[max(a, b)].Name, ErrConflict)
		}
	}
	r := &Ring{k: k, agents: agents, replicas: rs}
	parts := bits.Len(uint(len(rs) - 1)) // their logarithm
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

// With is the Ring with one more agent. Errors are those of New.
func (r *Ring) With(a Agent) (*Ring, error) {
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

// Without is the Ring without the agent of this name: ErrUnknown if there is
// none, ErrEmpty if it is the last.
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

// Agents are all agents, by name.
func (r *Ring) Agents() []Agent { return slices.Clone(r.agents) }

// from is the number of the first replica at p or upwards, that of all if
// there is none before the circle's end.
func (r *Ring) from(p uint64) int {
	i := int(r.first[p>>r.shift])
	for i < len(r.replicas) && r.replicas[i].point < p {
		i++
	}
	return i
}

// around are the nearest replicas upwards and downwards of p.
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

// Owner is the agent of the host with this key (weburl.HostKey). It allocates
// nothing.
func (r *Ring) Owner(key uint64) Agent { return r.agents[r.owner(point(key))] }

// owner is the agent with the nearest replica to p.
func (r *Ring) owner(p uint64) uint16 {
	up, down := r.around(p)
	// Differences wrap around as the circle does.
	if p-r.replicas[down].point < r.replicas[up].point-p {
		up = down
	}
	return r.replicas[up].agent
}

// Nearest appends to dst the t agents that are first in the order of the host
// with this key: the owner, then who would be if it were not there, and so on;
// all, if there are no more than t. Up to 16 it allocates nothing but dst.
func (r *Ring) Nearest(dst []Agent, key uint64, t int) []Agent {
	return r.nearest(dst, point(key), t)
}

func (r *Ring) nearest(dst []Agent, p uint64, t int) []Agent {
	t = min(t, len(r.agents))
	if t <= 0 {
		return dst
	}
	up, down := r.around(p)
	var few [16]uint16
	met := few[:0]
	var known []bool // in place of a search in met
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

// Shares are the agents' parts of the circle, in the order of Agents: what each
// has of ever more hosts.
func (r *Ring) Shares() []float64 {
	shares := make([]float64, len(r.agents))
	for i := range r.replicas {
		// Half of the way to each neighbour. One alone has it all.
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
