// Package coordinator answers: which agent gets a new host, and which agents own hosts now?
//
//	agents -> Discover -> known? -> look-up -> command -> Log -> Machine.Apply -> entry of the stream
//	agents -> Follow   -> report -> who belongs to the roster? -> command -> Log -> Machine.Apply -> entry
//	       <- entries from any number on
//
// It is the coordinator of FC2L-UDCbot (a crawler with a coordinator: a paper on full-coverage two-level URL
// duplication checking), section 3.4.1 and figure 4. A Machine is the state that all coordinators have: the stream of
// entries (package assignment), the table of all hosts in it (the paper's SiteURL DRUM), and the last roster. A Log
// (package consensus) drives it. A Coordinator answers the agents while its Log says that it leads.
//
// # Invariants
//
//   - Apply is deterministic: after the same commands two Machines are equal. So the choice of an agent is made in
//     Apply, from what the command and the state say.
//   - The SiteURL table is asked twice: before a look-up, and in Apply. So a host is in one entry at most, whoever
//     leads.
//   - A log has a random name. An agent that has entries of another log gets none, and is not taken in.
//   - A call speaks for its caller alone. It can name hosts, and say what the caller wants to be. It cannot choose
//     another agent, and it cannot change one.
//   - A roster without an agent that has not asked for that is proposed only if that agent can have no right to start
//     visits: see isLost, and package sites for the right.
//   - Memory is bounded: hosts in look-up (by caller, too), dead hosts, lives of agents, readers of the stream.
//
// A Machine's files are working files. What survives is the log and its snapshots: a snapshot is the stream, and
// reading it makes the table again.
package coordinator
