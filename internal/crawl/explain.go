package crawl

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
)

// Explain returns every reason why host is not being crawled now, and when it will be, as text for people. Safe for
// concurrent use while Run runs; ctx bounds the wait.
func (v *View) Explain(ctx context.Context, host string) (string, error) {
	return v.run.Command(ctx, "explain", host, func(now time.Time) (string, error) {
		return v.explainHost(host, now).text, nil
	})
}

// A hostTurn is the explanation of a host. The dispatcher makes it.
type hostTurn struct {
	frontier.Explanation
	text    string
	blocks  []string    // which blocks hold
	crawl   []Hindrance // of the crawl as a whole
	limited bool        // the rate holds the crawl back
	perS    float64     // visits that the agent begins a second; 0: not known
	retry   time.Time   // of the first of its URLs that failed; zero: none
	now     time.Time
}

func (v *View) explainHost(host string, now time.Time) (t hostTurn) {
	t = hostTurn{Explanation: v.parts.Frontier.Explain(host, now), blocks: v.gate.WhyBarred(host),
		crawl: v.hindrances(now), perS: v.shown.speed.rate, now: now}
	if t.limited, _ = v.rateLimit.tooFast(now); t.limited {
		t.perS = v.parts.Rate.Pace()
	}
	e := &t.Explanation
	v.explainEmpty(e)
	if i := slices.Index(e.Reasons, frontier.HostBlocked); i >= 0 {
		if e.Reasons = slices.Delete(e.Reasons, i, i+1); len(t.blocks) == 0 {
			e.Reasons = append(e.Reasons, heldForOthers)
		}
	}
	if i := slices.Index(e.Reasons, frontier.TurnNext); i >= 0 && len(t.crawl) > 0 {
		e.Reasons[i] = "its turn is next, as soon as the crawl goes on: see below"
	}
	s := e.String() + v.delays.explain(host, now) + v.delays.explainPace(host)
	if limit := v.limits.ofHost(host); limit > 0 {
		s += fmt.Sprintf("  pages: %d of at most %d (host-page-limit)\n", v.limits.pages(host), limit)
		if v.limits.full(host) {
			s += "  its other URLs are finished without a visit\n"
		}
	}
	switch agent, mine := v.parts.Cluster.peek(host); {
	case agent != "" && !mine:
		s = host + " is crawled by agent " + agent + "; ask that agent for more. This agent knows:\n" + s
	case !mine:
		s += "  it is not known yet which agent crawls the host\n"
	}
	const most = 10 // URLs in the text
	failed := 0
	for d := range v.book.Of(host) {
		t.retry = run.Earlier(t.retry, d.At)
		if _, known := v.book.Failure(d.Link.Key()); !known {
			s += "  " + d.Link.URL.String() + " waits for its robots.txt, which is on another host\n"
		} else if failed++; failed <= most {
			s += "  " + d.Link.URL.String() + " failed; next try at " + d.At.UTC().Format(time.RFC3339) + "\n"
		}
	}
	if failed > most {
		s += fmt.Sprintf("  and %d more that failed and will be tried again\n", failed-most)
	}
	if n := v.parts.Frontier.Stats().Aside; n > 0 {
		s += "  " + links(n) + " of all hosts " + english.PluralWord(int(n), "is", "are") +
			" set aside by exclusions; some may be of this host\n"
	}
	origins, next := v.origins.Explain(host, now)
	s += origins
	t.retry = run.Earlier(t.retry, next)
	for _, why := range t.blocks {
		s += "  blocked by " + why + "\n"
	}
	if n := v.book.FailedLookUps(host); n > 0 {
		s += "  failed look-ups in a row: " + strconv.Itoa(n) + "\n"
	}
	if e.Queued > 0 || !t.retry.IsZero() || t.busy() {
		s += "  when: " + t.when(0) + "\n"
	}
	if len(t.crawl) > 0 {
		s += "the crawl:\n"
		for _, h := range t.crawl {
			s += "  " + h.Text + "\n"
		}
	}
	t.text = s
	return t
}

// heldForOthers is the reason for a host that is blocked although no Bar holds for it.
const heldForOthers = "held until other agents have told which of its pages they have fetched"

// until returns the events that must come before a visit of the host, in plain words.
func (t *hostTurn) until() (events []string) {
	if len(t.blocks) > 0 {
		events = append(events, "after the block is lifted")
	} else if t.State == "blocked" {
		events = append(events, "when the other agents have answered")
	}
	for _, h := range t.crawl {
		if h.Until != "" {
			events = append(events, h.Until)
		}
	}
	return events
}

