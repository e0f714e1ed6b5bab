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

// An obstacle is a condition of the whole crawl that keeps this agent from beginning visits. The dispatcher asks the
// obstacles in their order before it begins visits, and Explain tells which of them hold. So a person reads the same
// conditions that the dispatcher obeys.
type obstacle struct {
	// holds reports whether the condition holds now, and when the dispatcher must look again. The zero time means that
	// an event wakes it.
	holds func(c *Crawler, now time.Time) (held bool, ask time.Time)
	// why describes the condition while it holds.
	why func(c *Crawler, cs *ClusterStatus, now time.Time) hindrance
}

// A hindrance is a reason, for people, why the crawl as a whole fetches less than it could, or nothing. If it has
// neither ends nor until, it holds for some visits only.
type hindrance struct {
	text  string
	ends  time.Time // when it ends; zero: nobody knows
	until string    // the event that ends it, if no time is known: "after …"
}

// ofRound are the obstacles to all visits. The dispatcher asks them once in each of its rounds.
var ofRound = [...]obstacle{
	{(*Crawler).stops, (*Crawler).whyStops},
	{(*Crawler).paused, (*Crawler).whyPaused},
}

// ofVisit are the obstacles to the next visit. The dispatcher asks them before each visit.
var ofVisit = [...]obstacle{
	{(*Crawler).crowded, (*Crawler).whyCrowded},
	{(*Crawler).lookUpsWait, (*Crawler).whyLookUpsWait},
	{(*Crawler).adrift, (*Crawler).whyAdrift},
	{(*Crawler).limited, (*Crawler).whyLimited},
	{(*Crawler).resumes, (*Crawler).whyResumes},
	{(*Crawler).tooFast, (*Crawler).whyTooFast},
}

// obstructed reports whether one of the obstacles holds, and when to look again.
func (c *Crawler) obstructed(obstacles []obstacle, now time.Time) (held bool, ask time.Time) {
	for i := range obstacles {
		if held, ask = obstacles[i].holds(c, now); held {
			return true, ask
		}
	}
	return false, time.Time{}
}

// hindrances returns all reasons why the crawl as a whole does not fetch now, or fetches less.
func (c *Crawler) hindrances(now time.Time) (all []hindrance) {
	cs := c.cluster.Status(now)
	for _, o := range slices.Concat(ofRound[:], ofVisit[:]) {
		if held, _ := o.holds(c, now); held {
			all = append(all, o.why(c, &cs, now))
		}
	}
	add := func(format string, a ...any) { all = append(all, hindrance{text: fmt.Sprintf(format, a...)}) }
	if cs.Leaving != "" && c.stop == notStopping {
		all = append(all, hindrance{text: "this agent leaves the crawl: it waits for " + cs.Leaving,
			until: "when another agent has taken over the host"})
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

func (c *Crawler) whyStops(*ClusterStatus, time.Time) hindrance {
	h := hindrance{until: `after "orbweaver crawl --resume"`}
	switch c.stop {
	case PageLimit, SizeLimit, TimeLimit:
		h.text = fmt.Sprintf("the run ends: the %s is reached", strings.ReplaceAll(string(c.stop), "-", " "))
		h.until += " with a higher limit"
	case Left:
		h.text, h.until = "this agent has left the crawl", "when another agent has taken over the host"
	default:
		h.text = fmt.Sprintf("the run ends (%s)", c.stop)
	}
	return h
}

func (c *Crawler) whyPaused(_ *ClusterStatus, now time.Time) hindrance {
	by := ""
	if c.cfg.WhyPaused != nil {
		by = c.cfg.WhyPaused()
	}
	if by == "" {
		by = "the operator"
	}
	_, since := c.gate.Paused()
	return hindrance{text: fmt.Sprintf("the crawl is paused for %s by %s", duration(now.Sub(laterOf(since,
		c.began))), by), until: `after "orbweaver ctl resume"`}
}

// crowded reports that no worker is free.
func (c *Crawler) crowded(time.Time) (bool, time.Time) {
	return c.busy-c.visits.Slow() >= c.cfg.Handed(), time.Time{}
}

func (c *Crawler) whyCrowded(*ClusterStatus, time.Time) hindrance {
	return hindrance{text: fmt.Sprintf("all %d workers are busy: %s; --workers sets their number", c.cfg.Workers,
		english.Plural(c.busy, "visit is in progress", "visits are in progress")), until: "when a visit ends"}
}

// lookUpsWait reports that too many visits wait for an address.
func (c *Crawler) lookUpsWait(time.Time) (bool, time.Time) {
	return len(c.unresolved) >= unresolvedMax, time.Time{}
}

func (c *Crawler) whyLookUpsWait(*ClusterStatus, time.Time) hindrance {
	return hindrance{text: fmt.Sprintf("the name server is slow: %d visits wait for the address of their host",
		len(c.unresolved)), until: "when look-ups end"}
}

// adrift reports that this agent may have lost its hosts to other agents.
func (c *Crawler) adrift(now time.Time) (bool, time.Time) {
	ask := c.cluster.Paused(now)
	return !ask.IsZero(), ask
}

func (c *Crawler) whyAdrift(cs *ClusterStatus, _ time.Time) hindrance {
	h := hindrance{text: "this agent may have lost its hosts to other agents", until: "when the agents agree again"}
	if cs.Waits != "" {
		h.text += "; it waits for " + cs.Waits
	}
	return h
}

// limited reports that no visit may begin because of the page limit.
func (c *Crawler) limited(now time.Time) (bool, time.Time) {
	spent, ask := c.spent(now)
	c.shown.limited = spent
	return spent, ask
}

func (c *Crawler) whyLimited(*ClusterStatus, time.Time) hindrance {
	pages := report.Count(c.Tally.Pages(), "page")
	if n := c.Tally.Pages() + int64(c.busy); n >= c.cfg.PageLimit {
		return hindrance{text: fmt.Sprintf("page limit: %s and %s of at most %d", pages,
			english.Plural(c.busy, "visit in progress", "visits in progress"), c.cfg.PageLimit),
			until: "if a visit in progress brings no page; else with a higher limit"}
	}
	return hindrance{text: fmt.Sprintf("page limit: this agent has %s, and other agents may fetch the others of at "+
		"most %d", pages, c.cfg.PageLimit), until: "if other agents leave pages over; else with a higher limit"}
}

// resumes reports that the hosts rest after a restart.
func (c *Crawler) resumes(now time.Time) (bool, time.Time) { return c.nextSlot.After(now), c.nextSlot }

func (c *Crawler) whyResumes(_ *ClusterStatus, now time.Time) hindrance {
	return hindrance{text: fmt.Sprintf("all hosts rest after the restart, for %s: requests of the run before may have "+
		"been in progress", duration(c.nextSlot.Sub(now))), ends: c.nextSlot}
}

// tooFast reports that the rate allows no visit now.
func (c *Crawler) tooFast(now time.Time) (bool, time.Time) {
	room, ask := c.Rate.Room(now)
	if !room && c.Frontier.Ready(now) {
		c.Rate.Held()
	}
	return !room, ask
}

func (c *Crawler) whyTooFast(_ *ClusterStatus, now time.Time) hindrance {
	in, shut := c.Rate.In(now)
	h := hindrance{text: "rate", ends: now.Add(in)}
	if c.cfg.WhyRate != nil {
		h.text = "rate " + c.cfg.WhyRate()
	}
	if shut {
		h.text += "; this agent has no share of it now"
		h.ends, h.until = time.Time{}, "when the agents have divided the rate again"
		return h
	}
	h.text += fmt.Sprintf("; the next request may begin in %s", duration(in))
	return h
}
