package orders

import (
	"slices"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// An Exclusion keeps the crawl from the URLs that match a pattern, or that are too deep. Their links are accepted as
// always, so no link is lost. When it is a link's turn, the dispatcher sets it aside instead of visiting it. When no
// Exclusion holds for it any more, it goes back to its queue.

// An Exclusion is a rule for links that must wait.
type Exclusion struct {
	// Pattern is a regular expression in Go's syntax, which matches anywhere in the canonical URL. Empty matches none.
	Pattern string
	// Deeper is the largest Depth of links that need not wait; negative: no limit.
	Deeper int
	// Why is for people: which order it is.
	Why string
}

// exclusions are the Exclusions in force. They never change.
type exclusions struct {
	list     []Exclusion
	each     []sheet.Patterns
	patterns sheet.Patterns // all together, unless apart is set
	apart    bool           // together they are too large
	depth    int            // the least Deeper; negative: no limit
}

// newExclusions returns nil if the list is empty. The error names the pattern.
func newExclusions(list []Exclusion) (*exclusions, error) {
	if len(list) == 0 {
		return nil, nil
	}
	e := &exclusions{list: list, each: make([]sheet.Patterns, len(list)), depth: -1}
	var exprs []string
	var err error
	for i, x := range list {
		if x.Deeper >= 0 && (e.depth < 0 || x.Deeper < e.depth) {
			e.depth = x.Deeper
		}
		if x.Pattern == "" {
			continue
		}
		if e.each[i], err = sheet.Compile(x.Why, []string{x.Pattern}); err != nil {
			return nil, err
		}
		exprs = append(exprs, x.Pattern)
	}
	e.patterns, err = sheet.Compile("exclusions", exprs)
	e.apart = err != nil
	return e, nil
}

// holds reports whether l must wait. Fetches of a robots.txt for another host need not.
func (e *exclusions) holds(l *link.Link) bool {
	if e == nil || visit.IsErrand(*l) {
		return false
	}
	if e.depth >= 0 && l.Depth() > e.depth || e.patterns.Match(l.URL.String()) {
		return true
	}
	return e.apart && slices.ContainsFunc(e.each, func(p sheet.Patterns) bool { return p.Match(l.URL.String()) })
}

// of returns the first Exclusion that holds for l, or nil.
func (e *exclusions) of(l *link.Link) *Exclusion {
	if !e.holds(l) {
		return nil
	}
	for i := range e.list {
		x := &e.list[i]
		if e.each[i].Match(l.URL.String()) || x.Deeper >= 0 && l.Depth() > x.Deeper {
			return x
		}
	}
	return nil
}

// SetExclusions replaces the Exclusions that are in force. The error names the pattern. Safe for concurrent use.
func (g *Gate) SetExclusions(list []Exclusion) error {
	e, err := newExclusions(list)
	if err == nil {
		g.exclusions.Store(e)
	}
	return err
}

// Excludes reports whether a link must wait. Safe for concurrent use.
func (g *Gate) Excludes(l *link.Link) bool { return g.exclusions.Load().holds(l) }

// WhyExcluded returns why a link must wait; "" if it need not. Safe for concurrent use.
func (g *Gate) WhyExcluded(l *link.Link) (why string) {
	if x := g.exclusions.Load().of(l); x != nil {
		return x.Why
	}
	return ""
}

// HeedExclusions lets the dispatcher look at the links that were set aside again, unless all Exclusions that held
// before still hold. While the agents end the run it does nothing.
func (g *Gate) HeedExclusions() {
	now, before := g.exclusions.Load(), g.reviewed
	if now == before || g.loop.Ending() {
		return
	}
	g.reviewed = now
	g.run.Stir()
	if before == nil || now != nil && now.depth == before.depth && !slices.ContainsFunc(before.list,
		func(x Exclusion) bool { return !slices.Contains(now.list, x) }) {
		return
	}
	g.frontier.ReviewAside()
}
