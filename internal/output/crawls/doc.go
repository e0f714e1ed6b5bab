// Package crawls answers: which files does a reader of a crawl get for what a person names?
//
//	argument -> FS.Dir -> a directory that readers take as one of a crawl -> FS (a disk.FS)
//
// A person names the directory of a crawl, a copy of crawl-data, a crawl or a segment in one, or one of these in a
// store: s3://bucket/prefix or file:///directory. The directory of a crawl stays as it is. For all others the FS shows
// the complete segments as the directory of a crawl:
//
//	DIR/archive/NAME.warc.gz        the WARC files of all segments
//	DIR/crawl-data/CRAWL/segments/  the same files by their paths in an index
//	DIR/links/NAME.jsonl.gz         the link logs of all segments
//	DIR/logs/crawl.log              the lines of the crawl logs of all segments, unpacked
//
// All other files stay where they are. Place tells where the index lines are.
//
// Invariants:
//   - Only segments with _SUCCESS are shown.
//   - No name in a file of the crawl leads to a file outside of what the person has named.
//   - A segment that the merged index of the crawl lacks (warc.MergedIndex) is read by its own index. If the merged
//     index is damaged, all are.
//   - To open a crawl in a store takes a list for each 1000 objects. To find a line in the merged index takes two
//     requests.
package crawls
