// Package dns answers: which addresses does this host have?
//
//	Lookup -> literal, hosts file, cache
//	       -> one flight per name -> A and AAAA -> servers -> cache
//
// It is a stub resolver with a cache, for a crawler that asks for many names at
// once: the recursion is the servers' work. The wire format is miekg/dns's;
// the exchange is ours, since it decides what a reply has to show before it is
// believed.
//
// What always holds: one flight per name, however many ask for it; no more
// than Config.Concurrency queries on the wire; a query has a random id, a
// random port that changes after 64 queries, a second or a datagram that fits
// no question, and a socket that is its own until the reply; only a reply to
// that socket with that id and that question counts (RFC 5452); every loop is
// bounded, whatever a server says.
//
// A Resolver is shared by all workers. Flights are goroutines of the Resolver;
// Close ends them and waits. A flight ends early only when all its callers
// have left.
package dns
