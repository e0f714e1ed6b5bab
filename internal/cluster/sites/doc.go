// Package sites answers: which agent owns this host, by what the coordinators have said?
//
//	coordinators -> Follow -> entries -> table on disk, cache in RAM, last roster
//	Owner(host)  -> cache -> the agent that the host is assigned to -> roster -> the owner
//	             -> not in the cache: "not known yet", and the host goes to the asker:
//	                table -> there: cache, Config.Assigned
//	                      -> not there: Discover -> the coordinators assign it -> an entry
//
// It is the agent's side of --partition sites (FC2L-UDCbot, a crawler with a coordinator: a paper on
// full-coverage two-level URL duplication checking, section 3.4; the table is its SitePartitionInformation).
// A Sites answers what cluster.Placement asks about hosts. It opens no connection: a Source makes the calls.
//
// # Owners
//
// A host is assigned to an agent once, for ever. If an entry contradicts an earlier one, the later one holds, in
// the cache as in the table. The owner of a host is its agent while the last roster has that one as up.
// Otherwise the owner is the first agent in the host's rendezvous order (package placement) of those that are
// up. The heir of a host is the first agent in that order other than the owner: so the heir of a host owns it
// when its owner is gone, whichever agent it is assigned to.
//
// Tenure tells since when this agent owns a host without a break:
//
//   - A host assigned to this agent: 0 if the agent has been up in every roster since the assignment, because no
//     other agent can have owned the host. Otherwise the term of the roster with which it came up.
//
//   - A host of an agent that is away: a number of the change of the roster since which this agent is first.
//
//   - If a stranger has come, at least the term with which it came: an agent that has crawled with coordinators that
//     are lost may know any host.
//
// So an agent that starts for the first time, or starts again before it is lost, claims none of its assigned
// hosts from others. After it was lost, or with a new crawl directory, it claims them all.
//
// # The right to start visits
//
// The coordinators take an agent off the roster without its consent when it is silent. Its heirs then start.
// Right says until when the agent may start visits. DESIGN.md has the rule, and why it is safe.
//
// # Invariants
//
//   - Entries are applied in order and without gaps. The table never has a host of an entry after its number
//     that it would miss after a restart: on disk it is as of a number, and Follow asks for what comes after.
//   - The coordinators' log is the durable copy of the table. A damaged table is deleted and read again. So is the
//     table of another log, when the agent starts.
//   - A roster takes effect in the order of the stream. The first roster that takes effect is the last one at
//     that time: an agent does not relive what happened before it came.
//   - Memory is bounded: the cache, the table's share, and the hosts that wait for an answer. Links whose hosts
//     do not fit are routed again later (Config.Overflowed).
//
// # Format
//
// The directory holds a store of package drum with values. The key is assignment.Key of the host, the value is
// the index of the agent's name in its top 16 bits, and the number of the entry below. The store's mark:
//
//	1        version: 2
//	16       name of the coordinators' log; zeros: it is not known
//	uvarint  number of the last entry in the store
//	uvarint  term of the first roster in which this agent was up; 0: none
//	uvarint  term since which it is up without a break; 0: it is not
//	uvarint  term of the last roster with which a stranger came; 0: none
//	uvarint  number of names; for each:
//	    uvarint  length, then the name
//	         the entry of the last roster; nothing if there was none
package sites
