// Package crawl answers: what happens to a URL, from seed to archive?
//
//	seeds, links -> intake: scope -> seen -> journal -> frontier
//	frontier -> journey: robots -> fetch -> archive -> parse -> scope
//	         -> disposition: retry, slow down or finish; links back to intake
//
// One goroutine, the dispatcher, owns the frontier, the seen-set, the journal
// and every counter; workers own one visit at a time and share only what is
// safe to share (fetcher, robots cache, archive). Nothing else knows the order
// of the rooms.
//
// The states of a URL:
//
//	found      named by a page, canonical, in scope; not yet looked up
//	accepted   new to seen; in the journal and in a host queue. Durable.
//	in process handed to a worker; at most one a host
//	again      its host could not answer yet: at the front of its queue
//	later      it failed alone: waits beside the queues, its host goes on
//	finished   archived, or given up with a reason; in the journal. Durable.
//	           A Planner may want it again: it then waits in a host queue once
//	           more, and finishes once more
//
// An operator may block hosts, whose links then wait, and drop links, which are
// then finished unvisited, in a while.
//
// What is fetched next is the Strategy's: which links are followed, with what
// priority, and, for a Planner, which URLs are fetched again and when.
//
// What always holds: a URL is accepted once; an accepted URL is in exactly one
// of the last five states; its finish is journaled in one atomic batch with
// the links it brought, after its record is in the archive. So after a kill
// only visits whose finish was not yet written are made again.
package crawl
