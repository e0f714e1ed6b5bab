package crawl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Past is what the logs and the archive have of a URL.
type Past struct {
	Finished string       // its last finish, for people; empty: none was found
	Skipped  *report.Skip // the last refusal of a link to it; nil: none was found
}

// queueWait bounds how long ExplainURL reads the queue.
const queueWait = 3 * time.Second

const notRead = "the queue was not read to its end within 3 s"

// ExplainURL returns every reason why a URL is not being fetched now, and when it will be, and the same of its host, as
// text for people. It looks for the URL in the journal, beside the dispatcher, for a bounded time. past is asked about
// a URL that does not wait. Safe for concurrent use while Run runs; ctx bounds the wait.
func (v *View) ExplainURL(ctx context.Context, u weburl.URL, past func(u weburl.URL) Past) (string, error) {
	e := urlTurn{u: u}
	if _, err := v.run.Command(ctx, "explain", u.String(), func(now time.Time) (string, error) {
		e.ask(v, now)
		return "", nil
	}); err != nil {
		return "", err
	}
	if e.accepted {
		err := e.look(ctx, v)
		if errors.Is(err, ErrNotRunning) || err != nil && ctx.Err() != nil {
			return "", err
		}
		e.unread = err != nil
	}
	if len(e.places) == 0 && past != nil {
		e.past = past(u)
	}
	return e.String(v) + e.host.text, nil
}

// A urlTurn is the explanation of a URL.
type urlTurn struct {
	u         weburl.URL
	host      hostTurn
	open      bool   // a visit to it has begun
	accepted  bool   // it may have been accepted; false: it was not
	unsure    bool   // the seen-set has not answered for some links
	saved     string // states of other agents that may have it; "": none
	elsewhere int64  // pages of its host that other agents have fetched
	again     bool   // a Planner wants it again
	retry     retry.Failure
	later     time.Time // of its next try, outside of the queues; zero: none
	origin    time.Time // no URL of its origin is tried before; zero: at any time
	robots    robots.Answer
	full      bool // its host has as many pages as its limit allows
	parts     bool // the run has all of its pages, and fetches their files
	places    []place
	waiting   int64 // links of its host that wait
	unread    bool  // the queue was not read to its end
	past      Past
}

// A place is that of a link to the URL among the links of its host.
type place struct {
	link  link.Link
	nth   int64 // from 1
	ahead int64 // of its level
}

// ask collects what the dispatcher knows without reading the disk for it.
func (e *urlTurn) ask(v *View, now time.Time) {
	e.host = v.explainHost(e.u.Host(), now)
	e.open = e.host.busy() && e.host.Next == e.u.String()
	e.robots = v.parts.Robots.Ask(e.u, now)
	e.origin = v.origins.Of(e.u).NextTry(now)
	e.full, e.parts = v.limits.full(e.u.Host()), v.limits.parts()
	e.unsure = v.parts.Seen.Holds()
	e.saved = heldBack{v.cfg.Claim}.elsewhere()
	e.elsewhere = v.parts.Cluster.pagesElsewhere(e.u.Host())
	links := []link.Link{{URL: e.u}}
	for _, app := range v.apps.All() {
		l := link.Link{URL: e.u}
		l.SetApp(app.Name, "")
		links = append(links, l)
	}
	keys := v.ledger.Keys()
	for _, l := range links {
		k := l.Key()
		e.accepted = e.accepted || v.parts.Seen.MayHave(keys.Of(k, false))
		if done, ok := keys.Finish(k); ok { // by another agent
			e.accepted = e.accepted || v.parts.Seen.MayHave(done)
		}
		if r, ok := v.book.Failure(k); ok {
			e.retry = r
		}
		e.again = e.again || v.plan.Before(k) != nil
	}
	l := link.Link{URL: e.u}
	if v.parts.Cluster.direct(&l); l.Ext != "" { // its key is that of a destination
		e.accepted = true
	}
	for d := range v.book.All() {
		if d.Link.URL == e.u {
			e.later = d.At
		}
	}
}

