package retry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
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
//	  a URL fails -> Book -> after the back-off, first of its host -> answers: all go back
//	                                                                  -> fails: next back-off
//	other URLs, as they are due -> Origin.waiting                     -> fails too often: all fail
//
// The failures of an origin are part of the state of its host in the journal, which other agents get with the host.

// A Gate answers: has the operator blocked this host? Then no try of its origins may come.
type Gate interface{ Blocked(host string) bool }

// Parts are the parts that Origins use.
type Parts struct {
	Run      *run.Run
	Book     *Book
	Frontier *frontier.Frontier
	Robots   *robots.Cache
	Tally    *report.Tally
	Events   *report.Events
	Visits   *visit.Pool
	Gate     Gate
	Ledger   *ledger.Ledger
}

// Origins are the origins that fail.
type Origins struct {
	Parts
	retries int           // of a URL
	wait    time.Duration // before the first of them

	byHost map[string][]*Origin
	n      int
	swept  time.Time // when origins were last forgotten because there were too many
	moving []*Origin // whose waiting links go back to their host's queue, or fail
}

// NewOrigins returns Origins of which none fails.
func NewOrigins(cfg visit.Config, parts Parts) Origins {
	return Origins{Parts: parts, retries: cfg.Retries, wait: cfg.RetryWait, byHost: map[string][]*Origin{}}
}

