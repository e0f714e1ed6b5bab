// Package gossip answers: who belongs to the cluster now?
//
//	packets, streams of gossip -> memberlist (SWIM) -> events -> View -> Changes
//
// Each agent says of itself, in what gossip carries along: its instance (made
// with its crawl directory), its boot (how often that was started), capacity,
// call address and state. A View is who this agent thinks is alive. It never
// changes: there is a new one, with a higher number. Two agents' views differ
// for a while after each change, and are the same in the end.
//
// What always holds: a dead agent is in the end in no view (strong
// completeness), and a living one that was taken for dead comes back by itself.
// One that is lost is tried again for as long as we run, so that the halves of
// a partition become one cluster. Of two agents under one name one stops, and
// both know which. What the words of another agent are taken for is decided
// here; what to do with its hosts is not.
//
//	octets of what an agent says of itself
//	1        version, 1
//	1        state
//	16       instance
//	uvarint  boot
//	8        capacity, IEEE 754, big endian
//	uvarint  length of the call address, and as many octets
package gossip
