// Package gossip answers: who belongs to the cluster now?
//
//	packets, streams of gossip -> memberlist (SWIM) -> events -> View -> Changes
//
// Each agent announces facts about itself, which gossip carries: its instance (made with its
// crawl directory), its boot (the number of starts of the instance), its capacity, call address
// and state. A View is the set of agents that this agent believes alive. A View never changes;
// each change makes a new View with a higher number. The views of two agents may differ for a
// while after a change, and become equal.
//
// Invariants: a dead agent disappears from all views (strong completeness). A living agent that was
// believed dead comes back by itself. A Member tries lost agents again for as long as it runs, so
// that the halves of a network partition become one cluster. Of two agents with the same name one
// stops, and both know which one. The package decides what to believe of other agents; its caller
// decides what happens to their hosts.
//
// A Member is safe for concurrent use. Its goroutines end with Close.
//
//	bytes of what an agent announces about itself
//	1        version, 1
//	1        state
//	16       instance
//	uvarint  boot
//	8        capacity, IEEE 754, big endian
//	uvarint  length of the call address, then the address
//
//	bytes of each start that announced Gone, when two agents compare all they know
//	16       instance
//	8        boot, big endian
package gossip
