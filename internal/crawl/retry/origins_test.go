package retry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	tries   = 3
	oneWait = 10 * time.Second
)

var start = time.Unix(1e9, 0).UTC()

// blocked are the hosts that the operator has blocked.
type blocked []string

func (b blocked) Blocked(host string) bool { return slices.Contains(b, host) }

// newOrigins returns Origins with parts of their own, and no loop.
func newOrigins(t *testing.T, hosts ...string) *Origins {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	fs := testdisk.NewMem()
	f, err := frontier.Open(fs, "/queues", frontier.Config{NoAddresses: true, Gather: true})
	must(err)
	events, err := report.OpenEvents(fs, "/events.jsonl", clock.System)
	must(err)
	must(fs.MkdirAll("/journal", 0o755))
	j, err := journal.Open(fs, "/journal", journal.Config{})
	must(err)
	t.Cleanup(func() { _ = errors.Join(f.Close(), events.Close(), j.Close()) })
	cfg := visit.Config{Retries: tries - 1, RetryWait: oneWait}.WithDefaults()
	r := run.New()
	o := NewOrigins(cfg, Parts{Run: r, Book: NewBook(1), Frontier: f, Tally: report.NewTally(), Events: events,
		Robots: robots.NewCache(robots.Config{Agent: "orbweaver"}), Visits: visit.New(cfg, visit.Parts{}, 1),
		Gate: blocked(hosts), Ledger: ledger.New(ledger.Config{}, ledger.Parts{Run: r, Journal: j})})
	return &o
}

func attempt(url string) *visit.Attempt {
	v := new(visit.Attempt)
	v.Reset(frontier.Task{Link: link.Link{URL: weburl.MustParse(url), Hops: "L"}})
	return v
}

// fails makes v a visit that could not connect, after a second.
func fails(v *visit.Attempt) *visit.Attempt {
	v.Outcome, v.Response.Took = visit.Failed, time.Second
	v.Response.Fail = &fetch.Failure{Kind: fetch.Connect, Err: errors.New("refused")}
	v.Response.Failure = v.Response.Fail.Kind
	return v
}

// A loop visits the URLs of origins that are down until a time.
type loop struct {
	*testing.T
	o     *Origins
	now   time.Time
	up    map[string]time.Time   // from when on an origin answers
	tried map[string][]time.Time // real tries that have failed
	ended map[string]string      // how each URL has ended
}

// settle does with an ended visit what a crawl loop does.
func (c *loop) settle(v *visit.Attempt) {
	l, o := v.Task.Link, c.o
	d := frontier.Done{NoRequest: v.Untried}
	o.Book.SetAttempts(l.Key(), 0)
	o.Settle(v, c.now)
	if o.Visits.Final(v) {
		c.end(v)
	} else if !o.Later(Delayed{At: v.Robots.Until, Link: l, Number: v.Task.Number, Attempt: v.Task.Attempt + 1,
		First: true}) {
		c.Fatal("there is no room beside the queues")
	}
	o.Run.Fail(o.Frontier.Done(l.URL.Host(), d, c.now))
}

func (c *loop) end(v *visit.Attempt) {
	url := v.Task.Link.URL.String()
	if how := c.ended[url]; how != "" {
		c.Fatalf("%s has ended: %s, and ends again", url, how)
	}
	c.ended[url] = v.Outcome.String()
	c.o.Book.Forget(v.Task.Link.Key())
}

// turn visits what is due, and returns when more is.
func (c *loop) turn() (wake time.Time) {
	o := c.o
	o.Release(c.now)
	for {
		t, due, ok := o.Frontier.Next(c.now)
		if !ok {
			if d, ok := o.Book.Next(); ok {
				due = run.Earlier(due, d.At)
			}
			return run.Earlier(wake, due)
		}
		e, held := o.Hold(t.Link.URL, c.now)
		if held == AwaitIt {
			wake = run.Earlier(wake, o.Await(e, &t, c.now))
			continue
		}
		k := t.Link.Key()
		t.Attempt, t.Number = t.Attempt+o.Book.Attempts(k), o.Book.Number(k, t.Number)
		v := new(visit.Attempt)
		v.Reset(t)
		switch name := t.Link.URL.Origin(); {
		case held == FailIt:
			e.GiveTo(v)
		case c.up[name].After(c.now):
			fails(v)
			v.Last = e.Dead()
			c.tried[name] = append(c.tried[name], c.now)
		}
		c.settle(v)
	}
}

