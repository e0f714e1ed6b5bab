package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// newRoughJudge returns a judge of a web with redirects, dead links and pages that fail.
func newRoughJudge(t *testing.T) *judge {
	t.Helper()
	spec := gen.Plain(1, 6)
	spec.PagesMean, spec.MaxPages, spec.Redirects, spec.DeadLinks, spec.Gone = 20, 100, 0.2, 0.1, 0.1
	made := must.Get(gen.New(spec))(t)
	truth := must.Get(made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true}))(t)
	return newJudge(made, truth, 0, 0, 0)
}

// TestRedirects checks that the judge misses each URL of a chain of redirects that was not requested, and nothing
// behind it. A link that may be lost with a disk is not missed.
func TestRedirects(t *testing.T) {
	j, at := newRoughJudge(t), start.Add(time.Second)
	j.truth.Each(func(host, number int64) { j.pages[page{host, number}] = []fetched{{1, at}} })
	for len(j.others) < 1000 { // request all that is known, step by step
		n := len(j.others)
		urls, _ := j.missed()
		for _, u := range urls {
			j.others[u] = []fetched{{1, at}}
		}
		if len(j.others) == n {
			break
		}
	}
	type shape struct {
		kind  gen.Kind
		steps int
	}
	tried := map[shape]bool{}
	for p := range j.pages {
		for _, to := range j.made.Links(p.host, p.number, nil) {
			steps := j.made.Steps(p.host, to)
			if k := (shape{to.Kind, len(steps)}); tried[k] {
				continue
			} else {
				tried[k] = true
			}
			for i, url := range steps {
				answers := j.others[url]
				if len(answers) == 0 {
					t.Errorf("step %d of %v was not missed", i, steps)
				}
				delete(j.others, url)
				if urls, _ := j.missed(); !slices.Equal(urls, []string{url}) {
					t.Errorf("without %s, %v are missed", url, urls)
				}
				j.lost(p.host, loss{at: at, links: start})
				if urls, _ := j.missed(); len(urls) > 0 {
					t.Errorf("with a loss, %v are missed", urls)
				}
				clear(j.losses)
				j.others[url] = answers
			}
		}
	}
	if len(tried) < 6 { // a page, redirects in one to three steps, a circle, and a URL that does not exist
		t.Errorf("the web has links of %v only", tried)
	}
}
