package crawl

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// laterMax bounds the URLs that wait for a retry outside of the queues. Beyond it, a URL waits
// at the front of its host's queue, and the host waits with it.
const laterMax = 100_000

// settle processes an ended visit: it decides between again, later and finished, accepts the
// links, frees the host, and appends the journal's batch. The links must be in the same batch
// as the finish, because the page will not be visited again.
func (c *Crawler) settle(v *visit, now time.Time) {
	if v.err != nil && c.fatal == nil {
		c.fatal = v.err
	}
	if c.fatal != nil {
		c.settleFailed(v, now)
		return
	}
	host := v.task.Link.URL.Host()
	c.ends(v)
	v.auto = c.autoDelay(v, host)
	c.pagesStop = c.pagesStop || v.stops
	if v.resolved && v.outcome == Fetched {
		if !c.overtaken(v) {
			c.Frontier.Resolved(host, v.addr, v.expires, now)
			c.recycle(v)
			return
		}
		v.outcome = Dropped
	}
	delete(c.attempts, v.task.Link.Key())
	d := c.dispose(v, now)
	if d.Again != nil && c.overtaken(v) {
		d.Again = nil
		c.withdraw(v)
	}
	if !v.proxyDown() {
		c.settleHost(v, host, &d, now)
	}
	if c.fatal == nil {
		c.fatal = c.Frontier.Done(host, d, now)
	}
	if d.SlowDown || d.RetryAfter > 0 {
		c.noteSlow(v, host, now)
	}
	v.endClaim(false) // unless it was finished
	c.append()
	c.recycle(v)
}

// settleFailed processes a visit that ends after a failure of this machine: the next agent that contacts the host must
// know the pause that the host has asked for.
func (c *Crawler) settleFailed(v *visit, now time.Time) {
	l := v.task.Link
	delay := max(v.delay, c.autoDelay(v, l.URL.Host()))
	_ = c.Frontier.Done(l.URL.Host(), frontier.Done{Delay: delay, NoRequest: v.began.IsZero(), Sent: v.sentAt,
		SlowDown: v.slow, RetryAfter: v.retryAfter, Again: &l,
		Attempt: v.task.Attempt}, now) // the run has failed already
	c.ends(v)
}

// dispose decides what becomes of a visited URL: it is finished, waits for a retry beside the queues, or
// goes back to the front of its host's queue.
func (c *Crawler) dispose(v *visit, now time.Time) frontier.Done {
	l := v.task.Link
	d := frontier.Done{Delay: max(v.delay, v.auto), NoRequest: v.began.IsZero(), Sent: v.sentAt,
		Robots: v.robotsRead()}
	c.notePlain(v)
	c.noteFailure(v) // of robots.txt, too
	c.origins.settle(c, v, now)
	switch {
	case v.outcome == Abandoned || v.outcome == Stale:
		d.NoRequest = d.NoRequest && !v.permit.cutOff() // a request may have been sent
		d.Again, d.Attempt = &l, v.task.Attempt
	case v.proxyDown():
		c.awaitProxy(v, &d, now)
	case v.outcome == Elsewhere:
		c.noteRobotsAt(l.URL.Origin(), v.errand.URL.Origin())
		c.runErrand(v.errand, now)
		v.until = c.origins.awaitRobots(c, v, now)
		putOff(c, v, &d, delayed{v.until, l, v.task.Number, v.task.Attempt, true})
	case IsErrand(l):
		c.settleErrand(v, now)
	case v.outcome == Prerequisite:
		c.settleRobots(v, &d, now)
	case v.outcome == Fetched && !c.final(v):
		c.again(v, c.policy(v), &d, now)
	case v.outcome == Fetched || v.outcome == Denied || v.outcome == OverQuota || v.outcome == Dropped ||
		v.plain || c.final(v):
		c.finish(v, now)
	default:
		c.again(v, c.policy(v), &d, now)
	}
	return d
}

