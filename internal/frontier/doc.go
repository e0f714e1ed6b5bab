// Package frontier answers: which link may be fetched now?
//
//	Push -> pool (disk) -> host queue (RAM, tail on disk) -> ready -> Next -> Done -> waiting -> ready
//
// The structures are those of Polybot (Shkapenyuk and Suel, ICDE 2002, "crawl manager data structures"):
//
//   - request files, here called pools, in which links wait on disk while enough hosts are ready (Config.Active); if
//     too few are ready, a link goes straight to its host's queue;
//   - a host dictionary, and a FIFO queue for each host;
//   - a ready queue of hosts, ordered by the request number of their first link;
//   - a waiting queue of hosts, ordered by the time at which they may be fetched again.
//
// Links get their request numbers in the order of Push. The crawl is therefore breadth-first, overall and within each
// host, as far as politeness and, without a delay, Config.Burst allow.
//
// Invariants:
//
//   - One link at a time is in process for a host, with IPDelay for an address, with SiteDelay for a site.
//   - At least the quiet time passes between the end of a response and the next request.
//   - Next gives out the link of the highest level among the hosts that may be fetched now, and within the level the
//     one with the lowest request number. If there are classes, each class gets its share of the requests (SetClasses).
//   - A link that was pushed is given out once, unless Done puts it back.
//
// A host is in one of these states:
//
//	unknown     never seen, or nothing is left to remember
//	ready       has links, and nothing holds it back
//	resolving   given to the caller without an address
//	fetching    given to the caller, Done is awaited; the code says "in process"
//	resting     in its own quiet time ("waiting"), or its address or its site is busy or quiet ("parked")
//	paused      waiting because it asked for it (429, 503) or had trouble ("slowed")
//	empty       no links, but a quiet time or a slow-down to remember ("exhausted")
//	blocked     excluded by the operator; its links stay
//
// These are the words of everything that users see. A host whose links are all in a pool is unknown until they are
// read.
//
// One goroutine owns a Frontier. It has no locks, reads no clock and starts no goroutines. DESIGN.md describes the
// pools, the two levels of queues and the rejected choices.
package frontier
