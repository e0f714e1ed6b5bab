package crawl

import (
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// settle processes an ended visit: it decides between again, later and finished, accepts the
// links, frees the host, and appends the journal's batch. The links must be in the same batch
// as the finish, because the page will not be visited again.
func (c *Crawler) settle(v *visit.Attempt, now time.Time) {
	if c.run.Fail(v.Err) {
		c.settleFailed(v, now)
		return
	}
	host := v.Task.Link.URL.Host()
	c.ends(v)
	v.Robots.Auto = c.delays.auto(v, host)
	c.pagesStop = c.pagesStop || v.Page.Stops
	if v.Lookup.Done && v.Outcome == visit.Fetched {
		if !c.gate.Overtaken(v) {
			c.frontier.Resolved(host, v.Lookup.Addr, v.Lookup.Expires, now)
			c.visits.Recycle(v)
			return
		}
		v.Outcome = visit.Dropped
	}
	c.retries.SetAttempts(v.Task.Link.Key(), 0)
	d := c.dispose(v, now)
	if d.Again != nil && c.gate.Overtaken(v) {
		d.Again = nil
		c.withdraw(v)
	}
	if !v.ProxyDown() {
		c.settleHost(v, host, &d, now)
	}
	if !c.run.Failed() {
		c.run.Fail(c.frontier.Done(host, d, now))
	}
	if d.SlowDown || d.RetryAfter > 0 {
		c.noteSlow(v, host)
	}
	v.EndClaim(false) // unless it was finished
	c.append()
	c.visits.Recycle(v)
}

// dispose decides what becomes of a visited URL: it is finished, waits for a retry beside the queues, or
// goes back to the front of its host's queue.
func (c *Crawler) dispose(v *visit.Attempt, now time.Time) frontier.Done {
	l := v.Task.Link
	d := frontier.Done{Delay: max(v.Robots.Delay, v.Robots.Auto), NoRequest: v.Response.Began.IsZero(),
		Sent: v.Response.SentAt, Robots: v.RobotsRead()}
	c.plain.note(v)
	c.failures.NoteFailure(v) // of robots.txt, too
	c.origins.Settle(v, now)
	switch {
	case v.Outcome == visit.Abandoned || v.Outcome == visit.Stale:
		d.NoRequest = d.NoRequest && !v.Permit.WasCutOff() // a request may have been sent
		d.Again, d.Attempt = &l, v.Task.Attempt
	case v.ProxyDown():
		c.proxy.await(v, &d, now)
	case v.Outcome == visit.Elsewhere:
		c.failures.NoteRobotsAt(l.URL.Origin(), v.Robots.Errand.URL.Origin())
		c.errands.add(v.Robots.Errand, now)
		v.Robots.Until = c.origins.AwaitRobots(v, now)
		c.putOff(v, &d, retry.Delayed{At: v.Robots.Until, Link: l, Number: v.Task.Number, Attempt: v.Task.Attempt,
			First: true})
	case visit.IsErrand(l):
		c.settleErrand(v, now)
	case v.Outcome == visit.Prerequisite:
		c.settleRobots(v, &d, now)
	case v.Outcome == visit.Fetched && !c.visits.Final(v):
		c.again(v, c.visits.Policy(v), &d, now)
	case v.Outcome.Ends() || v.Plain || c.visits.Final(v):
		c.finish(v, now)
	default:
		c.again(v, c.visits.Policy(v), &d, now)
	}
	return d
}

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
	if c.plan.Visited(v, &f, now); c.run.Failed() {
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
	c.Applications.Deliver(v, &f, now)
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
	c.limits.ended(f)
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

// noteSlow records that a host demands fewer requests.
func (c *Crawler) noteSlow(v *visit.Attempt, host string) {
	st := c.origins.Record(host)
	c.ledger.Hasten()
	c.events.Write("host-paused", report.F("host", host), report.F("status", v.Response.Status),
		report.F("until", st.NotBefore))
}

// again puts off a URL that failed temporarily.
func (c *Crawler) again(v *visit.Attempt, p visit.Patience, d *frontier.Done, now time.Time) {
	l := v.Task.Link
	if c.gate.Overtaken(v) {
		c.withdraw(v)
		return
	}
	wait := c.retries.Jitter(visit.Backoff(p.Wait, v.Task.Attempt))
	at := now.Add(wait)
	first := retry.Blames(v)
	if first {
		at = v.Robots.Until
	}
	c.retries.NoteFailure(l.Key(), v.Reason(), at)
	switch {
	case !p.Host:
		c.putOff(v, d, retry.Delayed{At: at, Link: l, Number: v.Task.Number, Attempt: v.Task.Attempt + 1, First: first})
	case p.Wait > 0:
		d.NotBefore = at
		fallthrough
	default:
		d.Again, d.Attempt = &l, v.Task.Attempt+1
	}
}

// putOff lets the URL of v wait beside the queues, or if there are too many, in that of its host.
func (c *Crawler) putOff(v *visit.Attempt, d *frontier.Done, w retry.Delayed) {
	switch {
	case c.gate.Overtaken(v):
		c.withdraw(v)
	case !c.origins.Later(w):
		d.Again, d.Attempt, d.NotBefore = &w.Link, w.Attempt, w.At
	}
}

// settleHost records what the visit tells about its host.
func (c *Crawler) settleHost(v *visit.Attempt, host string, d *frontier.Done, now time.Time) {
	d.SlowDown, d.RetryAfter = v.Response.Slow, v.Response.RetryAfter
	d.Failed = v.Response.Failure != 0 || v.Response.Status/100 == 5
	if !v.Response.Began.IsZero() {
		c.proxy.answers()
		c.plan.Served(host, now)
	}
	switch {
	case v.Plain:
		return // another port of the host may answer
	case v.Outcome == visit.Fetched:
		c.retries.HostAnswers(host)
		return
	}
	if v.Outcome != visit.Unresolved && (v.Outcome != visit.Failed || v.Response.Failure != fetch.DNS) {
		return // the host has an address
	}
	if n := c.retries.LookUpFailed(host); n == c.cfg.Retries+1 {
		c.events.Write("host-in-trouble", report.F("host", host), report.F("kind", v.Reason()), report.F("failures", n))
	}
}

// settleFailed processes a visit that ends after a failure of this machine: the next agent that contacts the host must
// know the pause that the host has asked for.
func (c *Crawler) settleFailed(v *visit.Attempt, now time.Time) {
	l := v.Task.Link
	delay := max(v.Robots.Delay, c.delays.auto(v, l.URL.Host()))
	r := &v.Response
	_ = c.frontier.Done(l.URL.Host(), frontier.Done{Delay: delay, NoRequest: r.Began.IsZero(), Sent: r.SentAt,
		SlowDown: r.Slow, RetryAfter: r.RetryAfter, Again: &l,
		Attempt: v.Task.Attempt}, now) // the run has failed already
	c.ends(v)
}
