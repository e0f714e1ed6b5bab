// Package past answers: what do the files of a crawl say to its next run, and at the end of one?
//
//	logs, archive      -> Barren  -> may another crawl take the directory without a word?
//	marker             -> Bare    -> did the pages come without images, styles and scripts?
//	archive            -> Repair  -> these files are in the queue
//	crawl.log, links   -> WriteBroken -> reports/broken.csv
//	earlier crawls     -> Earlier -> which record of theirs holds this payload?
//
// It reads a crawl directory that no process writes to. A directory may be damaged: that is counted, or the answer is
// the one that loses nothing.
package past
