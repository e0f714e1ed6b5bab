package crawl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Each link is accepted once, however often pages bring it: in the queue, in the journal and in the counts, by one
// number. Its accept is in the batch before that of a finish of its page.
func TestIntakeAcceptsOnce(t *testing.T) {
	for name, with := range map[string][]setting{"at once": nil, "held back": {tiny}} {
		t.Run(name, func(t *testing.T) {
			b := on(t, testdisk.NewMem(), with...)
			var urls []string
			for i := range 300 {
				urls = append(urls, fmt.Sprintf("http://a.example/%d", i))
			}
			b.intake.take(b.links(append(urls, urls[:9]...)...))
			b.intake.take(b.links(urls[200:]...))
			f := state.Finish{Link: foundAt("http://a.example/page"), Code: 200}
			b.ledger.Finish(&f)
			must.Do(t, b.ledger.Append())
			must.Do(t, b.ledger.Flush())
			must.Do(t, b.ledger.Secure())
			if n := b.Tally.Unique(); n != 300 {
				t.Errorf("%d links are accepted, want 300", n)
			}
			if last := strings.Join(b.sealed, "|"); strings.Count(last, string(rune(state.Accept))+"/") != 300 ||
				name == "at once" && strings.Contains(strings.SplitAfter(last, "finish /page")[1], "/") {
				t.Errorf("the batches: %s", last)
			}
			again := b.restarted(with...)
			var left []string
			for i, l := range again.left {
				left = append(left, fmt.Sprint(l.URL.Path(), " ", again.numbers[i]))
			}
			if slices.Sort(left); !slices.Equal(left, b.queue()) || len(left) != 300 {
				t.Errorf("%d links are pending after a restart, by other numbers than those in the queue", len(left))
			}
		})
	}
}

// asking is a Reader that notes which links are not known.
type asking struct{ paths *[]string }

func (asking) SeedLevel() uint8   { return 4 }
func (asking) Passed(*visit.Page) {}
func (a asking) Follow(_ *visit.Page, l *link.Link) visit.Choice {
	*a.paths = append(*a.paths, l.URL.Path())
	return visit.Drop
}

// The workers know a link once it is offered to the seen-set, and not if the run has failed meanwhile.
func TestIntakeTellsWorkers(t *testing.T) {
	for name, fail := range map[string]error{"taken": nil, "failed": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			b := on(t, testdisk.NewMem(), func(_ *bench, p *visit.Parts,
				_ *testparts.Config) {
				p.Strategy = asking{&asked}
			})
			b.run.Fail(fail)
			b.intake.take(b.links("http://a.example/1", "http://a.example/2"))
			l := foundAt("http://a.example/2")
			b.visits.Links.Follow(new(visit.Attempt), l, l.Key())
			if (len(asked) == 0) != (fail == nil) || (b.Frontier.Len() == 2) != (fail == nil) {
				t.Errorf("the workers ask about %v, %d are queued", asked, b.Frontier.Len())
			}
		})
	}
}

// A link that was found before its host was dropped is accepted and finished, and in no queue. One that is found later
// waits as usual.
func TestIntakeOfDroppedHost(t *testing.T) {
	b := on(t, testdisk.NewMem())
	item := func(url string) keyset.Item {
		l := foundAt(url)
		aux, _ := b.gate.Stamp(l.AppendTo(nil), nil)
		return keyset.Item{Key: l.Key(), Aux: aux}
	}
	_, _ = b.gate.Drop("c.example", 0, b.progress.began), b.gate.Drop("b.example", 0, b.progress.began)
	before := []keyset.Item{item("http://a.example/1"), item("http://b.example/2")}
	_ = b.gate.Drop("a.example", 0, b.progress.began)
	must.Do(t, b.intake.Accept(append(before, item("http://a.example/3"))))
	if q := b.queue(); len(b.dropped) != 1 || !strings.HasPrefix(b.dropped[0], "/1 ") || len(q) != 2 ||
		!strings.HasPrefix(q[0], "/2 ") || !strings.HasPrefix(q[1], "/3 ") {
		t.Errorf("dropped %v, queued %v", b.dropped, q)
	}
	if n := b.Tally.Unique(); n != 3 {
		t.Errorf("%d are accepted", n)
	}
	bad := b.intake.Accept([]keyset.Item{{Aux: []byte{1}}})
	if bad == nil {
		t.Error("bytes that are no link are accepted")
	}
	if b.run.Fail(errors.New("broken")); b.intake.Accept([]keyset.Item{item("http://a.example/4")}) == nil ||
		len(b.queue()) != 0 {
		t.Error("a link is accepted after the failure of the run")
	}
}

