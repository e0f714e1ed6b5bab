// Package ledger answers: what does a crawl still know after its process was killed, or its machine lost power?
//
//	accepts, finishes, records of participants -> batch -> journal
//	archive; crawl.log and other witnesses     -> are written before the journal
//	journal, seen-set                          -> sync: durable
//	journal that has grown                     -> checkpoint: snapshot with parts
//	after a restart: snapshot, parts, segments -> participants, seen-set; pending links -> the crawl loop
//
// A URL's accept and its finish are the durable events. Each has one record; everything else is rebuilt from the newest
// snapshot and the records after it. A batch is whole in the journal or absent. The ledger keeps four promises:
//
//   - What a record refers to was written before the record: archive, logs, and the links that the seen-set holds back.
//   - The seen-set is never ahead of the journal: the whole key of a URL that it has on disk has a record.
//   - A finish that a power failure may have undone counts only if its witnesses have what belongs to it. Otherwise its
//     URL is pending again.
//   - A checkpoint changes nothing that a restart can see.
//
// The dispatcher of the crawl loop owns a Ledger. A checkpoint and a Transfer read files that do not change any more,
// in goroutines of their own.
package ledger
