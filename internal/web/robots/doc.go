// Package robots answers: may this URL be fetched, and how fast?
//
//	robots.txt -> Parse -> Rules -> Group(agent) -> Allowed(path)
//	Ask(url) -> Allowed | Denied | Fetch this first | Unreachable until
//	Learn(reply) -> the next Ask
//
// The rules are those of RFC 9309 as Google's matcher reads them
// (github.com/google/robotstxt): its lenience about byte order marks, line
// ends, misspelt keys and missing colons, its rule for index.html and its
// literal view of percent-encoding. Group.Allowed is that reading and nothing
// else. A crawler asks Group.Crawlable, which is at least as strict and adds
// what the RFC asks for and Google's matcher leaves out: /robots.txt is always
// allowed, and %7E is ~ on either side (RFC 9309, 2.2.2).
//
// What always holds: Parse never fails and reads at most ReadLimit bytes; a
// match takes time linear in the length of the path and of the rules, whatever
// the rules are; a Cache stays within its budget; nothing here reads a clock,
// opens a connection or starts a goroutine.
//
// Rules and Group are immutable. A Cache is shared by all workers and is
// locked in shards, never across a match. Origins whose files say the same to
// the agent share one Group; an origin that had to be forgotten for want of
// memory is counted, and the next question about it sends for its file again.
//
// # Encoding of an Entry
//
//	bytes    what
//	1        version, 2
//	1        class
//	varint   fetched, microseconds since 1970 (zigzag)
//	varint   expires, likewise
//	1        failures in a row, 0 where the class is neither unreachable nor stale;
//	         version 1 does not have this byte
//	uvarint  length, then the agent whose rules these are
//	uvarint  length, then the origin
//	uvarint  length, then the body: the robots.txt with every line blank that
//	         does not concern the agent, so that line numbers hold
package robots
