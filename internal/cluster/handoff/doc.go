// Package handoff answers: what must an heir know to crawl the hosts of another agent?
//
//	Append(source, batch) -> journal of the source -> Sync: now it may be answered
//	Compact: journal -> sort -> resulting state -> snapshot of the journal
//	Import:  journal -> sort -> resulting state -> the new owner
//
// An agent ships its journal records of a host to the host's heir, the agent that would own the
// host next. The heir keeps them in a Store, and imports them when the owner is dead. A source is
// an agent's instance. It has a directory of its own, so that damage to one source does not affect
// another.
//
// # Invariants
//
// Append checks all bytes before it keeps any. The batches of a source are numbered without a
// gap, and the number is durable with the batch; a repeated batch is ignored. Records survive a
// power failure once Sync has returned. Reading is sequential and stays within
// Config.MemoryBytes for any number of records and hosts. A damaged file is reported, and never
// read as if it were complete. All methods are safe for concurrent use. The package starts no
// goroutine; see Store.Run.
//
// # The state that results from records
//
// For each URL the last record counts: an Accept makes it pending, a Finish makes it finished, and
// an Accept does not undo a Finish. A whole state of a host (Begin, records, End) replaces the
// state before. Between Begin and End both states count; for a URL in both, the new one counts.
// At End the old state is deleted. So records of the running crawl may come in between. An
// End without its Begin is ignored.
//
// Known keys may be truncated, because package drum keeps the upper bits of paths. So they do not
// tell which URLs are pending. They tell which other URLs were ever accepted, and must be read
// after the pending links.
//
// # Format
//
// A batch is shipped as its concatenated records. The journal stores them in the same form: 1 octet
// kind, uvarint length, payload. Hosts and paths are the two halves of weburl.Key, 8 octets,
// big-endian; times are uvarint microseconds.
//
//	A accept  uvarint number · weburl.Link
//	F finish  host · path · uvarint number · 1 disposition · state, to the end
//	K known   host · 1 width w in bits · paths in ascending order, each the top
//	          w bits of one as a number in as many octets as that takes
//	C clock   uvarint length, host name · quiet · pause · state, to the end
//	B begin   host
//	E end     host
//
// Only in the journal:
//
//	V version the first record of a journal and of a snapshot: 1 octet, the
//	          version of these kinds; in a snapshot followed by uvarints: number of
//	          the last batch, octets of the parts, hosts, pending, finished
//	S batch   the first record of a batch: uvarint its number, 0 for none
//	D done    part: host · paths of finished URLs without other data
//	a f k c d part: as A F K C D, but from before the Begin that stands for
//	          their host in the same snapshot
//
// The files are those of package journal. A snapshot has only the V record. All else is in parts,
// host by host in the order of the hosts' keys.
package handoff
