// Package visit answers: what does one attempt at one URL bring?
//
//	Attempt with a task -> Pool: robots.txt, archive or server, whose page, duplicates, links, archive -> Attempt with
//	an Outcome, a Response, a Record, Content and Links
//
// A Pool has the workers. It fills attempts, and decides nothing about a URL: whether it is finished, comes again or
// waits is the crawl loop's decision, and what is durable is the crawl loop's matter. A failure of the web is an
// outcome. Only a failure of this machine is an error.
//
// What one feature needs about an attempt is an Annotation of that feature. So a new feature adds no field to Attempt.
//
// An attempt belongs to the dispatcher until Begin, then to one worker until Results. A Pool is safe for concurrent
// use, except New, Recycle and Know, which only the dispatcher calls. Strategies, which decide what is fetched next,
// are defined here because workers ask them about links.
package visit
