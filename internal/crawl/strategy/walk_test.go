package strategy

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func walk(cfg WalkConfig) func(Place) (visit.Strategy, error) {
	return func(at Place) (visit.Strategy, error) { return OpenWalk(at, cfg) }
}

// randomGraph returns a web with popular pages, dead ends, redirects and errors.
func randomGraph(seed uint64, n int) map[string]*doc {
	rng := rand.New(rand.NewPCG(seed, 0))
	url := func(i int) string { return fmt.Sprintf("http://h%d.example/%d", i%5, i) }
	docs := map[string]*doc{}
	for i := range n {
		d := &doc{}
		docs[url(i)] = d
		switch {
		case i > 5 && rng.IntN(10) == 0:
			d.status = 404
			continue
		case i > 5 && rng.IntN(10) == 0:
			d.to = url(rng.IntN(n))
			continue
		}
		for range rng.IntN(6) {
			to := url(int(float64(n) * math.Pow(rng.Float64(), 2)))
			if !slices.Contains(d.links, to) {
				d.links = append(d.links, to)
			}
		}
	}
	return docs
}

// pageRank returns the stationary distribution of the walk, computed by iteration on the
// graph. The shares of the sample must come close to it.
func pageRank(docs map[string]*doc, seeds []string, jump float64) map[string]float64 {
	p := map[string]float64{}
	for _, s := range seeds {
		p[s] = 1 / float64(len(seeds))
	}
	for range 400 {
		q := map[string]float64{}
		for u, mass := range p {
			d := docs[u]
			switch {
			case d.to != "":
				q[d.to] += mass
				continue
			case d.status == 404 || len(d.links) == 0:
				for _, s := range seeds {
					q[s] += mass / float64(len(seeds))
				}
				continue
			}
			for _, s := range seeds {
				q[s] += mass * jump / float64(len(seeds))
			}
			for _, to := range d.links {
				q[to] += mass * (1 - jump) / float64(len(d.links))
			}
		}
		p = q
	}
	sum := 0.0
	for u := range p {
		if d := docs[u]; d.to != "" || d.status == 404 {
			delete(p, u)
		} else {
			sum += p[u]
		}
	}
	for u := range p {
		p[u] /= sum
	}
	return p
}

func sampled(t *testing.T, w *world, s visit.Strategy) [][]string {
	t.Helper()
	must.Do(t, w.mem.MkdirAll(dir+"/reports", 0o755))
	must.Do(t, s.(*Walk).WriteReport(w.mem, dir+"/reports"))
	b, err := disk.ReadFile(w.mem, dir+"/reports/walk.csv", 1<<20)
	must.Do(t, err)
	rows, err := csv.NewReader(strings.NewReader(string(b))).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%q, %v", b, err)
	}
	return rows[1:]
}

// TestWalkIsPageRank walks a web of pages, dead ends, redirects and errors. The shares of
// the sample are the PageRanks of the pages, and no page is fetched twice.
func TestWalkIsPageRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := randomGraph(1, 120)
		seeds := []string{"http://h0.example/0", "http://h1.example/1"}
		const steps = 200_000
		w := newWorld(t, docs, walk(WalkConfig{Walkers: 20, Steps: steps, Seed: 3}), seeds...)
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			if stop != crawl.Finished {
				t.Errorf("stop %s", stop)
			}
			want := pageRank(docs, seeds, 0.15)
			sum, far, visits := 0.0, 0.0, 0
			for _, row := range sampled(t, w, p.Strategy) {
				share, err := strconv.ParseFloat(row[2], 64)
				must.Do(t, err)
				n, _ := strconv.Atoi(row[1])
				visits += n
				sum += share
				far += math.Abs(share - want[row[0]])
				delete(want, row[0])
			}
			for u, share := range want { // never sampled
				if far += share; share > 1e-3 {
					t.Errorf("%s has rank %g and no visit", u, share)
				}
			}
			if math.Abs(sum-1) > 1e-3 || far > 0.03 || visits > steps || visits < steps/2 {
				t.Errorf("%d visits, shares sum to %g, distance to PageRank %.4f", visits, sum, far)
			}
			t.Logf("%d visits to pages, distance to PageRank %.4f", visits, far)
		})
		times := map[string]int{}
		for _, a := range w.web.asked {
			if times[a.url]++; times[a.url] > 1 {
				t.Errorf("%s was asked for twice", a.url)
			}
		}
	})
}

