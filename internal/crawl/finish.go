package crawl

import (
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
)

// finish finishes a URL: it writes the log, counts, accepts the links, and adds the finish.
func (c *Crawler) finish(v *visit.Attempt, now time.Time) {
	f := c.logs.finishOf(v, c.visits.Policy(v).Tries > 1 && !v.Plain)
	f.Tries, f.Number = v.Task.Attempt, v.Task.Number // 0 if it was finished before
	if retry.IsSeed(v.Task.Link) {
		f.Link.Via = v.Task.Link.Via
	}
	if v.Outcome == visit.Fetched {
		if v.App().Shared {
			f.Flags |= state.FlagShared
		} else if v.Response.Status/100 == 2 {
			f.Flags |= state.FlagPage
		}
	}
	c.Intake.take(&v.Links) // without a response: the root of the host, see followRoot
	if v.Plain {
		c.followPlain(v)
		c.skips.add(visit.Skip{Link: v.Task.Link, Reason: "askedByHTTP"})
	}
	if c.plan.visited(v, &f, now); c.run.Failed() {
		return
	}
	v.NoteRefetch()
	if v.Task.Attempt > 0 {
		v.Notes = append(v.Notes, strconv.Itoa(v.Task.Attempt+1)+"t")
	}
	switch v.Outcome {
	case visit.Denied:
		c.skips.add(visit.Skip{Link: v.Task.Link, Reason: "robotsTxt"})
	case visit.OverQuota:
		c.skips.add(c.limits.skip(v.Task.Link))
	case visit.Dropped:
		c.skips.add(visit.Skip{Link: v.Task.Link, Reason: "dropped"})
	}
	for _, s := range v.Skipped {
		c.skips.add(s)
	}
	if !v.Plain { // otherwise the http URL tells whether the seed failed
		c.failures.NoteSeed(v, &f)
	}
	c.logs.write(v, f, now)
	c.logs.writeLinks(v, &f, now)
	c.Applications.deliver(v, &f, now)
	c.View.shown.lastURL = v.Asked.URL.String()
	c.retries.Forget(v.Task.Link.Key())
	if v.Plain { // it counts as skipped, not as failed
		f.Kind, f.Cause = "", ""
	}
	if sent := &v.Boundary().Sent; !sent.URL.IsZero() && !c.run.Failed() {
		c.ledger.Accept(state.Passed, sent.AppendTo(nil)) // from now on the page waits for its agent
	}
	c.record(v, &f)
	v.EndClaim(!c.run.Failed())
}

// record counts a finish and adds it to the batch.
func (c *Crawler) record(v *visit.Attempt, f *state.Finish) {
	f.Found, f.Skips = v.Page.References, c.skips.counted
	c.ledger.Finish(f)
	f.Skips, c.skips.counted = nil, c.skips.counted[:0]
}

// logRobots logs and counts a fetch of robots.txt, and keeps its rules.
func (c *Crawler) logRobots(v *visit.Attempt, now time.Time) {
	c.Intake.take(&v.Links) // its sitemaps
	for _, s := range v.Skipped {
		c.skips.add(s)
	}
	c.failures.NoteRobots(v)
	f := c.logs.finishOf(v, false)
	f.Flags |= state.FlagRobots
	c.logs.write(v, f, now)
	c.record(v, &f)
	for _, e := range v.Robots.Entries {
		c.ledger.Add(state.Robots, e.AppendTo(nil))
		if v.Robots.Delay > 0 {
			c.ledger.Hasten()
		}
	}
}
