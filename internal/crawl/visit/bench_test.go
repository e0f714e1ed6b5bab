package visit

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A bench has a Pool without a crawl loop. The archive and the fetcher are real; the web and what the Pool asks of
// others are the test's.
type bench struct {
	*testing.T
	*Pool
	fs    *testdisk.Faulty
	mem   *testdisk.Mem
	web   *textweb.Web
	parts *testparts.Parts
	fail  func(error) // abandons all that is in progress
	ended bool
	note  uint64 // what the agents have read last of a robots.txt, as the lease of the host tells it
}

// on runs f with a bench in virtual time. The seeds are http://a.example/ and http://b.example/. with may change the
// Config and the Parts of the Pool.
func on(t *testing.T, name, text string, with func(*Config, *Parts), f func(*bench)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, text, with)
			defer b.end()
			f(b)
		})
	})
}

func newBench(t *testing.T, text string, with func(*Config, *Parts)) *bench {
	b := &bench{T: t, mem: testdisk.NewMem(), web: textweb.Parse(t, text)}
	b.fs = testdisk.NewFaulty(b.mem, nil)
	var err error
	b.parts, err = testparts.Open(b.fs, testparts.Config{Scope: scope.Config{}, RetryWait: time.Minute,
		Fetch: fetch.Config{AllowPrivate: true, IdleKeep: -1}, Dial: b.web.Dialer("", func() bool { return false }),
		Seeds:  []weburl.URL{weburl.MustParse("http://a.example/"), weburl.MustParse("http://b.example/")},
		Accept: func([]keyset.Item) error { return nil }})
	b.must(err)
	cfg := Config{Workers: 2, Agent: "orbweaver"}
	parts := Parts{Scope: b.parts.Scope, Robots: b.parts.Robots, Fetch: b.parts.Fetch, Archive: b.parts.Archive,
		Events: b.parts.Events, Applications: apps{}, Gate: open{}}
	if with != nil {
		with(&cfg, &parts)
	}
	b.Pool = New(cfg.WithDefaults(), parts, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	b.fail = cancel
	b.Start(ctx)
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	must.Do(b, err)
}

// end waits for the workers. All memory of slow visits must have been given back.
func (b *bench) end() {
	if b.ended {
		return
	}
	b.ended = true
	b.End()
	b.fail(nil)
	if s := &b.slow; s.len() != 0 || s.bytes != 0 || s.silent != 0 {
		b.Errorf("at the end there are %d slow visits of %d bytes, %d of them silent", s.len(), s.bytes, s.silent)
	}
	_ = b.parts.Close() // a broken disk may fail it
}

// A task is a link that is visited at an address.
func task(l link.Link) frontier.Task {
	return frontier.Task{Link: l, Host: l.URL.Host(), Addr: netip.MustParseAddr("192.0.2.1"), Number: 1}
}

// to returns the link of a page that a seed names.
func to(url string) link.Link {
	return link.Link{URL: weburl.MustParse(url), Via: "http://a.example/", Hops: "L", Seed: "a.example"}
}

// visited returns l after its last visit: with those of its robots.txt before.
func (b *bench) visited(l link.Link, with ...func(*Attempt)) *Attempt {
	for range 9 {
		v := b.New(task(l))
		v.Task.Robots = b.note
		for _, f := range with {
			f(v)
		}
		b.Begin(v)
		if got := <-b.Results(); got != v {
			b.Fatal("another visit has ended")
		}
		b.must(v.Err)
		if read := v.RobotsRead(); b.note != 0 && read.Print != 0 {
			b.note = read.Print
		}
		if v.Outcome != Prerequisite || IsErrand(l) {
			return v
		}
		b.Recycle(v)
	}
	b.Fatalf("%s has no end; asked for %s", l.URL, b.requests())
	return nil
}

// archived returns the types of the captures of a URL in the archive.
func (b *bench) archived(url string) (types string) {
	b.must(b.parts.Archive.Flush())
	for _, c := range testparts.Captures(b, disk.FS(b.mem), url) {
		types += " " + c.Type
	}
	return strings.TrimSpace(types)
}

// requests returns what the web was asked for, without the scheme.
func (b *bench) requests() string {
	var s []string
	for _, r := range b.web.Told() {
		s = append(s, strings.TrimPrefix(r.URL, "http://"))
	}
	return strings.Join(s, " ")
}

// told says in words what a visit has brought: the outcome, then the links in scope, with "*" if another agent crawls
// them, then the links that were not taken, then the notes.
func told(v *Attempt) string {
	s := v.Outcome.String()
	if v.Response.Status > 0 {
		s += fmt.Sprint(" ", v.Response.Status)
	}
	for _, f := range v.Found {
		l, _, err := link.Decode(v.Encoded[f.From:f.To])
		if err != nil {
			return err.Error()
		}
		s += " +" + l.Hops + ":" + strings.TrimPrefix(l.URL.String(), "http://")
		if f.Foreign {
			s += "*"
		}
	}
	for _, k := range v.Skipped {
		s += " -" + k.Reason + ":" + strings.TrimPrefix(k.Link.URL.String(), "http://")
	}
	if len(v.Notes) > 0 {
		s += " (" + strings.Join(v.Notes, ",") + ")"
	}
	return s
}

// unavailable is the answer for a robots.txt that does not exist.
var unavailable = robots.Reply{Status: 404}

// apps are the Applications of a test, by name. There are none without an entry.
type apps map[string]*Application

func (a apps) Of(name string) *Application { return a[name] }
func (a apps) Any() bool                   { return len(a) > 0 }

// open is a Gate without orders.
type open struct{}

func (open) HeldBack(*Attempt) bool  { return false }
func (open) Overtaken(*Attempt) bool { return false }

// owners are the agents of some hosts. This agent crawls all others.
type owners map[string]string

func (o owners) Owner(host string) (agent string, mine bool) {
	agent, other := o[host]
	return agent, !other
}