// TestWalkIsRepeatable: the same random seed gives the same sample, also if the crawl was
// ended in between. Another seed gives another sample.
func TestWalkIsRepeatable(t *testing.T) {
	sample := func(t *testing.T, seed uint64, ends []end) string {
		var out string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, randomGraph(2, 200), walk(WalkConfig{Walkers: 7, Steps: 3000, Seed: seed}),
				"http://h0.example/0")
			w.run(t, ends, func(p *process, stop crawl.Stop, last bool) {
				if last {
					rows := sampled(t, w, p.Strategy)
					slices.SortFunc(rows, slices.Compare)
					out = fmt.Sprint(rows)
				}
			})
		})
		return out
	}
	want := sample(t, 1, nil)
	for i, ends := range [][]end{
		{{5 * time.Second, "kill"}},
		{{3 * time.Second, "crash"}, {4 * time.Second, "signal"}, {1500 * time.Millisecond, "kill"}},
		{{20 * time.Second, "signal"}, {time.Millisecond, "crash"}},
	} {
		if diff := cmp.Diff(want, sample(t, 1, ends)); diff != "" {
			t.Errorf("ends %d (-undisturbed +disturbed):\n%s", i, diff)
		}
	}
	if sample(t, 2, nil) == want {
		t.Error("another seed, the same sample")
	}
}

// TestFailedSeedsAgain: all seeds fail in the first run. Later runs visit them as if they
// were new, also after a kill. The responses, the counts of URLs and the walks
// equal the results of a crawl that never failed.
func TestFailedSeedsAgain(t *testing.T) {
	seeds := []string{"http://h0.example/0", "http://h1.example/1", "http://h2.example/2", "http://h3.example/3"}
	for name, open := range map[string]func(Place) (visit.Strategy, error){
		"bfs":     fixed(BreadthFirst{}),
		"walk":    walk(WalkConfig{Walkers: 7, Steps: 500, Seed: 1}),
		"recrawl": recrawl(RecrawlConfig{Min: time.Second, Max: time.Second, Rounds: 1}),
	} {
		play := func(t *testing.T, down bool, ends []end) (sample string, s report.Summary) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, randomGraph(2, 40), open, seeds...)
				w.cfg.Retries = -1
				w.web.down.Store(down)
				if down {
					w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
						failed, n := p.View.FailedSeeds()
						if s := p.Tally.Summary(0, ""); n != 4 || len(failed) != 4 || s.Finished != 4 || s.Unique != 4 {
							t.Errorf("%d seeds failed: %+v", n, s)
						}
					})
					w.web.down.Store(false)
				}
				w.run(t, ends, func(p *process, stop crawl.Stop, last bool) {
					if !last {
						return
					}
					s = p.Tally.Summary(0, "")
					if name == "walk" {
						rows := sampled(t, w, p.Strategy)
						slices.SortFunc(rows, slices.Compare)
						sample = fmt.Sprint(rows)
					}
				})
			})
			return sample, s
		}
		want, counts := play(t, false, nil)
		for i, ends := range [][]end{
			nil,
			{{time.Millisecond, "kill"}, {1100 * time.Millisecond, "signal"}, {1500 * time.Millisecond, "kill"}},
			{{1 * time.Millisecond, "signal"}, {1500 * time.Millisecond, "signal"}},
			{{1500 * time.Millisecond, "crash"}, {time.Millisecond, "signal"}},
		} {
			got, s := play(t, true, ends)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, ends %d: sample (-never failed +failed first):\n%s", name, i, diff)
			}
			same := s.Unique == counts.Unique && s.Finished == counts.Finished && s.Discovered == counts.Discovered
			if !same || s.Pages < counts.Pages {
				t.Errorf("%s, ends %d: %d URLs, %d finished, %d found, %d pages; never failed: %d, %d, %d, %d", name, i,
					s.Unique, s.Finished, s.Discovered, s.Pages, counts.Unique, counts.Finished, counts.Discovered,
					counts.Pages)
			}
		}
	}
}

