// Package lease answers: may this agent contact this address, or this registered domain, now,
// although other agents have hosts there, too?
//
//	Want, Ready -> Peer(holder) -> batch -> Peer(grantor) -> batch -> Begin -> Used
//
// A point stands for an address or a registered domain. The View names an agent for each point,
// its grantor. The grantor leases the point to one agent at a time, the holder, in the order of
// the requests. Each agent is grantor and holder, as one Peer. Peers exchange calls and answers;
// each is a Batch, which the caller transports.
//
// Invariants: no two agents use a point at the same time. Between the end of a response to one
// agent and the next request of another agent passes the delay of the point. This requires that the
// agents' views agree within Config.Settle, and that the speeds of their clocks differ by less than
// a hundredth. It holds if messages are lost, late, repeated or reordered, and if agents die or
// come back. Messages have durations only; clocks of two machines are never compared.
//
// A lease lasts long (Config.Hold), and the grantor recalls it when another agent asks for the
// point. So a point without contention costs little. This is safe because a holder begins no
// request unless it had contact with the cluster within the last Config.Term: an agent that is
// lost to the others stops by itself before they lease its points to others.
//
// An agent that has said that it is gone, or has been started again, has no leases any more (View.Over).
//
// A Peer has no I/O, no clock, no goroutine and no lock; one goroutine owns it. A Service has the Peer of an agent: it
// makes the calls, and is the lease of the agent's frontier. DESIGN.md has the reasons, and says what is not promised.
package lease