// settleRobots processes a fetch of robots.txt for the URL. If it succeeds, the URL is due again after the quiet time.
// Then the robots cache decides about it.
func (c *Crawler) settleRobots(v *visit, d *frontier.Done, now time.Time) {
	l := v.task.Link
	c.logRobots(v, now)
	if v.plain {
		v.asked, v.outcome, v.archived = l, Failed, false
		c.finish(v, now)
		return
	}
	if v.failure == fetch.Refused || v.failure == fetch.TLS && !v.fail.Retryable() {
		// The robots.txt cannot be fetched, and time will not change that. The URL itself would fail in
		// the same way.
		c.origins.giveUp(c, v, now)
		v.asked, v.outcome, v.archived, v.unkept = l, Failed, false, false
		c.finish(v, now)
		return
	}
	if v.failure != 0 {
		c.retrying.put(l.Key(), v.reason(), now)
	}
	a := c.Robots.Ask(l.URL, now)
	if a.Verdict != robots.Unreachable {
		d.Again, d.Attempt = &l, v.task.Attempt
		return
	}
	// The URL has failed with its robots.txt.
	u := c.take(v.task)
	u.outcome, u.until, u.last, u.thread, u.drops, u.before = RobotsUnreachable, a.Until, v.last, v.thread, v.drops,
		v.before
	if c.origins.settle(c, u, now); c.final(u) {
		c.finish(u, now)
	} else {
		c.again(u, c.policy(u), d, now)
	}
	c.recycle(u)
}

// noteSlow records that a host demands fewer requests.
func (c *Crawler) noteSlow(v *visit, host string, now time.Time) {
	st := c.origins.record(c, host, now)
	c.urgent = true
	c.Events.Write("host-paused", report.F("host", host), report.F("status", v.status),
		report.F("until", st.NotBefore))
}

// proxyDown reports whether the visit failed because the proxy cannot be reached.
func (v *visit) proxyDown() bool { return v.fail != nil && errors.Is(v.fail.Err, fetch.ErrProxyDown) }

// awaitProxy puts a URL off without counting a try, because the URL and its host did not
// fail. If the proxy cannot be reached for as long as all retries of a URL take, the run
// ends, and the next run continues.
func (c *Crawler) awaitProxy(v *visit, d *frontier.Done, now time.Time) {
	if c.noProxy.IsZero() {
		c.noProxy = now
		c.Events.Write("proxy-down", report.F("error", v.fail.Err))
	}
	if now.Sub(c.noProxy) >= c.cfg.RetryWait<<c.cfg.Retries-c.cfg.RetryWait {
		c.fatal = v.fail.Err
		return
	}
	l := v.task.Link
	d.Again, d.Attempt, d.NotBefore = &l, v.task.Attempt, now.Add(c.jitter(c.cfg.RetryWait))
	c.retrying.put(l.Key(), "proxy", d.NotBefore)
}

// again puts off a URL that failed temporarily.
func (c *Crawler) again(v *visit, p patience, d *frontier.Done, now time.Time) {
	l := v.task.Link
	if c.overtaken(v) {
		c.withdraw(v)
		return
	}
	wait := c.jitter(backoff(p.wait, v.task.Attempt))
	at := now.Add(wait)
	first := blames(v)
	if first {
		at = v.until
	}
	c.retrying.put(l.Key(), v.reason(), at)
	switch {
	case !p.host:
		putOff(c, v, d, delayed{at, l, v.task.Number, v.task.Attempt + 1, first})
	case p.wait > 0:
		d.NotBefore = at
		fallthrough
	default:
		d.Again, d.Attempt = &l, v.task.Attempt+1
	}
}

// putOff lets the URL of v wait beside the queues, or if there are too many, in that of its host.
func putOff(c *Crawler, v *visit, d *frontier.Done, w delayed) {
	switch {
	case c.overtaken(v):
		c.withdraw(v)
	case !c.later.put(c, w):
		d.Again, d.Attempt, d.NotBefore = &w.link, w.attempt, w.at
	}
}

// settleHost records what the visit tells about its host.
func (c *Crawler) settleHost(v *visit, host string, d *frontier.Done, now time.Time) {
	d.SlowDown, d.RetryAfter = v.slow, v.retryAfter
	d.Failed = v.failure != 0 || v.status/100 == 5
	if !v.began.IsZero() {
		c.noProxy = time.Time{} // the proxy has answered
		c.hostsAgain[host].served(now)
	}
	switch {
	case v.plain:
		return // another port of the host may answer
	case v.outcome == Fetched:
		c.trouble.clear(host)
		return
	}
	if v.outcome != Unresolved && (v.outcome != Failed || v.failure != fetch.DNS) {
		return // the host has an address
	}
	if n := c.trouble.add(host); n == c.cfg.Retries+1 {
		c.Events.Write("host-in-trouble", report.F("host", host), report.F("kind", v.reason()), report.F("failures", n))
	}
}