// An Origin is one that has failed since its last answer.
type Origin struct {
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
	next     bool // one of its URLs waits in the Book, for the next try
	waiting  *frontier.Side
	moves    bool // it is in Origins.moving
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

// Of returns the origin of u if it fails, otherwise nil.
func (o *Origins) Of(u weburl.URL) *Origin {
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
func (o *Origins) need(u weburl.URL, now time.Time) *Origin {
	if e := o.Of(u); e != nil {
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
	e := &Origin{name: strings.Clone(u.Origin()), host: strings.Clone(u.Host()), waiting: frontier.NewSide(o.Frontier)}
	o.byHost[e.host] = append(o.byHost[e.host], e)
	o.n++
	return e
}

// forget forgets e, which has no waiting links.
func (o *Origins) forget(e *Origin) {
	i := slices.Index(o.byHost[e.host], e)
	if i < 0 {
		return
	}
	o.byHost[e.host] = slices.Delete(o.byHost[e.host], i, i+1)
	if o.n--; len(o.byHost[e.host]) == 0 {
		delete(o.byHost, e.host)
	}
}

// A Hold says what a failing origin means for one of its URLs that is due.
type Hold uint8

const (
	// VisitIt is a URL that is visited.
	VisitIt Hold = iota
	// AwaitIt is a URL that waits for the next try of another one.
	AwaitIt
	// FailIt is a URL that fails without a try.
	FailIt
)

// Hold says what to do with a URL that is due. The origin is nil if it does not fail.
func (o *Origins) Hold(u weburl.URL, now time.Time) (*Origin, Hold) {
	e := o.Of(u)
	switch {
	case e == nil || !e.until.After(now):
		return e, VisitIt
	case e.dead:
		return e, FailIt
	}
	return e, AwaitIt
}

// Await lets t, just taken from the frontier, wait until its origin e has been tried again, and returns when that is
// due. If no URL of the origin waits for that try, t does.
func (o *Origins) Await(e *Origin, t *frontier.Task, now time.Time) (due time.Time) {
	k := t.Link.Key()
	attempt, number := t.Attempt+o.Book.Attempts(k), t.Number
	d := frontier.Done{NoRequest: true}
	if !e.next {
		o.Book.SetAttempts(k, 0)
		if !o.Later(Delayed{At: e.until, Link: t.Link, Number: o.Book.Number(k, number), Attempt: attempt,
			First: true}) {
			d.Again, d.Attempt, d.NotBefore = &t.Link, attempt, e.until
		}
		o.Run.Fail(o.Frontier.Done(t.Host, d, now))
		return e.until
	}
	o.Book.SetAttempts(k, attempt)
	if !o.Run.Fail(o.Frontier.Done(t.Host, d, now)) {
		o.Run.Fail(e.waiting.Put(t.Link, number))
	}
	return e.until
}

// promote lets one of the waiting links be the next to try, if there is none.
func (o *Origins) promote(e *Origin) error {
	if e.next || e.dead || e.waiting.Len() == 0 {
		return nil
	}
	l, number, err := e.waiting.Take()
	if err != nil {
		return fmt.Errorf("frontier: %w", err)
	}
	k := l.Key()
	if o.Later(Delayed{At: e.until, Link: l, Number: o.Book.Number(k, number), Attempt: o.Book.Attempts(k),
		First: true}) {
		o.Book.SetAttempts(k, 0)
		return nil
	}
	return o.Frontier.PutBack(l, number)
}

// GiveTo makes v the end of a URL that fails without a try.
func (e *Origin) GiveTo(v *visit.Attempt) {
	v.Outcome, v.Last, v.Untried = e.outcome, true, true
	if v.Response.Fail = e.fail; v.Response.Fail != nil {
		v.Response.Failure, v.Detail = v.Response.Fail.Kind, v.Response.Fail.Error()
	}
}

// Patience returns how long a visit of u may take to connect; 0: as long as any.
func (o *Origins) Patience(u weburl.URL, now time.Time) time.Duration {
	if e := o.Of(u); e != nil && e.beside {
		return max(visit.BesideConnect, now.Sub(e.tried)/besideShare)
	}
	return 0
}

// Blames reports whether v is a failure of its origin.
func Blames(v *visit.Attempt) bool {
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

// Settle records what an ended visit tells about its origin, and about the others of its host.
func (o *Origins) Settle(v *visit.Attempt, now time.Time) {
	u := v.Task.Link.URL
	switch {
	case Blames(v):
		o.failed(v, now)
		return
	case v.Untried || v.ProxyDown() || v.Outcome.SaysNothing() || visit.IsErrand(v.Task.Link):
		return
	case v.Outcome == visit.Prerequisite && !v.Plain && o.Robots.Ask(u, now).Verdict == robots.Unreachable:
		e := o.need(u, now) // the caller counts the failure
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
			o.Record(u.Host())
		}
	}
	o.Open(o.Of(u))
}

// failed counts a failure of v's origin, and says when to try it again.
func (o *Origins) failed(v *visit.Attempt, now time.Time) {
	u := v.Task.Link.URL
	e := o.need(u, now)
	before := e.failures
	e.outcome, e.fail = v.Outcome, v.Response.Fail
	if v.Outcome == visit.RobotsUnreachable {
		entry, _ := o.Robots.Entry(e.name)
		e.failures = max(e.failures, int(entry.Failures))
		if entry.Class == robots.ClassUnreachable && o.Tally.HostServes(u.Host()) {
			e.beside = true // its own robots.txt was never read
		}
	} else {
		e.tried, e.took = now, v.Response.Took
		e.failures++
		if !v.Response.Fail.Retryable() {
			e.failures = max(e.failures, o.retries+1)
		}
	}
	// v.until is when the robots cache will ask again.
	e.until = run.Later(v.Robots.Until, now.Add(o.Book.Jitter(visit.Backoff(o.wait, e.failures-1))))
	if e.beside {
		e.until = run.Later(e.until, e.tried.Add(min(besideShare*e.took, time.Hour)))
	}
	v.Robots.Until = e.until
	if e.failures != before {
		o.Record(e.host)
	}
	if e.failures <= o.retries {
		if o.Visits.Final(v) && !o.Run.Failed() { // another URL is the next to try
			o.Run.Fail(o.promote(e))
		}
		return
	}
	v.Last = v.Last || !o.Visits.Final(v) // if it has had all its tries, it fails because of these
	if !e.dead {
		o.Events.Write("origin-in-trouble", report.F("origin", e.name), report.F("kind", v.Reason()),
			report.F("failures", e.failures), report.F("waiting", e.waiting.Len()))
	}
	e.dead = true
	o.move(e)
}

// GiveUp makes further URLs of v's origin fail: its robots.txt cannot be fetched, and time will not change that.
func (o *Origins) GiveUp(v *visit.Attempt, now time.Time) {
	e := o.need(v.Task.Link.URL, now)
	e.failures, e.dead = max(e.failures, o.retries+1), true
	e.outcome, e.fail, e.tried, e.took = visit.RobotsUnreachable, nil, now, v.Response.Took
	e.until = o.Robots.Ask(v.Task.Link.URL, now).Until
	o.Record(e.host)
	o.move(e)
}

// robotsWait is how long a URL waits for a robots.txt from another host before the crawl looks again.
const robotsWait = time.Second

// AwaitRobots lets the URLs of v's origin wait until its robots.txt has been fetched from another host, and returns
// when to look.
func (o *Origins) AwaitRobots(v *visit.Attempt, now time.Time) time.Time {
	e := o.need(v.Task.Link.URL, now)
	e.until = run.Later(e.until, now.Add(robotsWait))
	return e.until
}

// Open lets the waiting links of e go back to their host's queue. e may be nil.
func (o *Origins) Open(e *Origin) {
	switch {
	case e == nil:
	case e.waiting.Len() > 0:
		o.move(e)
	case e.failures == 0:
		o.forget(e)
	}
}

func (o *Origins) move(e *Origin) {
	if !e.moves && e.waiting.Len() > 0 {
		e.moves = true
		o.moving = append(o.moving, e)
	}
}

// OpenHost opens all origins of a host whose links must not wait for a try, because there may be none.
func (o *Origins) OpenHost(host string) {
	for _, e := range slices.Clone(o.byHost[host]) {
		o.Open(e)
	}
}

// Later lets a URL wait beside the queues, unless there are too many.
func (o *Origins) Later(d Delayed) bool {
	if !o.Book.Put(d) {
		return false
	}
	if e := o.Of(d.Link.URL); d.First && e != nil {
		e.next = true
	}
	return true
}

// Release puts due retries back into their hosts' queues, and returns when the next one is due.
func (o *Origins) Release(now time.Time) (next time.Time) {
	for !o.Run.Failed() {
		d, next, ok := o.Book.Due(now)
		if !ok {
			return next
		}
		if d.First {
			if e := o.Of(d.Link.URL); e != nil {
				e.next = false
			}
			o.Run.Fail(o.Frontier.PushFront(d.Link))
		} else {
			o.Run.Fail(o.Requeue(d.Link, d.Number))
		}
	}
	return time.Time{}
}

// Requeue puts a link to the end of its queue. The link was accepted before, or is visited again. number is the number
// of its accept, or 0 if the URL is finished.
func (o *Origins) Requeue(l link.Link, number uint64) error {
	o.Book.SetNumber(l.Key(), number)
	return o.Frontier.PushAt([]link.Link{l}, []uint64{o.Ledger.Accepted()})
}

// Waiting counts the links of a host that wait for a retry, or for that of another URL, outside of the queues.
func (o *Origins) Waiting(host string) (n int64) {
	for range o.Book.Of(host) {
		n++
	}
	for _, e := range o.byHost[host] {
		n += e.waiting.Len()
	}
	return n
}

// Withdraw moves these links to the frontier, as withdrawn.
func (o *Origins) Withdraw(host string) error {
	for _, e := range o.byHost[host] {
		e.waiting.Withdraw()
		e.next = false
	}
	return o.Frontier.PushWithdrawn(o.Book.Withdraw(host))
}

// MoveSome moves some of the waiting links that need not wait any more. Those of a dead origin, which are in no queue
// then, are given to fail, which must finish them. It reports whether it has moved any.
func (o *Origins) MoveSome(now time.Time, fail func(t frontier.Task, by *Origin, now time.Time)) (any bool) {
	if len(o.moving) == 0 || o.Run.Stopping() {
		return false
	}
	for left := moveSlice; left > 0 && len(o.moving) > 0 && !o.Run.Failed(); {
		e := o.moving[0]
		if e.waiting.Len() == 0 || !e.dead && e.until.After(now) && !o.Gate.Blocked(e.host) {
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
			k := l.Key()
			t := frontier.Task{Link: l, Host: l.URL.Host(), Number: o.Book.Number(k, number)}
			t.Attempt = o.Book.Attempts(k)
			o.Book.SetAttempts(k, 0)
			fail(t, e, now)
		} else if err == nil {
			err = o.Frontier.PutBack(l, number)
		}
		if err != nil {
			o.Run.Fail(fmt.Errorf("frontier: %w", err))
		}
	}
	o.Run.Fail(o.Ledger.Append())
	return any
}

// Explain says, for people, which origins of a host fail, and when the first of their waiting links may be visited.
func (o *Origins) Explain(host string, now time.Time) (lines string, next time.Time) {
	for _, e := range o.byHost[host] {
		if e.failures == 0 {
			continue // it has answered, and its links go back to the queue
		}
		lines += fmt.Sprintf("  %s: %s in a row (%s)", e.name, english.Plural(e.failures, "failure", ""), e.Cause())
		switch n := e.waiting.Len(); {
		case e.dead:
			lines += "; its URLs fail without a retry"
		case n > 0:
			lines += fmt.Sprintf("; %s %s for its next try", english.Plural(int(n), "link", ""),
				english.PluralWord(int(n), "waits", "wait"))
			next = run.Earlier(next, run.Later(e.until, now))
		}
		if e.until.After(now) {
			lines += "; no try before " + e.until.UTC().Format(time.RFC3339)
		}
		lines += "\n"
	}
	return lines, next
}
