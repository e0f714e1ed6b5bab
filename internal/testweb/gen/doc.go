// Package gen answers: what would a web of any size, good or bad, have served?
//
// Everything that a host or a page is follows from the seed and from its
// number by hashing; nothing is kept for any of them, so that a hundred million
// hosts cost no memory. A Web is a [testweb.Origin]. A page is made so:
//
//	host, page -> Links -> pieces: title, links, their words -> text -> parts -----.
//	          -> topic, language, length -> blocks: the head, paragraphs ----------+-> page
//
// A block is text of a topic and a language that many pages share. It is made
// when it is first asked for, and compressed then, as a deflate fragment that
// ends at a byte; at most 20 MiB are ever kept of them. A piece is a word, a
// number's digits or some markup, with its Huffman code. So a page in gzip
// costs hardly more than one as it is, and nothing is compressed for it:
//
//	gzip header | head block | pieces' codes | blocks ... | pieces' codes | CRC, length
//	              as kept      one deflate     as kept      one deflate
//	                           block                        block, the last
//
// and its CRC-32 is put together from those of the blocks.
//
// # Hosts
//
// Ten hosts in a row are six sites of 1, 1, 2, 1, 4 and 1 hosts. A name says
// the topic and the number of the site, www.science12345.example, so that Find
// needs no table. Sizes follow a Pareto law; each quantile of it occurs once.
// Host n links to the hosts 2n+1 and 2n+2 from its first page, and page n of a
// host to the pages 8n+1 to 8n+8 of it (fewer where pages have few links), so
// that all hosts and pages can be reached from the first; the other links
// prefer low numbers, and hosts of the same topic and language. What hides a
// page or a host befalls only those that nothing hangs on in these trees.
//
// A web made of a [Graph] keeps that graph, and each page's host; no tree is
// added to it.
//
// # Changes
//
// If Spec.Changes is set, each page changes by a Poisson process of its own.
// Time is divided into cells as long as the page's mean time between changes; a
// hash of the page and the cell's number gives the changes of that cell. So the
// last change before a time, and the next one after it, are found by looking at
// one or two cells, and nothing is kept for a page. Versions of a page differ in
// their title and text, and have the same links: the truth is the same at all
// times. Errors, redirects, robots.txt and sitemaps do not change.
//
// A page says of its version what its kind says: an ETag and a Last-Modified,
// one of them, none, or wrong ones. Conditional requests are answered by that.
//
// # The truth
//
// A page is reachable under [Bounds] when it is a seed, or linked from a
// reachable page, as many links away from a seed as Depth allows at most, by
// its URL or by a redirect; and when its host is in scope and alive (it has an
// address, accepts, and has a right certificate), and the page's final answer
// is 200 with a complete body, if the server's wish to be asked again after a
// 503 or a 429 is granted up to three times; and, if Robots is set, no rule of
// its host's robots.txt denies its path. A redirect has at most three steps, all
// but the last on the linking host, and adds nothing to the depth. The copy of
// a page on a mirror and a page that is another's duplicate are pages of
// their own. Pages of traps, sitemaps and robots.txt are not pages in this sense.
//
// If Sitemaps is set, the pages of a host's sitemap count as seeds once the
// host's robots.txt, which names it, is read: before a crawler asks for the
// first URL of the host. So it takes a seed or a link on a reachable page that
// leads to the host, in scope, by its URL or by a redirect. What that URL is
// answered with does not matter: a page that is denied or broken will do. The
// host has to be alive, and have a robots.txt that does not deny everything.
//
// What always holds: two webs of one Spec are the same to the byte, on every
// machine; the length of an answer is that of its Content-Length; memory is
// bounded by the blocks, the Graph and, while it lasts, a [Truth]. All methods
// of a Web are safe for concurrent use. Nothing of the crawler is imported
// here: this package knows on its own what robots.txt denies.
package gen