// finish finishes a URL: it writes the log, counts, accepts the links, and adds the finish.
func (c *Crawler) finish(v *visit, now time.Time) {
	f := c.finishOf(v, c.policy(v).tries > 1 && !v.plain)
	f.Tries, f.Number = v.task.Attempt, v.task.Number // 0 if it was finished before
	if isSeed(v.task.Link) {
		f.Link.Via = v.task.Link.Via
	}
	if v.outcome == Fetched {
		if v.shared {
			f.Flags |= state.FlagShared
		} else if v.status/100 == 2 {
			f.Flags |= state.FlagPage
		}
	}
	c.intake(&v.Links) // without a response: the root of the host, see followRoot
	if v.plain {
		c.followPlain(v)
		c.skip(skip{v.task.Link, "askedByHTTP"})
	}
	if c.visited(v, &f, now); c.fatal != nil {
		return
	}
	v.noteRefetch()
	if v.task.Attempt > 0 {
		v.notes = append(v.notes, strconv.Itoa(v.task.Attempt+1)+"t")
	}
	switch v.outcome {
	case Denied:
		c.skip(skip{v.task.Link, "robotsTxt"})
	case OverQuota:
		s := skip{v.task.Link, "hostPageLimit"}
		if r := c.Sheets.Table().Decides(s.link.URL, "host-page-limit"); r != nil {
			s.reason = report.ReasonBy(s.reason, r.Text)
		}
		c.skip(s)
	case Dropped:
		c.skip(skip{v.task.Link, "dropped"})
	}
	for _, s := range v.skipped {
		c.skip(s)
	}
	if !v.plain { // otherwise the http URL tells whether the seed failed
		c.noteSeed(v, &f)
	}
	c.log(v, f, now)
	c.logLinks(v, &f, now)
	c.deliver(v, &f, now)
	c.lastURL = v.asked.URL.String()
	c.retrying.forget(v.task.Link.Key())
	delete(c.requeued, v.task.Link.Key())
	if v.plain { // it counts as skipped, not as failed
		f.Kind, f.Cause = "", ""
	}
	if !v.sent.URL.IsZero() && c.fatal == nil {
		c.fatal = c.cluster.Depart(v.sent)
	}
	c.record(v, &f)
	if v.judged && !v.duplicate && v.archived && !c.omits(v) && c.fatal == nil {
		c.cluster.Archived(v.written.BodyDigest, v.written.Original)
	}
	v.endClaim(c.fatal == nil)
}

// record counts a finish and adds it to the batch. Recovery counts it in the same way.
func (c *Crawler) record(v *visit, f *state.Finish) {
	f.Found, f.Skips = v.links, c.skipped
	c.Tally.Add(visitOf(f))
	c.noteFailed(f)
	c.apps.finished(f)
	c.Tally.Found(int64(f.Found))
	c.Tally.Retried(int64(f.Tries))
	c.rec = f.AppendTo(c.rec[:0])
	c.batch.add(state.Finished, c.rec)
	c.cluster.Finished(f)
	f.Skips, c.skipped = nil, c.skipped[:0]
}

// logRobots logs and counts a fetch of robots.txt, and keeps its rules.
func (c *Crawler) logRobots(v *visit, now time.Time) {
	c.intake(&v.Links) // its sitemaps
	for _, s := range v.skipped {
		c.skip(s)
	}
	c.noteRobots(v)
	f := c.finishOf(v, false)
	f.Flags |= state.FlagRobots
	c.log(v, f, now)
	c.record(v, &f)
	for _, e := range v.entries {
		c.batch.add(state.Robots, e.AppendTo(nil))
		c.urgent = c.urgent || v.delay > 0
	}
}

