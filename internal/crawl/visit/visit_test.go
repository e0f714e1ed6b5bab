package visit

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// What one attempt brings, and what the server was asked for meanwhile. The robots.txt comes first, and the page only
// if it allows the page.
func TestVisit(t *testing.T) {
	seeded := func(c *Config, _ *Parts) { c.SeedRoots = true }
	tries := func(n int) func(*Attempt) { return func(v *Attempt) { v.Task.Attempt = n } }
	for _, c := range []struct {
		name, web string
		with      func(*Config, *Parts)
		link      link.Link
		attempt   func(*Attempt)
		want      string
		requests  string
		archived  string
	}{
		{name: "page", web: "http://a.example/p /1 http://c.example/ nofollow:/2 http://b.example/",
			link:     to("http://a.example/p"),
			want:     "fetched 200 +LL:a.example/1 +LL:b.example/ -outOfScope:c.example/ -nofollow:a.example/2",
			requests: "a.example/robots.txt a.example/p",
			archived: "response"},
		{name: "forbidden", web: "http://a.example/robots.txt robots=User-agent:_*;Disallow:_/p",
			link: to("http://a.example/p"),
			with: seeded, want: "denied +LI:a.example/", requests: "a.example/robots.txt"},
		{name: "no robots.txt", web: "http://a.example/robots.txt 503", link: to("http://a.example/p"), with: seeded,
			want: "robots-unreachable", requests: "a.example/robots.txt"},
		{name: "gone", web: "http://a.example/p 410 /1", link: to("http://a.example/p"), want: "fetched 410",
			requests: "a.example/robots.txt a.example/p", archived: "response"},
		{name: "too many requests", web: "http://a.example/p 429 retry-after=7 /1", link: to("http://a.example/p"),
			want: "fetched 429", requests: "a.example/robots.txt a.example/p"},
		{name: "too many requests, last try", web: "http://a.example/p 429 retry-after=7 /1",
			link: to("http://a.example/p"), attempt: tries(4),
			want: "fetched 429", requests: "a.example/robots.txt a.example/p", archived: "response"},
		{name: "no answer", web: "http://a.example/p reset", link: to("http://a.example/p"), want: "failed",
			requests: "a.example/robots.txt a.example/p"},
		{name: "redirect", web: "http://a.example/p 301 to=/q /1", link: to("http://a.example/p"),
			want:     "fetched 301 +LR:a.example/q",
			requests: "a.example/robots.txt a.example/p", archived: "response"},
		{name: "redirect to itself", web: "http://a.example/p 301 to=/p", link: to("http://a.example/p"),
			want:     "fetched 301 -redirectLoop:a.example/p (redirect-loop)",
			requests: "a.example/robots.txt a.example/p", archived: "response"},
		{name: "bad redirect", web: "http://a.example/p 301 to=http://[", link: to("http://a.example/p"),
			want:     "fetched 301 (bad-redirect)",
			requests: "a.example/robots.txt a.example/p", archived: "response"},
		{name: "long chain", web: "http://a.example/p 301 to=/q",
			link:     link.Link{URL: weburl.MustParse("http://a.example/p"), Hops: "LRR"},
			with:     func(c *Config, _ *Parts) { c.MaxRedirects = 2 },
			want:     "fetched 301 -tooManyRedirects:a.example/q (too-many-redirects)",
			requests: "a.example/robots.txt a.example/p", archived: "response"},
		{name: "removed application", link: appLink("news", "http://a.example/p"), want: "dropped"},
	} {
		on(t, c.name, c.web, c.with, func(b *bench) {
			attempt := func(v *Attempt) {
				if c.attempt != nil {
					c.attempt(v)
				}
			}
			v := b.visited(c.link, attempt)
			if got := told(v); got != c.want || b.requests() != c.requests {
				b.Errorf("%s, asked for %s\nwant %s, asked for %s", got, b.requests(), c.want, c.requests)
			}
			if got := b.archived(c.link.URL.String()); got != c.archived || v.Record.Archived != (c.archived != "") {
				b.Errorf("archived %q, told %v; want %q", got, v.Record.Archived, c.archived)
			}
		})
	}
}

func appLink(app, url string) link.Link {
	l := to(url)
	l.SetApp(app, "http://a.example/")
	return l
}

// An answer that asks for a pause says how long, and that the host is slow.
func TestPausesOfServers(t *testing.T) {
	for words, want := range map[string]time.Duration{"429 retry-after=7": 7 * time.Second, "503": 0,
		"301 to=/q retry-after=9": 9 * time.Second, "200 retry-after=9": 0} {
		on(t, words, "http://a.example/p "+words, nil, func(b *bench) {
			v := b.visited(to("http://a.example/p"))
			if slow := strings.HasPrefix(words, "429") || words == "503"; v.Response.RetryAfter != want ||
				v.Response.Slow != slow {
				b.Errorf("retry after %s, slow %v; want %s, %v", v.Response.RetryAfter, v.Response.Slow, want, slow)
			}
		})
	}
}

