// Package crawl answers: what happens to a URL, from the seed to the archive?
//
//	seeds, links -> intake: scope -> seen -> journal -> frontier
//	frontier -> visit (package visit): robots -> fetch -> archive -> parse -> scope
//	         -> settle: retry, slow down or finish; links back to intake
//
// One goroutine, the dispatcher, owns the frontier, the seen-set, the journal and all
// counters. Each worker owns one visit at a time. Workers share only parts that are safe for
// concurrent use: the fetcher, the robots cache and the archive. Package ledger owns what is durable, package
// retry what has failed and is tried again, and package orders what the operator has ordered. No other package
// knows the order of these parts.
//
// The states of a URL:
//
//	found      a page links to it; canonical and in scope; not yet looked up
//	accepted   new to the seen-set; in the journal and in a host queue. Durable.
//	in process a worker visits it; at most one URL per host
//	again      its host could not answer: it waits at the front of the host's queue
//	later      only this URL or its origin failed: it waits outside of the queues, its host goes on
//	waiting    its origin fails, and another URL of it will be tried first
//	finished   archived, or given up with a reason; in the journal. Durable.
//	           A Planner may want it again: then it waits in a host queue once more,
//	           and finishes once more.
//
// The operator can block a host, whose links then wait. The operator can drop a host's links,
// which the crawl then finishes without a visit, some at a time.
//
// The Strategy decides which links the crawl follows and with what priority. A Planner also
// decides which URLs the crawl fetches again, and when.
//
// Invariants: a URL is accepted once. An accepted URL is in exactly one of the last six states.
// The journal gets the finish of a URL in one atomic batch with the links of the page, after the
// archive has its record. So after a kill, only visits whose finish was not yet written are
// repeated.
package crawl
