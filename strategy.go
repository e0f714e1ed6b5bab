package orbweaver

import (
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node"
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

// A builtin is a strategy of internal/crawl/strategy. A nil open is breadth-first.
type builtin struct {
	FollowFunc
	open    func(strategy.Place) (visit.Strategy, error)
	check   func(*Options) error
	focused *FocusedOptions // nil: it is no Focused
}

// BreadthFirst returns the strategy that takes every link in the order in which links are
// found. It is the default.
func BreadthFirst() Strategy {
	return &builtin{FollowFunc: func(*Page, Link) Choice { return Take }}
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
		open: func(strategy.Place) (visit.Strategy, error) { return strategy.List{}, nil },
		check: func(all *Options) error {
			if all.SeedRoots {
				return badOption("Options.SeedRoots: the strategy List fetches the seeds alone")
			}
			return nil
		},
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
	cfg := strategy.RecrawlConfig{Min: o.Min, Max: o.Max, Rounds: o.Rounds}
	return &builtin{
		FollowFunc: func(*Page, Link) Choice { return Take },
		open:       func(at strategy.Place) (visit.Strategy, error) { return strategy.OpenRecrawl(at, cfg) },
		check: func(*Options) error {
			least, most := or(o.Min, time.Hour), or(o.Max, 30*24*time.Hour)
			switch {
			case least < 0 || most < least:
				return badOption("RecrawlOptions.Min %s and Max %s: give durations above 0, Max not below Min; "+
					"the defaults are 1h and 720h", least, most)
			case o.Rounds < 0:
				return badOption("RecrawlOptions.Rounds %d is negative; 0 is no limit", o.Rounds)
			}
			return nil
		},
	}
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
func Walk(o WalkOptions) Strategy {
	cfg := strategy.WalkConfig{Walkers: o.Walkers, Steps: o.Steps, Jump: o.Jump, Seed: o.Seed}
	return &builtin{
		FollowFunc: func(*Page, Link) Choice { return Take },
		open:       func(at strategy.Place) (visit.Strategy, error) { return strategy.OpenWalk(at, cfg) },
		check: func(all *Options) error {
			switch {
			case o.Walkers < 0 || o.Walkers > 10_000:
				return badOption("WalkOptions.Walkers %d: from 0 to 10000", o.Walkers)
			case o.Steps < 0:
				return badOption("WalkOptions.Steps %d is negative; 0 means 100000", o.Steps)
			case !(o.Jump >= 0 && o.Jump <= 1):
				return badOption("WalkOptions.Jump %g: a probability, from 0 to 1", o.Jump)
			case all.Scope.MaxDepth > 0:
				return badOption("Options.Scope.MaxDepth %d: a walk has no depth; use WalkOptions.Steps",
					all.Scope.MaxDepth)
			case all.Scope.MaxHostDepth > 0 || all.SeedRoots:
				return badOption("Options.Scope.MaxHostDepth and SeedRoots: a walk knows neither depths nor roots " +
					"of hosts")
			case all.Cluster != nil:
				return explain(node.CheckWalk(all.Cluster.Partition))
			}
			return nil
		},
	}
}

// opener is how the crawl gets its strategy; nil is breadth-first.
func (o *Options) opener() (func(strategy.Place) (visit.Strategy, error), error) {
	switch s := o.Strategy.(type) {
	case nil:
		return nil, nil
	case *builtin:
		if s.check != nil {
			if err := s.check(o); err != nil {
				return nil, err
			}
		}
		return s.open, nil
	}
	return func(strategy.Place) (visit.Strategy, error) { return own{o.Strategy}, nil }, nil
}

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
