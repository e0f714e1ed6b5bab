package retry

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func newFailures() *Failures {
	return &Failures{Tally: report.NewTally(), Rules: robots.NewCache(robots.Config{Agent: "orbweaver"})}
}

// A robots.txt that could not be fetched is the cause of the URLs that need it, also from another host, until it was
// fetched.
func TestCausesOfRobots(t *testing.T) {
	fetched := func(status int, failure fetch.Kind, detail string) *visit.Attempt {
		v := attempt("http://a.example/robots.txt")
		v.Outcome, v.Response.Status, v.Response.Failure, v.Detail = visit.Prerequisite, status, failure, detail
		return v
	}
	for _, c := range []struct {
		v    *visit.Attempt
		want string
	}{
		{fetched(503, 0, ""), "robots.txt: status 503"}, {fetched(429, 0, ""), "robots.txt: status 429"},
		{fetched(200, 0, "cut off"), "robots.txt: cut off"}, {fetched(404, 0, ""), ""}, {fetched(200, 0, ""), ""},
		{fetched(0, fetch.Connect, "connect: refused"), "robots.txt: refused"},
		{fetched(0, fetch.Refused, "private address"), "robots.txt: " + fetch.Refused.String() + ": private address"},
	} {
		n := newFailures()
		n.RobotsFailed("http://a.example", "before")
		n.NoteRobotsAt("http://b.example", "http://a.example")
		n.NoteRobots(c.v)
		unreachable := func(url string) string {
			v := attempt(url)
			v.Outcome = visit.RobotsUnreachable
			return n.CauseOf(v)
		}
		if got := unreachable("http://a.example/1"); got != c.want {
			t.Errorf("%d %v %q: %q, want %q", c.v.Response.Status, c.v.Response.Failure, c.v.Detail, got, c.want)
		}
		if got, want := unreachable("http://b.example/1"), strings.Replace(c.want, ":", " on a.example:",
			1); got != want {
			t.Errorf("from another host: %q, want %q", got, want)
		}
		if got := unreachable("http://c.example/1"); got != "" {
			t.Errorf("of a host without one: %q", got)
		}
	}
}

// A cause is without its kind and short, whatever a server sends.
func TestCausesAreBounded(t *testing.T) {
	n := newFailures()
	v := fails(attempt("http://a.example/"))
	for detail, want := range map[string]string{"connect: refused": "refused", "no\x00thing": "nothing",
		strings.Repeat("x", 999): strings.Repeat("x", maxCause)} {
		if v.Detail = detail; n.CauseOf(v) != want {
			t.Errorf("%.20q: %.20q", detail, n.CauseOf(v))
		}
	}
	if v = attempt("http://a.example/"); n.CauseOf(v) != "" {
		t.Errorf("a page has failed: %q", n.CauseOf(v))
	}
	for i := range maxRobotsTrouble + 5 {
		n.RobotsFailed("http://a.example:"+string(rune('a'+i%26))+strings.Repeat("x", i/26), "why")
	}
	if n.RobotsFailed("http://last.example", "why"); len(n.robots) != maxRobotsTrouble {
		t.Errorf("%d origins are kept", len(n.robots))
	}
}

