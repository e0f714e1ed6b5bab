// Package warc answers: what did the web send, byte for byte, and in which file is it stored?
//
//	Exchange -> digests -> revisit? -> gzip members -> one append -> WARC file
//	                                              \-> CDXJ line -> sorted runs -> index.cdxj
//
// The package writes and reads WARC/1.1 (ISO 28500:2017). It indexes WARC files as pywb does (CDXJ). It also reads
// files of other programs: WARC/0.17, 0.18 and 1.0, plain or gzip, with one or several records in a gzip member.
//
// Invariants:
//   - A record is complete or absent. While a Writer writes a file, the file is called NAME.open. If a crash leaves
//     an incomplete record at its end, Open removes that record and gives the file its final name. After a failed
//     write a Writer refuses all further writes.
//   - All records of one Exchange are next to each other in one file: response (or revisit, or resource), request,
//     metadata.
//   - The archive keeps the bytes of both directions as they crossed the wire, with transfer coding and content
//     coding.
//   - WARC-Payload-Digest is the SHA-1 of the stored bytes after the HTTP header. If the body is chunked, these
//     include the chunk sizes, because warcio and pywb compute the digest so. Therefore a revisit record and its
//     original have the same framing, and the header of one can be replayed with the body of the other.
//   - A revisit record refers to a response record: of this archive (Config.RevisitBytes), of another agent
//     (Exchange.Same), or of an earlier crawl (Config.Earlier). It never refers to a revisit record.
//   - An index has all lines of a WARC file, or none. So a reader finds the files that it lacks (WriteSupplement). No
//     process writes to a file whose lines are in the index.
//
// Files of a crawl directory:
//
//	archive/PREFIX-<17-digit time>-<serial>-<agent>.warc.gz        finished
//	archive/PREFIX-<17-digit time>-<serial>-<agent>.warc.gz.open   being written
//	state/index/NAME.cdxj.<4-digit n>                              a sorted run of NAME, whose records are on the disk
//	state/index/NAME.cdxj                                          the last sorted run: the index of NAME is complete
//	indexes/index.cdxj                                             all runs merged
//
// A gzip member that this package writes holds one record:
//
//	1f 8b 08 00 00000000 04 ff    header: no name, no time
//	deflate blocks                WARC header, HTTP header, body, CR LF CR LF
//	CRC-32, size mod 2^32         little-endian
//
// A body that the server sent compressed goes into stored blocks, unchanged. At level 1 the headers of such a record
// are stored too, and so is every record with a block under 2 KB. To compress the header lines of a page's three
// records would take a quarter of the time that the page's 22 KB take, and would save 600 bytes.
//
// Many goroutines may use one Writer. They hash and compress in parallel and append under one lock. Only a response
// over 16 MB is compressed under that lock. The goroutine that fills a file, or a run of index lines, sorts, syncs
// and renames outside the lock. A Reader belongs to one goroutine.
//
// The memory of a Writer does not grow with the crawl: Config.RevisitBytes for known payloads; 4 to 8 MB for index
// lines, and as much for each run that waits for the disk (at most four); 1 MB for each concurrent Write, its pages
// included; 16 MB for each of at most four concurrent large responses.
package warc
