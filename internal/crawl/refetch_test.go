package crawl_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// The pages that applications have not collected from an agent that leaves are fetched again, each for its
// application. Then they count as collected.
func TestRecollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := waitingWeb(t, 4)
		c := s.watched(nil)
		w, _, end := s.start(t)
		synctest.Wait()
		l := c.loop
		if links, _, _, err := l.Applications.Recollect(); err != nil || len(links) > 0 {
			t.Fatalf("without applications: %v, %v", links, err)
		}
		must.Do(t, w.Orders.SetApplications(newsAndList(t)))
		feed(t, w, "news", "http://a.example/1", "http://a.example/2")
		err := l.Run.Do(t.Context(), "test", func(time.Time) { // a page that was fetched again too often
			if err := w.Delivery.Log("news").Append(func(b []byte) []byte {
				return append(b, `{"url":"http://a.example/old","status":200,"note":"refetch:255"}`...)
			}); err != nil {
				t.Error(err)
			}
		})
		must.Do(t, err)
		feed(t, w, "list", "http://a.example/1", "http://a.example/3")
		time.Sleep(time.Minute)
		if pages, last := collected(t, w, "list"); len(pages) != 2 {
			t.Fatalf("list: %v", pages)
		} else if err := w.Applications.Acknowledge(t.Context(), "list", last-1); err != nil { // not the second one
			t.Fatal(err)
		}
		links, spent, done, err := l.Applications.Recollect()
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
		if n := w.Applications.Uncollected(); n != 4 {
			t.Errorf("%d pages wait before other agents have the links, want 4", n)
		}
		if err := done(t.Context()); err != nil || w.Applications.Uncollected() != 0 {
			t.Errorf("%d pages wait after that: %v", w.Applications.Uncollected(), err)
		}
		must.Do(t, w.Orders.SetApplications(nil))
		if err := done(t.Context()); err != nil {
			t.Errorf("the applications were removed meanwhile: %v", err)
		}
		finished(t)(end())
		must.Do(t, w.close())
	})
}

func mustDeliveries(t *testing.T, w *world, app string) []applications.Delivery {
	t.Helper()
	pages, err := w.Applications.Deliveries(app, 0, 1000)
	must.Do(t, err)
	return pages
}
