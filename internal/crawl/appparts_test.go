package crawl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// anyURL is a scope of all URLs.
func anyURL(t *testing.T) *scope.Scope {
	s, err := scope.New(scope.Config{Scope: scope.Any}, nil)
	must.Do(t, err)
	return s
}

// define replaces the applications by some that collect pages or not.
func (b *bench) define(pages bool, names ...string) {
	b.Helper()
	var all []visit.Application
	for _, name := range names {
		all = append(all, visit.Application{Name: name, Scope: anyURL(b.T), Pages: pages})
	}
	must.Do(b.T, b.orders.SetApplications(all))
	b.apps.Heed() // as the dispatcher does in each turn
}

func ofApp(app, url string) link.Link {
	l := foundAt(url)
	l.SetApp(app, "")
	return l
}

// Wrong applications change nothing.
func TestWrongApplications(t *testing.T) {
	b := on(t, testdisk.NewMem())
	b.define(false, "news")
	many := make([]visit.Application, applications.Max+1)
	for i := range many {
		many[i] = visit.Application{Name: fmt.Sprint("a", i), Scope: anyURL(t)}
	}
	for name, all := range map[string][]visit.Application{"too many": many, "no scope": {{Name: "a"}},
		"no name": {{Scope: anyURL(t)}}, "bad name": {{Name: "a b", Scope: anyURL(t)}},
		"hidden": {{Name: ".a", Scope: anyURL(t)}}, "long": {{Name: strings.Repeat("a", 65), Scope: anyURL(t)}}} {
		if err := b.orders.SetApplications(all); err == nil || b.apps.Of("news") == nil {
			t.Errorf("%s: %v, the one before is defined: %v", name, err, b.apps.Of("news") != nil)
		}
	}
	if must.Do(t, b.orders.SetApplications(many[:applications.Max])); b.apps.Of("news") != nil || !b.apps.Any() {
		t.Error("the application before is still defined")
	}
	without := on(t, testdisk.NewMem())
	without.apps.Pages = nil
	if without.orders.SetApplications([]visit.Application{{Name: "a", Scope: anyURL(t), Pages: true}}) == nil {
		t.Error("pages are to be collected, and nothing keeps them")
	}
}

// The links of a removed application are told from those of one that is not defined yet: these wait for up to a minute,
// while their host rests.
func TestLinksOfUndefinedApplications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := on(t, testdisk.NewMem())
		b.define(false, "news", "old")
		b.define(false, "news")
		l := ofApp("old", "http://a.example/1")
		if waits := b.apps.Awaits(&frontier.Task{Link: l, Host: "a.example"}, time.Now()); waits ||
			!b.apps.Without(&l) {
			t.Errorf("a link of a removed application waits: %v", waits)
		}
		for _, own := range []link.Link{foundAt("http://a.example/1"), ofApp("news", "http://a.example/1")} {
			if b.apps.Without(&own) {
				t.Errorf("%q is removed", own.App())
			}
		}
		must.Do(t, b.Frontier.Push([]link.Link{ofApp("later", "http://a.example/2")}))
		began, asked := time.Now(), 0
		for {
			task, wake, ok := b.Frontier.Next(time.Now())
			if !ok {
				time.Sleep(time.Until(wake))
				continue
			}
			if asked++; !b.apps.Awaits(&task, time.Now()) {
				break
			}
		}
		const wait = applications.UnknownWait
		if took := time.Since(began); took < wait || took > wait+10*time.Second || asked < 5 || asked > 20 {
			t.Errorf("it waits for %s, and is asked about %d times", took, asked)
		}
		b.define(false, "later")
		b.define(false)
		if l := ofApp("later", "http://a.example/2"); b.apps.Awaits(&frontier.Task{Link: l}, time.Now()) {
			t.Error("it waits, although it was removed after it was defined")
		}
	})
}

// Each application keeps its class of the frontier. A removed one gives it up when none of its links waits.
func TestClassesOfApplications(t *testing.T) {
	b := on(t, testdisk.NewMem())
	var names []string
	for i := range applications.Max {
		names = append(names, fmt.Sprint("a", i))
	}
	b.define(false, names...)
	class := func(app string) uint8 { l := ofApp(app, "http://a.example/"); return b.apps.ClassOf(&l) }
	seen := map[uint8]bool{}
	for _, name := range names {
		first := class(name)
		if seen[first] = true; class(name) != first {
			t.Error("the class of an application changes")
		}
	}
	own := foundAt("http://a.example/")
	if seen[0] || len(seen) != applications.Max || b.apps.ClassOf(&own) != 0 {
		t.Errorf("%d applications have the classes %v", applications.Max, seen)
	}
	if class("another") != 0 {
		t.Error("there is a class for one more")
	}
	gone := ofApp(names[3], "http://a.example/")
	b.apps.Accepted(&gone)
	b.define(false, append([]string{"new"}, slices.Delete(slices.Clone(names), 3, 4)...)...)
	if class("new") != 0 {
		t.Error("the class of a removed application is taken while its links wait")
	}
	b.apps.Left(&gone)
	if b.define(false, append([]string{"newer"}, slices.Delete(slices.Clone(names), 3, 4)...)...); class("newer") == 0 {
		t.Error("the class of a removed application is not free when its links are finished")
	}
}

