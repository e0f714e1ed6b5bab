// Package segment answers: what did one agent archive in one span, and is it complete?
//
//	finished WARC files -> index.cdxj -> lines of logs -> tables -> SHA-256 of each -> manifest.json -> _SUCCESS
//
// A segment is a folder crawl-data/CRAWL/segments/SEGMENT of a crawl directory, as Common Crawl has them. Package warc
// writes its WARC files. Commit makes the rest when these are finished:
//
//	SEGMENT/warc/*.warc.gz               responses with status 200
//	SEGMENT/robotstxt/*.warc.gz          fetches of robots.txt
//	SEGMENT/crawldiagnostics/*.warc.gz   redirects, errors, revisits and the like
//	SEGMENT/logs/crawl.log.gz            lines of crawl.log
//	SEGMENT/links/SEGMENT.jsonl.gz       lines of the link log
//	SEGMENT/index.cdxj                   the index of these files; "filename" begins with crawl-data/
//	SEGMENT/manifest.json                a Manifest
//	SEGMENT/_SUCCESS                     empty; the segment is complete
//
// and, beside the folder segments, the lists of what is committed: segment.paths.gz, warc.paths.gz, robotstxt.paths.gz,
// crawldiagnostics.paths.gz, cdxj.paths.gz, logs.paths.gz and links.paths.gz, with one path below the crawl directory
// on each line.
//
// Its Parquet tables are not in this folder, but in cc-index of the crawl directory (see tables.WriteSegment). The
// manifest names them.
//
// The logs are those of the whole crawl. A commit syncs them, and takes the complete lines that no committed segment
// has. The manifest names the ranges of bytes. So a commit after a kill takes what the killed one would have taken, and
// a crash takes no line from a log that a segment has. Lines may be in a later segment than the record of their URL.
//
// Send puts the files of a committed segment into an object store, at the same paths, and notes it in _STORED.
// SendLists replaces the lists there. SendIndex merges the indexes of all segments there into one that is read with few
// requests: index.idx and, for each generation of it, index-GENERATION.cdx.gz (package zipnum).
//
// Merge makes one segment of several. It copies their files into crawl-data/CRAWL/merging, commits the new segment
// there and renames it; then it removes the old ones, which its manifest names. FinishMerges does the rest after a
// kill.
//
// Invariants:
//   - A segment is committed when it has _SUCCESS. Then its files never change, and the manifest is true.
//   - Each line of a log is in one committed segment at most, and at the end of a run in exactly one.
//   - After a kill or a power failure a segment is committed or not. Commit does the work again for one that is not.
//   - In a store, too, a segment with _SUCCESS is whole: that object is written last.
//   - The memory of Commit does not grow with the segment.
package segment
