package gen

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// wildWeb returns a small web with many faults of every kind.
func wildWeb(t testing.TB) *Web {
	s := Wild(7, 300)
	s.PagesMean, s.Links, s.PageBytes, s.Topics, s.Languages = 20, 20, 1, 3, 2
	s.Mirrors, s.DeadHosts, s.ClosedHosts, s.Traps = 0.1, 0.1, 0.1, 0.2
	return newWeb(t, s)
}

// sitemapURLs returns the pages in the sitemaps of a host. It reads the bytes that a crawler reads, beginning with
// robots.txt.
func sitemapURLs(t *testing.T, w *Web, robotsURL string) (pages []string) {
	t.Helper()
	file := func(target string) string {
		for range 5 {
			u, err := url.Parse(target)
			must.Do(t, err)
			host, ok := w.Find(u.Host)
			if !ok || u.Scheme == "https" && w.Host(host).TLS != "" {
				return ""
			}
			out, r := w.Answer(nil, testweb.Query{Host: host, Target: u.RequestURI(), Secure: u.Scheme == "https"})
			switch {
			case r.Fault == testweb.NoFault && r.Status == 200:
				return string(out[r.HeadLen:])
			case r.Fault != testweb.NoFault || r.Status != 301:
				return ""
			}
			target = header(out, "Location")
		}
		return ""
	}
	var maps []string
	for line := range strings.Lines(file(robotsURL)) {
		if m, ok := strings.CutPrefix(line, "Sitemap: "); ok {
			maps = append(maps, strings.TrimSpace(m))
		}
	}
	for len(maps) > 0 {
		text := file(maps[0])
		maps = maps[1:]
		for line := range strings.Lines(text) {
			_, rest, ok := strings.Cut(line, "<loc>")
			loc, _, _ := strings.Cut(rest, "</loc>")
			switch {
			case ok && strings.HasPrefix(line, "<sitemap>"):
				maps = append(maps, loc)
			case ok:
				pages = append(pages, loc)
			}
		}
	}
	return pages
}

// crawl returns all pages that can be reached. It uses only the bytes of the answers.
func crawl(t *testing.T, w *Web, b Bounds) map[Seed]bool {
	t.Helper()
	hosts, sites := map[int64]bool{}, map[string]bool{}
	for _, s := range b.Seeds {
		hosts[s.Host], sites[w.Host(s.Host).Site] = true, true
	}
	in := func(h int64) bool {
		return b.Scope == Anywhere || b.Scope == SeedHosts && hosts[h] ||
			b.Scope == SeedDomains && sites[w.Host(h).Site]
	}
	met := map[int64]bool{} // hosts whose robots.txt was read
	type job struct {
		url          string
		depth, steps int
	}
	seen, found := map[string]int{}, map[Seed]bool{}
	var queue []job
	add := func(u string, depth, steps int) {
		// A page is visited again if a shorter way to it is found.
		if d, ok := seen[u]; !ok || depth < d {
			seen[u] = depth
			queue = append(queue, job{u, depth, steps})
		}
	}
	// follow adds a link from a page or redirect at u. A link to another host may lead to that host's first page.
	follow := func(u, to *url.URL, depth, steps int) {
		if host, ok := w.Find(to.Host); ok && to.Host != u.Host && (b.Roots || b.TwoLevel) {
			add(w.URL(host, 0), depth, 0)
			if b.TwoLevel {
				return
			}
		}
		add(to.String(), depth, steps)
	}
	for _, s := range b.Seeds {
		add(w.URL(s.Host, s.Page), 0, 0)
		if b.Roots || b.TwoLevel {
			add(w.URL(s.Host, 0), 0, 0)
		}
	}
	for len(queue) > 0 {
		j := queue[0]
		queue = queue[1:]
		u, err := url.Parse(j.url)
		must.Do(t, err)
		host, ok := w.Find(u.Host)
		if !ok {
			t.Fatalf("there is no host for %s", j.url)
		}
		h := w.Host(host)
		if !in(host) || h.DNS != "" || u.Scheme == "https" && h.TLS != "" {
			continue
		}
		if b.Sitemaps && !met[host] {
			met[host] = true
			for _, s := range sitemapURLs(t, w, u.Scheme+"://"+u.Host+"/robots.txt") {
				add(s, 0, 0)
			}
		}
		var out []byte
		var r testweb.Reply
		for n := range 4 { // retries after a temporary error
			q := testweb.Query{Host: host, Target: u.RequestURI(), Secure: u.Scheme == "https", Answered: n}
			out, r = w.Answer(out[:0], q)
			if r.Status != 503 && r.Status != 429 {
				break
			}
		}
		if r.Fault != testweb.NoFault || r.Denied && b.Robots || r.Trap > 3 {
			continue
		}
		switch {
		case r.Status >= 300 && r.Status < 400:
			if j.steps < 6 {
				to, err := u.Parse(header(out[:r.HeadLen], "Location"))
				must.Do(t, err)
				follow(u, to, j.depth, j.steps+1)
			}
		case r.Status == 200:
			if r.Page >= 0 {
				found[Seed{host, r.Page}] = true
			}
			if b.Depth != nil && j.depth == *b.Depth {
				continue
			}
			for _, ref := range hrefs(t, out[r.HeadLen:]) {
				to, err := u.Parse(ref)
				must.Do(t, err)
				follow(u, to, j.depth+1, 0)
			}
		}
	}
	return found
}

