package crawl

import (
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// finish finishes a URL: it writes the log, counts, accepts the links, and adds the finish.
func (c *Crawler) finish(v *visit.Attempt, now time.Time) {
	f := c.finishOf(v, c.visits.Policy(v).Tries > 1 && !v.Plain)
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
	c.intake(&v.Links) // without a response: the root of the host, see followRoot
	if v.Plain {
		c.followPlain(v)
		c.skips.add(visit.Skip{Link: v.Task.Link, Reason: "askedByHTTP"})
	}
	if c.visited(v, &f, now); c.run.Failed() {
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
		s := visit.Skip{Link: v.Task.Link, Reason: "hostPageLimit"}
		if r := c.Sheets.Table().Decides(s.Link.URL, "host-page-limit"); r != nil {
			s.Reason = report.ReasonBy(s.Reason, r.Text)
		}
		c.skips.add(s)
	case visit.Dropped:
		c.skips.add(visit.Skip{Link: v.Task.Link, Reason: "dropped"})
	}
	for _, s := range v.Skipped {
		c.skips.add(s)
	}
	if !v.Plain { // otherwise the http URL tells whether the seed failed
		c.failures.NoteSeed(v, &f)
	}
	c.log(v, f, now)
	c.logLinks(v, &f, now)
	c.deliver(v, &f, now)
	c.shown.lastURL = v.Asked.URL.String()
	c.retries.Forget(v.Task.Link.Key())
	if v.Plain { // it counts as skipped, not as failed
		f.Kind, f.Cause = "", ""
	}
	if !v.Boundary().Sent.URL.IsZero() && !c.run.Failed() {
		c.run.Fail(c.Cluster.Boundary.Depart(v.Boundary().Sent))
	}
	c.record(v, &f)
	if v.Contents().Judged && !v.Contents().Duplicate && v.Record.Archived && !c.visits.Omits(v) && !c.run.Failed() {
		c.Cluster.Contents.Archived(v.Record.Written.BodyDigest, v.Record.Written.Original)
	}
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
	c.intake(&v.Links) // its sitemaps
	for _, s := range v.Skipped {
		c.skips.add(s)
	}
	c.failures.NoteRobots(v)
	f := c.finishOf(v, false)
	f.Flags |= state.FlagRobots
	c.log(v, f, now)
	c.record(v, &f)
	for _, e := range v.Robots.Entries {
		c.ledger.Add(state.Robots, e.AppendTo(nil))
		if v.Robots.Delay > 0 {
			c.ledger.Hasten()
		}
	}
}

func (c *Crawler) finishOf(v *visit.Attempt, exhausted bool) state.Finish {
	f := state.Finish{
		Link: link.Link{URL: v.Asked.URL, Hops: v.Asked.Hops, Seed: v.Asked.Seed, Ext: v.Asked.Ext},
		Code: v.Code(exhausted), Kind: v.ErrorKind(), Cause: c.failures.CauseOf(v), Mime: v.Response.MIME,
		Size: v.Response.Size, Began: v.Response.Began, Took: v.Response.Took,
		Delay: max(v.Robots.Delay, v.Robots.Auto),
	}
	if !v.Boundary().Sent.URL.IsZero() {
		f.Link.Ext = v.Boundary().Sent.Ext
	}
	if v.Response.Truncated != "" {
		f.Flags |= state.FlagTruncated
	}
	if v.Record.Left {
		f.Flags |= state.FlagUnkept
	}
	if v.Near().Original != nil {
		f.Flags |= state.FlagNear
	}
	if v.Record.Archived {
		w := &v.Record.Written
		f.Digest, f.Body, f.File, f.End = w.PayloadDigest, w.BodyDigest, w.File, w.End
		if w.Revisit {
			f.Flags |= state.FlagDuplicate
		}
	}
	return f
}

func visitOf(f *state.Finish) report.Visit {
	return report.Visit{
		Host: f.Link.URL.Host(), Seed: f.Link.Seed, Code: f.Code, MIME: f.Mime, Error: f.Kind,
		Cause: f.Cause, Bytes: f.Size, Took: f.Took,
		Page: f.IsPage(), Robots: f.IsRobots(), Near: f.IsNear(),
		Duplicate: f.Flags&state.FlagShared == state.FlagDuplicate, Truncated: f.Flags&state.FlagTruncated != 0,
		Again: f.Flags&state.FlagAgain != 0, Unchanged: f.Flags&state.FlagUnchanged != 0,
		Unknown: f.Flags&state.FlagUnknown != 0, Unkept: f.Flags&state.FlagShared == state.FlagUnkept,
		Shared: f.IsShared(), Exported: f.Exported(), Imported: f.Imported(),
		Refetched: visit.IsRefetch(f.Link) && f.Link.App() == "", // otherwise its archive is not lost: see Recollect
	}
}

func (c *Crawler) log(v *visit.Attempt, f state.Finish, now time.Time) {
	line := report.Line{
		Time: now, Code: f.Code, Size: -1, URL: v.Asked.URL.String(), Hops: v.Asked.Hops, Via: v.Asked.Via,
		MIME: f.Mime, Thread: v.Thread, Began: v.Response.Began, Took: v.Response.Took, Seed: v.Asked.Seed,
		Notes: v.Notes,
	}
	if !v.Response.Began.IsZero() {
		line.Size = v.Response.Content
	}
	if c.hasPage(v) {
		line.Digest, line.HasDigest = f.Digest, true
	}
	if f.Kind != "" {
		line.Notes = append(line.Notes, "error:"+f.Kind)
	}
	if f.Cause != "" {
		line.Notes = append(line.Notes, "cause:"+f.Cause)
	}
	if v.Robots.Rule != "" {
		line.Notes = append(line.Notes, "rule:"+v.Robots.Rule)
	}
	c.Log.Write(line)
	c.countKept(v)
}

// hasPage reports that the archive has the response, or a revisit record that names an equal one.
func (c *Crawler) hasPage(v *visit.Attempt) bool {
	return v.Record.Archived && !v.Confirmed() && !c.visits.Omits(v)
}

// logLinks writes the line of a finished URL.
func (c *Crawler) logLinks(v *visit.Attempt, f *state.Finish, now time.Time) {
	if c.LinkLog == nil {
		return
	}
	line := linklog.Line{URL: v.Asked.URL.String(), Time: now, Status: f.Code, Error: f.Kind, Links: &v.LinkLog().Out}
	if line.Error == "" {
		line.Error = report.RedirectProblem(v.Notes)
	}
	c.LinkLog.Write(&line)
}
