package gen

import (
	"errors"
	"fmt"
	"math/bits"
	"sort"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// Bounds are the bounds of a crawl.
type Bounds struct {
	Seeds []Seed
	// Depth is the largest number of links between a seed and a page; redirects do not count. Nil: no limit.
	Depth *int
	Scope Scope
	// Robots means that the crawl obeys robots.txt.
	Robots bool
	// Sitemaps means that the crawl finds all pages of a host's sitemap with the first URL that leads to the host,
	// whatever the answer for that URL. It cannot be combined with Depth.
	Sitemaps bool
	// Roots means that the crawl also requests the first page of each host: of a seed's host, and of a host to which a
	// link leads from a page of another host.
	Roots bool
	// TwoLevel means that, of a link to another host, the crawl uses only the host: it requests the first page of that
	// host and no other. So it finds the pages that can be reached from the first page within their host. Seeds are
	// requested, with the first pages of their hosts.
	TwoLevel bool
}

// A Seed is a page at which a crawl begins.
type Seed struct{ Host, Page int64 }

// A Scope limits the hosts that a crawl visits.
type Scope uint8

// The scopes: all hosts, the hosts of the seeds, the registered domains of the seeds.
const (
	Anywhere Scope = iota
	SeedHosts
	SeedDomains
)

// MaxTruth is the largest number of pages of a web for Reachable.
const MaxTruth = 10_000_000

// ErrTooMany means that a web has more than MaxTruth pages.
var ErrTooMany = errors.New("too many pages to enumerate")

// A Truth is the set of pages that a crawl can reach; the package documentation defines it. It implements testweb.Truth
// and is safe for concurrent use.
type Truth struct {
	w       *Web
	first   []uint32 // by host, the number of its first page
	reached bitmap
	count   int64
}

var _ testweb.Truth = (*Truth)(nil)

type bitmap []uint64

func (b bitmap) has(i uint32) bool { return b[i>>6]&(1<<(i&63)) != 0 }
func (b bitmap) set(i uint32)      { b[i>>6] |= 1 << (i & 63) }

// Reachable enumerates the pages that a crawl can reach, breadth first. It needs one to four bits for each page, and
// four bytes and a bit for each host. If the web has more than MaxTruth pages, the error wraps ErrTooMany.
func (w *Web) Reachable(bounds Bounds) (*Truth, error) {
	if w.spec.Hosts > MaxTruth {
		return nil, fmt.Errorf("%w: %d hosts, at most %d pages", ErrTooMany, w.spec.Hosts, MaxTruth)
	}
	if bounds.Sitemaps && bounds.Depth != nil {
		return nil, errors.New("truth: Sitemaps and Depth exclude each other: pages in a sitemap have no depth")
	}
	t := &Truth{w: w, first: make([]uint32, w.spec.Hosts+1)}
	total := int64(0)
	for h := range w.spec.Hosts {
		t.first[h] = uint32(total)
		if total += w.Pages(h); total > MaxTruth {
			return nil, fmt.Errorf("%w: at most %d", ErrTooMany, MaxTruth)
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
			return nil, fmt.Errorf("seed: page %d of host %d does not exist", seed.Page, seed.Host)
		}
		if s.within != nil {
			s.within[s.place(seed.Host)] = true
		}
	}
	for _, seed := range bounds.Seeds {
		s.follow(none, seed.Host, seed.Page)
	}
	s.run()
	return t, nil
}

// A search is an enumeration in progress.
type search struct {
	t          *Truth
	bounds     Bounds
	seen, next bitmap         // pages met so far; pages to visit in the next round
	met        bitmap         // hosts whose robots.txt was read; nil without sitemaps
	within     map[int64]bool // places in scope; nil: all
	more       bool           // next is not empty
}

// place returns the unit of the scope to which a host belongs: itself or its site.
func (s *search) place(host int64) int64 {
	if s.bounds.Scope == SeedDomains {
		n, _ := site(host)
		return n
	}
	return host
}

// none stands for the host of the page that links to a seed.
const none = -1

// follow handles a link from a page of the host from.
func (s *search) follow(from, host, page int64) {
	if from != host && (s.bounds.Roots || s.bounds.TwoLevel) {
		s.offer(host, 0)
	}
	if from == host || from == none || !s.bounds.TwoLevel {
		s.offer(host, page)
	}
}

// offer handles a link to a page. The first link to a host makes the crawl read the host's robots.txt.
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
				if !w.Crosslinked(host, p) {
					s.take(host, p)
				}
			}
			if s.seen.has(i) {
				return
			}
		}
	}
	s.take(host, page)
}

// take handles the request for a page.
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

// listed reports whether a host's robots.txt can be read and names a sitemap.
func (w *Web) listed(host int64) bool {
	if r := w.role(host); r == closed || r == dead {
		return false
	}
	host = w.source(host)
	return w.hasRobots(host) && w.trait(host, traitSitemap, w.fates.sitemap)
}

// answers reports whether a page is answered with 200 and a complete body, perhaps after some retries.
func (w *Web) answers(host, page int64) bool {
	return w.death(host) == alive && !w.fate(w.source(host), page).lasting()
}

// forbids reports whether robots.txt denies a page.
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

// run visits the pages, one round for each link of distance from the seeds.
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
					s.follow(host, to.Host, to.Page)
				}
			}
		})
	}
}

// each calls f for the pages of a set. The pages of a host come one after the other.
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

func (t *Truth) Reachable() int64 { return t.count }

func (t *Truth) Has(host, page int64) bool {
	return host >= 0 && host < int64(len(t.first))-1 && page >= 0 && page < int64(t.first[host+1]-t.first[host]) &&
		t.reached.has(t.first[host]+uint32(page))
}

func (t *Truth) Each(f func(host, page int64)) { t.each(t.reached, f) }

func (t *Truth) URL(host, page int64) string { return t.w.URL(host, page) }