// A robots.txt on another host becomes an errand, which is fetched in the queue of that host, and answers for both
// origins. What another agent has read on the origin itself says nothing about it: it is read once.
func TestRobotsElsewhere(t *testing.T) {
	for name, note := range map[string]uint64{"alone": 0, "read otherwise by another agent": 77} {
		on(t, name, "http://a.example/robots.txt 301 to=http://b.example/robots.txt\n"+
			"http://b.example/robots.txt robots=User-agent:_*;Disallow:_/p;Crawl-delay:_3", nil, func(b *bench) {
			b.note = note
			v := b.visited(to("http://a.example/p"))
			errand := v.Robots.Errand
			if v.Outcome != Elsewhere || !IsErrand(errand) || errand.URL.Host() != "b.example" {
				b.Fatalf("%s, errand %v", told(v), errand)
			}
			v = b.visited(errand)
			if len(v.Robots.Entries) != 2 || v.Robots.Delay != 3*time.Second || v.RobotsRead().Print != 0 {
				b.Errorf("%s, entries %v, delay %s", told(v), v.Robots.Entries, v.Robots.Delay)
			}
			if v = b.visited(to("http://a.example/p")); v.Outcome != Denied || v.Robots.Rule == "" {
				b.Errorf("after the errand: %s", told(v))
			}
			if v = b.visited(to("http://a.example/q")); v.Outcome != Fetched {
				b.Errorf("after the errand: %s", told(v))
			}
			if got := b.requests(); got != "a.example/robots.txt b.example/robots.txt a.example/q" {
				b.Errorf("asked for %s", got)
			}
		})
	}
}

// A robots.txt that another agent has read otherwise since is read again before the page; one that cannot be reached
// stays as it is.
func TestRobotsOfAnotherAgent(t *testing.T) {
	on(t, "", "http://a.example/robots.txt robots=User-agent:_*;Allow:_/ | robots=User-agent:_*;Disallow:_/ | 503", nil,
		func(b *bench) {
			b.visited(to("http://a.example/p"))
			e, _ := b.Robots.Entry("http://a.example")
			for _, c := range []struct {
				note uint64
				want Outcome
			}{{e.Print(), Fetched}, {e.Print() + 1, Denied}, {e.Print() + 1, RobotsUnreachable}, {e.Print(),
				RobotsUnreachable}} {
				if b.note = c.note; b.visited(to("http://a.example/q")).Outcome != c.want {
					b.Errorf("another agent has read %d: want %s", c.note, c.want)
				}
			}
			if n := strings.Count(b.requests(), "robots.txt"); n != 3 {
				b.Errorf("asked for %s", b.requests())
			}
		})
}

// An error of the disk is an error of the visit, and no outcome of the web.
func TestFailuresOfThisMachine(t *testing.T) {
	on(t, "", "http://a.example/p /1", nil, func(b *bench) {
		b.visited(to("http://a.example/"))
		full := errors.New("no space left")
		b.fs.Break(func(c testdisk.Call) (f testdisk.Fault) {
			if c.Op.Grows() {
				f.Err = full
			}
			return f
		})
		for range 100 { // the archive buffers what it writes
			v := b.New(task(to("http://a.example/p")))
			b.Begin(v)
			if v = <-b.Results(); v.Err != nil {
				if !errors.Is(v.Err, full) || v.Record.Archived {
					b.Errorf("%v, archived %v", v.Err, v.Record.Archived)
				}
				return
			}
			b.parts.Archive.Flush()
		}
		b.Error("no visit failed")
	})
}

// What is left of a visit does not show in the next one that uses its memory.
func TestAttemptsAreReused(t *testing.T) {
	on(t, "", "http://a.example/p /1 nofollow:/2\nhttp://a.example/e 404", nil, func(b *bench) {
		v := b.visited(to("http://a.example/p"))
		v.Contents().Duplicate, v.Plan().Before, v.Boundary().Topic = true, &Before{}, "sport"
		v.App().Shared, v.Detail, v.Plain = true, "x", true
		b.Recycle(v)
		again := b.New(task(to("http://a.example/e")))
		if again != v {
			b.Fatal("the memory is not used again")
		}
		if len(v.Found)+len(v.Skipped)+len(v.Notes) > 0 || v.Response != (Response{}) || v.Contents().Duplicate ||
			v.Plan().Before != nil || v.Boundary().Topic != "" || v.App().Shared || v.Detail != "" || v.Plain {
			b.Errorf("the visit begins with %s", told(v))
		}
		b.Begin(v)
		if v = <-b.Results(); told(v) != "fetched 404" {
			b.Error(told(v))
		}
	})
}