// compareTruth compares the enumeration with a crawl of the bytes. It returns the number of pages.
func compareTruth(t *testing.T, w *Web, b Bounds) (pages int64) {
	t.Helper()
	truth, err := w.Reachable(b)
	must.Do(t, err)
	found := crawl(t, w, b)
	truth.Each(func(h, p int64) {
		if pages++; !found[Seed{h, p}] || !truth.Has(h, p) {
			t.Errorf("%s: in the truth, not found", truth.URL(h, p))
		}
	})
	for f := range found {
		if !truth.Has(f.Host, f.Page) {
			t.Errorf("%s: found, not in the truth", truth.URL(f.Host, f.Page))
		}
	}
	if pages != truth.Reachable() || int(pages) != len(found) {
		t.Errorf("Reachable says %d pages, Each gives %d, the crawl found %d", truth.Reachable(), pages, len(found))
	}
	return pages
}

func TestTruthIsWhatACrawlFinds(t *testing.T) {
	w := wildWeb(t)
	graph, err := New(Spec{Graph: testGraph(), Hosts: 30, PageBytes: 1, Broken: 0.05, Denied: 0.1, Redirects: 0.05})
	must.Do(t, err)
	listed := newWeb(t, Spec{
		Seed: 8, Hosts: 40, PagesMean: 6, Links: 4, PageBytes: 1, Sitemaps: 0.7, Denied: 0.5, NoRobots: 0.1,
		Broken: 0.2, ClosedHosts: 0.1, DeadHosts: 0.2, Redirects: 0.2,
	})
	dead := newWeb(t, Spec{Hosts: 100, PagesMean: 6, Links: 10, PageBytes: 1, DeadHosts: 0.4})
	trapped := newWeb(t, Spec{Hosts: 50, PagesMean: 30, Links: 4, Local: -1, PageBytes: 1, Traps: 1})
	var lost Seed // a page with a link into a trap
	for h := range trapped.Hosts() {
		for p := int64(1); p < trapped.Pages(h); p++ {
			isTrap := func(r Ref) bool { return r.Kind == ToTrap }
			if !trapped.deniesCalendar(h) && slices.ContainsFunc(trapped.Links(h, p, nil), isTrap) {
				lost = Seed{h, p}
			}
		}
	}
	two, zero := 2, 0
	for _, test := range []struct {
		name string
		w    *Web
		b    Bounds
	}{
		{"all", w, Bounds{Seeds: []Seed{{0, 0}}}},
		{"robots", w, Bounds{Seeds: []Seed{{0, 0}}, Robots: true}},
		{"depth 2", w, Bounds{Seeds: []Seed{{0, 0}, {5, 0}}, Depth: &two}},
		{"depth 0", w, Bounds{Seeds: []Seed{{0, 0}, {5, 0}}, Depth: &zero}},
		{"hosts", w, Bounds{Seeds: []Seed{{2, 0}, {15, 0}, {45, 0}, {7, 0}}, Scope: SeedHosts, Robots: true}},
		{"domains", w, Bounds{Seeds: []Seed{{2, 0}, {15, 0}, {45, 0}, {7, 0}}, Scope: SeedDomains, Robots: true}},
		{"sitemaps", w, Bounds{Seeds: []Seed{{0, 0}}, Robots: true, Sitemaps: true}},
		{"sitemaps of few links", listed, Bounds{Seeds: []Seed{{15, 0}, {30, 0}}, Robots: true, Sitemaps: true}},
		{"sitemaps without robots", listed, Bounds{Seeds: []Seed{{15, 0}, {30, 0}}, Sitemaps: true}},
		{"sitemaps of hosts", listed,
			Bounds{Seeds: []Seed{{2, 0}, {30, 0}, {33, 0}}, Scope: SeedHosts, Robots: true, Sitemaps: true}},
		{"dead hosts", dead, Bounds{Seeds: []Seed{{0, 0}}}},
		{"out of traps", trapped, Bounds{Seeds: []Seed{lost}, Scope: SeedHosts, Depth: &two}},
		{"plain", newWeb(t, Spec{Hosts: 100, PagesMean: 30, Denied: 0.02, PageBytes: 1, Links: 20}),
			Bounds{Seeds: []Seed{{0, 0}}, Robots: true}},
		{"graph", graph, Bounds{Seeds: []Seed{{0, 0}, {1, 0}}, Robots: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.name == "all" || test.name == "sitemaps" {
				testtier.OnlySoak(t, "it takes a second of CPU time, and smaller webs show the same")
			}
			t.Logf("%d pages", compareTruth(t, test.w, test.b))
		})
	}
}

