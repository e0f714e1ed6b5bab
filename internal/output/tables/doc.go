// Package tables answers: what do these crawls have, as Parquet tables that DuckDB, Spark and Iceberg read?
//
//	index lines of each crawl directory -> merged by sort key -> rows -> three subsets -> Parquet files
//
// The table of the index has the 30 columns of Common Crawl's table (cc-index-table), and columns of our own behind
// them. Its folders are those of Common Crawl, so that queries for that table run with another address:
//
//	OUT/cc-index/table/cc-main/warc/crawl=NAME/subset=warc/part-00000-UUID.c000.gz.parquet
//	                                           subset=crawldiagnostics/...
//	                                           subset=robotstxt/...
//	OUT/log/crawl=NAME/..., and likewise failures, links and hosts
//
// WriteSegment writes the rows of one segment beside a crawl, into cc-index of the crawl directory. The names of its
// files end with that of the segment.
//
// Invariants:
//   - A folder crawl=NAME is whole or absent after any kill: it is made in OUT/unfinished and renamed. That of the
//     index is the last one. The next call completes what a killed call has begun to install (install.go).
//   - The rows of a file are in the order of their sort keys, and the files of a subset follow each other in it.
//   - The same index lines give the same bytes.
//   - A line that cannot be read, or cannot be a row, is counted and named in the Result and left out.
//   - The memory does not grow with the crawl, apart from the names of its WARC files: it is bounded by a row group of
//     each of the subsets (Config.GroupBytes), one line of each index file, and the lines of one sort key and second.
package tables
