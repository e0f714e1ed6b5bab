package crawl

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The pages that applications have not collected from an agent that leaves are fetched again, each for its
// application. Then they count as collected.
func TestRecollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := waitingWeb(t, 4)
		w, _, end := s.start(t)
		synctest.Wait()
		l := newLoop(w.Crawler)
		if links, _, _, err := l.Recollect(); err != nil || len(links) > 0 {
			t.Fatalf("without applications: %v, %v", links, err)
		}
		must(t, w.SetApplications(newsAndList(t)))
		feed(t, w, "news", "http://a.example/1", "http://a.example/2")
		err := l.Ask(t.Context(), "a page that was fetched again too often", func() {
			if err := w.Delivery.Log("news").Append(func(b []byte) []byte {
				return append(b, `{"url":"http://a.example/old","status":200,"note":"refetch:255"}`...)
			}); err != nil {
				t.Error(err)
			}
		})
		must(t, err)
		feed(t, w, "list", "http://a.example/1", "http://a.example/3")
		time.Sleep(time.Minute)
		if pages, last := collected(t, w, "list"); len(pages) != 2 {
			t.Fatalf("list: %v", pages)
		} else if err := w.Acknowledge("list", last-1); err != nil { // not the second one
			t.Fatal(err)
		}
		links, spent, done, err := l.Recollect()
		if err != nil || spent != 1 {
			t.Fatalf("%d pages are given up: %v", spent, err)
		}
		got := map[string]int{}
		for _, again := range links {
			if got[again.App()+" "+again.URL.String()]++; again.Refetches() != 1 {
				t.Errorf("%v: fetched again for the %dth time", again.URL, again.Refetches())
			}
		}
		want := map[string]int{"news http://a.example/1": 1, "news http://a.example/2": 1}
		for _, page := range mustDeliveries(t, w, "list") {
			want["list "+page.URL] = 1
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) != 3 {
			t.Errorf("links (-want +got):\n%s", diff)
		}
		if n := w.Uncollected(); n != 4 {
			t.Errorf("%d pages wait before other agents have the links, want 4", n)
		}
		if err := done(); err != nil || w.Uncollected() != 0 {
			t.Errorf("%d pages wait after that: %v", w.Uncollected(), err)
		}
		must(t, w.SetApplications(nil))
		if err := done(); err != nil {
			t.Errorf("the applications were removed meanwhile: %v", err)
		}
		finished(t)(end())
		must(t, w.close())
	})
}

func mustDeliveries(t *testing.T, w *world, app string) []Delivery {
	t.Helper()
	pages, err := w.Deliveries(app, 0, 1000)
	must(t, err)
	return pages
}

// A page that is fetched again because its agent left, and not because its archive was lost, does not count as one of a
// lost archive. The note tells how often it was fetched again.
func TestCountsOfRefetches(t *testing.T) {
	again, ok := RefetchLink(weburl.Link{URL: weburl.MustParse("http://a.example/")})
	if !ok || !visitOf(&state.Finish{Link: again}).Refetched {
		t.Error("a page of a lost archive does not count")
	}
	again.SetApp("news", "http://a.example/")
	if visitOf(&state.Finish{Link: again}).Refetched {
		t.Error("an application's page counts as one of a lost archive")
	}
	for note, n := range map[string]uint8{"": 0, "refetch:1": 1, "shared,refetch:12,2t": 12, "refetch:x": 0,
		"near-duplicate:refetch:3": 0} {
		if got := (&Delivery{Note: note}).refetches(); got != n {
			t.Errorf("note %q: %d, want %d", note, got, n)
		}
	}
}
