package crawl_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const sharedWeb = `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
dns c.example 192.0.2.3
http://a.example/ /1 /2 http://b.example/
http://a.example/1 /2 /3
http://a.example/2
http://a.example/3
http://b.example/ /1 http://a.example/4
http://b.example/1 /
http://c.example/ 301 to=http://b.example/
http://a.example/4 404
`

// newsAndList are an application that follows the hosts of its URLs, and one that fetches what it is given.
func newsAndList(t *testing.T) []visit.Application {
	t.Helper()
	sc, err := scope.New(scope.Config{}, nil)
	must.Do(t, err)
	return []visit.Application{{Name: "news", Scope: sc, Follow: true, Pages: true},
		{Name: "list", Scope: sc, Pages: true}}
}

func feed(t *testing.T, w *world, app string, urls ...string) (fates []crawl.SeedFate) {
	t.Helper()
	var list []crawl.AppURL
	for _, u := range urls {
		list = append(list, crawl.AppURL{URL: weburl.MustParse(u)})
	}
	fates, err := w.Intake.Feed(t.Context(), app, list)
	must.Do(t, err)
	return fates
}

// collected returns the pages of an application that wait to be acknowledged: status and URL, and "*" if the page came
// from the archive.
func collected(t *testing.T, w *world, app string) (pages []string, last int64) {
	t.Helper()
	ds, err := w.Applications.Deliveries(app, 0, 1000)
	must.Do(t, err)
	for _, d := range ds {
		s := fmt.Sprint(d.Status, " ", strings.TrimPrefix(d.URL, "http://"))
		if slices.Contains(strings.Split(d.Note, ","), "shared") {
			s += "*"
		}
		pages, last = append(pages, s), d.Position
	}
	return pages, last
}

// once checks that no URL was requested twice.
func (s *story) once(t *testing.T) {
	t.Helper()
	n := map[string]int{}
	for _, r := range s.web.Told() {
		if n[r.URL]++; n[r.URL] == 2 {
			t.Errorf("%s was requested twice", r.URL)
		}
	}
}

// A URL that two applications and the crawl want is requested once, and each of them follows its links by its own
// scope. The pages are there for both applications until they are acknowledged. The crawl ends when the applications
// are removed.
func TestApplicationsShareACrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, sharedWeb)
		s.scope.Scope = scope.Host
		w, _, end := s.start(t)
		synctest.Wait() // it runs
		must.Do(t, w.Orders.SetApplications(newsAndList(t)))
		if fates := feed(t, w, "news", "http://a.example/1", "http://c.example/", "http://a.example/1"); !slices.Equal(
			fates, []crawl.SeedFate{crawl.SeedNew, crawl.SeedNew, crawl.SeedKnown}) {
			t.Errorf("fates %v", fates)
		}
		feed(t, w, "list", "http://a.example/", "http://b.example/1")
		if _, err := w.Intake.Feed(t.Context(), "nobody", nil); !errors.Is(err, applications.ErrUnknown) {
			t.Errorf("an application that is not defined: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s.once(t)
		news, at := collected(t, w, "news")
		slices.Sort(news)
		if want := []string{"200 a.example/1", "200 a.example/2", "200 a.example/3", "200 b.example/",
			"200 b.example/1", "301 c.example/"}; !slices.Equal(unshared(news), want) {
			t.Errorf("news has %v, want %v", news, want)
		}
		list, _ := collected(t, w, "list")
		if slices.Sort(list); !slices.Equal(unshared(list), []string{"200 a.example/", "200 b.example/1"}) {
			t.Errorf("list has %v", list)
		}
		marked := strings.Count(fmt.Sprint(news, list), "*") + ownShared(t, w)
		if shared := len(news) + len(list) + 4 - 7; shared != marked {
			t.Errorf("%v and %v: not %d pages of the archive", news, list, shared)
		}
		must.Do(t, w.Applications.Acknowledge(t.Context(), "news", at))
		if news, _ := collected(t, w, "news"); len(news) > 0 {
			t.Errorf("after the acknowledgement: %v", news)
		}
		for _, st := range w.Applications.States() {
			want := applications.State{Name: st.Name, Fetched: st.Fetched, Shared: st.Shared,
				Unacknowledged: int64(len(list))}
			if st.Name == "news" {
				want.Unacknowledged, want.Fetched = 0, 6
			}
			if st != want {
				t.Errorf("%+v, want %+v", st, want)
			}
		}
		s.accounts(t, w)
		must.Do(t, w.Orders.SetApplications(nil))
		finished(t)(end())
		s.again = true // one line in crawl.log for each application
		must.Do(t, w.close())
	})
}

func unshared(pages []string) (plain []string) {
	for _, p := range pages {
		plain = append(plain, strings.TrimSuffix(p, "*"))
	}
	return plain
}

