package crawl

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A host may have several origins (scheme, host and port), and one of them may be dead while another one lives. So a
// robots.txt that cannot be fetched and a port that cannot be reached are matters of the origin: it fails, and backs
// off, while its host goes on. One of its URLs is tried after each back-off; the others wait beside the queues, however
// many they are. If it answers, they go back to their host's queue. After as many failures in a row as a URL has tries,
// they fail together. Then each further URL fails at once, except for one try after each back-off.
//
//	  a URL fails -> retry.Book -> after the back-off, first of its host -> answers: all go back
//	                                                                  -> fails: next back-off
//	other URLs, as they are due -> origin.waiting                     -> fails too often: all fail
//
// The failures of an origin are part of the state of its host in the journal, which other agents get with the host.

// origins are the origins that fail. The dispatcher owns them.
type origins struct {
	byHost map[string][]*origin
	n      int
	swept  time.Time // when origins were last forgotten because there were too many
	moving []*origin // whose waiting links go back to their host's queue, or fail
}

// An origin is one that has failed since its last answer.
type origin struct {
	name     string
	host     string
	failures int           // in a row
	dead     bool          // its URLs get no retries
	beside   bool          // another origin of its host answers
	tried    time.Time     // end of the last try
	took     time.Duration // of the last try
	until    time.Time     // no try before
	outcome  visit.Outcome // of the last try, for URLs that fail without one
	fail     *fetch.Failure
	next     bool // one of its URLs waits in the retry.Book, for the next try
	waiting  *frontier.Side
	moves    bool // it is in origins.moving
}

const (
	// besideShare bounds the part of a host's time that the tries of a failing origin take, if another origin of the
	// host answers: a twentieth, from the second try on. A try holds the whole host, because a host gets one request at
	// a time.
	besideShare = 20
	// originsMax bounds the origins that are remembered, unless links wait for more of them.
	originsMax = 1 << 16
	// moveSlice bounds the waiting links that are moved in one turn of the dispatcher.
	moveSlice = 256
)

// of returns the origin of u if it fails, otherwise nil.
func (o *origins) of(u weburl.URL) *origin {
	if o.n == 0 {
		return nil
	}
	for _, e := range o.byHost[u.Host()] {
		if e.name == u.Origin() {
			return e
		}
	}
	return nil
}

// need returns the origin of u, which fails.
func (o *origins) need(c *Crawler, u weburl.URL, now time.Time) *origin {
	if e := o.of(u); e != nil {
		return e
	}
	if o.n >= originsMax && now.Sub(o.swept) >= time.Minute {
		o.swept = now
		for _, list := range o.byHost {
			for _, e := range slices.Clone(list) {
				if e.waiting.Len() == 0 && !e.until.After(now) {
					o.forget(e)
				}
			}
		}
	}
	if o.byHost == nil {
		o.byHost = map[string][]*origin{}
	}
	e := &origin{name: strings.Clone(u.Origin()), host: strings.Clone(u.Host()), waiting: frontier.NewSide(c.Frontier)}
	o.byHost[e.host] = append(o.byHost[e.host], e)
	o.n++
	return e
}

// forget forgets e, which has no waiting links.
func (o *origins) forget(e *origin) {
	i := slices.Index(o.byHost[e.host], e)
	if i < 0 {
		return
	}
	o.byHost[e.host] = slices.Delete(o.byHost[e.host], i, i+1)
	if o.n--; len(o.byHost[e.host]) == 0 {
		delete(o.byHost, e.host)
	}
}

// A hold says what a failing origin means for one of its URLs that is due.
type hold uint8

const (
	visitIt hold = iota
	awaitIt      // it waits for the next try of another one
	failIt       // it fails without a try
)

// hold says what to do with a URL that was just taken from the frontier.
func (o *origins) hold(c *Crawler, t *frontier.Task, now time.Time) (*origin, hold) {
	l := &t.Link
	e := o.of(l.URL)
	if e == nil || !e.until.After(now) || visit.IsErrand(*l) || c.gate.Dropped(t.Host, t.Number) || c.withoutApp(l) ||
		c.hostFull(t.Host) {
		return e, visitIt
	}
	if _, plain := c.plain[e.name]; plain && l.Bare() {
		return e, visitIt // the http URL takes its place
	}
	if e.dead {
		return e, failIt
	}
	return e, awaitIt
}

