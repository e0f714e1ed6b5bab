// Package dns answers: which addresses does this host have?
//
//	Lookup -> literal, hosts file, cache
//	       -> one flight per name -> A and AAAA -> servers -> cache
//
// It is a stub resolver with a cache, for a crawler that asks for many names at once. The
// configured servers do the recursion. miekg/dns reads and writes the wire format. This package
// does the exchange itself, because the exchange decides which replies to trust.
//
// A flight is one lookup in progress, shared by all its callers. Invariants:
//
//   - A name has one flight, however many callers wait for it.
//   - At most Config.Concurrency queries are on the wire.
//   - A query has a random id and a random port. The port changes after 64 queries, after a second,
//     or after a datagram that answers no question. While a query waits, no other query uses its
//     socket.
//   - A reply counts only if it comes to that socket with that id and that question (RFC 5452).
//   - Every loop is bounded, whatever a server sends.
//
// All workers share one Resolver. Flights are goroutines of the Resolver; Close ends them and waits
// for them. Otherwise a flight ends early only if all its callers have left.
package dns
