// Package scope answers: does this link belong to the crawl?
//
//	Link -> kind -> traps -> exclude -> include -> depths -> accept -> Verdict
//
// Each rule that keeps a link out has its own word for the logs (see [Reason]). The first such rule
// decides; [Scope.Explain] shows the result of every rule. A verdict depends only on the
// configuration, the seeds and the link. So every worker gives the same link the same verdict, also
// after a restart. Checks that must count are elsewhere: [Queries] counts queries, and package
// crawl has the quotas of pages, bytes and time.
//
// The role of a link follows from how it was found. It decides which rules apply:
//
//	role          hops                       rules
//	------------  -------------------------  ---------------------------------
//	prerequisite  last is P                  none
//	seed          none, or only R            exclude
//	embed         last is E, of a page       traps, exclude,
//	              that is in                 accept
//	sitemap       any, if found as one       all but include; the depths
//	                                         are those of its entries
//	link          all others                 all
//
// The target of a seed's redirects (only R) counts as a seed. Otherwise http://example.com could
// not be crawled after it moved to https://www.example.org. [Scope.AddSeed] adds the target's host,
// prefix or domain to the crawl. Heritrix has the same rule for its seeds.
//
// An embed is in on any host, because a page is incomplete without its images and styles. This
// holds for one hop only: if an embed outside of the kind's limits embeds something itself, that is
// a link. A redirect of an embed is an embed.
//
// A Scope is safe for concurrent use. Judge does not allocate for ordinary links. One goroutine
// owns a Queries.
package scope