// A path has a bounded number of queries. What is beyond is skipped, counted and told to the Planner; a page that is
// fetched again and a seed are not counted.
func TestIntakeBoundsQueries(t *testing.T) {
	p := new(diary)
	b := on(t, testdisk.NewMem(), planned(p))
	b.intake.queries = scope.NewQueries(3, 100)
	var urls []string
	for i := range 5 {
		urls = append(urls, fmt.Sprintf("http://a.example/x?q=%d", i))
	}
	b.intake.take(b.links(urls...))
	refetch, _ := visit.RefetchLink(foundAt("http://a.example/x?q=9"))
	b.intake.takeIn(refetch)
	must.Do(t, b.intake.Seed([]weburl.URL{weburl.MustParse("http://a.example/x?q=10")}, nil))
	if n := b.Tally.SkippedBy()["trapQueryExplosion"]; n != 2 || b.Tally.Unique() != 5 || len(p.visited) != 2 ||
		p.visited[0].Outcome != visit.Refused {
		t.Errorf("%d are skipped, %d accepted, the Planner is told of %v", n, b.Tally.Unique(), p.visited)
	}
	b.plan.Planner = nil
	b.intake.take(b.links("http://a.example/x?q=11"))
	if n := b.Tally.SkippedBy()["trapQueryExplosion"]; n != 3 || b.run.Failed() {
		t.Errorf("without a Planner: %d are skipped", n)
	}
}

// The target of a seed's redirects widens the scope, also after a restart.
func TestIntakeWidensTheScope(t *testing.T) {
	b := on(t, testdisk.NewMem())
	to := link.Link{URL: weburl.MustParse("http://new.example/"), Via: "http://a.example/", Hops: "R",
		Seed: "a.example"}
	other := to
	other.SetApp("news", "")
	other.URL = weburl.MustParse("http://other.example/")
	b.intake.takeIn(other)
	b.intake.takeIn(to)
	must.Do(t, b.ledger.Secure())
	for name, b := range map[string]*bench{"now": b, "after a restart": b.restarted()} {
		if ls := b.links("http://new.example/1", "http://other.example/1"); len(ls.Found) != 1 || len(ls.Skipped) != 1 {
			t.Errorf("%s: %d links are in scope, want that of the target", name, len(ls.Found))
		}
	}
}

// Seeds are durable when Seed returns, with their levels; those outside of the scope are skipped.
func TestSeeds(t *testing.T) {
	b := on(t, testdisk.NewMem(), scoped(scope.Config{Exclude: []string{"/no"}}),
		func(_ *bench, p *visit.Parts, _ *testparts.Config) { p.Strategy = asking{new([]string)} })
	a, no := weburl.MustParse("https://a.example/"), weburl.MustParse("http://b.example/no")
	must.Do(t, b.intake.Seed([]weburl.URL{a, no}, map[weburl.URL]bool{a: true}))
	again := b.restarted()
	if len(again.left) != 1 || !again.left[0].Bare() || again.left[0].Level != 4 || again.left[0].Seed != "a.example" {
		t.Errorf("pending after a power failure: %+v", again.left)
	}
	if n := b.Tally.SkippedBy()["excluded"]; n != 1 {
		t.Errorf("%d seeds are excluded", n)
	}
}

// Each of several seeds for a running crawl has one fate, and is durable when it is told.
func TestAddSeeds(t *testing.T) {
	seeds := func(urls ...string) (s []NewSeed) {
		for _, u := range urls {
			s = append(s, NewSeed{URL: weburl.MustParse(u)})
		}
		return s
	}
	b := on(t, testdisk.NewMem(), scoped(scope.Config{Exclude: []string{"/no"}}))
	if _, err := b.intake.AddSeeds(t.Context(), seeds("http://a.example/")); !errors.Is(err, ErrNotRunning) {
		t.Errorf("before Run: %v", err)
	}
	b.serve()
	fates, err := b.intake.AddSeeds(t.Context(), seeds("http://a.example/1", "http://a.example/no",
		"http://a.example/1"))
	if want := []SeedFate{SeedNew, SeedExcluded, SeedKnown}; err != nil || !slices.Equal(fates, want) {
		t.Errorf("fates %v, %v, want %v", fates, err, want)
	}
	if got := b.restarted().pending(); !slices.Equal(got, []string{"/a.example/1"}) {
		t.Errorf("after a power failure: %v", got)
	}
	b.fs.Break(func(c testdisk.Call) (f testdisk.Fault) {
		if c.Op.Changes() {
			f.Err = errors.New("broken")
		}
		return f
	})
	if _, err := b.intake.AddSeeds(t.Context(), seeds("http://a.example/2")); err == nil || !b.failed() {
		t.Errorf("on a broken disk: %v", err)
	}
}