// If the trap detection refuses a page, the page is a dead end: no walker waits for it.
func TestWalkAndTraps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := map[string]*doc{"http://a.example/": {}}
		for i := range 1200 {
			docs["http://a.example/"].links = append(docs["http://a.example/"].links, fmt.Sprint("/p?q=", i))
		}
		w := newWorld(t, docs, walk(WalkConfig{Walkers: 4, Steps: 3000}), "http://a.example/")
		w.delay = time.Millisecond
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			if s := p.Tally.Summary(0, ""); stop != crawl.Finished || s.Skipped["trapQueryExplosion"] == 0 {
				t.Errorf("%s, %+v", stop, s)
			}
			for _, k := range p.Strategy.(*Walk).walkers {
				if k.steps != k.bound {
					t.Errorf("a walker made %d of %d steps", k.steps, k.bound)
				}
			}
		})
	})
}

// A walker leaves an endless chain of redirects where the crawl stops following it.
func TestWalkAndRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		docs := map[string]*doc{"http://a.example/": {links: []string{"/r0"}}}
		for i := range 100 {
			docs[fmt.Sprint("http://a.example/r", i)] = &doc{to: fmt.Sprint("/r", i+1)}
		}
		w := newWorld(t, docs, walk(WalkConfig{Walkers: 1, Steps: 1000}), "http://a.example/")
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			if n := p.Tally.Summary(0, "").Status["301"]; n < 15 || n > 25 {
				t.Errorf("%d redirects were followed", n)
			}
		})
	})
}

func TestStopRoundTrip(t *testing.T) {
	var links []link.Link
	var want []string
	for _, s := range []string{"http://a.example/", "http://a.example/x", "http://b.example/x", "http://b.example/xy",
		"http://b.example/x"} {
		links = append(links, link.Link{URL: mustURL(t, s)})
		want = append(want, s)
	}
	var got []string
	enc := appendStop(nil, stopPage, links)
	kind, n, err := decodeStop(enc, func(_ int, url []byte) { got = append(got, string(url)) })
	if err != nil || kind != stopPage || n != len(want) || !slices.Equal(got, want) {
		t.Errorf("%d %d %q, %v", kind, n, got, err)
	}
	for _, bad := range [][]byte{nil, {stateWalk}, {'x', 0}, {stateWalk, 9}, {stateWalk, stopRedirect},
		enc[:len(enc)-1]} {
		if _, _, err := decodeStop(bad, nil); !errors.Is(err, errState) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	many := make([]link.Link, 2*maxLinks)
	for i := range many {
		many[i].URL = mustURL(t, fmt.Sprint("http://a.example/", i))
	}
	if _, n, err := decodeStop(appendStop(nil, stopPage, many), nil); n != maxLinks || err != nil {
		t.Errorf("%d links, %v", n, err)
	}
}

func FuzzStop(f *testing.F) {
	f.Add([]byte{stateWalk, stopDead})
	f.Add(appendStop(nil, stopRedirect, []link.Link{{URL: mustURL(f, "http://a.example/")}}))
	f.Add(appendStop(nil, stopPage,
		[]link.Link{{URL: mustURL(f, "http://a.example/1")}, {URL: mustURL(f, "http://a.example/2")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		last, size := -1, 0
		_, n, err := decodeStop(b, func(i int, url []byte) {
			if i != last+1 || len(url) > weburl.MaxParse {
				t.Fatalf("link %d of %d octets", i, len(url))
			}
			last, size = i, size+len(url)
		})
		if err == nil && n != last+1 {
			t.Errorf("%d links, %d shown", n, last+1)
		}
	})
}
