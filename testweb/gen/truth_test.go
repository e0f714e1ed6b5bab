package gen

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/testweb"
)

// wildWeb is small, and has much of everything.
func wildWeb(t testing.TB) *Web {
	s := Wild(7, 300)
	s.PagesMean, s.Links, s.PageBytes, s.Topics, s.Languages = 20, 20, 1, 3, 2
	s.Mirrors, s.DeadHosts, s.ClosedHosts, s.Traps = 0.1, 0.1, 0.1, 0.2
	return newWeb(t, s)
}

// crawl fetches all that can be reached, from the bytes of the answers alone.
func crawl(t *testing.T, w *Web, seeds []string, robots bool, depth int, in func(host int64) bool) map[Seed]bool {
	t.Helper()
	type job struct {
		url          string
		depth, steps int
	}
	seen, found := map[string]int{}, map[Seed]bool{}
	var queue []job
	add := func(u string, depth, steps int) {
		// A page is looked at again when a shorter way to it is found.
		if d, ok := seen[u]; !ok || depth < d {
			seen[u] = depth
			queue = append(queue, job{u, depth, steps})
		}
	}
	for _, s := range seeds {
		add(s, 0, 0)
	}
	for len(queue) > 0 {
		j := queue[0]
		queue = queue[1:]
		u, err := url.Parse(j.url)
		if err != nil {
			t.Fatal(err)
		}
		host, ok := w.Find(u.Host)
		if !ok {
			t.Fatalf("no host of %s", j.url)
		}
		h := w.Host(host)
		if !in(host) || h.DNS != "" || u.Scheme == "https" && h.TLS != "" {
			continue
		}
		var out []byte
		var r testweb.Reply
		for n := range 4 { // asked again when that may mend it
			out, r = w.Answer(out[:0], testweb.Query{Host: host, Target: u.RequestURI(), Secure: u.Scheme == "https", Answered: n})
			if r.Status != 503 && r.Status != 429 {
				break
			}
		}
		if r.Fault != testweb.NoFault || r.Denied && robots || r.Trap > 3 {
			continue
		}
		switch {
		case r.Status >= 300 && r.Status < 400:
			if j.steps < 6 {
				to, err := u.Parse(header(out[:r.HeadLen], "Location"))
				if err != nil {
					t.Fatal(err)
				}
				add(to.String(), j.depth, j.steps+1)
			}
		case r.Status == 200:
			if r.Page >= 0 {
				found[Seed{host, r.Page}] = true
			}
			if depth >= 0 && j.depth == depth {
				continue
			}
			for _, ref := range hrefs(t, out[r.HeadLen:]) {
				to, err := u.Parse(ref)
				if err != nil {
					t.Fatal(err)
				}
				add(to.String(), j.depth+1, 0)
			}
		}
	}
	return found
}

func TestTruthIsWhatACrawlFinds(t *testing.T) {
	w := wildWeb(t)
	graph, err := New(Spec{Graph: testGraph(), Hosts: 30, PageBytes: 1, Broken: 0.05, Denied: 0.1, Redirects: 0.05})
	if err != nil {
		t.Fatal(err)
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
		{"plain", newWeb(t, Spec{Hosts: 100, PagesMean: 30, Denied: 0.02, PageBytes: 1, Links: 20}), Bounds{Seeds: []Seed{{0, 0}}, Robots: true}},
		{"graph", graph, Bounds{Seeds: []Seed{{0, 0}, {1, 0}}, Robots: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := test.w
			truth, err := w.Reachable(test.b)
			if err != nil {
				t.Fatal(err)
			}
			var seeds []string
			hosts, sites := map[int64]bool{}, map[string]bool{}
			for _, s := range test.b.Seeds {
				seeds = append(seeds, w.URL(s.Host, s.Page))
				hosts[s.Host], sites[w.Host(s.Host).Site] = true, true
			}
			depth := -1
			if test.b.Depth != nil {
				depth = *test.b.Depth
			}
			found := crawl(t, w, seeds, test.b.Robots, depth, func(h int64) bool {
				return test.b.Scope == Anywhere || test.b.Scope == SeedHosts && hosts[h] || test.b.Scope == SeedDomains && sites[w.Host(h).Site]
			})
			var each int64
			truth.Each(func(h, p int64) {
				if each++; !found[Seed{h, p}] || !truth.Has(h, p) {
					t.Errorf("%s: in the truth, not found", truth.URL(h, p))
				}
			})
			if each != truth.Reachable() || int(each) != len(found) {
				t.Errorf("%d pages in the truth, %d of them told, %d found", truth.Reachable(), each, len(found))
			}
			t.Logf("%d pages", each)
		})
	}
}

func TestTruthBounds(t *testing.T) {
	if _, err := newWeb(t, Spec{Hosts: 1e6, PagesMean: 100}).Reachable(Bounds{}); !errors.Is(err, ErrTooMany) {
		t.Errorf("a web of 100 million pages: %v", err)
	}
	if _, err := newWeb(t, Spec{}).Reachable(Bounds{Seeds: []Seed{{0, 1 << 40}}}); err == nil {
		t.Error("a seed that does not exist: no error")
	}
	if tr, err := newWeb(t, Spec{}).Reachable(Bounds{}); err != nil || tr.Reachable() != 0 || tr.Has(-1, 0) || tr.Has(0, 0) || tr.Has(5000, 0) {
		t.Errorf("no seeds: %v, %v", tr.Reachable(), err)
	}
}

// TestAllHostsAreReached: the trees of hosts and of pages lead everywhere.
func TestAllHostsAreReached(t *testing.T) {
	w := newWeb(t, Spec{Hosts: 20000, PagesMean: 10, Links: 20})
	start := time.Now()
	truth, err := w.Reachable(Bounds{Seeds: []Seed{{0, 0}}})
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for h := range w.Hosts() {
		want += w.Pages(h)
	}
	if truth.Reachable() != want {
		t.Errorf("%d pages reached, want %d", truth.Reachable(), want)
	}
	t.Logf("%d pages in %s", want, time.Since(start))
}
