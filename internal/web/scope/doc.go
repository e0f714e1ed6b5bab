// Package scope answers: does this link belong to the crawl?
//
//	Link -> kind -> traps -> exclude -> include -> depth -> Verdict
//
// Every rule that keeps a link out has a word of its own for the logs (see
// [Reason]); the first one decides, [Scope.Explain] asks them all. A verdict
// depends on the configuration, the seeds and the link alone, so the same link
// gets the same answer from every worker and after a restart. What needs to
// count belongs to the dispatcher: [Queries] here, and the quotas of pages,
// bytes and time in package crawl.
//
// How a link was found decides which rules it must pass:
//
//	standing      hops                       rules
//	------------  -------------------------  ---------------------------------
//	prerequisite  last is P                  none
//	seed          none, or only R            exclude
//	embed         last is E: of a page       traps, exclude
//	              that is in
//	link          all others                 all
//
// Only R: where a seed redirects to is as good as a seed, or http://example.com
// could not be crawled when it is moved to https://www.example.org. [Scope.AddSeed]
// makes the target's host, prefix or domain part of the crawl. (Heritrix has
// the same rule for its seeds.)
//
// An embed is in wherever it lies, because a page without its images and styles
// is not whole; but for one hop only: what an embed outside of the kind's
// bounds embeds itself is a link. A redirect of such an embed is still it.
//
// A Scope is safe for concurrent use. Judge does not allocate for ordinary
// links.
package scope
