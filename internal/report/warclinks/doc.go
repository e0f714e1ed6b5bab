// Package warclinks answers: which links do the pages in these WARC files have?
//
//	WARC files -> first pass: visits, payload digests -> sorts -> which records count
//	WARC files -> second pass: decode, parse -> pages with links, as package linklog has them
//
//	WARC files -> Requisites: decode, parse, sort of revisits -> pages with the files that they need
//
// The files may come from any crawler. A page is a response record of an http or https URL, or a revisit record; or a
// resource record, which has no HTTP header. The result is what the link log of the same crawl has:
//
//   - Of several records of a page the newest counts. If its status is 304, the links are those of the newest record
//     before it with another status.
//   - A redirect links to its target. A page with another status than 2xx has no links.
//   - A revisit record has no body. Its links are those of the record with the same payload, resolved against its own
//     URL, if one of the files has that record. Otherwise the page has no links, and NoOriginal counts it.
//   - A robots.txt that the crawler needed for itself is no page. The metadata record says so (hopsFromSeed ends with
//     P, as Heritrix writes it, too). Without a metadata record each /robots.txt is taken for one.
//
// Differences: a link log also has the URLs without any response, and of a page at most 4 MiB of links. In a cluster
// with --partition hash, a link log has no links of a page with the content of another agent's page.
//
// Memory does not grow with the files, apart from a few bits for each record and the temporary files' sorts. A damaged
// record is skipped and counted. One goroutine at a time calls Read.
package warclinks