// look finds the URL among the links that wait, and counts those of its host that come before it.
func (e *urlTurn) look(ctx context.Context, v *View) error {
	short, cancel := context.WithTimeout(ctx, queueWait)
	defer cancel()
	var before [256]int64 // links of the host so far, by level
	host := e.u.Host()
	err := v.readQueue(short, func(l *link.Link, enc []byte) error {
		if l.URL.Host() != host || visit.IsErrand(*l) {
			return nil
		}
		if l.URL == e.u {
			own, _, err := link.Decode(bytes.Clone(enc)) // l is valid only here
			if err != nil {
				return err
			}
			e.places = append(e.places, place{link: own, ahead: before[l.Level]})
		}
		if l.URL == e.u || !v.gate.Excludes(l) {
			e.waiting++
			before[l.Level]++
		}
		return nil
	})
	for i := range e.places {
		p := &e.places[i]
		p.nth = 1 + p.ahead
		for level := int(p.link.Level) + 1; level < len(before); level++ {
			p.nth += before[level]
		}
	}
	return err
}

// String returns lines, one for each fact.
func (e *urlTurn) String(v *View) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, "  "+format+"\n", a...) }
	excluded := ""
	link := link.Link{URL: e.u, Hops: "L", Seed: e.u.Host()}
	if len(e.places) > 0 {
		link = e.places[0].link
	}
	if why := v.gate.WhyExcluded(&link); why != "" {
		excluded = why
	}
	fmt.Fprintf(&b, "%s: %s\n", e.u, e.state(excluded))
	for _, p := range e.places {
		e.tellPlace(line, &p)
	}
	if len(e.places) == 0 {
		e.tellPast(line)
	}
	if excluded != "" {
		line("excluded by %s", excluded)
	}
	in := true
	if !e.waits() && !e.isFinished() {
		if in = tellScope(line, v.parts.Scope, link); !in {
			in = v.tellApps(line, link)
		}
	}
	if in && !e.isFinished() {
		e.tellRobots(line)
	}
	if e.full && !e.again {
		line("its host has as many pages as its page limit allows: it is finished without a visit")
	}
	if e.waits() && !e.open {
		line("when: %s", e.when(excluded))
	}
	return b.String()
}

func (e *urlTurn) waits() bool { return e.open || len(e.places) > 0 || !e.later.IsZero() || e.again }

// isFinished reports that the URL is finished, as far as that is known.
func (e *urlTurn) isFinished() bool {
	return !e.waits() && (e.past.Finished != "" || e.accepted && !e.unread)
}

// leaves reports that the URL waits because the run has as many pages as its limit.
func (e *urlTurn) leaves() bool {
	return e.parts && !e.open && len(e.places) > 0 && !link.IsFile(e.places[0].link.Hops)
}

func (e *urlTurn) state(excluded string) string {
	switch {
	case e.open && e.host.State == "resolving":
		return "a visit has begun; the address of its host is being looked up"
	case e.open:
		return "a visit has begun"
	case excluded != "" && e.waits():
		return "set aside until its exclusion ends"
	case !e.later.IsZero():
		return "failed, and waits for its next try"
	case e.waits() && e.retry.Kind != "":
		return "failed, and waits for its next try in the queue"
	case len(e.places) > 0 && !e.origin.IsZero():
		return "waits until its origin has been tried again"
	case e.again && len(e.places) == 0:
		return "finished, and waits to be visited again"
	case e.leaves():
		return "waits for a run with a higher page limit"
	case e.waits():
		return "waits for its turn"
	case e.past.Finished != "":
		return "finished"
	case e.unread:
		return "accepted; whether it waits or is finished is not known: " + notRead
	case e.accepted:
		return "finished"
	case e.unsure:
		return "not accepted yet, if a link to it was found at all"
	}
	return "not known: no link to it was accepted"
}

func (e *urlTurn) tellPlace(line func(string, ...any), p *place) {
	if !e.open && e.later.IsZero() && !e.unread {
		line("place: %s of %s of its host that %s", humanize.Ordinal(int(p.nth)),
			english.Plural(int(e.waiting), "link", ""), english.PluralWord(int(e.waiting), "waits", "wait"))
	}
	what, depth := "a seed", english.Plural(p.link.Depth(), "link", "")
	switch l := &p.link; {
	case l.IsGuess():
		what = "where sites usually have their sitemap; robots.txt names none"
	case l.IsSitemap() && l.Via == "":
		what = "a sitemap that the setting sitemaps names"
	case l.IsSitemap():
		what = fmt.Sprintf("a sitemap that %s names", l.Via)
	case strings.HasSuffix(l.Hops, "M"):
		what = fmt.Sprintf("listed in the sitemap %s, %s from a seed", l.Via, depth)
	case l.Hops != "":
		what = fmt.Sprintf("found on %s, %s from a seed", l.Via, depth)
	}
	if app := p.link.App(); app != "" {
		what += ", for application " + app
	}
	line("%s", what)
	if e.leaves() {
		line("this run has as many pages as its page limit, and fetches only their files")
	}
	if e.retry.Kind != "" {
		line("last failure: %s", failureText(e.retry.Kind))
	}
}

