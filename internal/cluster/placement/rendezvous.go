package placement

import (
	"cmp"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// Buckets is the default number of buckets. It never changes, because another number would give the
// hosts other owners.
const Buckets = 1 << 18

// maxBuckets bounds the tables at 256 MB.
const maxBuckets = 1 << 26

// A Rendezvous assigns a host to the agent that drew the smallest number for the
// host's bucket. It never changes. It implements Placement.
type Rendezvous struct {
	agents []Owner // ordered by name
	draws  []draws // of agents
	even   bool    // all have the same weight
	owners []uint16
	nexts  []uint16 // the heir of each bucket; with one agent, the owner
	shift  uint     // of a point to its bucket
}

// draws has the inputs for an agent's numbers.
type draws struct{ seed, weight uint64 }

// A draw is an agent's number for a bucket.
type draw struct {
	hash   uint64 // uniform
	number uint64 // -log2(hash); 0 if all weights are the same
	weight uint64
	agent  int
}

// before reports whether a comes before b in the order of the bucket. The agents' numbers are
// exponential with their weights as the rates. So an agent is first with a probability equal to its
// share of all weights.
func (a *draw) before(b *draw) bool {
	if a.weight != b.weight {
		// a.number/a.weight < b.number/b.weight, exactly.
		ah, al := bits.Mul64(a.number, b.weight)
		bh, bl := bits.Mul64(b.number, a.weight)
		if ah != bh {
			return ah < bh
		}
		if al != bl {
			return al < bl
		}
	}
	// With equal weights the larger hash has the smaller number.
	if a.hash != b.hash {
		return a.hash > b.hash
	}
	return a.agent < b.agent // by name
}

// NewRendezvous returns the Rendezvous of agents over a number of buckets: a power of two, at least
// 2. Zero means Buckets. It computes a hash for each agent and bucket: with 2^18 buckets about 8 ms
// for each agent. It returns the same errors as NewRing.
func NewRendezvous(agents []Owner, buckets int) (*Rendezvous, error) {
	buckets = cmp.Or(buckets, Buckets)
	if buckets < 2 || buckets > maxBuckets || buckets&(buckets-1) != 0 {
		return nil, fmt.Errorf("placement: %d buckets, which should be a power of two from 2 to %d", buckets,
			maxBuckets)
	}
	agents, err := ordered(agents, Replicas)
	if err != nil {
		return nil, err
	}
	r, err := rendezvousOf(agents, buckets, xxhash.Sum64String)
	if err != nil {
		return nil, err
	}
	for b := range r.owners {
		r.owners[b], r.nexts[b] = r.best(b)
	}
	return r, nil
}

// rendezvousOf returns a Rendezvous whose buckets have no owners yet.
func rendezvousOf(agents []Owner, buckets int, hash func(name string) uint64) (*Rendezvous, error) {
	r := &Rendezvous{agents: agents, even: true, owners: make([]uint16, buckets), nexts: make([]uint16, buckets),
		shift: uint(65 - bits.Len(uint(buckets)))}
	seeds := make(map[uint64]string, len(agents))
	for _, a := range agents {
		d := draws{hash(a.Name), uint64(a.weight(Replicas))}
		if other, ok := seeds[d.seed]; ok {
			return nil, fmt.Errorf("placement: agents %q and %q: %w", other, a.Name, ErrConflict)
		}
		seeds[d.seed] = a.Name
		r.draws = append(r.draws, d)
		r.even = r.even && d.weight == r.draws[0].weight
	}
	return r, nil
}

// draw returns an agent's number for a bucket.
func (r *Rendezvous) draw(agent, bucket int) draw {
	d := &r.draws[agent]
	l := draw{hash: mix(d.seed + (uint64(bucket)+1)*gamma), weight: d.weight, agent: agent}
	if !r.even {
		l.number = exponential(l.hash)
	}
	return l
}

// best returns the two agents that are first for the bucket.
func (r *Rendezvous) best(bucket int) (owner, next uint16) {
	first := r.draw(0, bucket)
	if len(r.agents) == 1 {
		return 0, 0
	}
	second := r.draw(1, bucket)
	if second.before(&first) {
		first, second = second, first
	}
	for i := 2; i < len(r.agents); i++ {
		l := r.draw(i, bucket)
		if !l.before(&second) {
			continue
		}
		if second = l; l.before(&first) {
			first, second = l, first
		}
	}
	return uint16(first.agent), uint16(second.agent)
}

// With returns the Rendezvous with one more agent. It returns the same errors as NewRing.
func (r *Rendezvous) With(a Owner) (*Rendezvous, error) {
	agents, at, err := with(r.agents, a, Replicas)
	if err != nil {
		return nil, err
	}
	out, err := rendezvousOf(agents, len(r.owners), xxhash.Sum64String)
	if err != nil {
		return nil, err
	}
	for b := range r.owners {
		owner, next := r.owners[b], r.nexts[b]
		if int(owner) >= at {
			owner++
		}
		if int(next) >= at {
			next++
		}
		own, first, second := out.draw(at, b), out.draw(int(owner), b), out.draw(int(next), b)
		switch {
		case own.before(&first):
			owner, next = uint16(at), owner
		case owner == next || own.before(&second):
			next = uint16(at)
		}
		out.owners[b], out.nexts[b] = owner, next
	}
	return out, nil
}

// Without returns the Rendezvous without the agent of this name. The error is
// ErrUnknown if there is none, ErrEmpty if it is the last.
func (r *Rendezvous) Without(name string) (*Rendezvous, error) {
	agents, at, err := without(r.agents, name)
	if err != nil {
		return nil, err
	}
	out, err := rendezvousOf(agents, len(r.owners), xxhash.Sum64String)
	if err != nil {
		return nil, err
	}
	for b := range r.owners {
		owner, next := r.owners[b], r.nexts[b]
		if int(owner) == at || int(next) == at {
			out.owners[b], out.nexts[b] = out.best(b)
			continue
		}
		if int(owner) > at {
			owner--
		}
		if int(next) > at {
			next--
		}
		out.owners[b], out.nexts[b] = owner, next
	}
	return out, nil
}

func (r *Rendezvous) Agents() []Owner { return slices.Clone(r.agents) }

// Owner implements Placement with one access to a table.
func (r *Rendezvous) Owner(host uint64) Owner { return r.agents[r.owners[Point(host)>>r.shift]] }

// Ranges implements Placement. It visits all buckets.
func (r *Rendezvous) Ranges(name string) iter.Seq[Range] {
	at, ok := slices.BinarySearchFunc(r.agents, Owner{Name: name}, byName)
	return joined(func(add func(Range)) {
		for b, owner := range r.owners {
			if ok && int(owner) == at {
				first := uint64(b) << r.shift
				add(Range{first, first + 1<<r.shift - 1})
			}
		}
	})
}

// Nearest implements Placement. The first two agents are in tables. For more, it computes a hash
// for each agent of the set.
func (r *Rendezvous) Nearest(dst []Owner, host uint64, t int) []Owner {
	t = min(t, len(r.agents))
	if t <= 0 {
		return dst
	}
	bucket := int(Point(host) >> r.shift)
	if dst = append(dst, r.agents[r.owners[bucket]]); t == 1 {
		return dst
	}
	if t == 2 {
		return append(dst, r.agents[r.nexts[bucket]])
	}
	var few [16]draw
	first := few[:0]
	if t > len(few) {
		first = make([]draw, 0, t)
	}
	for i := range r.agents {
		l := r.draw(i, bucket)
		if len(first) == t {
			if !l.before(&first[t-1]) {
				continue
			}
			first = first[:t-1]
		}
		at := len(first)
		for at > 0 && l.before(&first[at-1]) {
			at--
		}
		first = slices.Insert(first, at, l)
	}
	for _, l := range first[1:] { // the owner is in dst already
		dst = append(dst, r.agents[l.agent])
	}
	return dst
}

// Shares returns the agents' shares of the buckets, in the order of Agents. With more and more
// hosts, an agent's share of the hosts approaches its share of the buckets.
func (r *Rendezvous) Shares() []float64 {
	shares := make([]float64, len(r.agents))
	for _, owner := range r.owners {
		shares[owner]++
	}
	for i := range shares {
		shares[i] /= float64(len(r.owners))
	}
	return shares
}

const (
	// logBits is the number of bits after the point of a fixed-point logarithm. cellBits is the
	// number of bits of a mantissa that choose a cell of the table.
	logBits  = 57
	cellBits = 12
)

// logs has log2(1 + i/2^cellBits). It is computed in integers. Logarithms of libraries differ in
// the last bits between processors, and would give different owners.
var logs = sync.OnceValue(func() *[1<<cellBits + 1]uint64 {
	var t [1<<cellBits + 1]uint64
	for i := range len(t) - 1 {
		// x is in [1, 2), its unit 2^63. Its square is in [2, 4) if the next
		// bit of its logarithm is 1.
		x := uint64(1<<cellBits+i) << (63 - cellBits)
		for range logBits {
			high, low := bits.Mul64(x, x)
			bit := high >> 63
			t[i] = t[i]<<1 | bit
			if x = high; bit == 0 {
				x = high<<1 | low>>63
			}
		}
	}
	t[1<<cellBits] = 1 << logBits
	return &t
})

// exponential returns -log2(h/2^64) in steps of 2^-logBits, above 0; for h = 0 it returns 64. It
// never rises with h. It is linear within a cell and exact at the cell's ends. Only small numbers
// win, and their relative error is less than 1 in 8,000.
func exponential(h uint64) uint64 {
	if h == 0 {
		return 64 << logBits
	}
	t := logs()
	zeros := bits.LeadingZeros64(h)
	fraction := h << zeros << 1 // the mantissa without its leading 1
	cell := fraction >> (64 - cellBits)
	part, _ := bits.Mul64(t[cell+1]-t[cell], fraction<<cellBits)
	return uint64(zeros+1)<<logBits - t[cell] - part
}
