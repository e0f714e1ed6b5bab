// Package review answers: what do the files of a crawl say about the crawl?
//
//	logs/events.jsonl ----> state of each crawl: finished, stopped, running, killed
//	logs/crawl.log -------> counts, tables, speed over time, slowest pages, redirects, duplicates
//	reports/skipped.jsonl > skipped links by reason
//	reports/broken.csv ---> broken links and the pages that link to them
//	reports/summary.json -> what no log has: links found, retries, memory
//
// A Review adds up several crawl directories, such as those of the agents of a cluster. It reads a running crawl up to
// the length that each file has when the reader opens it.
//
// Invariants:
//   - Each file is read once, as a stream. Memory does not grow with its length: lists keep their top entries, tables
//     by name have a limited number of names, and histograms and the timeline have fixed sizes.
//   - A line that cannot be parsed is counted and skipped. It never ends a Review.
//   - The texts of a Review are those of the files. The caller must escape them before it shows them.
package review
