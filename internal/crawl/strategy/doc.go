// Package strategy answers: which page does the crawl fetch next, and which page again?
//
//	links of a page -> Follow -> take, offer or drop
//	finished visit  -> Visited -> schedule or walkers -> Next -> the crawl's queues
//
// A strategy chooses pages, and the crawl fetches them politely. Polybot, a crawler
// (Shkapenyuk and Suel, ICDE 2002, section 2), divides the work in the same way between its
// crawling application and its crawling system. The package has five strategies:
//
//	BreadthFirst  every link, in the order in which the crawl finds it
//	Focused       every link, first those that probably lead to pages of the wanted topics
//	List          only the seeds, the targets of their redirects, and their requisites
//	Recrawl       breadth-first, and each page again as often as it changes
//	Walk          random walks with restarts: a sample of the web by PageRank
//
// A program that uses the library adds its own strategies through package orbweaver.
//
// If more pages of a host are due than the crawl can fetch, the crawl queues a few of them
// and gives the others back to Recrawl, which is a Postponer.
//
// Invariants: the decisions of Recrawl and Walk, which are Planners, follow from the journal and
// the clock alone. So a crawl continues after a kill as if it had never stopped. The strategies
// keep what they know of pages in files below Place.Dir, and every run rebuilds these files from
// the journal. Focused's priority of a link is a part of the link; its counts of hosts begin again with each run.
// The memory of Recrawl and of Focused is bounded; Walk's memory grows with the number of its steps.
//
// The crawl's dispatcher owns a Planner: one goroutine calls its methods. Any worker may
// call Follow.
package strategy

import (
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Place is what package node gives a strategy when it opens the strategy.
type Place struct {
	FS    disk.FS
	Dir   string       // for the strategy's files; opening the strategy deletes its content
	Seeds []weburl.URL // of all runs of the crawl
	Pages Pages        // nil unless the agents of a cluster divide the pages by topic
}

// Pages are the pages of this agent, if the agents of a cluster divide them by topic. Safe for concurrent use.
type Pages interface {
	// Own returns which categories of pages are those of this agent now, or nil if the agent does not know yet. As long
	// as the agents stay the same, it returns the same pointer.
	Own() *Own
}

// Unmet are the Pages of an agent that has not met the others yet.
type Unmet struct{}

// Own returns nil.
func (Unmet) Own() *Own { return nil }

// BreadthFirst takes every link. Other strategies may embed it. It implements visit.Strategy.
type BreadthFirst struct{}

func (BreadthFirst) Follow(*visit.Page, *link.Link) visit.Choice { return visit.Take }

// List fetches only the seeds, the targets of their redirects, and, if the crawl fetches
// requisites, the embedded files of these pages. It implements visit.Strategy.
type List struct{}

func (List) Follow(_ *visit.Page, l *link.Link) visit.Choice {
	switch l.Hops[len(l.Hops)-1] {
	case 'R', 'E':
		return visit.Take
	}
	return visit.Drop
}
