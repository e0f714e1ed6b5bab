// Package placement answers: which agent has this host, and which ones come next?
//
//	host -> weburl.HostKey -> point -> owner, next nearest, ...
//	agents (name, capacity) --^
//
// Every agent computes the answer by itself from the names and capacities of
// those that are alive. There are two ways, with the same methods. Rendezvous is
// the default: with 500 agents it still divides the hosts more evenly than the
// Ring, with ten a ninth as unevenly, and a look-up takes a fifth of the time
// (docs/lab/ring.md); with 1,000 agents the Ring is the more even one. What costs
// more is a change of the agents, some milliseconds, and the tables: a megabyte.
//
//   - Ring: identifier-seeded consistent hashing (Boldi, Codenotti, Santini,
//     Vigna: UbiCrawler, 2004, section 4.3). An agent has 200 replicas times
//     its capacity on a circle of 2^64 points, the output of a Mersenne Twister
//     that its name seeds; a host is of the agent with the nearest replica.
//   - Rendezvous: weighted rendezvous hashing over virtual buckets (Thaler,
//     Ravishankar 1998; Schindelhauer, Schomaker 2005). A host's point falls into a
//     bucket; all agents draw an exponential number for each bucket, and the
//     smallest number by capacity has it.
//
// # What always holds
//
// The answer depends on the set of agents and on nothing else: not on who came
// first, nor on the machine; it is computed in integers. It is contravariant:
// each host has an order of all possible agents, and its owner is the first
// that is alive, so that a host moves to an agent that joins, or from one that
// leaves, and never between two others; the same holds for a capacity that
// grows or shrinks. Nearest tells the beginning of that order, which is also the
// order in which others inherit.
//
// Values never change: With and Without make new ones, and any goroutine may
// read them. The values of a set are equal however they were made.
//
// # Formats
//
// What must be the same in every version, since agents of two versions have to
// agree and hosts must not move with an update:
//
//	weight     round(200 * capacity), at least 1 (200: the replicas a capacity of 1)
//	point      mix(key + g), g = 0x9e3779b97f4a7c15, mix is SplitMix64's finalizer
//	replicas   the first distinct outputs, weight in number, of MT19937-64 after
//	           init_by_array64(length of the name, its octets: a word each)
//	nearest    by distance on the circle, either way; of two at the same
//	           distance the one upwards of the point
//	bucket     the top bits of the point
//	draw h     mix(xxhash64(name) + (bucket + 1) * g)
//	number     -log2(h / 2^64) in steps of 2^-57, see exponential, by weight;
//	           of equal ones that of the larger h, then of the smaller name
//
// The length is in the seed since init_by_array64 adds its index to each word:
// without it "b" and "ba" would have the same replicas.
//
// The point is not the key, so that a host's owner says nothing about where its
// key is in stores that are ordered or split by key.
package placement
