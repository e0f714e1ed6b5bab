// Package cluster answers: what does an agent do with the other agents of its crawl?
//
//	link of another agent   -> Outbox -> its owner                       outgoing.go, arrival.go
//	host of a new owner     -> Claim, Hand: what is finished there       tenancy.go, claim.go, give.go
//	records of own hosts    -> Copies -> the hosts' heirs                copies.go, whole.go
//	a lost agent's replica  -> as if its hosts were handed over          takeover.go
//	no work anywhere        -> the agents end together                   rest.go
//
// Each part owns its state, and uses the parts before it alone: ranges (keys in the seen-set), pageCounts, shipping
// (records for heirs), receipts (what waits for a sync), links (on their way), tenants (hosts that move), recalls,
// sameContents, leaving, Permits; boundary.Exports has the pages for other agents. A Clustered puts them together: it
// answers what the crawl loop asks. Its parts answer the calls of other agents (exchange.go, messages.go).
//
// The dispatcher of the loop owns all state, so there are no locks but that of the permits, and of pages on their way.
// Package node connects a Clustered with the other agents.
package cluster
