package orbweaver

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Strategy decides which links the crawl follows, and in which order. Politeness, retries
// and the archive are the same for all strategies.
//
// A crawl keeps the strategy that it began with. Crawl compares the types of strategies, and
// refuses to continue with another one.
type Strategy interface {
	// Follow decides about a link of p, or the target of p's redirect. A link that it takes
	// must still be in scope and new. Crawl does not ask about links marked nofollow. Crawl
	// calls Follow concurrently and for each link, so it should be quick. It must not keep p.
	Follow(p *Page, l Link) Choice
}

// A Choice is what a Strategy decides about a link. A Choice above Take is a priority, up to
// 255: of the links that wait, the crawl fetches those with the highest priority first,
// within a host and among the hosts that may be asked now. A Choice above 255 is the same as
// 255, and one below Drop is the same as Drop.
type Choice int

const (
	// Drop leaves the link out.
	Drop Choice = -1
	// Take follows the link in its turn.
	Take Choice = 0
)

// FollowFunc is a Strategy of one function.
type FollowFunc func(p *Page, l Link) Choice

// Follow calls f.
func (f FollowFunc) Follow(p *Page, l Link) Choice { return f(p, l) }

// A builtin is a strategy of internal/crawl/strategy, by its name among the settings.
type builtin struct {
	FollowFunc
	name    string
	focused FocusedOptions
	recrawl RecrawlOptions
	walk    WalkOptions
}

func takeAll(*Page, Link) Choice { return Take }

// BreadthFirst returns the strategy that takes every link in the order in which links are
// found. It is the default.
func BreadthFirst() Strategy {
	return &builtin{FollowFunc: takeAll, name: "bfs"}
}

// List returns the strategy that fetches only the seeds and the targets of their redirects,
// and with Options.Requisites what is needed to show them.
func List() Strategy {
	return &builtin{
		FollowFunc: func(_ *Page, l Link) Choice {
			if l.Kind == Redirect || l.Kind == Embed {
				return Take
			}
			return Drop
		},
		name: "list",
	}
}

// RecrawlOptions tune Recrawl.
type RecrawlOptions struct {
	// Min and Max bound the time between two visits to a page. Zero means an hour, and 30
	// days.
	Min, Max time.Duration
	// Rounds is the maximum number of times that a page is fetched again. Zero means no
	// limit: the crawl ends by a limit or by its context only.
	Rounds int
}

// Recrawl returns the strategy that crawls breadth-first and fetches each page again as often
// as it changes. OnPage gets the page each time that the server sends it, with Again set. Do
// not wrap this Strategy: a Strategy that calls its Follow is only breadth-first.
func Recrawl(o RecrawlOptions) Strategy {
	return &builtin{FollowFunc: takeAll, name: "recrawl", recrawl: o}
}

// WalkOptions tune Walk.
type WalkOptions struct {
	// Walkers walk at the same time. Zero means 16.
	Walkers int
	// Steps is the number of steps of all walkers together. Zero means 100,000.
	Steps int
	// Jump is the probability that a step leads back to a seed, from 0 to 1. Zero means 0.15.
	Jump float64
	// Seed is the random seed. The same seed, pages and start URLs give the same walks.
	Seed uint64
}

// Walk returns the strategy that samples the web by random walks: in the long run it visits a
// page as often as the page's PageRank says. Do not wrap it.
func Walk(o WalkOptions) Strategy { return &builtin{FollowFunc: takeAll, name: "walk", walk: o} }

// own is a Strategy of the program, as the crawl asks it. It implements visit.Strategy.
type own struct{ Strategy }

// StrategyName tells one Strategy of a program from another.
func (s own) StrategyName() string { return fmt.Sprintf("%T", s.Strategy) }

func (s own) Follow(p *visit.Page, l *link.Link) visit.Choice {
	choice := s.Strategy.Follow(pageOf(p), newLink(l))
	if choice < Take {
		return visit.Drop
	}
	l.Level = uint8(min(choice, 255))
	return visit.Take
}
