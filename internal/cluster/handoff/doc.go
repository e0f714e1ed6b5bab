// Package handoff answers: what would we need to know to go on with another
// agent's hosts?
//
//	Append(source, batch) -> journal of the source -> Sync: now it may be answered
//	Compact: journal -> sort -> what it amounts to -> snapshot of the journal
//	Import:  journal -> sort -> what it amounts to -> the one who goes on
//
// An agent ships what it journals of a host to the host's heir, the agent that
// would own it next; the heir keeps it here, and reads it when the other one is
// dead. A source is an agent's instance, with a directory of its own: what one
// source sends, or what happens to its files, does not touch another's.
//
// # What always holds
//
// Append checks every octet before anything is kept. The batches of a source
// are numbered without a gap, and the number is durable with the batch: one
// that comes again is ignored. What Sync had returned for survives the death of
// the machine. Reading is sequential and stays within Config.MemoryBytes,
// however much a source has and however it is spread over hosts. A damaged file
// is named and never read as if it were whole. All methods may be called by
// many at once; the package starts no goroutine, see Store.Run.
//
// # What records amount to
//
// Of each URL the last word counts: pending since an Accept, finished since a
// Finish, and an Accept does not undo a Finish. A whole state of a host (Begin,
// records, End) replaces what was there: between Begin and End both count, and
// of a URL that both speak of the new one; at End the old one is forgotten. So
// records of the running crawl may come in between. Gone forgets the host. An
// End without its Begin is nothing.
//
// Known keys may be cut off (package drum keeps the upper bits of paths), so
// that nobody can tell which of them are pending, too: they say what else was
// ever accepted, and are to be read behind the pending links.
//
// # Format
//
// A batch is shipped as its records, one behind the other, and stands so in the
// journal: 1 octet kind, uvarint length, payload. Hosts and paths are the two
// halves of weburl.Key, 8 octets, big-endian; times are uvarint microseconds.
//
//	A accept  uvarint number · weburl.Link
//	F finish  host · path · uvarint number · 1 disposition · state, to the end
//	K known   host · 1 width w in bits · paths in ascending order, each the top
//	          w bits of one as a number in as many octets as that takes
//	C clock   uvarint length, host name · quiet · pause · state, to the end
//	B begin   host
//	E end     host
//	G gone    host
//
// In the journal alone:
//
//	V version the first record of a journal and of a snapshot: 1 octet, the
//	          version of these kinds; in a snapshot behind it uvarints: number of
//	          the last batch, octets of the parts, hosts, pending, finished
//	S batch   the first record of a batch: uvarint its number, 0 for none
//	D done    part: host · paths of finished URLs of which nothing else is known
//	a f k c d part: as A F K C D, but from before the Begin that stands for
//	          their host in the same snapshot
//
// Files are package journal's. A snapshot has V alone; the rest stands in parts,
// host by host in the order of their keys.
package handoff
