// Package lab answers: what do the papers' questions come to, measured here?
//
// An Experiment asks one question, runs whole programs beside each other to
// answer it, and gives a Result, which Do writes as text, data and picture:
//
//	Experiment.Run -> Result -> NAME.md  what was asked, tables, what it means
//	                            NAME.csv each run, or each sample, a line
//	                            NAME.svg the picture
//	                            NAME.json the figures that the text quotes, and the machine
//
// What always holds: web, crawler and yardstick are processes of their own, so
// that what each takes of the machine is known apart; every crawl is held
// against the web's own account, and one that was impolite is an error,
// whatever its speed; what a person wrote below the marker in NAME.md stays.
//
// Nothing here is shared between goroutines but what says so; an experiment
// belongs to the goroutine that runs it.
package lab
