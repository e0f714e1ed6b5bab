// Package lease answers: may this agent use this address, or this registered
// domain, now, although hosts of it live on other agents, too?
//
//	Want, Ready -> Peer(holder) -> batch -> Peer(grantor) -> batch -> Begin -> Used
//
// A point stands for an address or a domain. The agent that the View names for
// it, its grantor, leases it to one agent at a time, the holder, in the order
// in which they asked. Each agent is both, as one Peer; what Peers say to each
// other are calls and answers, each a Batch, which the caller carries.
//
// What always holds, as long as the agents' views agree within Config.Settle
// and clocks run alike to a hundredth: no two agents use a point at once, and
// between the end of a response by one and the next request by another lies
// the quiet time of the point, however messages are lost, late, repeated or
// turned round, and whoever dies or comes back. Only durations travel, and no
// two machines' clocks are compared.
//
// A lease lasts long (Config.Hold) and is called back when another agent asks
// for the point, so that what nobody contends for costs next to nothing. What
// makes that safe is that a holder begins nothing unless it has been in contact
// with the cluster for the last Config.Term: an agent that is lost to the
// others stops by itself before they give on what it had.
//
// An agent that goes in good order (Retire, Quit) leaves nothing to wait for.
//
// There is no I/O, no clock, no goroutine and no lock: one goroutine owns a
// Peer. See DESIGN.md for the reasons and for what is not promised.
package lease
