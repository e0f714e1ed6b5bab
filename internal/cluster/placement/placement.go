package placement

import "iter"

// A Placement assigns hosts to a fixed set of agents. It never changes, and any
// goroutine may use it. Ring and Rendezvous implement it.
//
// A host is given by its key (link.HostKey). Every host has an order of all
// possible agents. Its owner is the first agent of that order that is in the
// set; its heir is the second one.
type Placement interface {
	// Agents returns all agents, ordered by name.
	Agents() []Owner
	// Owner returns the agent that owns a host. It allocates nothing.
	Owner(host uint64) Owner
	// Nearest appends to dst the first t agents in the order of a host: the
	// owner, the heir, and so on. If there are fewer than t agents, it appends
	// all of them. If t is at most 16, it allocates nothing but dst.
	Nearest(dst []Owner, host uint64, t int) []Owner
	// Ranges yields the points whose hosts the agent of this name owns (see
	// Point), in ascending order. Between two ranges there is at least one
	// point of another agent. If no agent has the name, there is no range.
	// It allocates nothing for a range: there may be some ten thousand.
	Ranges(name string) iter.Seq[Range]
}

// A Range is the points from First to Last, both included.
type Range struct{ First, Last uint64 }

// Point returns the point of the host with this key on the circle of 2^64 points. Different hosts
// have different points.
func Point(host uint64) uint64 { return mix(host + gamma) }

// gamma is SplitMix64's increment: 2^64 divided by the golden ratio.
const gamma = 0x9e3779b97f4a7c15

// mix is SplitMix64's finalizer (Stafford's variant 13), a bijection.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// joined yields the ranges that each adds in ascending order. Ranges that touch are one.
func joined(each func(add func(Range))) iter.Seq[Range] {
	return func(yield func(Range) bool) {
		var last Range
		some, over := false, false
		each(func(r Range) {
			if some && last.Last+1 == r.First {
				last.Last = r.Last
				return
			}
			over = over || some && !yield(last)
			last, some = r, true
		})
		if some && !over {
			yield(last)
		}
	}
}
