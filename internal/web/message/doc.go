// Package message answers: what does this HTTP response say, whether it comes from a connection or from an archive?
//
//	head -> status, fields -> chunks? -> codings -> content
//	fields, content -> media type
//
// Fetchers and all readers of archives ask this package, so that a stored page is read as the crawl has read it. A
// body may be hostile: the number of codings, the work and the length of the result are bounded, and each read ends
// with its context.
package message
