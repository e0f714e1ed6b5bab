// Package cluster answers: what does an agent do with the other agents of its crawl?
//
//	link of another agent   -> Outbox -> its owner                       outgoing.go, arrival.go
//	host of a new owner     -> Claim, Hand: what is finished there       tenancy.go, claim.go, give.go
//	records of own hosts    -> Copies -> the hosts' heirs                copies.go, whole.go
//	a lost agent's replica  -> as if its hosts were handed over          takeover.go
//	no work anywhere        -> the agents end together                   rest.go
//
// A Clustered answers what the crawl loop of one agent asks its crawl.Cluster, and it uses the loop through a
// crawl.Loop. The dispatcher of the loop owns all its state, so it has no locks but that of the permits. Package node
// connects it with the other agents.
package cluster
