// Package robots answers: may the crawler fetch this URL, and how fast?
//
//	robots.txt -> Parse -> Rules -> Group(agent) -> Allowed(path)
//	Ask(url) -> Allowed | Denied | Fetch this first | Unreachable until
//	Learn(reply) -> the next Ask
//
// The rules are those of RFC 9309 as Google's matcher reads them (github.com/google/robotstxt).
// Like Google's matcher, the package accepts byte order marks, any line ends, misspelt keys and
// missing colons, has a special rule for index.html, and compares percent-encoding literally.
// Group.Allowed is exactly that matcher. A crawler calls Group.Crawlable, which is at least as
// strict for pages. It adds two rules that the RFC has and Google's matcher lacks: /robots.txt is
// always allowed, and %7E equals ~ on either side (RFC 9309, 2.2.2).
//
// Invariants:
//
//   - Parse never fails and reads at most ReadLimit bytes.
//   - A match takes time linear in the length of the path and of the rules, whatever the rules are.
//   - A Cache stays within its budget.
//   - Nothing here reads a clock, opens a connection or starts a goroutine.
//
// Rules and Group are immutable. All workers share one Cache. It is locked in shards, and no lock
// is held during a match. Origins whose files say the same to the agent share one Group. If memory
// is short, the Cache drops an origin and counts it. The next Ask about that origin asks for its
// file again.
//
// # Encoding of an Entry
//
//	bytes    content
//	1        version, 2
//	1        class
//	varint   fetched, microseconds since 1970 (zigzag)
//	varint   expires, likewise
//	1        failures in a row, 0 unless the class is unreachable or stale
//	uvarint  length, then the agent that the rules are for
//	uvarint  length, then the origin
//	uvarint  length, then the body: the robots.txt with a blank line in place of
//	         each line that does not concern the agent, so that line numbers stay
package robots
