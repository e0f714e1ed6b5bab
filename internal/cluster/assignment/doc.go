// Package assignment answers: in which form do the coordinators say which agent owns which host?
//
// With --partition sites, coordinators agree on a stream of entries. An Entry is one of:
//
//   - Shares: hosts that were new, each with the agent that it is assigned to;
//   - a Roster: the agents that own hosts from here on.
//
// Agents and coordinators derive everything else from the stream, so two of them that have read it up to
// the same entry agree.
//
// # Invariants
//
//   - Entries are numbered from 1, without gaps. An entry never changes.
//   - A host is in one entry at most. Its assigned agent is the same for ever.
//   - The number of a Roster's entry is the roster's term. It identifies the roster.
//   - An agent owns its assigned hosts while the last roster has it with the state Up. Otherwise the first
//     agent in the rendezvous order of the host (package placement) owns it, of those that are Up.
//   - Decode accepts only what AppendTo makes of an Entry that keeps the rules of its fields, and any zstd
//     frame of the same text.
//
// # Size
//
// An entry names each agent once. Its hosts are sorted and compressed by zstd. With 10,403 hosts of links
// in real documents (18 bytes each, with a separator), a host takes on average:
//
//	hosts of the entry            100   1,000   4,096
//	sorted                        18.0    18.1    17.9   bytes, with 4 agents
//	front coding                  16.6    15.6    14.7
//	zstd                           9.4     7.9     7.2
//	front coding, then zstd       10.0     8.5     7.4
//
// So zstd alone is used. Front coding of the names' labels from the right gains nothing either.
//
// # Format
//
// Entries are concatenated.
//
//	8        head of a frame: see package frames
//	1        kind: 'H' shares, 'R' roster
//	uvarint  number of the entry
//	uvarint  length of the text
//	         the text, or a zstd frame of it if that is shorter
//
//	text of shares: for each share, ordered by agent
//	    name of the agent, "\n"
//	    each of its hosts, "\n"; in ascending order
//	    "\n"
//
//	text of a roster
//	    1        1: the crawl has ended; else 0
//	    uvarint  number of members; each of them, ordered by name
//	    uvarint  number of lost members; each of them, ordered by name and instance
//	member
//	    1        length of the name, then the name
//	    16       instance
//	    uvarint  boot
//	    8        capacity, IEEE 754, big endian
//	    1        length of the address, then the address
//	    1        state
package assignment
