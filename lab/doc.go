// Package lab answers: how fast, small, fresh, fair and polite is Orbweaver, in the terms of
// the papers that it implements?
//
// An Experiment answers one question. It runs whole programs side by side and returns a
// Result, which Do writes as text, data and picture:
//
//	Experiment.Run -> Result -> NAME.md   question, tables, interpretation
//	                            NAME.csv  one line per run or sample
//	                            NAME.svg  the picture
//	                            NAME.json the figures that the text quotes, and the machine
//
// What always holds: the web, the crawler and the yardstick are processes of their own, so that the
// use of memory and processors is known for each. Every crawl is compared with the web's own
// report, and an impolite crawl is an error, even if it is fast. Do keeps the text below the marker
// in NAME.md, which is written by hand.
//
// The goroutine that runs an experiment owns it. Only types whose comment says so are safe for
// concurrent use.
package lab
