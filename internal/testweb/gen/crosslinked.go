package gen

import (
	"fmt"
	"math/big"
	"math/bits"
	"sort"
)

// A crosslinked page is linked only from a page of another host, its referrer. Pages and referrers find each other by
// arithmetic, so that nothing is stored for either:
//
//	page, host -> number of the page -> shuffled -> modulo -> number of the referrer -> page, host
//
// Only pages without children in the tree of their host are crosslinked, so no other page hangs on them. A referrer has
// no lasting fault, because it has children or is the first page of its host, and because its host is ordinary. So
// every crosslinked page can be reached from the first page of the first host.
type crosslinks struct {
	share     uint64   // of the pages without children, as a bound of a hash (see hit); 0: none is crosslinked
	pages     ordinals // numbers all pages
	referrers ordinals // numbers the pages that can be referrers; these are at most as many as the pages
	// factor and unfactor multiply to 1 modulo the count of pages.
	factor, unfactor, offset uint64
}

// maxOrdinals bounds the numbers of pages, so that sums of two do not overflow.
const maxOrdinals = 1 << 62

// planCrosslinks prepares the crosslinked pages. The Spec must be valid, and trees and fates planned.
func (w *Web) planCrosslinks() error {
	want := w.spec.Crosslinked
	if want == 0 {
		return nil
	}
	if w.spec.Graph != nil {
		return fmt.Errorf("crosslinked %g: a web made from a graph has the links of the graph", want)
	}
	if w.children < 2 {
		return fmt.Errorf("crosslinked %g: the pages have too few links within their host; give them more links, or "+
			"a larger share of local ones", want)
	}
	c := &w.crosslinks
	// Rounded up, so that each page has a number; some numbers have no page.
	pages, ok := w.newOrdinals(func(size int64) int { return bits.Len64(uint64(size - 1)) })
	// Rounded down, so that each number has a page.
	referrers, ok2 := w.newOrdinals(func(size int64) int { return bits.Len64(uint64(w.parents(size))) - 1 })
	if !ok || !ok2 {
		return fmt.Errorf("crosslinked %g: the web has too many pages; at most 2^62 can be numbered", want)
	}
	c.pages, c.referrers = pages, referrers
	n := c.pages.count
	for c.factor = below(golden, n) | 1; gcd(c.factor, n) != 1; c.factor += 2 {
	}
	c.unfactor = inverse(c.factor, n)
	c.offset = below(w.hash(saltCross, 0, 1), n)

	// A sample of the pages tells how many of them can be crosslinked.
	const sample = 1 << 16
	able, all := 0, 0
	for i := range min(n, sample) {
		if n > sample {
			i = below(i<<48, n) // evenly spread
		}
		host, page, ok := w.pageAt(i)
		if !ok || w.source(host) != host {
			continue
		}
		all++
		if w.leaf(page, w.sizeOf(host)) && w.referred(host, page) {
			able++
		}
	}
	most := float64(able) / float64(max(all, 1))
	if want > most {
		return fmt.Errorf("crosslinked %g: of the pages of this web at most %.2f can be linked only from other hosts",
			want, most)
	}
	c.share = share(want / most)
	return nil
}

// Crosslinked reports whether a page is one of the share Spec.Crosslinked, or on a mirror the copy of one.
func (w *Web) Crosslinked(host, page int64) bool { return w.crosslinked(w.source(host), page) }

// crosslinked reports whether a page is linked only from other hosts. The host must not be a mirror.
func (w *Web) crosslinked(host, page int64) bool {
	return w.crosslinks.share > 0 && w.leaf(page, w.sizeOf(host)) &&
		hit(w.hash(saltCross, host, page), w.crosslinks.share) && w.referred(host, page)
}

// referred reports whether the referrer of a page is on another host and can always be reached.
func (w *Web) referred(host, page int64) bool {
	from, _ := w.referrer(host, page)
	return from != host && w.role(from) == ordinary
}

