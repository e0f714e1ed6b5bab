// Package stream answers: which keys does a crawl look up in its store of known URLs, and which
// answers are right?
//
//	Stream.Next -> items with keys and links -> a store -> emitted items -> Judge
//
// A Stream is generated from a random seed and takes no memory, however long it is: URL number i
// is a function of i. A new URL has the next number; the number of a known one is drawn from the
// numbers so far. So the Stream knows for each item whether it is new, and a Judge finds each
// wrong answer with one bit per URL. One goroutine owns a Stream.
//
// # Shapes
//
// Uniform draws known URLs evenly from all URLs so far. No URL is popular, so caches do not help.
// It is the hardest stream for a store.
//
// Zipf draws known URLs as links of real pages are distributed. Eight in ten point to one of the
// last 32,768 links, at distance d with a probability proportional to 1/d, because the links of a
// site's pages resemble each other. 15 % point to popular URLs: the URL of rank r has a
// probability proportional to 1/r (Zipf's law with exponent 1), and URLs found earlier are more
// popular. 5 % are drawn evenly. With these shares, a cache of the 50,000 most recently used URLs
// answers eight in ten items. Broder, Najork and Wiener measured the same on a crawl of a billion
// requests ("almost 80 %": Efficient URL Caching for World Wide Web Crawling, WWW 2003). A test
// checks it.
//
// # Hosts
//
// URL i is on the host of rank r with a probability proportional to 1/r, among i/8 hosts: a few
// hosts with very many URLs (whales), a long tail of hosts with one URL, and always some new
// hosts.
package stream

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An Item is a key and the encoding of its link.
type Item = keyset.Item

// A Shape is the distribution of the known URLs.
type Shape int

// The shapes.
const (
	Uniform Shape = iota
	Zipf
)

// String returns the shape's name.
func (s Shape) String() string {
	if s == Zipf {
		return "zipf"
	}
	return "uniform"
}

// ParseShape reads the name of a Shape.
func ParseShape(s string) (Shape, error) {
	for _, shape := range []Shape{Uniform, Zipf} {
		if s == shape.String() {
			return shape, nil
		}
	}
	return 0, fmt.Errorf("shape %q: write uniform or zipf", s)
}

const (
	recentBits = 15 // log2 of the number of recent links
	pageLinks  = 62 // links per page, as IRLbot, a crawler (paper), counted them

	// Out of 1024 known items of shape Zipf.
	recentShare  = 820
	popularShare = 154
)

// A Stream is a sequence of items.
type Stream struct {
	seed    uint64
	shape   Shape
	state   uint64
	fresh   uint64 // number of URLs so far
	items   uint64
	recent  []uint64
	buf     []byte // Aux of the items of the last Next
	tail    []byte // the common part of the links of the present page
	paths   [64][]byte
	mantiss [1<<mantissaBits + 1]uint64
}

// New returns the stream of a random seed.
func New(seed uint64, shape Shape) *Stream {
	s := &Stream{seed: Mix(seed + 0x9e3779b97f4a7c15), shape: shape, recent: make([]uint64, 1<<recentBits)}
	s.state = s.seed
	for i := range s.mantiss {
		s.mantiss[i] = uint64(math.Exp2(float64(i)/(1<<mantissaBits)) * (1 << 32))
	}
	words := []string{"news/", "wiki/", "shop/", "archive/", "products/", "de/", "blog/2024/", "index.php?id="}
	for i := range s.paths {
		s.paths[i] = []byte(words[i&7] + words[i>>3&7])
	}
	return s
}

// Fresh returns the number of different URLs so far.
func (s *Stream) Fresh() int64 { return int64(s.fresh) }

// Next fills items. One in oneIn is new; all are new if oneIn is 1. The Aux of the items are valid
// until the next call.
func (s *Stream) Next(items []Item, oneIn int) {
	limit := uint64(math.MaxUint64)
	if oneIn > 1 {
		limit = math.MaxUint64 / uint64(oneIn)
	}
	s.buf = s.buf[:0]
	if need := len(items) * maxAux; cap(s.buf) < need {
		s.buf = make([]byte, 0, need)
	}
	for n := range items {
		var i uint64
		if s.fresh == 0 || s.next() <= limit {
			i = s.fresh
			s.fresh++
		} else {
			i = s.known()
		}
		if s.items%pageLinks == 0 {
			s.page()
		}
		s.recent[s.items&(1<<recentBits-1)] = i
		s.items++
		key, rank := s.key(i)
		from := len(s.buf)
		s.buf = s.appendLink(s.buf, i, rank)
		items[n] = Item{Key: key, Aux: s.buf[from:len(s.buf):len(s.buf)]}
	}
}

// known draws the number of a known URL.
func (s *Stream) known() uint64 {
	r := s.next()
	if s.shape == Zipf {
		switch which := r & 1023; {
		case which < recentShare:
			d := s.logUniform(r, recentBits)
			if d <= s.items {
				return s.recent[(s.items-d)&(1<<recentBits-1)]
			}
		case which < recentShare+popularShare:
			return s.logUniform(r, bits.Len64(s.fresh)-1) - 1
		}
		r = s.next()
	}
	i, _ := bits.Mul64(r, s.fresh)
	return i
}

// Key returns the key of URL i.
func (s *Stream) Key(i uint64) link.Key {
	k, _ := s.key(i)
	return k
}

func (s *Stream) key(i uint64) (k link.Key, rank uint64) {
	h := Mix(i ^ s.seed) // a bijection: different URLs have different keys
	rank = s.logUniform(Mix(h), bits.Len64(i/8+1))
	return link.Key{Host: Mix(rank + s.seed), Path: h}, rank
}

const mantissaBits = 12

// logUniform turns a random number into one from 1 to 2^e-1. The probability of r is about
// proportional to 1/r. e is at most 30.
func (s *Stream) logUniform(random uint64, e int) uint64 {
	t := random >> 32 * uint64(e) // the lower 32 bits are the fraction
	k, f := t>>32, t&(1<<32-1)
	at := f >> (32 - mantissaBits)
	low := f & (1<<(32-mantissaBits) - 1)
	m := s.mantiss[at] + (s.mantiss[at+1]-s.mantiss[at])*low>>(32-mantissaBits)
	return max(m<<k>>32, 1)
}

// next returns the next number of the generator wyrand.
func (s *Stream) next() uint64 {
	s.state += 0xa0761d6478bd642f
	hi, lo := bits.Mul64(s.state, s.state^0xe7037ed1a0b428db)
	return hi ^ lo
}

// Mix returns the finalizer of MurmurHash3 of x, a bijection.
func Mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