// TestTruthOfAnyWeb compares the truth of random small webs and bounds.
func TestTruthOfAnyWeb(t *testing.T) {
	pages := int64(0)
	for seed := range uint64(testtier.Rounds(40, 200)) {
		r := rand.New(rand.NewPCG(seed, 99))
		some := func(most float64) float64 {
			if r.IntN(3) == 0 {
				return 0
			}
			return r.Float64() * most
		}
		s := Wild(r.Uint64(), 1+r.Int64N(100))
		s.PagesMean = 1 + r.Float64()*12
		s.MaxPages = int64(s.PagesMean) + 1 + r.Int64N(40)
		s.Links, s.PageBytes = 1+r.IntN(12), 1
		s.Topics, s.Languages = 1+r.IntN(3), 1+r.IntN(2) // few, because to make blocks takes most of the time
		s.Redirects, s.DeadLinks, s.Denied = some(0.5), some(0.4), some(0.9)
		for _, share := range []*float64{
			&s.Failing, &s.Busy, &s.Slow, &s.Duplicates, &s.Gone, &s.Broken, &s.Hanging, &s.Resetting, &s.Truncated,
		} {
			*share = some(0.08)
		}
		for _, share := range []*float64{
			&s.Sitemaps, &s.NoRobots, &s.Traps, &s.Secure, &s.SlowHosts, &s.Local, &s.Locality,
		} {
			*share = some(1)
		}
		s.Mirrors, s.ClosedHosts, s.DeadHosts = some(0.16), some(0.16), some(0.16)
		if r.IntN(2) == 0 {
			s.Links, s.Local, s.Crosslinked = s.Links+8, 0, some(0.3)
		}
		w, err := New(s)
		for err != nil && s.Crosslinked > 0 { // more than this web can have
			if s.Crosslinked /= 4; s.Crosslinked < 0.001 {
				s.Crosslinked = 0
			}
			w, err = New(s)
		}
		must.Do(t, err)
		b := Bounds{
			Scope: Scope(r.IntN(3)), Robots: r.IntN(2) == 0, Roots: r.IntN(4) == 0, TwoLevel: r.IntN(4) == 0,
		}
		for range 1 + r.IntN(4) {
			h := r.Int64N(s.Hosts)
			b.Seeds = append(b.Seeds, Seed{h, r.Int64N(w.Pages(h))})
		}
		switch depth := r.IntN(6); r.IntN(3) {
		case 0:
			b.Depth = &depth
		case 1:
			b.Sitemaps = true
		}
		if pages += compareTruth(t, w, b); t.Failed() {
			t.Fatalf("seed %d: spec %+v, bounds %+v", seed, s, b)
		}
	}
	t.Logf("%d pages", pages)
}

// TestSitemapOfALargeHost: the pages of a sitemap take one step each, without recursion.
func TestSitemapOfALargeHost(t *testing.T) {
	testtier.OnlyIdle(t, "it bounds the time that the truth of a large host takes")
	const pages = 300_000
	w := newWeb(t, Spec{
		Hosts: 1, PagesMean: pages, MaxPages: pages, Links: 1, PageBytes: 1, Sitemaps: 1, Topics: 1, Languages: 1,
	})
	start := time.Now()
	truth, err := w.Reachable(Bounds{Seeds: []Seed{{0, pages / 2}}, Sitemaps: true, Robots: true})
	took := time.Since(start)
	if err != nil || truth.Reachable() != w.Pages(0) || w.Pages(0) < pages*9/10 {
		t.Fatalf("%d pages of %d, %v", truth.Reachable(), w.Pages(0), err)
	}
	// To look at all pages again for each page would take minutes.
	if t.Logf("%d pages in %s", pages, took); took > 10*time.Second {
		t.Errorf("%d pages took %s", pages, took)
	}
}

func TestTruthBounds(t *testing.T) {
	if _, err := newWeb(t, Spec{Hosts: 1e6, PagesMean: 100}).Reachable(Bounds{}); !errors.Is(err, ErrTooMany) {
		t.Errorf("a web of 100 million pages: %v", err)
	}
	if _, err := newWeb(t, Spec{}).Reachable(Bounds{Seeds: []Seed{{0, 1 << 40}}}); err == nil {
		t.Error("a seed that does not exist: no error")
	}
	tr, err := newWeb(t, Spec{}).Reachable(Bounds{})
	if err != nil || tr.Reachable() != 0 || tr.Has(-1, 0) || tr.Has(0, 0) || tr.Has(5000, 0) {
		t.Errorf("no seeds: %v, %v", tr.Reachable(), err)
	}
}

// TestAllHostsAreReached: the trees of hosts and pages lead to every page.
func TestAllHostsAreReached(t *testing.T) {
	w := newWeb(t, Spec{Hosts: 20000, PagesMean: 10, Links: 20})
	start := time.Now()
	truth, err := w.Reachable(Bounds{Seeds: []Seed{{0, 0}}})
	must.Do(t, err)
	want := int64(0)
	for h := range w.Hosts() {
		want += w.Pages(h)
	}
	if truth.Reachable() != want {
		t.Errorf("%d pages reached, want %d", truth.Reachable(), want)
	}
	t.Logf("%d pages in %s", want, time.Since(start))
}
