// Package frontier answers: which link may be fetched now?
//
//	Push -> pool (disk) -> host queue (RAM, tail on disk) -> ready -> Next -> Done -> waiting -> ready
//
// The structures are Polybot's (Shkapenyuk and Suel, ICDE 2002, "crawl manager
// data structures"): request files that wait on disk while enough hosts are
// ready (Config.Active; before that a link goes past them, straight to its
// queue), a host dictionary, a FIFO queue for each host, a ready queue of hosts ordered by the request number of their first link, and a
// waiting queue ordered by the time at which a host may be asked again. Links
// get their request numbers in the order of Push, so that the crawl is
// breadth-first overall and within each host, as far as politeness lets it
// and, without a delay, Config.Burst.
//
// What always holds: one link at a time is in process for a host (with
// IPDelay for an address, with SiteDelay for a site); from the end of a
// response to the next request passes at least the quiet time; among the hosts
// that may be asked now, Next takes the one with the highest level and, within
// the level, the least request number; a link that was pushed comes out once,
// unless Done gives it back.
//
// A host is in one of these states:
//
//	unknown     never seen, or nothing is left to remember
//	ready       has links and its own quiet time is over
//	resolving   given to the caller without an address
//	in process  given to the caller, Done is awaited
//	waiting     its quiet time runs
//	slowed      waiting because it asked for it (429, 503) or had trouble
//	parked      ready, but its address or its site is busy or quiet
//	exhausted   no links, but a quiet time or a slow-down to remember
//	blocked     retired by the operator; its links stay
//
// A host whose links are all in a pool is unknown here until they are read.
//
// One goroutine owns a Frontier; it has no locks and reads no clock. See
// DESIGN.md for the pools, the two levels of queues and what was not done.
package frontier
