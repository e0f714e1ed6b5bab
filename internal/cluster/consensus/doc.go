// Package consensus answers: how do the coordinators of a crawl agree on one log of commands, and what of it survives?
//
//	Propose(command) -> leader: log on disk -> others: logs on disk -> committed -> Machine.Apply, at each member
//
// The members of a group are fixed: one, three or five machines. The algorithm is Raft, in the implementation of
// hashicorp/raft. This package has the files, and closes the gaps between that implementation and what a coordinator
// needs: see DESIGN.md.
//
// # What always holds
//
//   - A command whose Propose succeeded is never lost while a majority of the members have their directories.
//   - All members apply the same commands in the same order. After a restart a member continues with its newest
//     snapshot and applies the commands behind it again.
//   - A member whose disk fails or is full sends nothing any more from that moment on, and stops: see Failed. The
//     process goes on.
//   - A leader that has lost its majority knows it after one second: see Leader. A new one follows two to five seconds
//     after the old one has gone.
//
// # What an operator may do
//
// A group works while a majority of its members runs and reaches each other:
//
//	members  may be away  may lose their directory, one after the other
//	1        0            0: the commands are lost
//	2        0            0: worse than one
//	3        1            1
//	5        2            2
//
// A group begins when all of its members run for the first time. Until then nobody leads.
//
// Any member may be restarted at any time. A member that has lost its directory may return with an empty one: it has
// forgotten what it had promised and stored, so it joins only after a majority of all members, without it, have
// answered. It waits 10 s, gets everything from the leader, and has no vote until then. The next member may
// lose its directory only after that: see consensus-caught-up. In a group of three, both others must therefore run.
//
// These would lose commands or divide the group, and nothing can prevent them:
//
//   - to empty the directories of all members: that begins a new group;
//   - to give a member the directory of another one, which package node refuses, or an older copy of its own.
//
// The list of members cannot change: Open refuses another one (ErrMembers). A member may move to another machine with
// its directory, if it keeps its address.
//
// If Open says that a file is damaged, empty the directory, and the member gets everything from the others. A group of
// one has no others. If the newest snapshot is damaged there, remove that file: the one before and the log have
// everything. Any other damage loses commands.
//
// # Files
//
// Numbers are little-endian. Checksums are CRC-32C. Entries have consecutive indexes, from 1.
//
//	log-INDEX (20 digits): entries from INDEX on, at least 8 MiB unless it is the newest
//	 0  7  magic "owraftl", 1 version 1
//	 8  8  INDEX
//	16  4  checksum of the preceding 16 bytes
//	      records, one for each entry:
//	 0  4  0x7246526f
//	 4  4  length of what follows the checksum
//	 8  8  bytes of this file that were on disk (fsync) when the record was made
//	16  4  checksum of the preceding 16 bytes and of what follows, XOR both halves of the record's offset
//	20  8  index
//	28  8  term
//	36  1  type, as in hashicorp/raft
//	37  8  time at the leader, in nanoseconds since 1970
//	45     data
//
//	vote: replaced as a whole
//	 0  7  magic "owraftv", 1 version 1
//	 8  8  term
//	16  8  term of the last vote
//	24 16  term and index of the entry that a returned member must have before it votes; zeros if it may vote
//	40  8  length of the candidate's address
//	48     the candidate's address, then the checksum of everything before
//
//	snapshot-INDEX-TERM (20 digits each): the machine's state after entry INDEX; the newest two are kept
//	 0  7  magic "owrafts", 1 version 1
//	 8  8  INDEX
//	16  8  TERM
//	24  8  index of the entry with the members
//	32  4  length of the members
//	36     the members, in MessagePack as hashicorp/raft encodes them, then the checksum of everything before
//	      the state
//	 0  8  length of the state
//	 8  4  checksum of the state
//	12  4  checksum of the preceding 12 bytes
//
// A crash can tear only bytes at the end of the newest log file that were never synced: Open cuts them off. If a
// record says that bytes before it had been on disk, and they are unreadable, they are damaged: see DamageError.
//
// Golden files of the formats are in testdata.
package consensus
