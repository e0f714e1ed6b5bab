package crawl_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
)

// A Planner has a duplicate fetched again, and learns whether it changed. The first page stays the
// first. The crawl follows the links of a page that is no longer a duplicate.
func TestDuplicatesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{
			strategy: func() visit.Strategy { return &returner{follower: takeAll, n: 2, every: 60} }, again: true,
			with: func(r *crawl.Parts) error { r.Cluster = newPartly(nil).cluster(); return nil },
			text: `
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ /1
http://a.example/1 same /2 nofollow:http://b.example/1
http://a.example/2 http://b.example/1
http://a.example/robots.txt robots=User-agent:_*;Disallow:
http://b.example/1 same /2 nofollow:http://b.example/1 | same /2 nofollow:http://b.example/1 | /3
http://b.example/2
http://b.example/3 404
http://b.example/robots.txt robots=User-agent:_*;Disallow:
`,
		}
		s.parse(t)
		w := s.run(t)
		want := strings.TrimLeft(`
  200 a.example/robots.txt P
  200 a.example/
  200 a.example/1 L
  200 a.example/2 LL
  200 b.example/robots.txt LLLP [duplicate:digest]
  200 b.example/1 LLL [duplicate:content]
  200 a.example/ [duplicate:digest]
  200 a.example/1 L [duplicate:digest]
  200 a.example/2 LL [duplicate:digest]
  200 b.example/1 LLL [duplicate:content]
  200 a.example/ [duplicate:digest]
  200 a.example/1 L [duplicate:digest]
  200 a.example/2 LL [duplicate:digest]
  200 b.example/1 LLL
  404 b.example/3 LLLL
`, "\n")
		if got := logText(w.parts.Lines(t, w.fs)); got != want {
			t.Errorf("the log is\n%s\nwant\n%s", got, want)
		}
		if sum := w.Tally.Summary(0, ""); sum.Revisits != 8 || sum.Unchanged != 7 || sum.Changed != 1 ||
			sum.Duplicates != 8 {
			t.Errorf("%+v", sum)
		}
		s.check(t, w)
		for i, r := range testparts.Captures(t, w.fs, "http://b.example/1") {
			original := r.Header.Value("WARC-Refers-To-Target-URI")
			if i < 2 && (r.Type != "revisit" || original != "http://a.example/1") ||
				i == 2 && r.Type != "response" {
				t.Errorf("record %d of b.example/1: %v", i, r.Header)
			}
		}
		for i, r := range testparts.Captures(t, w.fs, "http://a.example/1") {
			if i > 0 && (r.Type != "revisit" || r.Header.Value("WARC-Refers-To-Target-URI") != "http://a.example/1") {
				t.Errorf("record %d of a.example/1: %v", i, r.Header)
			}
		}
	})
}
