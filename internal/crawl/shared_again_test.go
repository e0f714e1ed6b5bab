package crawl_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
)

// The crawl has read a page in the archive, because an application had fetched it. When the server later says that the
// page has not changed, the new record refers to the one of the application's visit.
func TestSharedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{
			strategy: func() visit.Strategy { return &returner{follower: takeAll, n: 1, every: 60} }, again: true,
			text: `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ etag=1 /1
http://a.example/1 etag=1
http://a.example/robots.txt robots=User-agent:_*;Disallow:
`}
		s.parse(t)
		w, _, end := s.start(t)
		synctest.Wait()
		must.Do(t, w.Orders.SetApplications(newsAndList(t)))
		feed(t, w, "list", "http://a.example/1")
		time.Sleep(3 * time.Minute)
		if n := ownShared(t, w); n != 1 {
			t.Errorf("the crawl has %d pages of the archive, want 1", n)
		}
		must.Do(t, w.Orders.SetApplications(nil))
		finished(t)(end())
		rs := testparts.Captures(t, w.fs, "http://a.example/1")
		if len(rs) != 2 {
			t.Fatalf("%d records", len(rs))
		}
		first, second := rs[0].Header, rs[1].Header
		if rs[0].Type != "response" || rs[1].Type != "revisit" ||
			second.Value("WARC-Refers-To") != first.Value("WARC-Record-ID") ||
			second.Value("WARC-Refers-To-Target-URI") != "http://a.example/1" ||
			second.Value("WARC-Refers-To-Date") != first.Value("WARC-Date") {
			t.Errorf("the records are %v and %v", first, second)
		}
		must.Do(t, w.close())
	})
}