func (c *Crawler) finishOf(v *visit, exhausted bool) state.Finish {
	f := state.Finish{
		Link: link.Link{URL: v.asked.URL, Hops: v.asked.Hops, Seed: v.asked.Seed, Ext: v.asked.Ext},
		Code: v.code(exhausted), Kind: v.errorKind(), Cause: c.causeOf(v), Mime: v.mime,
		Size: v.size, Began: v.began, Took: v.took, Delay: max(v.delay, v.auto),
	}
	if !v.sent.URL.IsZero() {
		f.Link.Ext = v.sent.Ext
	}
	if v.truncated != "" {
		f.Flags |= state.FlagTruncated
	}
	if v.unkept {
		f.Flags |= state.FlagUnkept
	}
	if v.near != nil {
		f.Flags |= state.FlagNear
	}
	if v.archived {
		f.Digest, f.Body, f.File, f.End = v.written.PayloadDigest, v.written.BodyDigest, v.written.File, v.written.End
		if v.written.Revisit {
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
		Refetched: isRefetch(f.Link) && f.Link.App() == "", // otherwise its archive is not lost: see Recollect
	}
}

func (c *Crawler) log(v *visit, f state.Finish, now time.Time) {
	line := report.Line{
		Time: now, Code: f.Code, Size: -1, URL: v.asked.URL.String(), Hops: v.asked.Hops, Via: v.asked.Via,
		MIME: f.Mime, Thread: v.thread, Began: v.began, Took: v.took, Seed: v.asked.Seed, Notes: v.notes,
	}
	if !v.began.IsZero() {
		line.Size = v.content
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
	if v.rule != "" {
		line.Notes = append(line.Notes, "rule:"+v.rule)
	}
	c.Log.Write(line)
	c.countKept(v)
}

// reason returns why a visit will be repeated, for the events.
func (v *visit) reason() string {
	if k := v.errorKind(); k != "" {
		return k
	}
	return strconv.Itoa(v.status)
}

// errandWait is how long a URL waits for a robots.txt from another host before the crawl
// looks again.
const errandWait = time.Second

func errandID(l link.Link) string { return l.URL.String() + " " + l.Via }

// runErrand queues, once, the fetch of a robots.txt on another host. It does not queue it if
// the operator has blocked that host.
func (c *Crawler) runErrand(l link.Link, now time.Time) {
	if host := l.URL.Host(); c.isBlocked(host) {
		c.failErrand(l, theyBlocked, now)
		return
	}
	id := errandID(l)
	if c.errands[id]++; c.errands[id] > 1 {
		return
	}
	if err := c.Frontier.PushFront(l); err != nil {
		c.fatal = fmt.Errorf("frontier: %w", err)
	}
}

func (c *Crawler) settleErrand(v *visit, now time.Time) {
	l := v.task.Link
	delete(c.errands, errandID(l))
	switch v.outcome {
	case Prerequisite:
		c.logRobots(v, now)
	default:
		why := v.errorKind()
		if cause := c.causeOf(v); cause != "" {
			why += ": " + cause
		}
		c.failErrand(l, why, now)
	}
}

// failErrand records that the fetch of a robots.txt from another host failed, and why. The
// rules of that file stay unknown.
func (c *Crawler) failErrand(l link.Link, why string, now time.Time) {
	setBounded(&c.failures.robots, l.URL.Origin(), why)
	if about, err := weburl.Parse(l.Via); err == nil {
		c.Robots.Learn(about, weburl.URL{}, robots.Reply{Failed: true}, now)
	}
}

// jitter changes a wait by up to a tenth, so that URLs that failed together are not retried
// together.
func (c *Crawler) jitter(d time.Duration) time.Duration {
	return d + time.Duration((c.rng.Float64()-0.5)*0.2*float64(d))
}

// take returns a visit for t. It reuses an old visit if there is one.
func (c *Crawler) take(t frontier.Task) *visit {
	if n := len(c.free); n > 0 {
		v := c.free[n-1]
		c.free = c.free[:n-1]
		v.reset(t)
		return v
	}
	v := &visit{}
	v.reset(t)
	return v
}

// recycle keeps a visit for reuse. It drops a visit that has grown large.
func (c *Crawler) recycle(v *visit) {
	v.page.Release()
	v.shown, v.link, v.offered = Page{}, link.Link{}, nil
	if clear(v.skipped); cap(v.skipped) > 1<<12 { // they point into the page's memory
		v.skipped = nil
	}
	if cap(v.found) > 1<<14 {
		v.found = nil
	}
	if cap(v.enc) <= 1<<20 && len(c.free) < 2*c.cfg.Workers {
		c.free = append(c.free, v)
	}
}