// ownShared counts the URLs of the crawl itself whose page came from the archive.
func ownShared(t *testing.T, w *world) (n int) {
	lines := 0
	for _, l := range w.parts.Lines(t, w.fs) {
		if slices.Contains(l.Notes, "shared") {
			lines++
		}
	}
	for _, st := range w.Applications.States() {
		lines -= int(st.Shared)
	}
	return lines
}

// waitingWeb is a web of two hosts with many pages.
func waitingWeb(t *testing.T, pages int) *story {
	t.Helper()
	var text strings.Builder
	text.WriteString("delay 100ms\nseed http://a.example/\ndns a.example 192.0.2.1\ndns b.example 192.0.2.2\n" +
		"http://a.example/\n")
	for i := range pages {
		fmt.Fprintf(&text, "http://a.example/%d\nhttp://b.example/%d\n", i, i)
	}
	s := parsed(t, text.String())
	return s
}

// An application whose pages are not collected waits, and the other one on the same host goes on. When pages are
// acknowledged, it goes on, too.
func TestApplicationWaitsUntilPagesAreCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := waitingWeb(t, 40)
		s.cfg.Uncollected, s.cfg.Workers = 5, 2
		w, _, end := s.start(t)
		synctest.Wait()
		must.Do(t, w.Orders.SetApplications(newsAndList(t)))
		var news, list []string
		for i := range 20 {
			news = append(news, fmt.Sprintf("http://a.example/%d", i))
			list = append(list, fmt.Sprintf("http://a.example/%d", 20+i))
		}
		feed(t, w, "news", news...)
		feed(t, w, "list", list...)
		got := map[string]bool{}
		collect := func(app string) {
			ds, err := w.Applications.Deliveries(app, 0, 100)
			must.Do(t, err)
			for _, d := range ds {
				got[app+d.URL] = true
				must.Do(t, w.Applications.Acknowledge(t.Context(), app, d.Position))
			}
		}
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			collect("list")
		}
		if len(got) != 20 {
			t.Errorf("%d pages of the application that collects, want all 20", len(got))
		}
		held := w.Applications.States()[1]
		if held.Name != "news" || !held.Held || held.Unacknowledged < 5 || held.Unacknowledged > 7 ||
			held.Queued+held.Unacknowledged != 20 {
			t.Errorf("the other one: %+v", held)
		}
		for range 300 {
			time.Sleep(100 * time.Millisecond)
			collect("news")
		}
		if len(got) != 40 {
			t.Errorf("%d pages of both, want 40", len(got))
		}
		s.once(t)
		must.Do(t, w.Orders.SetApplications(nil))
		finished(t)(end())
		s.accounts(t, w)
		must.Do(t, w.close())
	})
}

// The waiting links of an application that is removed are finished without a request, and so are those of one that is
// never defined. Both holds after a restart, too.
func TestRemovedApplication(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := waitingWeb(t, 40)
			w, cancel, end := s.start(t)
			synctest.Wait()
			must.Do(t, w.Orders.SetApplications(newsAndList(t)))
			var urls []string
			for i := range 40 {
				urls = append(urls, fmt.Sprintf("http://b.example/%d", i))
			}
			feed(t, w, "news", urls...)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			before := len(s.asked("b.example"))
			if before < 5 || before > 35 {
				t.Fatalf("%d requests before the removal", before)
			}
			if restart {
				left := w.kill(cancel)
				_, _ = end()
				_ = w.close()
				w = s.opened(t, left)
				end = func() (crawl.Stop, error) { return w.Run(t.Context()) }
			}
			must.Do(t, w.Orders.SetApplications(nil))
			finished(t)(end())
			if after := len(s.asked("b.example")); after > before+1 {
				t.Errorf("%d requests after the removal", after-before)
			}
			if _, err := w.Applications.Deliveries("news", 0, 9); !errors.Is(err, applications.ErrUnknown) {
				t.Errorf("pages of a removed application: %v", err)
			}
			s.accounts(t, w)
			must.Do(t, w.close())
		})
	}
}

// Application after application is defined and removed, more than there are classes. The last one has a class of its
// own.
func TestManyApplications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := waitingWeb(t, 1)
		w, cancel, end := s.start(t)
		synctest.Wait()
		stays := newsAndList(t)[:1]
		for i := range 2 * applications.Max {
			next := newsAndList(t)[1]
			next.Name = fmt.Sprint("app-", i)
			must.Do(t, w.Orders.SetApplications(append(stays[:1:1], next)))
			synctest.Wait()
			l := link.Link{URL: weburl.MustParse("http://a.example/")}
			l.SetApp(next.Name, "")
			if n := w.Applications.ClassOf(&l); n < 1 {
				t.Fatalf("application %d has class %d", i, n)
			}
		}
		cancel()
		ran(t)(end())
		must.Do(t, w.close())
	})
}

// asked returns the URLs of a host that were requested, each once, in the order of the first request.
func (s *story) asked(host string) (urls []string) {
	for _, r := range s.web.Told() {
		if r.Host == host && !slices.Contains(urls, r.URL) {
			urls = append(urls, r.URL)
		}
	}
	return urls
}
