package crawl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
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

// CheckExclusion returns the error of a pattern, for people.
func CheckExclusion(pattern string) error { return sheet.CheckPattern(pattern) }

// Excluded returns why a link must wait; "" if it need not. Safe for concurrent use.
func (c *Crawler) Excluded(l link.Link) (why string) {
	if x := c.exclusions.Load().of(&l); x != nil {
		return x.Why
	}
	return ""
}

// Exclude replaces the Exclusions that are in force. When it returns, no visit of a URL that they exclude begins any
// more; visits in progress end as usual. Safe for concurrent use, also before Run; ctx bounds the wait.
func (c *Crawler) Exclude(ctx context.Context, list []Exclusion) error {
	e, err := newExclusions(list)
	if err != nil {
		return err
	}
	c.exclusions.Store(e)
	if c.Status() == nil {
		return nil
	}
	err = c.ask(ctx, "exclude", c.heedExclusions)
	if errors.Is(err, ErrNotRunning) {
		return nil
	}
	return err
}

// heedExclusions lets the dispatcher look at the links that were set aside again, unless all Exclusions that held
// before still hold.
func (c *Crawler) heedExclusions() {
	now, before := c.exclusions.Load(), c.reviewed
	if now == before {
		return
	}
	c.reviewed = now
	c.activity++
	if before == nil || now != nil && now.depth == before.depth && !slices.ContainsFunc(before.list,
		func(x Exclusion) bool { return !slices.Contains(now.list, x) }) {
		return
	}
	c.Frontier.ReviewAside()
}

// setAside sets a task aside that was just taken from the frontier, if an Exclusion holds for it.
func (c *Crawler) setAside(t *frontier.Task, now time.Time) bool {
	if !c.exclusions.Load().holds(&t.Link) || c.dropped(t.Host, t.Number) {
		return false
	}
	k := t.Link.Key()
	err := c.Frontier.Done(t.Host, frontier.Done{NoRequest: true}, now)
	p, ok := c.planner.(visit.Postponer)
	before, again := c.revisiting[k]
	switch {
	case err != nil:
	case again && ok: // it would take the place of a page that may be visited
		delete(c.requeued, k)
		delete(c.attempts, k)
		c.revisited(t.Link)
		err = p.PutOff(&visit.Wanted{Link: t.Link, Before: before}, now.Add(excludedWait))
	default:
		if n := t.Attempt + c.attempts[k]; n > 0 {
			c.attempts[k] = n
		}
		err = c.Frontier.SetAside(t.Link, t.Number)
	}
	if err != nil {
		c.fatal = fmt.Errorf("frontier: %w", err)
	}
	return true
}

const (
	// excludedWait is how long a page waits that a Planner wants to visit again, before its turn comes again.
	excludedWait = 10 * time.Minute
	// reviewSlice bounds the links that are reviewed in one turn of the dispatcher.
	reviewSlice = 256
	// reviewHosts is the number of hosts with links above which no link is put back, so that their memory is bounded.
	reviewHosts = 1 << 16
)

// review puts some of the links that were set aside back into their queues, unless they must still wait. Links of hosts
// that another agent owns go back, too: the host is given away when it is due. It reports whether it has looked at any.
func (c *Crawler) review() (any bool) {
	if s := c.Frontier.Stats(); c.stop != notStopping || c.fatal != nil || s.Aside == 0 ||
		s.Ready+s.Resting > reviewHosts {
		return false
	}
	e := c.exclusions.Load()
	_, err := c.Frontier.Reviewed(reviewSlice, func(l link.Link, number uint64) error {
		any = true
		host, k := l.URL.Host(), l.Key()
		accept := number
		if n, ok := c.requeued[k]; ok {
			accept = n
		}
		if c.dropped(host, accept) {
			attempt := c.attempts[k]
			delete(c.attempts, k)
			delete(c.requeued, k)
			c.withdrawLink(l, accept, attempt)
			return nil
		}
		if _, mine := c.cluster.KnownOwner(host); mine && e.holds(&l) {
			return c.Frontier.SetAside(l, number)
		}
		return c.Frontier.PutBack(l, number)
	})
	if c.fatal == nil && err != nil {
		c.fatal = fmt.Errorf("frontier: %w", err)
	}
	return any
}
