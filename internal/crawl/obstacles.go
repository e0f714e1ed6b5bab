package crawl

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
)

// An Obstacle is a condition of the whole crawl that keeps this agent from beginning visits. The dispatcher asks the
// obstacles in their order before it begins visits, and Explain tells which of them hold. So a person reads the same
// conditions that the dispatcher obeys.
type Obstacle interface {
	// Holds reports whether the condition holds now, and when the dispatcher must look again. The zero time means that
	// an event wakes it.
	Holds(now time.Time) (held bool, ask time.Time)
	// Why describes the condition while it holds.
	Why(now time.Time) Hindrance
}

// A Hindrance is a reason, for people, why the crawl as a whole fetches less than it could, or nothing. If it has
// neither Ends nor Until, it holds for some visits only.
type Hindrance struct {
	Text  string
	Ends  time.Time // when it ends; zero: nobody knows
	Until string    // the event that ends it, if no time is known: "after …"
	Waits string    // what the crawl waits for meanwhile; empty: a Status does not say it
}

// obstacles are all Obstacles of a crawl.
type obstacles struct {
	ofRound []Obstacle // to all visits; the dispatcher asks them once in each of its rounds
	ofVisit []Obstacle // to the next visit; the dispatcher asks them before each visit
	others  []Obstacle // of these, those of the Cluster
}

// A condition is an Obstacle of the crawl loop itself.
type condition struct {
	holds func(now time.Time) (held bool, ask time.Time)
	why   func(now time.Time) Hindrance
}

func (o condition) Holds(now time.Time) (bool, time.Time) { return o.holds(now) }
func (o condition) Why(now time.Time) Hindrance           { return o.why(now) }

// newObstacles returns the obstacles of a crawl; others are those of its Cluster.
func newObstacles(c *Crawler, others []Obstacle) obstacles {
	return obstacles{
		ofRound: []Obstacle{condition{c.progress.stops, c.progress.whyStops}, condition{c.paused, c.whyPaused}},
		ofVisit: slices.Concat(
			[]Obstacle{condition{c.progress.crowded, c.progress.whyCrowded},
				condition{c.lookups.full, c.lookups.whyFull}},
			others,
			[]Obstacle{condition{c.limits.limited, c.limits.whyLimited},
				condition{c.progress.resumes, c.progress.whyResumes},
				condition{c.rateLimit.tooFast, c.rateLimit.whyTooFast}}),
		others: others,
	}
}

// obstructed reports whether one of some obstacles holds, and when to look again.
func obstructed(some []Obstacle, now time.Time) (held bool, ask time.Time) {
	for _, o := range some {
		if held, ask = o.Holds(now); held {
			return true, ask
		}
	}
	return false, time.Time{}
}

// waitsFor says what the crawl waits for because of an obstacle of the Cluster. It is empty if there is none, or if
// nobody knows.
func (o *obstacles) waitsFor(now time.Time) (text string) {
	for _, o := range o.others {
		if held, _ := o.Holds(now); held && text == "" {
			text = o.Why(now).Waits
		}
	}
	return text
}

// hindrances returns all reasons why the crawl as a whole does not fetch now, or fetches less.
func (c *Crawler) hindrances(now time.Time) (all []Hindrance) {
	cs := c.Cluster.status(now)
	for _, o := range slices.Concat(c.obstacles.ofRound, c.obstacles.ofVisit) {
		if held, _ := o.Holds(now); held {
			all = append(all, o.Why(now))
		}
	}
	add := func(format string, a ...any) { all = append(all, Hindrance{Text: fmt.Sprintf(format, a...)}) }
	if cs.Leaving != "" && c.progress.stop == notStopping {
		all = append(all, Hindrance{Text: "this agent leaves the crawl: it waits for " + cs.Leaving,
			Until: "when another agent has taken over the host"})
	}
	if !c.proxy.down.IsZero() {
		add("the proxy cannot be reached for %s; each URL is tried again after about %s",
			duration(now.Sub(c.proxy.down)), duration(c.cfg.RetryWait))
	}
	calls, since := c.visits.Handing()
	if calls > 0 && (now.Sub(since) >= idleAfter || calls >= c.progress.underWay()) {
		add("%s for %s: %s", english.Plural(calls, "page waits", "pages wait"), duration(now.Sub(since)),
			cmp.Or(c.PagesTo, "the program that receives the pages"))
	}
	if m := cs.Moves; m != nil && m.Held > 0 {
		add("%s held until other agents have told which of their pages they have fetched",
			english.Plural(m.Held, "host is", "hosts are"))
	}
	if held := c.apps.held; len(held) > 0 {
		var names []string
		for name := range held {
			names = append(names, name)
		}
		slices.Sort(names)
		add("the links of %s wait: %d or more of its pages wait to be collected", english.WordSeries(names, "and"),
			c.cfg.Uncollected)
	}
	return all
}

func (c *Crawler) whyPaused(now time.Time) Hindrance {
	by := ""
	if c.cfg.WhyPaused != nil {
		by = c.cfg.WhyPaused()
	}
	if by == "" {
		by = "the operator"
	}
	_, since := c.gate.Paused()
	return Hindrance{Text: fmt.Sprintf("the crawl is paused for %s by %s", duration(now.Sub(laterOf(since,
		c.progress.began))), by), Until: `after "orbweaver ctl resume"`}
}
