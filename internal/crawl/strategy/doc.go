// Package strategy answers: which page next, and when again?
//
// A crawl.Strategy is Polybot's crawling application (Shkapenyuk and Suel, ICDE
// 2002, section 2): it chooses, and the crawling system fetches, politely. The
// ones here:
//
//	BreadthFirst  every link, in the order in which it was found
//	List          the seeds alone, where they redirect to, what they need to be shown
//	Recrawl       breadth-first, and every page again as often as it changes
//	Walk          random walks with restarts: a sample of the web by PageRank
//
// A program that uses the library adds its own through package orbweaver.
//
// Of a host with more pages due than it can be asked for the crawl queues a few
// at a time, and Recrawl is a Postponer: it takes the others back.
//
// What always holds: Recrawl and Walk are Planners, and what they do follows
// from what the journal brings back and from the clock, so that a crawl goes on
// after a kill as if nothing had been. What they keep of a page lies in files
// below Place.Dir, which are made anew from the journal by every run; in RAM
// Recrawl's is bounded, and Walk's by the number of its steps. The dispatcher
// owns a Planner; Follow is any worker's.
package strategy

import (
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Place is where a strategy works: what package agent gives it.
type Place struct {
	FS    disk.FS
	Dir   string       // for its files; what it holds is deleted
	Seeds []weburl.URL // of all runs of the crawl
}

// BreadthFirst takes every link. It is also what another strategy begins with.
type BreadthFirst struct{}

// Follow implements crawl.Strategy.
func (BreadthFirst) Follow(*crawl.Page, *weburl.Link) crawl.Choice { return crawl.Take }

// List crawls the seeds alone. Redirects are followed, for a seed is wherever
// it leads; and embeds, which are only there if requisites were asked for.
type List struct{}

// Follow implements crawl.Strategy.
func (List) Follow(_ *crawl.Page, l *weburl.Link) crawl.Choice {
	switch l.Hops[len(l.Hops)-1] {
	case 'R', 'E':
		return crawl.Take
	}
	return crawl.Drop
}
