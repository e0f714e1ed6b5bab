package frontier

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// in returns ls in the order that Scramble gives.
func in(t testing.TB, ls []link.Link) []link.Link {
	t.Helper()
	order := Scramble(ls)
	if order == nil {
		return ls
	}
	if len(order) != len(ls) {
		t.Fatalf("Scramble gives %d indexes for %d links", len(order), len(ls))
	}
	out := make([]link.Link, 0, len(ls))
	for _, i := range order {
		out = append(out, ls[i])
	}
	return out
}

// TestScramble checks the guarantees of Scramble on random batches.
func TestScramble(t *testing.T) {
	r := testseed.Rand(t)
	moved := 0
	for range 500 {
		n, sites := 1+r.IntN(200), 1+r.IntN(40)
		var ls []link.Link
		hops, level := "", uint8(0)
		const stretch = 60 // mean number of consecutive links of the same level and depth
		for i := range n {
			if r.IntN(stretch) == 0 {
				hops, level = strings.Repeat("L", r.IntN(3)), uint8(r.IntN(2))
			}
			site := int(float64(sites) * r.Float64() * r.Float64())
			l := linkOf(t, fmt.Sprintf("http://w%d.s%d.example/%d", r.IntN(3), site, i), level)
			l.Hops = hops
			ls = append(ls, l)
		}
		got := in(t, ls)
		if again := in(t, ls); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Fatal("Scramble gives two orders for the same batch")
		}
		// Check each sequence of the same level and depth by itself.
		for from := 0; from < n; {
			to := from
			of := map[string]int{}
			k := 0
			for to < n && ls[to].Level == ls[from].Level && ls[to].Depth() == ls[from].Depth() {
				name := siteOf(ls[to].URL.Host())
				of[name]++
				k = max(k, of[name])
				to++
			}
			place := map[string]int{} // position of a site's last link
			last := map[string]int{}  // number of a site's last link
			for i := from; i < to; i++ {
				l := got[i]
				if l.Level != ls[i].Level || l.Depth() != ls[i].Depth() {
					t.Fatalf("link %d has level %d, depth %d; want %d, %d", i, l.Level, l.Depth(), ls[i].Level,
						ls[i].Depth())
				}
				if l != ls[i] {
					moved++
				}
				site := siteOf(l.URL.Host())
				if p, ok := place[site]; ok && i-p < (to-from)/k-1 {
					t.Fatalf("links of %s at %d and %d of %d; the largest site has %d links", site, p, i, to-from, k)
				}
				place[site] = i
				var m int
				must.Get(fmt.Sscanf(l.URL.Path(), "/%d", &m))(t)
				if p, ok := last[site]; ok && m < p {
					t.Fatalf("%s: link %d comes after %d", site, m, p)
				}
				last[site] = m
				of[site]--
				if k == 1 && l != ls[i] {
					t.Fatal("every link is of another site, but the order has changed")
				}
			}
			for site, n := range of {
				if n != 0 {
					t.Fatalf("%s: %d links are missing", site, n)
				}
			}
			from = to
		}
	}
	if moved == 0 {
		t.Error("no link has changed places")
	}
}

func TestScrambleNothing(t *testing.T) {
	for _, urls := range []string{"", "a", "a a", "a a a a", "a b c", "a b", "a a b b"} {
		var ls []link.Link
		for i, h := range strings.Fields(urls) {
			ls = append(ls, linkOf(t, fmt.Sprintf("http://%s.example/%d", h, i), 0))
		}
		var got []string
		for _, l := range in(t, ls) {
			got = append(got, l.URL.Host()[:1])
		}
		want := urls
		if urls == "a a b b" {
			want = "a b a b"
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q becomes %q, want %q", urls, got, want)
		}
	}
}

// TestBreadthFirst checks the order that Polybot promises. With equally available hosts ("host-oblivious"), links must
// come out in the order in which they were pushed, after each batch was scrambled: batch after batch, and the links of
// a site in the order in which they were found. With Gather, links that pass the pools may come early.
func TestBreadthFirst(t *testing.T) {
	seed := testseed.New(t)
	for _, tt := range []struct {
		active int
		gather bool
	}{{-1, false}, {0, false}, {20, false}, {1, false}, {-1, true}, {20, true}, {1, true}} {
		t.Run(fmt.Sprintf("active=%d/gather=%v", tt.active, tt.gather), func(t *testing.T) {
			f := open(t, Config{HostDelay: -1, Burst: -1, NoAddresses: true,
				Active: tt.active, Gather: tt.gather, MemoryBytes: 200_000, SegmentBytes: 50_000})
			f.pools.frameBytes = 2000
			r := rand.New(rand.NewPCG(seed, 2))
			const pages, hosts = 60, 400
			serial := 0
			parent, depth := map[link.Link]int{}, map[int]int{} // pages are numbered in the order of their visits
			passed := map[link.Link]bool{}                      // links that were pushed past the pools
			first := true                                       // the last pushed link was the first of its host
			visited := 0
			visit := func(d int) { // pushes the links of a page of depth d
				var ls []link.Link
				for range 1 + r.IntN(60) {
					serial++
					host := fmt.Sprintf("w%d.s%d.example", r.IntN(3), int(hosts*r.Float64()*r.Float64()))
					l := linkOf(t, fmt.Sprintf("http://%s/%d", host, serial), 0)
					l.Hops = strings.Repeat("L", d+1)
					ls = append(ls, l)
				}
				ls = in(t, ls)
				for _, l := range ls {
					parent[l], depth[visited] = visited, d
					h := f.hosts.dict.of(l.URL.Host())
					first = h == nil
					p, _ := f.pools.at(0)
					passed[l] = tt.gather && p != nil && !first
					must.Do(t, f.Push([]link.Link{l}))
				}
			}
			visit(0)
			// The last number of each host, for links that passed the pools and for those that did not.
			order := map[bool]map[string]int{true: {}, false: {}}
			lastPage, lastDepth, n, early := 0, 0, 0, 0
			ofSite := map[string]int{} // page of each site's last link
			for {
				l, ok := take(t, f, start)
				if !ok {
					break
				}
				n++
				var number int
				must.Get(fmt.Sscanf(l.URL.Path(), "/%d", &number))(t)
				p := passed[l]
				if last := order[p][l.URL.Host()]; number < last {
					t.Fatalf("%s comes after number %d of its host", l.URL, last)
				}
				order[p][l.URL.Host()] = number
				if parent[l] < lastPage || l.Depth() < lastDepth {
					early++
				}
				if !tt.gather {
					if parent[l] < lastPage || l.Depth() < lastDepth {
						t.Fatalf("%s of page %d, depth %d, comes after page %d, depth %d",
							l.URL, parent[l], l.Depth(), lastPage, lastDepth)
					}
					site := siteOf(l.URL.Host())
					if parent[l] < ofSite[site] {
						t.Fatalf("%s of page %d comes after a link of page %d of its site", l.URL, parent[l],
							ofSite[site])
					}
					ofSite[site] = parent[l]
				}
				lastPage, lastDepth = max(lastPage, parent[l]), max(lastDepth, l.Depth())
				if visited++; visited < pages {
					visit(l.Depth())
				}
			}
			if f.Err() != nil || n != serial || lastDepth < 2 {
				t.Fatalf("%d of %d links came out, depth %d, %v", n, serial, lastDepth, f.Err())
			}
			if tt.gather && tt.active > 0 != (early > 0) {
				t.Errorf("%d links came out of order with %d active hosts", early, tt.active)
			}
		})
	}
}
