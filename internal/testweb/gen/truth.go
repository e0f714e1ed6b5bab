package gen

import (
	"errors"
	"fmt"
	"math/bits"
	"sort"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// Bounds are those of a crawl.
type Bounds struct {
	Seeds []Seed
	// Depth is how many links a page may be away from a seed, redirects not
	// counted; nil: any number.
	Depth *int
	Scope Scope
	// Robots says that pages that robots.txt denies are not fetched.
	Robots bool
	// Sitemaps says that all pages of a host's sitemap are found with the first
	// URL of that host that a link leads to, whatever that is answered with. It
	// goes with no Depth.
	Sitemaps bool
}

// A Seed is a page to begin with.
type Seed struct{ Host, Page int64 }

// A Scope is where a crawl may go.
type Scope uint8

// The scopes: anywhere, the hosts of the seeds, the registered domains of the seeds.
const (
	Anywhere Scope = iota
	SeedHosts
	SeedDomains
)

// MaxTruth is how many pages a web may have whose truth is enumerated.
const MaxTruth = 10_000_000

// ErrTooMany says that a web has more pages than can be enumerated.
var ErrTooMany = errors.New("too many pages to enumerate")

// A Truth is the set of the pages that a crawl can reach. See the package's
// comment for what that means.
type Truth struct {
	w       *Web
	first   []uint32 // number of a host's first page, by host
	reached bitmap
	count   int64
}

var _ testweb.Truth = (*Truth)(nil)

type bitmap []uint64

func (b bitmap) has(i uint32) bool { return b[i>>6]&(1<<(i&63)) != 0 }
func (b bitmap) set(i uint32)      { b[i>>6] |= 1 << (i & 63) }

// Reachable enumerates, breadth first, what a crawl can reach. It takes a bit
// or four for a page, and four bytes and a bit for a host.
func (w *Web) Reachable(bounds Bounds) (*Truth, error) {
	if w.spec.Hosts > MaxTruth {
		return nil, fmt.Errorf("%w: %d hosts, at most %d pages", ErrTooMany, w.spec.Hosts, MaxTruth)
	}
	if bounds.Sitemaps && bounds.Depth != nil {
		return nil, errors.New("truth: sitemaps with a depth: how deep their pages lie is the crawler's choice")
	}
	t := &Truth{w: w, first: make([]uint32, w.spec.Hosts+1)}
	total := int64(0)
	for h := range w.spec.Hosts {
		t.first[h] = uint32(total)
		if total += w.Pages(h); total > MaxTruth {
			return nil, fmt.Errorf("%w: more than %d", ErrTooMany, MaxTruth)
		}
	}
	t.first[w.spec.Hosts] = uint32(total)
	words := (total + 63) / 64
	t.reached = make(bitmap, words)
	s := &search{t: t, bounds: bounds, seen: make(bitmap, words), next: make(bitmap, words)}
	if bounds.Sitemaps {
		s.met = make(bitmap, w.spec.Hosts/64+1)
	}
	if bounds.Scope != Anywhere {
		s.within = map[int64]bool{}
	}
	for _, seed := range bounds.Seeds {
		if seed.Host < 0 || seed.Host >= w.spec.Hosts || seed.Page < 0 || seed.Page >= w.Pages(seed.Host) {
			return nil, fmt.Errorf("seed %d/%d: no such page", seed.Host, seed.Page)
		}
		if s.within != nil {
			s.within[s.place(seed.Host)] = true
		}
	}
	for _, seed := range bounds.Seeds {
		s.offer(seed.Host, seed.Page)
	}
	s.run()
	return t, nil
}

// A search is the enumeration under way.
type search struct {
	t          *Truth
	bounds     Bounds
	seen, next bitmap // asked about; to visit in the next round
	met        bitmap // hosts whose robots.txt was read; nil without sitemaps
	within     map[int64]bool
	more       bool // next is not empty
}

// place is what the scope is made of.
func (s *search) place(host int64) int64 {
	if s.bounds.Scope == SeedDomains {
		n, _ := site(host)
		return n
	}
	return host
}

// offer takes a page in that a link leads to. The first one of a host makes a
// crawler read that host's robots.txt.
func (s *search) offer(host, page int64) {
	i := s.t.first[host] + uint32(page)
	if s.seen.has(i) {
		return
	}
	if s.within != nil && !s.within[s.place(host)] {
		s.seen.set(i)
		return
	}
	if s.met != nil && !s.met.has(uint32(host)) {
		s.met.set(uint32(host))
		if w := s.t.w; w.listed(host) {
			for p := range w.Pages(host) {
				s.take(host, p)
			}
			return
		}
	}
	s.take(host, page)
}

// take takes a page in that is asked for, once.
func (s *search) take(host, page int64) {
	t, w := s.t, s.t.w
	i := t.first[host] + uint32(page)
	s.seen.set(i)
	if !w.answers(host, page) || s.bounds.Robots && w.forbids(host, page) {
		return
	}
	s.next.set(i)
	t.reached.set(i)
	t.count++
	s.more = true
}

// listed says whether a host's robots.txt can be read and names a sitemap.
func (w *Web) listed(host int64) bool {
	if r := w.role(host); r == closed || r == dead {
		return false
	}
	host = w.source(host)
	return w.hasRobots(host) && w.trait(host, traitSitemap, w.fates.sitemap)
}

// answers says whether a page is answered with 200 and a complete body, if
// asked for often enough.
func (w *Web) answers(host, page int64) bool {
	return w.death(host) == alive && !w.fate(w.source(host), page).lasting()
}

// forbids says whether robots.txt denies a page.
func (w *Web) forbids(host, page int64) bool {
	if w.role(host) == closed {
		return true
	}
	if page == 0 || w.fates.denied == 0 {
		return false
	}
	host = w.source(host)
	return w.private(host, page, w.hash(saltPath, host, page))
}

// run visits the pages, one round for each link of distance.
func (s *search) run() {
	t, w := s.t, s.t.w
	now := make(bitmap, len(s.next))
	var refs []Ref
	for depth := 0; s.more && (s.bounds.Depth == nil || depth < *s.bounds.Depth); depth++ {
		now, s.next = s.next, now
		clear(s.next)
		s.more = false
		t.each(now, func(host, page int64) {
			refs = w.Links(host, page, refs[:0])
			for _, to := range refs {
				if to.Page >= 0 {
					s.offer(to.Host, to.Page)
				}
			}
		})
	}
}

// each calls f for the pages of a set, those of a host one after the other.
func (t *Truth) each(set bitmap, f func(host, page int64)) {
	host := 0
	for i, word := range set {
		for ; word != 0; word &= word - 1 {
			n := uint32(i*64 + bits.TrailingZeros64(word))
			if n >= t.first[host+1] {
				host += sort.Search(len(t.first)-host-1, func(k int) bool { return t.first[host+k+1] > n })
			}
			f(int64(host), int64(n-t.first[host]))
		}
	}
}

// Reachable is the number of pages that can be reached.
func (t *Truth) Reachable() int64 { return t.count }

// Has says whether this page is one of them.
func (t *Truth) Has(host, page int64) bool {
	return host >= 0 && host < int64(len(t.first))-1 && page >= 0 && page < int64(t.first[host+1]-t.first[host]) &&
		t.reached.has(t.first[host]+uint32(page))
}

// Each calls f for each of them, those of a host one after the other.
func (t *Truth) Each(f func(host, page int64)) { t.each(t.reached, f) }

// URL is the URL of a page.
func (t *Truth) URL(host, page int64) string { return t.w.URL(host, page) }
