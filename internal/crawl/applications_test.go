package crawl

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
func newsAndList(t *testing.T) []Application {
	t.Helper()
	sc, err := scope.New(scope.Config{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return []Application{{Name: "news", Scope: sc, Follow: true, Pages: true}, {Name: "list", Scope: sc, Pages: true}}
}

func feed(t *testing.T, w *world, app string, urls ...string) (fates []SeedFate) {
	t.Helper()
	var list []AppURL
	for _, u := range urls {
		list = append(list, AppURL{URL: weburl.MustParse(u)})
	}
	fates, err := w.Feed(t.Context(), app, list)
	if err != nil {
		t.Fatal(err)
	}
	return fates
}

// collected returns the pages of an application that wait to be acknowledged: status and URL, and "*" if the page came
// from the archive.
func collected(t *testing.T, w *world, app string) (pages []string, last int64) {
	t.Helper()
	ds, err := w.Deliveries(app, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
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
		s := &story{text: sharedWeb}
		s.parse(t)
		s.scope.Scope = scope.Host
		w, _, end := s.start(t)
		synctest.Wait() // it runs
		if err := w.SetApplications(newsAndList(t)); err != nil {
			t.Fatal(err)
		}
		if fates := feed(t, w, "news", "http://a.example/1", "http://c.example/", "http://a.example/1"); !slices.Equal(
			fates, []SeedFate{SeedNew, SeedNew, SeedKnown}) {
			t.Errorf("fates %v", fates)
		}
		feed(t, w, "list", "http://a.example/", "http://b.example/1")
		if _, err := w.Feed(t.Context(), "nobody", nil); !errors.Is(err, ErrNoApplication) {
			t.Errorf("an application that is not defined: %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s.once(t)
		news, at := collected(t, w, "news")
		slices.Sort(news)
		if want := []string{"200 a.example/1", "200 a.example/2", "200 a.example/3", "200 b.example/", "200 b.example/1",
			"301 c.example/"}; !slices.Equal(unshared(news), want) {
			t.Errorf("news has %v, want %v", news, want)
		}
		list, _ := collected(t, w, "list")
		if slices.Sort(list); !slices.Equal(unshared(list), []string{"200 a.example/", "200 b.example/1"}) {
			t.Errorf("list has %v", list)
		}
		if shared := len(news) + len(list) + 4 - 7; shared != strings.Count(fmt.Sprint(news, list), "*")+ownShared(t, w) {
			t.Errorf("%v and %v: not %d pages of the archive", news, list, shared)
		}
		if err := w.Acknowledge("news", at); err != nil {
			t.Fatal(err)
		}
		if news, _ := collected(t, w, "news"); len(news) > 0 {
			t.Errorf("after the acknowledgement: %v", news)
		}
		for _, st := range w.ApplicationStates() {
			want := AppState{Name: st.Name, Fetched: st.Fetched, Shared: st.Shared, Unacknowledged: int64(len(list))}
			if st.Name == "news" {
				want.Unacknowledged, want.Shared = 0, 6-st.Fetched
			}
			if st != want {
				t.Errorf("%+v, want %+v", st, want)
			}
		}
		s.accounts(t, w)
		if err := w.SetApplications(nil); err != nil {
			t.Fatal(err)
		}
		if stop, err := end(); stop != Finished || err != nil {
			t.Errorf("%v, %v, want %v", stop, err, Finished)
		}
		s.again = true // one line in crawl.log for each application
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
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
	for _, st := range w.ApplicationStates() {
		lines -= int(st.Shared)
	}
	return lines
}
