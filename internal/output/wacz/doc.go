// Package wacz answers: how does a whole crawl travel as one file, and who can open it?
//
//	WARC files, read once -> ZIP file (WACZ 1.1.1); pages, index lines -> sorts on disk -> the same file
//	WACZ, on the disk or behind HTTP ranges -> FS, in which it looks like a crawl directory -> package captures
//
// A WACZ (specs.webrecorder.net/wacz/1.1.1) that this package writes has these entries, in this order:
//
//	archive/NAME.warc.gz        the WARC files, byte for byte, stored
//	pages/pages.jsonl           the seeds, and the pages of which nothing says how they were found
//	pages/extraPages.jsonl      the other pages
//	logs/crawl.log              if asked for
//	indexes/index.cdx           CDXJ lines, stored, up to 50,000 bytes; or
//	indexes/index.cdx.gz, .idx  the same, compressed (package zipnum)
//	datapackage.json            the names, sizes and SHA-256 of these entries
//	datapackage-digest.json     the SHA-256 of datapackage.json
//
// The same WARC files give the same bytes: no entry has a time or a random number of its own. Memory does not grow with
// the archive, apart from some hundred bytes for each WARC file.
//
// A WACZ that is read may come from anyone. File describes what is refused. Nothing of it is written to the disk. What
// is read of it is bounded: 1,048,576 entries, 64 MiB for the list of entries, 256 MiB for entries that the ZIP file
// compresses. Entries may overlap: each is read by itself. Only File.Verify compares the SHA-256 of an entry, because
// that reads all of it; the digests in the records are the archive's own.
package wacz
