// Package archive answers: what did the web say, byte for byte, and where is
// it kept?
//
//	Exchange -> digests -> revisit? -> gzip members -> one append -> WARC file
//	                                              \-> CDXJ line -> sorted runs -> index.cdxj
//
// It writes and reads WARC/1.1 (ISO 28500:2017) and indexes it as pywb does
// (CDXJ). It also reads what others wrote: WARC/0.17, 0.18 and 1.0, plain or
// gzip, with one member a record or not.
//
// What always holds:
//   - A record is whole or absent. A file that is being written is called
//     NAME.open; Open cuts the torn tail that a crash left and gives the file
//     its name. After a failed write a Writer takes nothing more.
//   - All records of one Exchange are in the same file, next to each other:
//     response (or revisit, or resource), request, metadata.
//   - The bytes of both directions are kept as they crossed the wire, with
//     their transfer coding and content coding.
//   - WARC-Payload-Digest is the SHA-1 of the record's bytes after the HTTP
//     header as they are stored. Where the body is chunked that includes the
//     chunk sizes, because warcio and pywb read it so. It follows that a
//     revisit record's original has the same framing, and that the header of
//     the one replays with the body of the other.
//
// Files of a crawl directory:
//
//	archive/PREFIX-<17-digit time>-<serial>-<agent>.warc.gz        finished
//	archive/PREFIX-<17-digit time>-<serial>-<agent>.warc.gz.open   being written
//	state/index/NAME.cdxj.<n>                                      sorted run, NAME being written
//	state/index/NAME.cdxj                                          last sorted run: NAME is indexed whole
//	indexes/index.cdxj                                             all runs merged
//
// A gzip member of ours, one a record:
//
//	1f 8b 08 00 00000000 04 ff    header: no name, no time
//	deflate blocks                WARC header, HTTP header, body, CR LF CR LF
//	CRC-32, size mod 2^32         little-endian
//
// Bodies that came compressed are in stored blocks, as they came. At level 1
// so is the rest of their record, and every record with a block under 2 KB: to
// compress the lines of a page's three records takes a quarter of the time that
// the page's 22 KB take, and saves 600 bytes.
//
// A Writer may be used by many goroutines: they hash and compress in their own
// time and append under one lock. Only a response over 16 MB is compressed
// under it. Who fills a file or a run of index lines sorts, syncs and renames
// outside it. A Reader belongs to one goroutine.
//
// Memory of a Writer, however long the crawl: Config.RevisitBytes for payloads;
// 4 to 8 MB of index lines, and as much for each run that waits for the disk,
// four at most; 1 MB, with its pages, for each Write at a time; 16 MB for each of
// four large responses at a time.
package warc