// when says when the next link of the host is fetched, or the link after a number of others.
func (t *hostTurn) when(others int) string {
	until := t.until()
	at := run.Later(t.Due, t.now)
	if t.Queued == 0 {
		at = run.Later(at, t.retry)
	}
	for _, h := range t.crawl {
		at = run.Later(at, h.Ends)
	}
	switch {
	case t.busy() && others == 0:
		return "now: a visit has begun" + t.andThen(until)
	case len(until) > 0 && at.After(t.now):
		return strings.Join(until, ", and ") + ", but not before " + t.clock(at)
	case len(until) > 0:
		return strings.Join(until, ", and ")
	case t.Open && at.After(t.now):
		return "not before " + t.clock(at) + ", and when what is named above has ended"
	case t.Open:
		return "when what is named above has ended"
	case t.Behind > 0 && t.perS == 0:
		return "after " + english.Plural(t.Behind, "visit", "") + " of other hosts; how long they take is not known yet"
	}
	about := ""
	if t.Behind > 0 {
		about = "about "
		at = at.Add(time.Duration(float64(t.Behind) / t.perS * float64(time.Second)))
	}
	if others > 0 {
		about = "about "
		at = at.Add(time.Duration(others) * max(t.Delay, time.Duration(t.gap()*float64(time.Second))))
	}
	if !at.After(t.now) {
		return "at once"
	}
	return about + t.clock(at)
}

// gap returns the time between two visits of this agent in seconds, if the rate decides it; otherwise 0.
func (t *hostTurn) gap() float64 {
	if t.limited && t.perS > 0 {
		return 1 / t.perS
	}
	return 0
}

// andThen says what keeps a visit that has begun from sending its request.
func (t *hostTurn) andThen(until []string) string {
	if len(until) > 0 || t.limited {
		return "; if it has not sent its request yet, it waits like the crawl"
	}
	return ""
}

func (t *hostTurn) busy() bool { return t.State == "fetching" || t.State == "resolving" }

// clock returns a time, and how far it is from now.
func (t *hostTurn) clock(at time.Time) string {
	return at.UTC().Format("2006-01-02 15:04:05Z") + ", in " + duration(at.Sub(t.now))
}

// hindrances returns all reasons why the crawl as a whole does not fetch now, or fetches less.
func (v *View) hindrances(now time.Time) (all []Hindrance) {
	cs := v.parts.Cluster.status(now)
	for _, o := range slices.Concat(v.obstacles.ofRound, v.obstacles.ofVisit) {
		if held, _ := o.Holds(now); held {
			all = append(all, o.Why(now))
		}
	}
	add := func(format string, a ...any) { all = append(all, Hindrance{Text: fmt.Sprintf(format, a...)}) }
	if cs.Leaving != "" && v.progress.stop == notStopping {
		all = append(all, Hindrance{Text: "this agent leaves the crawl: it waits for " + cs.Leaving,
			Until: "when another agent has taken over the host"})
	}
	if !v.proxy.down.IsZero() {
		add("the proxy cannot be reached for %s; each URL is tried again after about %s",
			duration(now.Sub(v.proxy.down)), duration(v.cfg.RetryWait))
	}
	calls, since := v.visits.Handing()
	if calls > 0 && (now.Sub(since) >= idleAfter || calls >= v.progress.underWay()) {
		add("%s for %s: %s", english.Plural(calls, "page waits", "pages wait"), duration(now.Sub(since)),
			cmp.Or(v.parts.PagesTo, "the program that receives the pages"))
	}
	if m := cs.Moves; m != nil && m.Held > 0 {
		add("%s held until other agents have told which of their pages they have fetched",
			english.Plural(m.Held, "host is", "hosts are"))
	}
	if names := v.apps.Held(); len(names) > 0 {
		add("the links of %s wait: %d or more of its pages wait to be collected", english.WordSeries(names, "and"),
			v.cfg.Uncollected)
	}
	return all
}

// NothingAccepted is what Explain says of a host of which no link has been accepted.
const NothingAccepted = "this agent has accepted no URL of the host: no link leads there, or it is out of scope"

// explainEmpty completes the explanation of a host without a link in its queue: the host is finished, or it was never
// found, or its links may be elsewhere. The frontier forgets such hosts; the counts of the reports do not.
func (v *View) explainEmpty(e *frontier.Explanation) {
	if e.State != "unknown" && e.State != "empty" || v.origins.Waiting(e.Host) > 0 {
		return
	}
	why := func(text string) { e.Reasons = append(e.Reasons, text) }
	urls, s := v.parts.Tally.HostURLs(e.Host), v.parts.Frontier.Stats()
	if urls > 0 {
		why(fmt.Sprintf("finished so far: %s, %s", report.Count(urls, "URL"),
			report.Count(v.parts.Tally.HostPages(e.Host), "page")))
	}
	switch {
	case v.parts.Seen.Holds():
		why("links in state/seen wait for the answer whether they are known; some may be of this host")
	case s.Aside > 0: // Explain says it
		if urls > 0 {
			e.State = "finished or excluded"
		}
	case s.Withdrawn > 0:
		why("dropped links are being finished; some may be of this host")
	case s.Pooled > 0: // the frontier has said it
	case urls > 0:
		e.State = "finished"
		if v.plan.Planner != nil {
			why("the strategy may visit them again")
		}
	case e.State == "unknown":
		why(NothingAccepted)
	}
	if text := (heldBack{v.cfg.Claim}).elsewhere(); text != "" && urls == 0 {
		why("links of it may be in " + text)
	}
}

// links returns a number of links in words.
func links(n int64) string { return english.Plural(int(n), "link", "") }
