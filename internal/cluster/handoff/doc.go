// Package handoff answers: what must an agent know to continue with another agent's hosts?
//
//	Append(source, batch) -> journal of the source -> Sync: now it may be answered
//	Compact: journal -> sort -> resulting state -> snapshot of the journal
//	Import:  journal -> sort -> resulting state -> the new owner
//
// What an agent knows of a host has one form, the Record. An agent ships its records of a host to
// the host's heir, the agent that would own the host next. The heir keeps them in a Store, and
// imports them when the owner is dead. A source is an agent's instance. It has a directory of its
// own, so that damage to one source does not affect another.
//
// # Invariants
//
// Append checks all bytes before it keeps any. Batches keep their order, and each is whole or
// absent. Records survive a power failure once Sync has returned. Reading is sequential and stays
// within Config.MemoryBytes for any number of records and hosts. A damaged file is reported, and
// never read as if it were complete. All methods are safe for concurrent use. The package starts
// no goroutine; see Store.Run.
//
// # The state that results from records
//
// An Accept makes a URL pending. A Finish or a whole key of a Known makes it finished. Neither an
// Accept before it nor one after it changes that. If a URL has several records:
//
//   - Of several Accepts, the first counts.
//   - A Finish tells more than a key, so the key is dropped.
//   - Of several Finishes, the last gives number and link. The disposition is the largest one, and
//     the state is the last one that is not empty.
//   - A Named says only that an archive has, or had, a record of the URL. It does not change whether the
//     URL is finished. Of several, the one with the largest disposition counts, and of several Lost ones the
//     first that has an Archive. If a Finish says the same, the Named is dropped.
//   - Of the Pages of several Finishes of a URL, or of several Pages records of a Counter, the largest counts.
//
// For a host, the last Clock counts. So the records of a running crawl may come between those of
// its journal, in any order, and the last batch may be repeated.
//
// Truncated keys are dropped if they are equal. They do not tell which URLs are finished, because
// other URLs may have the same upper bits. A reader must accept the pending links first.
//
// # Format
//
// A batch is shipped as its concatenated records. Each is: 1 octet kind, uvarint length, payload.
// The journal has the same kinds and payloads. Each number has its shortest encoding, so a record has
// one encoding only. Hosts and paths are the two halves of link.Key, 8 octets, big-endian.
//
//	A accept  uvarint number · link.Link
//	F finish  uvarint number · 1 disposition · link.Link without Via ·
//	          planner's state, to the end
//	          for a page: disposition + 128 · uvarint pages · link · state
//	N named   1 disposition, not 0 · link.Link with the URL alone
//	          with an archive: disposition + 128 · uvarint length, archive · link
//	K known   host · 1 width w in bits · paths in ascending order, each the top
//	          w bits of one as a number in as many octets as that takes
//	C clock   uvarint length, host name · 1 pauses that count · 1 octet 0 ·
//	          uvarint microseconds: delay, quiet time, rest of the last pause ·
//	          for each origin that fails: uvarint length, origin · uvarint
//	          length, cause · 1 failures, not 0 · uvarint microseconds quiet time
//	P pages   uvarint length, host name · 8 counter · uvarint pages, not 0
//
// Only in the journal:
//
//	V version the first record of a journal and of a snapshot: 1 octet, the
//	          version of these kinds; in a snapshot followed by uvarint octets
//	          of the parts
//
// The files are those of package journal. A snapshot has only the V record. All else is in parts,
// host by host, in the order of Store.Import.
package handoff