// failureText returns a kind of failure with its meaning.
func failureText(kind string) string {
	if text := report.ErrorText(kind); text != kind {
		return kind + " (" + text + ")"
	}
	return kind
}

func (e *urlTurn) tellPast(line func(string, ...any)) {
	switch {
	case e.past.Finished != "":
		line("%s", e.past.Finished)
	case e.isFinished():
		line("its visit is older than the part of crawl.log that is searched, and it is not in the archive")
	}
	if e.unsure && !e.isFinished() && !e.waits() {
		line("links in state/seen wait for the answer whether they are known; it may be one of them")
	}
	if e.saved != "" && !e.isFinished() && !e.waits() {
		line("a link to it may be in %s", e.saved)
	}
	if e.elsewhere > 0 && e.past.Finished == "" {
		line("other agents have fetched %s of its host before, and it may be one of them",
			report.Count(e.elsewhere, "page"))
	}
	if s := e.past.Skipped; s != nil && !e.isFinished() {
		why := cmp.Or(report.ReasonText(s.Reason, s.Rule), s.Reason)
		link := link.Link{Hops: s.Hops}
		via := "a seed"
		if s.Via != "" {
			via = fmt.Sprintf("the link on %s, %s from a seed", s.Via, english.Plural(link.Depth(), "link", ""))
		}
		line("%s was not followed: %s (%s)", via, why, s.Reason)
	}
}

// tellScope says what would become of a link to the URL, and reports whether it is in scope.
func tellScope(line func(string, ...any), s *scope.Scope, l link.Link) (in bool) {
	if s.Judge(l).In {
		depth := ""
		if d := s.Describe(); d.Depth >= 0 {
			depth = fmt.Sprintf(", if it is at most %s from a seed", english.Plural(d.Depth, "link", ""))
		}
		line("if a page links to it, the crawl accepts it%s", depth)
		return true
	}
	line("if a page links to it, the crawl does not follow the link:")
	for _, rule := range s.Explain(l) {
		if strings.Contains(rule, ": out, ") && !strings.HasPrefix(rule, "verdict: ") {
			line("  %s", rule)
		}
	}
	return false
}

// tellApps names the applications that would follow a link to the URL on a page of theirs, and reports whether there
// are any.
func (v *View) tellApps(line func(string, ...any), l link.Link) (some bool) {
	for _, app := range v.apps.All() {
		if app.Scope.Judge(l).In {
			line("if a page of the application %s links to it, the application accepts it", app.Name)
			some = true
		}
	}
	return some
}

func (e *urlTurn) tellRobots(line func(string, ...any)) {
	switch a := &e.robots; a.Verdict {
	case robots.Denied:
		line("robots.txt disallows it: line %d, %q; its turn finishes it without a visit", a.Line, a.Rule)
	case robots.Unreachable:
		line("robots.txt cannot be fetched: no visit before %s", e.host.clock(a.Until))
	case robots.Fetch:
		line("robots.txt: not read yet; it is fetched first (%s)", a.Fetch)
	default:
		if a.Rule != "" {
			line("robots.txt allows it: line %d, %q", a.Line, a.Rule)
		} else {
			line("robots.txt allows it")
		}
	}
}

// when says when the URL is fetched.
func (e *urlTurn) when(excluded string) string {
	if excluded != "" {
		return strings.Join(append([]string{"after the exclusion is taken back"}, e.host.until()...), ", and ")
	}
	others, host := 0, e.host
	switch {
	case e.leaves():
		return "in a run with a higher page limit"
	case !e.later.IsZero():
		host.retry, host.Queued, host.Behind = e.later, 0, 0
	case e.unread:
		return "not known: " + notRead
	case len(e.places) > 0:
		others = int(e.places[0].nth - 1)
		if host.busy() && others > 0 {
			others-- // the one that is being fetched
		}
	default:
		return "when the strategy wants it again"
	}
	if e.robots.Verdict == robots.Unreachable {
		host.Due = run.Later(host.Due, e.robots.Until)
	}
	host.Due = run.Later(host.Due, e.origin)
	if host.busy() {
		host.State, others = "resting", others+1
	}
	return host.when(others)
}
