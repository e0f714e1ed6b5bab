package crawl_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// An earlierCrawl has every payload.
type earlierCrawl struct{}

func (earlierCrawl) Find(_, _ [20]byte, _ int64) (warc.Original, bool, error) {
	return warc.Original{URL: "http://old.example/", Date: time.Unix(1e9, 0)}, true, nil
}

// The pages of the crawl become revisits of an earlier crawl, and their links are followed. The pages of an application
// are archived in full. So is a page that it wants after the crawl: the archive has only a revisit of it, so it is
// fetched again.
func TestEarlierCrawl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{earlier: earlierCrawl{}, text: `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /1
http://a.example/1 /2
http://a.example/2
http://a.example/only
http://a.example/robots.txt robots=User-agent:_*;Disallow:
`}
		s.parse(t)
		w, _, end := s.start(t)
		synctest.Wait()
		must.Do(t, w.Orders.SetApplications(newsAndList(t)))
		time.Sleep(2500 * time.Millisecond) // the crawl has fetched /1
		feed(t, w, "list", "http://a.example/1", "http://a.example/only")
		time.Sleep(time.Minute)
		pages, last := collected(t, w, "list")
		must.Do(t, w.Applications.Acknowledge(t.Context(), "list", last))
		must.Do(t, w.Orders.SetApplications(nil))
		finished(t)(end())
		if len(pages) != 2 {
			t.Errorf("the application has %v", pages)
		}
		kinds := map[string]string{}
		for _, path := range []string{"", "1", "2", "only"} {
			for _, r := range testparts.Captures(t, w.fs, "http://a.example/"+path) {
				kinds[path] += r.Type + " "
				if r.Type == "revisit" && r.Header.Value("WARC-Refers-To-Target-URI") != "http://old.example/" {
					t.Errorf("%s: %v", path, r.Header)
				}
			}
		}
		want := map[string]string{"": "revisit ", "1": "revisit response ", "2": "revisit ", "only": "response "}
		if !maps.Equal(kinds, want) {
			t.Errorf("the records are %q, want %q", kinds, want)
		}
		if n := w.Tally.Earlier(); n != 3 {
			t.Errorf("%d duplicates of an earlier crawl, want 3", n)
		}
		must.Do(t, w.close())
	})
}
