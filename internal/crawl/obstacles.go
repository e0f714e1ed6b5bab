package crawl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/report"
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
		ofRound: []Obstacle{condition{c.stops, c.whyStops}, condition{c.paused, c.whyPaused}},
		ofVisit: slices.Concat(
			[]Obstacle{condition{c.crowded, c.whyCrowded}, condition{c.lookUpsWait, c.whyLookUpsWait}},
			others,
			[]Obstacle{condition{c.limited, c.whyLimited}, condition{c.resumes, c.whyResumes},
				condition{c.tooFast, c.whyTooFast}}),
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
	if cs.Leaving != "" && c.stop == notStopping {
		all = append(all, Hindrance{Text: "this agent leaves the crawl: it waits for " + cs.Leaving,
			Until: "when another agent has taken over the host"})
	}
	if !c.noProxy.IsZero() {
		add("the proxy cannot be reached for %s; each URL is tried again after about %s",
			duration(now.Sub(c.noProxy)), duration(c.cfg.RetryWait))
	}
	calls, since := c.visits.Handing()
	if calls > 0 && (now.Sub(since) >= idleAfter || calls >= c.underWayNow()) {
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

// stops reports that the run ends.
func (c *Crawler) stops(time.Time) (bool, time.Time) { return c.stop != notStopping, time.Time{} }

func (c *Crawler) whyStops(time.Time) Hindrance {
	h := Hindrance{Until: `after "orbweaver crawl --resume"`}
	switch c.stop {
	case PageLimit, SizeLimit, TimeLimit:
		h.Text = fmt.Sprintf("the run ends: the %s is reached", strings.ReplaceAll(string(c.stop), "-", " "))
		h.Until += " with a higher limit"
	case Left:
		h.Text, h.Until = "this agent has left the crawl", "when another agent has taken over the host"
	default:
		h.Text = fmt.Sprintf("the run ends (%s)", c.stop)
	}
	return h
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
		c.began))), by), Until: `after "orbweaver ctl resume"`}
}

// crowded reports that no worker is free.
func (c *Crawler) crowded(time.Time) (bool, time.Time) {
	return c.busy-c.visits.Slow() >= c.cfg.Handed(), time.Time{}
}

func (c *Crawler) whyCrowded(time.Time) Hindrance {
	return Hindrance{Text: fmt.Sprintf("all %d workers are busy: %s; --workers sets their number", c.cfg.Workers,
		english.Plural(c.busy, "visit is in progress", "visits are in progress")), Until: "when a visit ends"}
}

// lookUpsWait reports that too many visits wait for an address.
func (c *Crawler) lookUpsWait(time.Time) (bool, time.Time) {
	return len(c.unresolved) >= unresolvedMax, time.Time{}
}

func (c *Crawler) whyLookUpsWait(time.Time) Hindrance {
	return Hindrance{Text: fmt.Sprintf("the name server is slow: %d visits wait for the address of their host",
		len(c.unresolved)), Until: "when look-ups end"}
}

// limited reports that no visit may begin because of the page limit.
func (c *Crawler) limited(time.Time) (bool, time.Time) {
	return c.cfg.PageLimit > 0 && c.Tally.Pages()+int64(c.busy) >= c.cfg.PageLimit, time.Time{}
}

func (c *Crawler) whyLimited(time.Time) Hindrance {
	return Hindrance{Text: fmt.Sprintf("page limit: %s and %s of at most %d", report.Count(c.Tally.Pages(), "page"),
		english.Plural(c.busy, "visit in progress", "visits in progress"), c.cfg.PageLimit),
		Until: "if a visit in progress brings no page; else with a higher limit"}
}

// resumes reports that the hosts rest after a restart.
func (c *Crawler) resumes(now time.Time) (bool, time.Time) { return c.nextSlot.After(now), c.nextSlot }

func (c *Crawler) whyResumes(now time.Time) Hindrance {
	return Hindrance{Text: fmt.Sprintf("all hosts rest after the restart, for %s: requests of the run before may have "+
		"been in progress", duration(c.nextSlot.Sub(now))), Ends: c.nextSlot}
}

// tooFast reports that the rate allows no visit now.
func (c *Crawler) tooFast(now time.Time) (bool, time.Time) {
	room, ask := c.Rate.Room(now)
	if !room && c.Frontier.Ready(now) {
		c.Rate.Held()
	}
	return !room, ask
}

func (c *Crawler) whyTooFast(now time.Time) Hindrance {
	in, shut := c.Rate.In(now)
	h := Hindrance{Text: "rate", Ends: now.Add(in)}
	if c.cfg.WhyRate != nil {
		h.Text = "rate " + c.cfg.WhyRate()
	}
	if shut {
		h.Text += "; this agent has no share of it now"
		h.Ends, h.Until = time.Time{}, "when the agents have divided the rate again"
		return h
	}
	h.Text += fmt.Sprintf("; the next request may begin in %s", duration(in))
	return h
}
