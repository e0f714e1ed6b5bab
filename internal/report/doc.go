// Package report answers, for people: what did the crawl do, and how does it go?
//
//	a visit    -> Log      logs/crawl.log, Heritrix's twelve columns
//	           -> Tally    reports/summary.json and reports/*.csv
//	an event   -> Events   logs/events.jsonl
//	a refusal  -> Skipped  reports/skipped.jsonl
//	a Snapshot -> Progress the terminal
//
// The logs are line by line: a line is whole or, after a crash, cut off when the
// log is opened again. What comes from the network never breaks a line or a
// column and sends no control character to a terminal. The first error of a
// log sticks: nothing is written behind a gap.
//
// Logs are safe for concurrent use. A Tally and a Progress have one owner.
package report