// await lets t wait until its origin has been tried again, and returns when that is due. If no URL of the origin waits
// for that try, t does.
func (e *origin) await(c *Crawler, t *frontier.Task, now time.Time) (due time.Time) {
	k := t.Link.Key()
	attempt, number := t.Attempt+c.retries.Attempts(k), t.Number
	d := frontier.Done{NoRequest: true}
	if !e.next {
		c.retries.SetAttempts(k, 0)
		if !c.later(retry.Delayed{At: e.until, Link: t.Link, Number: c.retries.Number(k, number), Attempt: attempt,
			First: true}) {
			d.Again, d.Attempt, d.NotBefore = &t.Link, attempt, e.until
		}
		c.run.Fail(c.Frontier.Done(t.Host, d, now))
		return e.until
	}
	c.retries.SetAttempts(k, attempt)
	if !c.run.Fail(c.Frontier.Done(t.Host, d, now)) {
		c.run.Fail(e.waiting.Put(t.Link, number))
	}
	return e.until
}

// promote lets one of the waiting links be the next to try, if there is none.
func (e *origin) promote(c *Crawler) error {
	if e.next || e.dead || e.waiting.Len() == 0 {
		return nil
	}
	l, number, err := e.waiting.Take()
	if err != nil {
		return fmt.Errorf("frontier: %w", err)
	}
	k := l.Key()
	if c.later(retry.Delayed{At: e.until, Link: l, Number: c.retries.Number(k, number), Attempt: c.retries.Attempts(k),
		First: true}) {
		c.retries.SetAttempts(k, 0)
		return nil
	}
	return c.Frontier.PutBack(l, number)
}

// giveTo makes v the end of a URL that fails without a try.
func (e *origin) giveTo(v *visit.Attempt) {
	v.Outcome, v.Last, v.Untried = e.outcome, true, true
	if v.Response.Fail = e.fail; v.Response.Fail != nil {
		v.Response.Failure, v.Detail = v.Response.Fail.Kind, v.Response.Fail.Error()
	}
}

// patience returns how long a visit of u may take to connect; 0: as long as any.
func (o *origins) patience(u weburl.URL, now time.Time) time.Duration {
	if e := o.of(u); e != nil && e.beside {
		return max(visit.BesideConnect, now.Sub(e.tried)/besideShare)
	}
	return 0
}

// blames reports whether v is a failure of its origin.
func blames(v *visit.Attempt) bool {
	if visit.IsErrand(v.Task.Link) || v.Plain || v.Untried || v.ProxyDown() {
		return false
	}
	switch v.Outcome {
	case visit.RobotsUnreachable:
		return true
	case visit.Failed:
		switch v.Response.Failure {
		case fetch.Connect, fetch.ConnectTimeout, fetch.TLS, fetch.Proxy:
			return true
		}
	}
	return false
}

// settle records what an ended visit tells about its origin, and about the others of its host.
func (o *origins) settle(c *Crawler, v *visit.Attempt, now time.Time) {
	u := v.Task.Link.URL
	switch {
	case blames(v):
		o.failed(c, v, now)
		return
	case v.Untried || v.ProxyDown() || v.Outcome.SaysNothing() || visit.IsErrand(v.Task.Link):
		return
	case v.Outcome == visit.Prerequisite && !v.Plain && c.Robots.Ask(u, now).Verdict == robots.Unreachable:
		e := o.need(c, u, now) // settleRobots counts the failure
		e.tried, e.took = now, v.Response.Took
		return
	case v.Outcome == visit.Prerequisite && v.Response.Failure == 0, v.Outcome == visit.Fetched:
		if o.n == 0 {
			return
		}
		failed := false
		for _, e := range o.byHost[u.Host()] {
			if e.name != u.Origin() {
				e.beside = true
			} else {
				failed = e.failures > 0
				e.failures, e.dead, e.until = 0, false, time.Time{}
			}
		}
		if failed {
			o.record(c, u.Host(), now)
		}
	}
	o.open(o.of(u))
}

// failed counts a failure of v's origin, and says when to try it again.
func (o *origins) failed(c *Crawler, v *visit.Attempt, now time.Time) {
	u := v.Task.Link.URL
	e := o.need(c, u, now)
	before := e.failures
	e.outcome, e.fail = v.Outcome, v.Response.Fail
	if v.Outcome == visit.RobotsUnreachable {
		entry, _ := c.Robots.Entry(e.name)
		e.failures = max(e.failures, int(entry.Failures))
		if entry.Class == robots.ClassUnreachable && c.Tally.HostPages(u.Host()) > 0 {
			e.beside = true // its own robots.txt was never read
		}
	} else {
		e.tried, e.took = now, v.Response.Took
		e.failures++
		if !v.Response.Fail.Retryable() {
			e.failures = max(e.failures, c.cfg.Retries+1)
		}
	}
	// v.until is when the robots cache will ask again.
	e.until = laterOf(v.Robots.Until, now.Add(c.jitter(visit.Backoff(c.cfg.RetryWait, e.failures-1))))
	if e.beside {
		e.until = laterOf(e.until, e.tried.Add(min(besideShare*e.took, time.Hour)))
	}
	v.Robots.Until = e.until
	if e.failures != before {
		o.record(c, e.host, now)
	}
	if e.failures <= c.cfg.Retries {
		if c.visits.Final(v) && !c.run.Failed() { // another URL is the next to try
			c.run.Fail(e.promote(c))
		}
		return
	}
	v.Last = v.Last || !c.visits.Final(v) // if it has had all its tries, it fails because of these
	if !e.dead {
		c.Events.Write("origin-in-trouble", report.F("origin", e.name), report.F("kind", v.Reason()),
			report.F("failures", e.failures), report.F("waiting", e.waiting.Len()))
	}
	e.dead = true
	o.move(e)
}

