// Package placement answers: which agent owns this host, and which agents come
// next?
//
//	host -> link.HostKey -> Point -> owner, heir, ...
//	agents (name, capacity) --^
//
// Every agent computes the answer by itself, from the names and capacities of the
// agents that are alive. Two implementations have one interface, Placement:
//
//   - Ring: identifier-seeded consistent hashing (Boldi, Codenotti, Santini,
//     Vigna: UbiCrawler, 2004, section 4.3). An agent has 200 replicas times its
//     capacity on a circle of 2^64 points. They are the output of a Mersenne
//     Twister that the agent's name seeds. The agent with the replica nearest to
//     a host's point owns the host.
//   - Rendezvous: weighted rendezvous hashing over virtual buckets (Thaler,
//     Ravishankar 1998; Schindelhauer, Schomaker 2005). A host's point falls into
//     a bucket. All agents draw an exponential number for each bucket. The agent
//     whose number divided by its capacity is the smallest owns the bucket.
//
// A View is a Placement as one agent sees it, with the history of its own hosts: since when it has owned
// them, and which agent keeps their replicas. Package node answers from it what package cluster asks
// (cluster.Placement). That interface also allows answers that come later.
//
// Rendezvous is the default. Up to 500 agents it divides the hosts more evenly than
// the Ring, with ten agents by a factor of nine, and a look-up takes a fifth of the
// time. With 1,000 agents the Ring is more even (docs/lab/ring.md). Making a Rendezvous takes
// longer: about 8 ms for each agent, and a megabyte for its tables.
//
// # Invariants
//
// The answer depends on the set of agents and on nothing else: not on the order in
// which they joined, and not on the machine. It is computed in integers. It is
// contravariant: each host has an order of all possible agents, and its owner is the
// first that is alive. So a host moves to an agent that joins, or from an agent that
// leaves, and never between two others. The same holds for a capacity that grows or
// shrinks. Nearest returns the beginning of that order, in which agents also inherit.
//
// Values never change: With and Without return new ones, and any goroutine may read
// them. Two values of one set are equal however they were made.
//
// # Formats
//
// The following is the same in every version, because agents of two versions must agree, and an
// update must not move hosts. k is 200 for a Rendezvous. For a Ring it is the number of replicas
// that NewRing gets.
//
//	weight     round(k * capacity), at least 1
//	point      mix(key + g), g = 0x9e3779b97f4a7c15, mix is SplitMix64's finalizer
//	replicas   the first distinct outputs, weight in number, of MT19937-64 after
//	           init_by_array64(length of the name, its octets: a word each)
//	nearest    by distance on the circle, in either direction; of two replicas at
//	           the same distance, the one above the point
//	bucket     the top bits of the point
//	draw h     mix(xxhash64(name) + (bucket + 1) * g)
//	number     -log2(h / 2^64) in steps of 2^-57, see exponential, divided by weight;
//	           of equal numbers that of the larger h, then of the smaller name
//
// The length is in the seed because init_by_array64 adds its index to each word:
// without it, "b" and "ba" would have the same replicas.
//
// The point is not the key. So a host's owner says nothing about where its key is in
// stores that are ordered or split by key.
package placement