// The operator learns of the seeds that brought no page, and of the last failure before the first response.
func TestFailedSeeds(t *testing.T) {
	seed, page := link.Link{URL: weburl.MustParse("http://a.example/")}, attempt("http://a.example/1").Task.Link
	redirected := link.Link{URL: weburl.MustParse("http://b.example/"), Via: "http://a.example/", Hops: "R"}
	app := seed
	app.SetApp("news", "")
	for _, c := range []struct {
		name   string
		link   link.Link
		code   int
		flags  uint16
		failed bool
	}{
		{"dns", seed, report.CodeDNS, 0, true}, {"target of a redirect", redirected, report.CodeDNS, 0, true},
		{"forbidden", seed, report.CodeRobotsDenied, 0, true}, {"answer", seed, 404, 0, true},
		{"page", page, report.CodeDNS, 0, false}, {"application", app, report.CodeDNS, 0, false},
		{"dropped", seed, report.CodeDeletedByUser, 0, false}, {"quota", seed, report.CodeQuota, 0, false},
		{"robots.txt", seed, report.CodeDNS, 1, false},
	} {
		n := newFailures()
		v := fails(attempt("http://a.example/"))
		v.Task.Link, v.Detail = c.link, "connect: refused"
		if c.code == report.CodeRobotsDenied {
			v.Outcome, v.Robots.Rule = visit.Denied, "Disallow: /"
		}
		f := state.Finish{Link: c.link, Code: c.code, Kind: "connect", Cause: "refused"}
		if c.flags > 0 {
			f.Flags |= state.FlagRobots
		}
		n.NoteSeed(v, &f)
		n.Finished(&f, false)
		first, count := n.Seeds()
		if again := len(n.Again()) == 1; (count == 1) != c.failed || again != (c.failed && c.code < 0) ||
			len(first) != int(count) {
			t.Errorf("%s: %d have failed, again %v", c.name, count, again)
		}
		if c.failed && (first[0].URL != c.link.URL || first[0].Via != c.link.Via || first[0].Code != c.code ||
			(first[0].Cause == "Disallow: /") != (c.code == report.CodeRobotsDenied)) {
			t.Errorf("%s: %+v", c.name, first[0])
		}
	}
	n := newFailures()
	v := fails(attempt("http://a.example/1"))
	if n.NoteFailure(v); n.Last() == nil || n.Last().Kind != "connect" {
		t.Errorf("the last failure: %+v", n.Last())
	}
	n.Tally.Add(report.Visit{Code: 200, Host: "b.example"})
	before := n.Last()
	if n.NoteFailure(fails(attempt("http://c.example/"))); n.Last() != before {
		t.Errorf("after a response: %+v", n.Last())
	}
	for range maxFailedSeeds + 5 {
		n.NoteSeed(v, &state.Finish{Link: seed, Code: report.CodeDNS})
	}
	if first, count := n.Seeds(); len(first) != maxFailedSeeds || count != maxFailedSeeds+5 {
		t.Errorf("%d of %d seeds are listed", len(first), count)
	}
}

// The failed seeds outlive a restart. One that is taken back does not count, and its robots.txt is read again. After
// one gave a page none is tried again.
func TestFailedSeedsOutliveRuns(t *testing.T) {
	n := newFailures()
	var seeds []link.Link
	for _, u := range []string{"http://a.example/", "http://b.example/"} {
		l := link.Link{URL: weburl.MustParse(u), Seed: "a.example"}
		seeds = append(seeds, l)
		n.Finished(&state.Finish{Link: l, Code: report.CodeDNS}, false)
	}
	restarted := func() *Failures {
		again := newFailures()
		must.Do(t, n.Save(func(kind byte, p []byte) error {
			p = bytes.Clone(p)
			err := again.Load(kind, p)
			clear(p) // its memory is used again
			return err
		}, time.Now()))
		return again
	}
	next := restarted()
	if !slices.EqualFunc(next.Again(), n.Again(), bytes.Equal) || len(next.Again()) != 2 {
		t.Fatalf("after a restart: %q, before: %q", next.Again(), n.Again())
	}
	next.Rules.Learn(seeds[0].URL, seeds[0].URL, robots.Reply{Status: 404}, time.Now())
	must.Do(t, next.Load(state.Again, seeds[0].AppendTo(nil)))
	if next.Rules.Ask(seeds[0].URL, time.Now()).Verdict != robots.Fetch || len(next.Again()) != 1 {
		t.Errorf("after one was taken back, %d are tried again", len(next.Again()))
	}
	if must.Do(t, next.Load(state.Again, seeds[0].AppendTo(nil))); len(next.Again()) != 1 {
		t.Error("a seed whose finish did not survive takes another one away")
	}
	if _, err := next.TakeBack([]byte{1}); !errors.Is(err, link.ErrDamaged) {
		t.Errorf("damaged bytes: %v", err)
	}
	next.Tally.Add(report.Visit{Code: 200, Host: "b.example", Page: true})
	if len(next.Again()) != 1 {
		t.Error("seeds are not tried again after a page of a sitemap")
	}
	next.Tally.Add(report.Visit{Code: 200, Host: "b.example", Page: true, FromSeed: true})
	if next.Again() != nil {
		t.Error("seeds are tried again after one gave a page")
	}
	kinds := []byte{}
	for _, k := range next.Kinds() {
		kinds = append(kinds, k.Kind)
	}
	if !slices.Equal(kinds, []byte{state.Failed, state.Again}) {
		t.Errorf("kinds %q", kinds)
	}
}
