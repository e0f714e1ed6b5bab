// Package gen answers: how would a web of any size, good or bad, respond to each request?
//
// A Web is a [testweb.Origin]. Every property of a host or a page is a hash of the seed and of its number. Nothing is
// stored for any of them, so a hundred million hosts cost no memory. A page is made as follows:
//
//	host, page -> Links -> pieces: title, links, their words -> text -> parts -----.
//	          -> topic, language, length -> blocks: the head, paragraphs ----------+-> page
//
// A block is text of one topic and language that many pages share. It is made at the first request for it and
// compressed then, as a deflate fragment that ends at a byte boundary. All blocks together take at most 20 MiB. A piece
// is a word, the digits of a number or some markup, with its Huffman code. So a page in gzip costs hardly more than one
// without, because nothing is compressed for it:
//
//	gzip header | head block | pieces' codes | blocks ... | pieces' codes | CRC, length
//	              as stored    one deflate     as stored    one deflate
//	                           block                        block, the last
//
// Its CRC-32 is combined from those of the blocks.
//
// # Hosts
//
// Ten consecutive hosts are six sites of 1, 1, 2, 1, 4 and 1 hosts. A name contains the topic and the number of the
// site (www.science12345.example), so that Find needs no table. Sizes follow a Pareto law; each quantile of it occurs
// once.
//
// Two trees make all hosts and pages reachable from the first: host n links to the hosts 2n+1 and 2n+2 from its first
// page, and page n of a host links to its pages 8n+1 to 8n+8 (fewer if pages have few links). All other links prefer
// low numbers, and hosts of the same topic and language. A fault that hides a page or a host affects only leaves of
// these trees.
//
// If Spec.Crosslinked is set, a share of the leaves leave the tree of their host: no page of their host links to them,
// but a page of another host does (see crosslinks).
//
// A web made from a [Graph] has the graph's links and its division into hosts. No tree is added to it.
//
// # Given texts
//
// A [TextWeb] has pages with topics, for experiments with classifiers and focused crawls. Its hosts, responses and
// truth are those of a Web, but it has no faults. Its pages have no blocks and pieces:
//
//	texts -> FromTexts: pages with texts of their category, links that prefer it  \
//	                                                                               TextWeb
//	articles -> FromArticles: articles with their topics and their own links      /
//
// Its names and paths tell no topic. Texts and titles do, and so do links as far as they stay in a topic. The texts
// should not be those on which a classifier was trained. FromTexts stores nothing for a page, and 4 bytes for a host.
//
// # Changes
//
// If Spec.Changes is set, each page changes by a Poisson process of its own. Time is divided into cells as long as the
// page's mean time between changes. A hash of the page and of a cell's number gives the changes in that cell. So the
// last change before a time and the next one after it are found in one or two cells, and nothing is stored for a page.
// The versions of a page differ in title and text but have the same links, so the truth is the same at all times.
// Errors, redirects, robots.txt and sitemaps do not change.
//
// How a page describes its version depends on its kind: by an ETag and a Last-Modified, by one of them, by none, or by
// wrong ones. Conditional requests are answered accordingly.
//
// # The truth
//
// A page is reachable under [Bounds] if all of the following hold:
//
//   - It is a seed, or a reachable page links to it, by its URL or by a redirect, at most Depth links away from a seed.
//   - Its host is in scope and alive: it has an address, accepts connections and has a correct certificate.
//   - Its final answer is 200 with a complete body. A crawler repeats a request up to three times after a 503 or 429.
//   - If Robots is set: no rule of the host's robots.txt denies its path.
//
// A redirect has at most three steps, all but the last on the linking host, and does not count for Depth. The copy of a
// page on a mirror, and a page that duplicates another, are pages of their own. Pages of traps, sitemaps and robots.txt
// do not count as pages.
//
// If Sitemaps is set, all pages in a host's sitemap count as seeds as soon as a crawler reads the host's robots.txt,
// which names the sitemap. A crawler reads it before it requests the first URL of the host. So it is sufficient that a
// seed or a link on a reachable page leads to the host, in scope, by a URL or by a redirect. The answer for that URL
// does not matter: the page may be denied or broken. The host must be alive, and its robots.txt must exist and not deny
// everything.
//
// If TwoLevel is set, the crawl does not use the URLs of links between hosts: it crawls each host that it finds from
// that host's first page. So it finds all pages but those that are linked only from other hosts.
//
// Invariants: two webs of the same Spec are equal to the byte, on every machine. The length of an answer equals
// its Content-Length. Memory is bounded by the blocks, the Graph and, while one is in use, a [Truth]. All methods of a
// Web are safe for concurrent use. The package imports nothing of the crawler: it has its own knowledge of what
// robots.txt denies.
package gen