// referrer returns the page that links to a page if that is crosslinked.
func (w *Web) referrer(host, page int64) (fromHost, fromPage int64) {
	c := &w.crosslinks
	n := c.pages.number(w.sizes.rank(host), page)
	x := mulmod(n, c.factor, c.pages.count) + c.offset
	if x >= c.pages.count {
		x -= c.pages.count
	}
	rank, fromPage := c.referrers.at(x % c.referrers.count)
	return w.sizes.host(rank), fromPage
}

// refer appends the links of a page to the crosslinked pages whose referrer it is.
func (w *Web) refer(host, page int64, dst []Ref) []Ref {
	c := &w.crosslinks
	if c.share == 0 || w.role(host) != ordinary {
		return dst
	}
	rank := w.sizes.rank(host)
	if page >= c.referrers.slots(rank) {
		return dst
	}
	n := c.pages.count
	for x := c.referrers.number(rank, page); x < n; x += c.referrers.count {
		y := x + n - c.offset
		if y >= n {
			y -= n
		}
		to, p, ok := w.pageAt(mulmod(y, c.unfactor, n))
		if ok && w.source(to) == to && w.crosslinked(to, p) {
			dst = append(dst, Ref{Host: to, Page: p, form: absolute})
		}
	}
	return dst
}

// pageAt returns the page with a number. ok is false if the number has no page.
func (w *Web) pageAt(number uint64) (host, page int64, ok bool) {
	rank, page := w.crosslinks.pages.at(number)
	return w.sizes.host(rank), page, page < w.sizes.sizeAt(rank)
}

// parents returns how many pages of a host have children, or 1 for a host of a single page.
func (w *Web) parents(size int64) int64 {
	if size < 2 {
		return 1
	}
	return (size-2)/w.children + 1
}

// ordinals number the pages of all hosts, the largest host first. Each host has a power of two of numbers, its slots. A
// number that a host has no page for is unused.
type ordinals struct {
	count   uint64 // of the numbers
	classes []slotClass
}

// A slotClass holds the hosts with equally many slots.
type slotClass struct {
	rank   uint64 // of its first host
	number uint64 // of its first slot
	log    uint8  // of the slots of a host, to base 2
}

// newOrdinals numbers the pages so that a host has 1<<log(size) slots. log must not fall as the size rises. ok is false
// if there are too many numbers.
func (w *Web) newOrdinals(log func(size int64) int) (o ordinals, ok bool) {
	for rank := uint64(0); rank < w.sizes.hosts; {
		l := log(w.sizes.sizeAt(rank))
		o.classes = append(o.classes, slotClass{rank: rank, number: o.count, log: uint8(l)})
		n := sort.Search(int(w.sizes.hosts-rank), func(i int) bool { return log(w.sizes.sizeAt(rank+uint64(i))) < l })
		if o.count += uint64(n) << l; uint64(n) > maxOrdinals>>l || o.count > maxOrdinals {
			return o, false
		}
		rank += uint64(n)
	}
	return o, true
}

// number returns the number of a page.
func (o *ordinals) number(rank uint64, page int64) uint64 {
	c := o.classOf(rank)
	return c.number + (rank-c.rank)<<c.log + uint64(page)
}

// slots returns how many slots the host of a rank has.
func (o *ordinals) slots(rank uint64) int64 { return 1 << o.classOf(rank).log }

func (o *ordinals) classOf(rank uint64) *slotClass {
	i := len(o.classes) - 1
	for o.classes[i].rank > rank {
		i--
	}
	return &o.classes[i]
}

// at returns the rank of the host and the page with a number.
func (o *ordinals) at(number uint64) (rank uint64, page int64) {
	i := len(o.classes) - 1
	for o.classes[i].number > number {
		i--
	}
	c := &o.classes[i]
	number -= c.number
	return c.rank + number>>c.log, int64(number & (1<<c.log - 1))
}

// mulmod returns a*b modulo n. a or b must be less than n.
func mulmod(a, b, n uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	_, rem := bits.Div64(hi, lo, n)
	return rem
}

// inverse returns the number that a is to be multiplied with to give 1 modulo n. Both must have no common divisor.
func inverse(a, n uint64) uint64 {
	var x, modulus big.Int
	x.SetUint64(a)
	modulus.SetUint64(n)
	return x.ModInverse(&x, &modulus).Uint64()
}
