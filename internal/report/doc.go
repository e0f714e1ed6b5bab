// Package report answers, for people: what did the crawl do, and how is it going?
//
//	a visit    -> Log      logs/crawl.log, the twelve columns of Heritrix, and logs/crawl.jsonl
//	           -> Tally    reports/summary.json and reports/*.csv
//	an event   -> Events   logs/events.jsonl
//	a refusal  -> Skipped  reports/skipped.jsonl
//	a Snapshot -> Progress the terminal
//
// Invariants:
//   - Logs consist of complete lines (package lines).
//   - Text from the network never breaks a line or a column, and never sends a control character to a terminal.
//   - After its first error a log writes nothing more, so that it has no gap. Flush, Sync, Close and Err return that
//     error.
//
// Logs and a Progress are safe for concurrent use. A Tally has one owner.
package report
