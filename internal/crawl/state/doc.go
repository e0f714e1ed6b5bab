// Package state answers: what does the journal of a crawl contain, and what does each record mean?
//
// A page's batch is its accepts, then its finish. Each accepted link has a number: its position among all accepts of
// the crawl, from 1. An accept record does not contain its number, because the order of the records gives it. A finish
// record does. So the finished URLs are a set of numbers, which takes at most two bytes a URL.
//
// A Table has one row for each kind of records, with what becomes of them when the crawl resumes, when a checkpoint
// replaces them, when the key set is repaired, and when heirs get the whole state. A History reads a journal once, for
// all of these.
//
//	snapshot, segments -> History: numbers of finished links; other records -> their handlers
//	          accepts since the snapshot -> Spool
//	P parts, then the Spool -> those that are not finished -> the caller
package state

// Kinds of records. "snapshot" and "part" say where alone a kind occurs.
const (
	Crawl        byte = 'C' // the first record of a journal or snapshot: version and id of the crawl, see AppendCrawl
	Accept       byte = 'A' // a Link in its one encoding
	Outgoing     byte = 'E' // like Accept, for a Link that another agent crawls; it has a number among the accepts, too
	Passed       byte = 'B' // like Outgoing, for a Link that was sent by one agent and is another's; it has no key
	Sent         byte = 'Y' // numbers of Outgoing and Passed links that have ended, see AppendSent
	Finished     byte = 'F' // see Finish
	Host         byte = 'H' // a frontier.HostState: politeness that outlives the process
	Drop         byte = 'G' // a drop of a host's links
	Robots       byte = 'R' // a robots.Entry
	Keys         byte = 'K' // keys of the seen-set, see AppendKeys
	OutgoingKeys byte = 'J' // part: like Keys, of Outgoing links
	DoneKeys     byte = 'U' // like Keys, of finished URLs
	KeyList      byte = 'M' // truncated keys of the seen-set, see AppendList
	DoneList     byte = 'm' // like KeyList, of finished URLs
	Absent       byte = 'Z' // like KeyList, of links that wait here and are finished on other agents
	Pending      byte = 'P' // part: an accepted Link that is not finished, and its number, see AppendPending
	PendingOut   byte = 'O' // part: like Pending, of Outgoing and Passed links
	Number       byte = 'N' // snapshot: uvarint number of the last accept before it
	Done         byte = 'X' // snapshot: numbers of finished links that its parts still have: AppendRuns in pieces
	Held         byte = 'L' // a mark about links that the seen-set holds back, see AppendHeld
	Digest       byte = 'D' // snapshot: a payload to recognize, see AppendOriginal
	Queries      byte = 'Q' // snapshot: paths and how many queries they had, 8 and 4 bytes each, big-endian
	Visited      byte = 'V' // snapshot: a Planner's state of a URL, see AppendVisited
	Told         byte = 't' // like Visited, from another agent; or, with an empty state: another agent has the state
	Tally        byte = 'T' // snapshot: the report's counts in pieces, see PutPieces
	Span         byte = 'S' // when the crawl began, how long its runs took, and when this was written, see AppendSpan
	Handed       byte = 'h' // the state of a host that was given away
	HostPages    byte = 'c' // how many pages of a host another agent has fetched
	Again        byte = 'a' // a Link that is accepted again: the next accept is of the same Link
	Failed       byte = 'f' // snapshot: a failed Link, which a later run may accept again
	Application  byte = 'p' // how far an application is, see AppendApplication
	Seed         byte = 'W' // a URL that a seed redirected to, and that widens the scope
)