// failed reports whether the run has failed.
func (b *bench) failed() (yes bool) {
	b.Helper()
	must.Do(b.T, b.run.Do(b.Context(), "ask", func(time.Time) { yes = b.run.Failed() }))
	return yes
}

// A seed that the seen-set has not answered is taken: it is durable all the same.
func TestSeedsThatAreHeldBack(t *testing.T) {
	b := on(t, testdisk.NewMem(), tiny)
	b.serve()
	taken, added := []string(nil), []string(nil)
	for i := range 200 {
		url := fmt.Sprintf("http://a.example/%03d", i)
		fates, err := b.intake.AddSeeds(t.Context(), []NewSeed{{URL: weburl.MustParse(url)}})
		must.Do(t, err)
		switch added = append(added, "/a.example/"+url[len(url)-3:]); fates[0] {
		case SeedTaken:
			taken = append(taken, url)
		case SeedNew:
		default:
			t.Errorf("%s: fate %d", url, fates[0])
		}
	}
	again := b.restarted(tiny)
	must.Do(t, again.ledger.Flush())
	must.Do(t, again.ledger.Secure())
	if got := again.restarted(tiny).pending(); !slices.Equal(got, added) || len(taken) == 0 {
		t.Errorf("%d of %d seeds are pending; %d were held back", len(got), len(added), len(taken))
	}
}

// A URL that is fed belongs to its application alone, and has its priority.
func TestFeed(t *testing.T) {
	b := on(t, testdisk.NewMem())
	b.serve()
	u := weburl.MustParse("http://far.example/1")
	feed := func(app string, urls ...AppURL) ([]SeedFate, error) { return b.intake.Feed(t.Context(), app, urls) }
	if _, err := feed("news", AppURL{URL: u}); !errors.Is(err, applications.ErrUnknown) {
		t.Errorf("an unknown application: %v", err)
	}
	any, err := scope.New(scope.Config{Scope: scope.Any}, nil)
	must.Do(t, err)
	must.Do(t, b.orders.SetApplications([]visit.Application{{Name: "news", Scope: any}, {Name: "shop", Scope: any}}))
	for app, want := range map[string][]SeedFate{"news": {SeedNew, SeedKnown}, "shop": {SeedNew, SeedKnown}} {
		if fates, err := feed(app, AppURL{URL: u, Priority: 99}, AppURL{URL: u}); err != nil || !slices.Equal(fates,
			want) {
			t.Errorf("%s: fates %v, %v, want %v", app, fates, err, want)
		}
	}
	again := b.restarted()
	if got := again.pending(); !slices.Equal(got, []string{"news/far.example/1", "shop/far.example/1"}) ||
		again.left[0].Level != 15 {
		t.Errorf("after a power failure: %v, %+v", got, again.left)
	}
}

// Seeds that failed in a crawl without an answer are accepted once more. Both their records are in one batch: after a
// power failure at any moment a seed is pending once.
func TestSeedAgain(t *testing.T) {
	b := on(t, testdisk.NewMem())
	seed := weburl.MustParse("http://a.example/")
	must.Do(t, b.intake.Seed([]weburl.URL{seed}, nil))
	f := state.Finish{Link: link.Link{URL: seed, Seed: "a.example"}, Code: -2, Number: 1}
	b.ledger.Finish(&f)
	must.Do(t, b.ledger.Secure())
	next := b.restarted()
	if len(next.left) != 0 {
		t.Fatalf("pending after a finish: %v", next.pending())
	}
	must.Do(t, next.intake.SeedAgain())
	if n := next.Tally.Unique(); len(next.queue()) != 1 || n != 1 {
		t.Errorf("%d URLs are accepted", n)
	}
	third := next.restarted()
	if got := third.pending(); !slices.Equal(got, []string{"/a.example/"}) {
		t.Errorf("pending after a power failure: %v", got)
	}
	third.Tally.Add(visitOf(&state.Finish{Link: foundAt("http://b.example/"), Code: 200}))
	if must.Do(t, third.intake.SeedAgain()); len(third.queue()) != 0 {
		t.Error("a seed is tried again although the crawl has an answer")
	}
}