// The links of an application wait while too many of its pages are not collected, and go on when some are.
func TestPagesAreCollected(t *testing.T) {
	b := on(t, testdisk.NewMem(), func(b *bench, _ *visit.Parts, _ *testparts.Config) { b.cfg.Uncollected = 2 })
	b.serve()
	b.define(true, "news")
	changed := b.apps.Changed("news")
	for i := range 3 {
		v := new(visit.Attempt)
		v.Reset(frontier.Task{Link: ofApp("news", fmt.Sprintf("http://a.example/%d", i))})
		if i == 2 {
			v.Notes = []string{"refetch:255"}
		}
		f := state.Finish{Link: v.Task.Link, Code: 200}
		b.apps.Deliver(v, &f, time.Now())
		b.apps.Deliver(v, &state.Finish{Link: foundAt("http://a.example/own")}, time.Now())
		b.apps.Heed()
		if got, want := b.apps.States()[0].Held, i >= 1; got != want {
			t.Errorf("after %d pages its links wait: %v", i+1, got)
		}
	}
	if pages, err := b.apps.Deliveries("news", 0, 9); err != nil || len(pages) != 0 {
		t.Errorf("%d pages before they are durable, %v", len(pages), err)
	}
	must.Do(t, b.ledger.Secure())
	select {
	case <-changed:
	default:
		t.Error("nobody is told of the pages")
	}
	pages, err := b.apps.Deliveries("news", 0, 9)
	if err != nil || len(pages) != 3 || pages[0].URL != "http://a.example/0" || b.apps.Uncollected() != 3 {
		t.Fatalf("%+v, %v", pages, err)
	}
	again, spent, done, err := b.apps.Recollect()
	if err != nil || len(again) != 2 || spent != 1 || again[0].Refetches() != 1 || again[0].App() != "news" {
		t.Errorf("to fetch again: %v, %d are given up, %v", again, spent, err)
	}
	must.Do(t, b.apps.Acknowledge(t.Context(), "news", pages[1].Position))
	must.Do(t, b.apps.Acknowledge(t.Context(), "news", pages[0].Position)) // a late one changes nothing
	if b.apps.Heed(); b.apps.States()[0].Held || b.apps.Uncollected() != 1 {
		t.Errorf("after two are collected: %+v", b.apps.States())
	}
	if must.Do(t, done(t.Context())); b.apps.Uncollected() != 0 {
		t.Error("pages that another agent fetches again wait here")
	}
	b.define(false, "news")
	if _, err := b.apps.Deliveries("news", 0, 9); !errors.Is(err, applications.ErrUnknown) ||
		!errors.Is(b.apps.Acknowledge(t.Context(), "news", 1), applications.ErrUnknown) ||
		b.apps.Changed("news") != nil {
		t.Errorf("pages of an application that does not collect them: %v", err)
	}
	must.Do(t, done(t.Context())) // it was removed meanwhile
}

// What an application has fetched is counted once, over restarts. Links that wait count by this run.
func TestCountsOfApplications(t *testing.T) {
	b := on(t, testdisk.NewMem())
	b.define(false, "news")
	urls := []string{"http://a.example/1", "http://a.example/2", "http://a.example/3", "http://a.example/4"}
	var ls visit.Links
	for _, u := range urls {
		l := ofApp("news", u)
		b.visits.Links.Judge(&ls, l, l.Key())
	}
	b.intake.take(&ls)
	for i, f := range []state.Finish{{Code: 200}, {Code: 200}, {Code: report.CodeDeletedByUser}} {
		if f.Link, f.Number = ofApp("news", urls[i]), uint64(i+1); i == 1 {
			f.Flags |= state.FlagShared
		}
		b.ledger.Finish(&f)
	}
	want := applications.State{Name: "news", Queued: 1, Fetched: 2, Shared: 1}
	if got := b.apps.States(); len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	must.Do(t, b.ledger.Secure())
	want.Before = applications.Earlier{Fetched: 2, Shared: 1}
	for _, checkpoint := range []bool{false, true} {
		if checkpoint {
			_, err := b.ledger.Checkpoint()
			must.Do(t, err)
			must.Do(t, b.ledger.End(func() {}))
		}
		again := b.restarted()
		if !again.apps.Any() {
			t.Error("after a restart visits do not look into the archive")
		}
		for i := range again.left {
			again.apps.Accepted(&again.left[i])
		}
		again.define(false, "news")
		if got := again.apps.States(); len(got) != 1 || got[0] != want {
			t.Errorf("after a restart, with a checkpoint %v: %+v, want %+v", checkpoint, got, want)
		}
	}
}
