// Package lab answers: how fast, small, fresh, fair and polite is Orbweaver, in the terms of
// the papers that it implements?
//
// An Experiment answers one question. It runs whole programs side by side and returns a
// Result with its Data, in long form. Do writes them, and renders them by a template:
//
//	Experiment.Run -> Result -> NAME.csv            one line a value, with its dimensions
//	                            NAME.md.tmpl -> NAME.md   question, tables, interpretation
//	                                            NAME.svg  the picture
//
// A template has the text, and a query for each table and each panel of the picture; see page.
//
// What always holds: the web, the crawler and the yardstick are processes of their own, so that the
// use of memory and processors is known for each. Every crawl is compared with the web's own
// report, and an impolite crawl is an error, even if it is fast. Do keeps the text below the marker
// in NAME.md, which is written by hand.
//
// The goroutine that runs an experiment owns it. Only types whose comment says so are safe for
// concurrent use.
package lab
