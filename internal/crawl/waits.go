package crawl

import (
	"cmp"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// idleAfter is the time without the end of a visit after which a Status says what the crawl waits for.
const idleAfter = 3 * time.Second

// shown is what only a Status needs.
type shown struct {
	paused  atomic.Int64 // time of all pauses of this run at the last Status, in nanoseconds
	rows    atomic.Int32 // number of hosts in a Status
	hosts   []string     // of the last Status
	lastEnd time.Time    // of a visit or look-up
	begun   weburl.URL   // of the last visit that began
	saving  bool         // all visits have ended, and the state is being saved
	over    bool         // the run has ended
	lastURL string       // of the last finish
	speed   speed        // of pages
	waited  string       // what a run waited for that was stopped before the first response
}

// PausedFor returns how long this run has been paused. Safe for concurrent use.
func (v *View) PausedFor() time.Duration { return time.Duration(v.shown.paused.Load()) }

// Watch makes each Status from now on have glimpses of up to n hosts. Zero means none. Safe for concurrent use.
func (v *View) Watch(n int) { v.shown.rows.Store(int32(n)) }

// watch returns glimpses of the hosts with the most links.
func (v *View) watch(now time.Time) []frontier.Glimpse {
	n := int(v.shown.rows.Load())
	if n <= 0 {
		v.shown.hosts = nil
		return nil
	}
	glimpses := v.parts.Frontier.Look(v.shown.hosts, n, now)
	v.shown.hosts = v.shown.hosts[:0]
	for _, g := range glimpses {
		v.shown.hosts = append(v.shown.hosts, strings.Clone(g.Host))
	}
	return glimpses
}

// waitsFor says in words what the crawl waits for. It is empty if a visit has ended lately and the agent neither stops
// nor leaves.
func (v *View) waitsFor(cs ClusterStatus, now time.Time) string {
	stopping := v.progress.stop != notStopping
	paused, _ := v.gate.Paused()
	switch {
	case v.shown.over:
		return ""
	case cs.Leaving != "" && !stopping:
		return cmp.Or(cs.Waits, cs.Leaving)
	case paused && !stopping && v.progress.underWay() == 0:
		return "the operator, who has paused the crawl"
	case v.shown.saving:
		return "the state to be saved"
	case !stopping && now.Sub(run.Later(v.shown.lastEnd, v.progress.began)) < idleAfter:
		return ""
	}
	return v.waits(cs, now)
}

// waits is waitsFor without regard to the end of the last visit.
func (v *View) waits(cs ClusterStatus, now time.Time) string {
	calls, since := v.visits.Handing()
	if held := now.Sub(since); calls > 0 && (held >= idleAfter || calls >= v.progress.underWay()) {
		return fmt.Sprintf("%s, for %s", cmp.Or(v.parts.PagesTo, "the program that receives the pages"), duration(held))
	}
	if g, ok := v.parts.Frontier.Oldest(false); ok && v.progress.busy > 0 {
		return fmt.Sprintf("%s, the oldest for %s: %s", english.Plural(v.progress.underWay(), "response", ""),
			duration(now.Sub(g.Since)), g.URL)
	}
	if g, ok := v.parts.Frontier.Oldest(true); ok && v.lookups.open > 0 {
		return fmt.Sprintf("the name server, for %s: the address of %s", duration(now.Sub(g.Since)), g.Host)
	}
	switch {
	case v.progress.stop != notStopping:
		return "other agents, which take over what only this agent knows"
	case !v.proxy.down.IsZero():
		return fmt.Sprintf("the proxy, which cannot be reached, for %s", duration(now.Sub(v.proxy.down)))
	}
	if text := v.obstacles.waitsFor(now); text != "" {
		return text
	}
	if v.progress.rests.After(now) {
		return fmt.Sprintf("the delay of all hosts after a restart, for %s", duration(v.progress.rests.Sub(now)))
	}
	if text := cmp.Or(claimed{v.cfg.Claim}.waits(), heldBack{v.cfg.Claim}.waits()); text != "" {
		return text
	}
	if held, _ := v.limits.space.backlogged(now); held {
		return v.limits.space.backlog(now)
	}
	if text := v.rateLimit.waitsFor(now); text != "" {
		return text
	}
	if text := v.waitsForTime(now); text != "" {
		return text
	}
	switch {
	case cs.Waits != "":
		return cs.Waits
	case cs.Moves != nil && cs.Moves.Held > 0:
		return "other agents: whether they have fetched pages of " + english.Plural(cs.Moves.Held, "host", "")
	case cs.Outgoing > 0:
		return "other agents: " + english.Plural(int(cs.Outgoing), "link", "") + " to send"
	case v.parts.Cluster.mustWait(now):
		return "other agents: this one has no URL left"
	}
	return ""
}

// waitsForTime says which time the crawl waits for: that of a host, of a retry or of a revisit. It is empty
// if there is none.
func (v *View) waitsForTime(now time.Time) string {
	text, at := "", time.Time{}
	if g, ok := v.parts.Frontier.Coming(now); ok {
		text, at = v.waitsForHost(g, now), g.Due
		if at.IsZero() {
			return text // a lease: nobody knows when it comes
		}
	}
	if d, some := v.book.Next(); some && (text == "" || d.At.Before(at)) {
		at = d.At
		failure, _ := v.book.Failure(d.Link.Key())
		kind := failure.Kind
		if kind == "" {
			kind = v.origins.Of(d.Link.URL).Cause() // of another of its URLs
		}
		if text = fmt.Sprintf("the next try of a URL that failed (%s), in %s: %s",
			kind, duration(at.Sub(now)), d.Link.URL); kind == "" {
			text = fmt.Sprintf("the robots.txt of %s, which is on another host", d.Link.URL.Origin())
		} else if kind == visit.RobotsUnreachable.String() {
			text = fmt.Sprintf("the robots.txt of %s, which cannot be fetched: next try in %s", d.Link.URL.Origin(),
				duration(at.Sub(now)))
		}
	}
	if !v.plan.Wake.IsZero() && (text == "" || v.plan.Wake.Before(at)) {
		text = fmt.Sprintf("the next page that is due again, in %s", duration(v.plan.Wake.Sub(now)))
	}
	return text
}

func (v *View) waitsForHost(g frontier.Glimpse, now time.Time) string {
	if g.Leased {
		return fmt.Sprintf("the lease of %s, for %s", g.Behind, duration(now.Sub(g.Since)))
	}
	in := duration(g.Due.Sub(now))
	kind := ""
	if u, err := weburl.Parse(g.URL); err == nil {
		failure, _ := v.book.Failure(link.KeyOf(u))
		kind = failure.Kind
	}
	switch {
	case kind != "":
		return fmt.Sprintf("%s, which failed (%s): next try in %s", g.Host, kind, in)
	case g.State == "paused":
		return fmt.Sprintf("%s, which needs a pause: next request in %s", g.Host, in)
	case g.Share:
		return fmt.Sprintf("the host share of %s: next request in %s", g.Host, in)
	case g.Behind != "":
		return fmt.Sprintf("the delay of %s: next request to %s in %s", g.Behind, g.Host, in)
	}
	return fmt.Sprintf("the delay of %s: next request in %s", g.Host, in)
}

// duration returns d for people, rounded up: 340 ms, 8 s, 2 min 5 s, 3 h 10 min.
func duration(d time.Duration) string {
	if d > 0 && d <= time.Second-time.Millisecond {
		return fmt.Sprintf("%d ms", (d+time.Millisecond-1)/time.Millisecond)
	}
	s := int64(max(d+time.Second-1, 0) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	}
	return fmt.Sprintf("%d h %d min", s/3600, s/60%60)
}
