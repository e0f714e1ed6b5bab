// Package standing answers: which orders of the operators stand, and what do they change of this agent's crawl?
//
//	an order -> Set -> durable -> in force: pause, bars, scope, delays, paces, rate, applications
//	                           -> the other agents
//
// The blacklist is in force beside the orders. An agent pushes all that it knows to each agent that does not know the
// same, by the digest of the set. So two sets are equal soon after both agents can call each other. An agent that joins
// asks before its first visit.
//
// One call at a time changes what is in force: it has the turn. Delays and Paces answer the frontier without it.
package standing
