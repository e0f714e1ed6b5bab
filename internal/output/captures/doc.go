// Package captures answers: what did these crawls archive of a URL, and what did the server send?
//
//	URL, time -> indexes of the crawl directories -> nearest capture -> record (of a revisit: its original's body)
//	-> HTTP message
//
// Several crawl directories are read as one archive. An Archive is safe for concurrent use and holds
// nothing open between its calls. A Message belongs to one goroutine.
package captures
