// Package orders answers: what have operators told the cluster, and which of their orders hold now?
//
//	Give (an operator, at any agent) -> Set -> Standing: the orders that hold
//	                                    ^ |
//	         Merge (from another agent) ´ `-> Page (to another agent), Encode (to a file)
//
// An Order applies a Verb to a subject (About). Orders with the same Verb and About are about the same thing: the
// latest of them holds, unless it is Off. A Set never sends anything. Its caller compares digests and exchanges
// orders. Any agent may take an order, also while it cannot reach the others.
//
// # Invariants
//
//   - Orders have a total order: Clock, then Agent. These two identify an order. If two different orders have the
//     same two, because an agent is faulty, every Set keeps the one with the greater encoding.
//   - Clock is a hybrid logical clock (Kulkarni et al., Logical Physical Clocks, OPODIS 2014). Give stamps a
//     greater one than that of every order seen, so an order supersedes all orders that its agent knew, even if the
//     clocks of the machines differ.
//   - A Set is a function of the orders that it has seen. Sets that have seen the same orders are equal, in
//     whatever order and groups these came. After two sets have sent each other all that they keep, they are
//     equal in any case.
//   - A standing order is never discarded.
//
// # Bounds
//
// A Set discards two kinds of orders. Both rules depend only on the union of the orders seen:
//
//   - Of the superseded orders, it keeps the MaxPast newest.
//   - The latest order of a Verb and About is kept if it is Off, too. Otherwise the order that it took back could
//     return from an agent that was away. But if MaxLatest others have newer orders, then the Off and all orders
//     before it are forgotten. So an agent that was away for so many orders can bring an order back that was taken
//     back meanwhile. Then it stands at all agents again, and the operator has to take it back again. The opposite
//     rule, to refuse old orders, would lose orders that an operator gave at an agent that was cut off.
//
// Give refuses to let more than MaxStanding orders stand. Merge refuses no order for their number, because sets
// could not agree on which. So with n agents that cannot reach each other, n times as many can stand.
//
// An order whose Clock is far ahead takes the clocks of all agents with it. A caller that does not trust its peers
// checks Clock before Merge.
//
// # Format
//
// An order. At is a signed varint, the other numbers are uvarints:
//
//	1        version: 1
//	number   Clock
//	number   At, in milliseconds since 1970
//	1        1: Off; else 0
//	texts    Agent, By, Why, Verb, About, Value: a number of bytes, then the bytes
//
// A file:
//
//	8        magic: "OWORDER", then the version: 1
//	4        CRC-32C of what follows, little-endian
//	number   number of orders, then the orders
//
// Decode accepts only what AppendTo makes.
package orders