// giveUp makes further URLs of v's origin fail: its robots.txt cannot be fetched, and time will not change that.
func (o *origins) giveUp(c *Crawler, v *visit.Attempt, now time.Time) {
	e := o.need(c, v.Task.Link.URL, now)
	e.failures, e.dead = max(e.failures, c.cfg.Retries+1), true
	e.outcome, e.fail, e.tried, e.took = visit.RobotsUnreachable, nil, now, v.Response.Took
	e.until = c.Robots.Ask(v.Task.Link.URL, now).Until
	o.record(c, e.host, now)
	o.move(e)
}

// awaitRobots lets the URLs of v's origin wait until its robots.txt has been fetched from another host, and returns
// when to look.
func (o *origins) awaitRobots(c *Crawler, v *visit.Attempt, now time.Time) time.Time {
	e := o.need(c, v.Task.Link.URL, now)
	e.until = laterOf(e.until, now.Add(errandWait))
	return e.until
}

// open lets the waiting links of e go back to their host's queue. e may be nil.
func (o *origins) open(e *origin) {
	switch {
	case e == nil:
	case e.waiting.Len() > 0:
		o.move(e)
	case e.failures == 0:
		o.forget(e)
	}
}

func (o *origins) move(e *origin) {
	if !e.moves && e.waiting.Len() > 0 {
		e.moves = true
		o.moving = append(o.moving, e)
	}
}

// openHost opens all origins of a host whose links must not wait for a try, because there may be none.
func (o *origins) openHost(host string) {
	for _, e := range slices.Clone(o.byHost[host]) {
		o.open(e)
	}
}

// withdraw withdraws the waiting links of a host.
func (o *origins) withdraw(host string) {
	for _, e := range o.byHost[host] {
		e.waiting.Withdraw()
		e.next = false
	}
}

// moveSome moves some of the waiting links that need not wait any more. It reports whether it has moved any.
func (o *origins) moveSome(c *Crawler, now time.Time) (any bool) {
	if len(o.moving) == 0 || c.stop != notStopping || c.run.Failed() {
		return false
	}
	for left := moveSlice; left > 0 && len(o.moving) > 0 && !c.run.Failed(); {
		e := o.moving[0]
		if e.waiting.Len() == 0 || !e.dead && e.until.After(now) && !c.gate.Blocked(e.host) {
			e.moves = false
			o.moving = slices.Delete(o.moving, 0, 1)
			if e.failures == 0 {
				o.forget(e)
			}
			continue
		}
		left--
		any = true
		l, number, err := e.waiting.Take()
		if err == nil && e.dead {
			o.fail(c, e, l, number, now)
		} else if err == nil {
			err = c.Frontier.PutBack(l, number)
		}
		if err != nil {
			c.run.Fail(fmt.Errorf("frontier: %w", err))
		}
	}
	c.append()
	return any
}

// fail finishes a waiting link of a dead origin.
func (o *origins) fail(c *Crawler, e *origin, l link.Link, number uint64, now time.Time) {
	k := l.Key()
	t := frontier.Task{Link: l, Host: l.URL.Host(), Number: c.retries.Number(k, number), Attempt: c.retries.Attempts(k)}
	c.retries.SetAttempts(k, 0)
	v := c.visits.New(t)
	v.Plan().Before = c.revisiting[k]
	e.giveTo(v)
	c.finish(v, now)
	c.visits.Recycle(v)
}

// explain says, for people, which origins of a host fail, and when the first of their waiting links may be visited.
func (o *origins) explain(host string, now time.Time) (lines string, next time.Time) {
	for _, e := range o.byHost[host] {
		if e.failures == 0 {
			continue // it has answered, and its links go back to the queue
		}
		lines += fmt.Sprintf("  %s: %s in a row (%s)", e.name, english.Plural(e.failures, "failure", ""), e.cause())
		switch n := e.waiting.Len(); {
		case e.dead:
			lines += "; its URLs fail without a retry"
		case n > 0:
			lines += fmt.Sprintf("; %s wait%s for its next try", links(n), verbEnding(n))
			next = earlier(next, laterOf(e.until, now))
		}
		if e.until.After(now) {
			lines += "; no try before " + e.until.UTC().Format(time.RFC3339)
		}
		lines += "\n"
	}
	return lines, next
}
