// Package linklog answers: which page links to which URL, with what words, and what became of the URL?
//
//	a finished URL -> Line -> Writer -> links/NAME.jsonl.open -> links/NAME.jsonl.gz
//	files -> Read -> lines -> Join (sorted by target) -> links with the status of their target
//
// A crawl writes one line for each URL that it has finished:
//
//	{"url":"http://a.example/","time":"2026-01-02T15:04:05.000Z","status":200,"links":[
//	 ["http://a.example/1","a@href","nofollow ugc","One"],["http://b.example/","a@href"]]}
//
//	url       the page, in canonical form
//	time      when it was finished, UTC; of another agent's page, when the fetch ended
//	status    the HTTP status, or a negative code as in crawl.log
//	error     the kind of error, if there was no HTTP response; for a redirect that leads nowhere its annotation
//	links     the links of the page, each once, in document order; missing if the line does not tell them
//	left_out  how many links are missing at the end of links
//
// A link is an array of its target, its kind, its rel and its anchor text. Empty strings at the end of the array are
// left out. The kind is the element and attribute of the first mention (see parse.Link.Tag), or "redirect".
//
// Invariants:
//   - A line is complete or absent. The Writer writes it before the journal has the finish of the URL. So after a kill
//     each finished URL has a line.
//   - A URL that was finished several times has several lines. The newest counts. If its status is negative, 304, or
//     2xx without links, the links are those of the newest line that tells them: there was no response, the page has
//     not changed, or another agent keeps it.
//   - Text of the network never breaks a line. Texts and lines are bounded.
//
// Files, in the folder links of the crawl directory:
//
//	PREFIX-<17-digit time>-<serial>-<agent>.jsonl.open  lines that are being written
//	PREFIX-<17-digit time>-<serial>-<agent>.jsonl.gz    a finished file: the same lines, compressed
//
// The open file is not compressed, so that a kill leaves whole lines and a reader sees them at once. A full file is
// compressed beside the crawl. A Writer is safe for concurrent use.
package linklog