// Random webs with origins that are down for a while or for ever, beside others of the same host: each URL ends once,
// those of an origin that answers are fetched, and a failing origin is tried no sooner than after each back-off.
func TestOrigins(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 0))
	for range 40 {
		c := &loop{T: t, o: newOrigins(t), now: start, up: map[string]time.Time{}, tried: map[string][]time.Time{},
			ended: map[string]string{}}
		var links []link.Link
		var numbers []uint64
		for h := range 1 + rng.IntN(4) {
			for port := range 1 + rng.IntN(3) {
				origin := fmt.Sprintf("http://h%d.example:%d", h, 8000+port)
				c.up[origin] = start.Add(time.Duration(rng.IntN(3)) * time.Duration(rng.IntN(100)) * time.Second)
				if rng.IntN(4) == 0 {
					c.up[origin] = start.Add(24 * time.Hour)
				}
				for n := range rng.IntN(600) {
					u := weburl.MustParse(fmt.Sprintf("%s/%d", origin, n))
					links, numbers = append(links, link.Link{URL: u, Hops: "L"}), append(numbers, uint64(len(links)+1))
				}
			}
		}
		if err := c.o.Frontier.PushAt(links, numbers); err != nil {
			t.Fatal(err)
		}
		for range 20_000 {
			wake := c.turn()
			if c.o.MoveSome(c.now, func(task frontier.Task, by *Origin, _ time.Time) {
				v := new(visit.Attempt)
				v.Reset(task)
				by.GiveTo(v)
				c.end(v)
			}) {
				continue
			}
			if wake.IsZero() {
				break
			}
			c.now = run.Later(c.now, wake)
		}
		if err := c.o.Run.Err(); err != nil || len(c.ended) != len(links) || c.o.Frontier.Pending() > 0 {
			t.Fatalf("%d of %d URLs have ended, %d are pending: %v", len(c.ended), len(links),
				c.o.Frontier.Pending(), err)
		}
		for _, l := range links {
			origin := l.URL.Origin()
			if how := c.ended[l.URL.String()]; how != "fetched" && len(c.tried[origin]) < tries {
				t.Fatalf("%s has ended: %s, after %d tries of its origin", l.URL, how, len(c.tried[origin]))
			}
		}
		for origin, at := range c.tried {
			for i := range at[1:] {
				least := visit.Backoff(oneWait, i) * 9 / 10
				if gap := at[i+1].Sub(at[i]); gap < least {
					t.Fatalf("%s is tried again after %s, at the earliest after %s", origin, gap, least)
				}
			}
		}
	}
}

