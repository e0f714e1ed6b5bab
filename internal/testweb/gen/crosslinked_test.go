package gen

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// TestCrosslinkedPages reads the bytes of all pages. The pages that no page of their host links to are the crosslinked
// ones. A crawl that follows links between hosts finds them, a two-level crawl does not.
func TestCrosslinkedPages(t *testing.T) {
	for _, want := range []float64{0.05, 0.1, 0.2} {
		for seed := range uint64(testtier.Rounds(1, 2)) {
			t.Run(fmt.Sprintf("%g of seed %d", want, seed), func(t *testing.T) {
				w := newWeb(t, Spec{
					Seed: seed, Hosts: 80, PagesMean: 30, Links: 16, PageBytes: 1, Topics: 2, Languages: 1, Secure: 0.3,
					Crosslinked: want,
				})
				all, alone, most := linkedAlone(t, w)
				full := compareTruth(t, w, Bounds{Seeds: []Seed{{}}})
				two := Bounds{Seeds: []Seed{{}}, TwoLevel: true}
				inside := compareTruth(t, w, two)
				truth, err := w.Reachable(two)
				must.Do(t, err)
				for page, isAlone := range alone {
					if truth.Has(page.Host, page.Page) == isAlone || w.Crosslinked(page.Host, page.Page) != isAlone {
						t.Errorf("%s: linked only from other hosts: %v; in the truth of two levels: %v",
							w.URL(page.Host, page.Page), isAlone, !isAlone)
					}
				}
				got := float64(full-inside) / float64(all)
				t.Logf("%d pages, %.4f linked only from other hosts; at most %d links on a page", full, got, most)
				if full != all {
					t.Errorf("%d pages can be reached, want %d", full, all)
				}
				if sigma := math.Sqrt(want * (1 - want) / float64(all)); math.Abs(got-want) > 4*sigma {
					t.Errorf("a share of %.4f is linked only from other hosts, want %g within %.4f", got, want, 4*sigma)
				}
				if most > 60 {
					t.Errorf("a page has %d links, want at most 60", most)
				}
			})
		}
	}
}

// linkedAlone reads all pages. It returns their number, for each page but the first ones whether no page of its own
// host links to it, and the most links on a page.
func linkedAlone(t *testing.T, w *Web) (all int64, alone map[Seed]bool, most int) {
	t.Helper()
	linked := map[string]bool{} // URLs to which a page of the same host links
	for h := range w.Hosts() {
		for p := range w.Pages(h) {
			base, err := url.Parse(w.URL(h, p))
			must.Do(t, err)
			q := testweb.Query{Host: h, Target: base.RequestURI(), Secure: base.Scheme == "https"}
			out, r := w.Answer(nil, q)
			if r.Status != 200 || r.Page != p {
				t.Fatalf("%s: %+v", base, r)
			}
			list := hrefs(t, out[r.HeadLen:])
			most = max(most, len(list))
			for _, ref := range list {
				to, err := base.Parse(ref)
				must.Do(t, err)
				if to.Host == base.Host {
					linked[to.String()] = true
				}
			}
		}
	}
	alone = map[Seed]bool{}
	for h := range w.Hosts() {
		for p := range w.Pages(h) {
			if all++; p > 0 {
				alone[Seed{h, p}] = !linked[w.URL(h, p)]
			}
		}
	}
	return all, alone, most
}

// TestCrosslinkedOfAnyWeb: in webs of any shape, all pages that faults do not hide can be reached, and a page is
// crosslinked exactly if another page refers to it.
func TestCrosslinkedOfAnyWeb(t *testing.T) {
	rng := testseed.Rand(t)
	for range testtier.Rounds(15, 60) {
		s := Spec{
			Seed: rng.Uint64(), Hosts: 3 + rng.Int64N(400), PagesMean: 2 + rng.Float64()*30, Links: 8 + rng.IntN(40),
			Topics: 1, Languages: 1, Crosslinked: 0.3 * rng.Float64(),
		}
		if rng.IntN(2) == 0 {
			s.Mirrors, s.DeadHosts, s.ClosedHosts = 0.1, 0.1, 0.1
		}
		w, err := New(s)
		if err != nil {
			if strings.Contains(err.Error(), "at most") {
				continue // the web has too few leaves for the share
			}
			t.Fatal(err)
		}
		referred := map[Seed]int{}
		for h := range w.Hosts() {
			for p := range w.Pages(h) {
				for _, to := range w.refer(h, p, nil) {
					if to.Host == h || w.Crosslinked(h, p) || !w.answers(h, p) {
						t.Fatalf("%+v: page %d of host %d refers to %+v", s, p, h, to)
					}
					referred[Seed{to.Host, to.Page}]++
				}
			}
		}
		for h := range w.Hosts() {
			for p := range w.Pages(h) {
				want := 0
				if w.source(h) == h && w.Crosslinked(h, p) {
					want = 1
				}
				if got := referred[Seed{h, p}]; got != want {
					t.Fatalf("%+v: %d pages refer to page %d of host %d, want %d", s, got, p, h, want)
				}
			}
		}
	}
}

// TestCrosslinkedOfLargeWebs: the pages of a web of any size can be numbered, and their referrers found.
func TestCrosslinkedOfLargeWebs(t *testing.T) {
	for _, s := range []Spec{
		{Hosts: 100_000_000}, {Hosts: 1 << 40, PagesMean: 3}, {Hosts: 30, PagesMean: 1e7, MaxPages: 1 << 30},
		{Hosts: 1_000_000, PagesMean: 1000},
	} {
		s.Crosslinked = 0.1
		w := newWeb(t, s)
		n, step := 0, uint64(float64(w.crosslinks.pages.count)/3001)
		for i := uint64(0); i < w.crosslinks.pages.count-step; i += step {
			h, p, ok := w.pageAt(i)
			if !ok {
				continue
			}
			if got := w.crosslinks.pages.number(w.sizes.rank(h), p); got != i {
				t.Fatalf("%+v: number %d is page %d of host %d with number %d", s, i, p, h, got)
			}
			if !w.crosslinked(h, p) {
				continue
			}
			from, q := w.referrer(h, p)
			found := false
			for _, to := range w.Links(from, q, nil) {
				found = found || to.Host == h && to.Page == p && to.Kind == ToPage
			}
			if n++; !found {
				t.Errorf("%+v: page %d of host %d does not link to page %d of host %d", s, q, from, p, h)
			}
		}
		if t.Logf("%d hosts: %d pages crosslinked", s.Hosts, n); n < 100 {
			t.Errorf("%+v: %d pages crosslinked, want at least 100", s, n)
		}
	}
}

func TestCrosslinkedIsNotPossible(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		want string
	}{
		{Spec{Hosts: 1}, "at most 0.00"},
		{Spec{Links: 2}, "too few links within their host"},
		{Spec{Local: -1}, "too few links within their host"},
		{Spec{Graph: testGraph()}, "graph"},
		{Spec{Hosts: 1 << 40, PagesMean: 1e8, MaxPages: 1 << 30}, "2^62"},
		{Spec{PagesMean: 1, MaxPages: 1}, "at most 0.00"},
	} {
		test.spec.Crosslinked = 0.1
		if _, err := New(test.spec); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want an error with %q", test.spec, err, test.want)
		}
	}
}