// A failure to connect, and a robots.txt that cannot be fetched, are matters of the origin; others are not.
func TestBlames(t *testing.T) {
	with := func(change func(v *visit.Attempt)) *visit.Attempt {
		v := fails(attempt("http://a.example/"))
		change(v)
		return v
	}
	kind := func(k fetch.Kind) func(v *visit.Attempt) {
		return func(v *visit.Attempt) { v.Response.Failure = k }
	}
	for name, c := range map[string]struct {
		v    *visit.Attempt
		want bool
	}{
		"connect":         {with(kind(fetch.Connect)), true},
		"connect timeout": {with(kind(fetch.ConnectTimeout)), true},
		"TLS":             {with(kind(fetch.TLS)), true},
		"proxy":           {with(kind(fetch.Proxy)), true},
		"broken":          {with(kind(fetch.Broken)), false},
		"idle":            {with(kind(fetch.IdleTimeout)), false},
		"robots.txt":      {with(func(v *visit.Attempt) { v.Outcome = visit.RobotsUnreachable }), true},
		"fetched":         {with(func(v *visit.Attempt) { v.Outcome = visit.Fetched }), false},
		"untried":         {with(func(v *visit.Attempt) { v.Untried = true }), false},
		"http instead":    {with(func(v *visit.Attempt) { v.Plain = true }), false},
		"errand":          {with(func(v *visit.Attempt) { v.Task.Link.Hops = "P" }), false},
		"the proxy is down": {with(func(v *visit.Attempt) {
			v.Response.Fail = &fetch.Failure{Kind: fetch.Proxy, Err: fetch.ErrProxyDown}
		}), false},
	} {
		if got := Blames(c.v); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// What another agent or an earlier run says of the origins of a host is taken over, as far as it can be true, and is
// told in the same words.
func TestRestoredOrigins(t *testing.T) {
	const own = "http://a.example:8080"
	connect := fetch.Connect.String()
	soon, far := start.Add(time.Second), start.Add(1e5*time.Hour)
	for _, c := range []struct {
		name string
		s    frontier.OriginState
		want string // cause, failures and time to wait
	}{
		{"connect", frontier.OriginState{Origin: own, Cause: connect, Failures: 2, Until: soon}, connect + " 2 1s"},
		{"robots.txt", frontier.OriginState{Origin: own, Cause: "robots-unreachable", Failures: 1, Until: soon},
			"robots-unreachable 1 1s"},
		{"an unknown cause", frontier.OriginState{Origin: own, Cause: "x", Failures: 2, Until: soon},
			connect + " 2 1s"},
		{"in the past", frontier.OriginState{Origin: own, Cause: connect, Failures: 1}, connect + " 1 0s"},
		{"far away", frontier.OriginState{Origin: own, Cause: connect, Failures: 2, Until: far}, connect + " 2 20s"},
		{"many failures", frontier.OriginState{Origin: own, Cause: connect, Failures: 255, Until: far},
			connect + " 255 1h0m0s dead"},
		{"no failure", frontier.OriginState{Origin: own, Cause: connect}, ""},
		{"another host", frontier.OriginState{Origin: "http://b.example", Cause: connect, Failures: 1}, ""},
		{"no origin", frontier.OriginState{Origin: own + "/path", Cause: connect, Failures: 1}, ""},
		{"no URL", frontier.OriginState{Origin: "\x00", Cause: connect, Failures: 1}, ""},
	} {
		o := newOrigins(t)
		o.Restore(&frontier.HostState{Host: "a.example", Origins: []frontier.OriginState{c.s}}, start)
		got := ""
		for _, s := range o.States("a.example") {
			e := o.Of(weburl.MustParse(s.Origin + "/"))
			got = fmt.Sprintf("%s %d %s", s.Cause, s.Failures, max(s.Until.Sub(start), 0))
			if e.Dead() {
				got += " dead"
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	o := newOrigins(t)
	st := &frontier.HostState{Host: "a.example"}
	for port := range frontier.MaxOrigins + 5 {
		st.Origins = append(st.Origins, frontier.OriginState{Origin: fmt.Sprintf("http://a.example:%d", 8000+port),
			Cause: connect, Failures: uint8(port + 1)})
	}
	o.Restore(st, start)
	if all := o.States("a.example"); len(all) != frontier.MaxOrigins || all[0].Failures != frontier.MaxOrigins+5 {
		t.Errorf("%d origins are told, the first with %d failures", len(all), all[0].Failures)
	}
	fewer := &frontier.HostState{Host: "a.example", Origins: []frontier.OriginState{
		{Origin: "http://a.example:8009", Cause: connect, Failures: 1, Until: soon}}}
	if o.Restore(fewer, start); o.States("a.example")[11].Failures != 10 {
		t.Error("fewer failures have replaced more")
	}
	o.ForgetHost("a.example")
	if o.n != 0 || len(o.States("a.example")) > 0 {
		t.Errorf("%d origins are left", o.n)
	}
}

// The origins that are remembered are bounded, unless they must still wait.
func TestOriginsAreBounded(t *testing.T) {
	o := newOrigins(t)
	for n := range originsMax + 1 {
		o.need(weburl.MustParse(fmt.Sprintf("http://h%d.example/", n)), start).failures = 1
	}
	if o.n != 1 {
		t.Errorf("%d origins are remembered", o.n)
	}
}

// A dead origin fails its URLs at once until its next try. An answer ends that, and the waiting links go on.
func TestDeadOrigin(t *testing.T) {
	o := newOrigins(t)
	u := weburl.MustParse("http://a.example/")
	if e, held := o.Hold(u, start); e != nil || held != VisitIt {
		t.Fatal("an origin without failures holds its URLs")
	}
	now := start
	for n := range tries {
		v := fails(attempt(u.String()))
		if o.Settle(v, now); n+1 < tries {
			if _, held := o.Hold(u, now); held != AwaitIt || v.Last {
				t.Errorf("after %d failures: %d, last: %t", n+1, held, v.Last)
			}
		} else if e, held := o.Hold(u, now); held != FailIt || !e.Dead() || !v.Last {
			t.Errorf("after %d failures: %d, dead: %t, last: %t", n+1, held, e.Dead(), v.Last)
		}
		now = v.Robots.Until
	}
	e, held := o.Hold(u, now)
	if held != VisitIt {
		t.Error("a dead origin is not tried when its back-off is over")
	}
	untried := attempt(u.String())
	if e.GiveTo(untried); !untried.Untried || untried.Reason() != fetch.Connect.String() || Blames(untried) {
		t.Errorf("a URL fails without a try: %+v", untried.Response)
	}
	if lines, _ := o.Explain("a.example", start); !strings.Contains(lines,
		"http://a.example: 3 failures in a row (connect); its URLs fail without a retry; no try before ") {
		t.Errorf("explained as %q", lines)
	}
	o.Settle(attempt("http://a.example:8080/"), now) // another origin of the host answers
	for later, want := range map[time.Duration]time.Duration{0: visit.BesideConnect, time.Hour: 3 * time.Minute} {
		if within := o.Patience(u, e.tried.Add(later)); within != want {
			t.Errorf("%s after a try, the next one may take %s to connect, want %s", later, within, want)
		}
	}
	if o.Settle(attempt(u.String()), now); o.Of(u) != nil || len(o.States("a.example")) > 0 {
		t.Error("an origin that answers still fails")
	}
}

// The links that wait for a try are counted, and leave with their host.
func TestWaitingLinks(t *testing.T) {
	o := newOrigins(t, "a.example")
	var links []link.Link
	for n := range 5 {
		links = append(links, link.Link{URL: weburl.MustParse(fmt.Sprint("http://a.example/", n)), Hops: "L"})
	}
	if err := o.Frontier.PushAt(links, []uint64{1, 2, 3, 4, 5}); err != nil {
		t.Fatal(err)
	}
	o.Settle(fails(attempt("http://a.example/x")), start)
	for {
		task, _, ok := o.Frontier.Next(start)
		if !ok {
			break
		}
		e, held := o.Hold(task.Link.URL, start)
		if held != AwaitIt {
			t.Fatalf("%s is visited", task.Link.URL)
		}
		o.Await(e, &task, start)
	}
	if n := o.Waiting("a.example"); n != 5 || o.Book.Waiting() != 1 {
		t.Errorf("%d links wait, %d of them for the try", n, o.Book.Waiting())
	}
	o.OpenHost("a.example") // it is blocked, so that no try may come
	for o.MoveSome(start, nil) {
	}
	if n := o.Waiting("a.example"); n != 1 {
		t.Errorf("%d links wait although none may be tried", n)
	}
	if err := o.Withdraw("a.example"); err != nil || o.Waiting("a.example") != 0 || o.Frontier.Stats().Withdrawn != 1 {
		t.Errorf("withdrawn: %v, %d wait, %d withdrawn", err, o.Waiting("a.example"), o.Frontier.Stats().Withdrawn)
	}
}
