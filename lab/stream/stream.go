// Package stream answers: what does a crawl ask its test for URLs seen, and
// which of the answers is right?
//
//	Stream.Next -> items with keys and links -> a store -> emitted items -> Judge
//
// A Stream is made up from a seed and costs no memory however long it is: URL
// number i is a function of i, a new URL is the next number, a known one is
// drawn from the numbers so far. So it knows of every item whether it is new,
// and a Judge finds each false answer with one bit for a URL. One goroutine
// owns a Stream.
//
// # Shapes
//
// Uniform draws the known URL evenly from all that were met: nothing is
// popular, caches are of no use, and the crawl has no memory of places. It is
// the hardest stream there can be.
//
// Zipf draws it as links of real pages lie: of the known ones eight in ten
// point to one of the last 32,768 links, at distance d with probability
// proportional to 1/d (the links of a site's pages resemble each other); 15 %
// are popular, the URL of rank r with probability proportional to 1/r (Zipf's
// law with exponent 1), where those found first are the most popular; and 5 %
// are drawn evenly. The shares are chosen so that a cache of the 50,000 URLs
// used last answers eight in ten of all items, which is what Broder, Najork and
// Wiener measured on a crawl of a billion requests ("almost 80 %": Efficient URL
// Caching for World Wide Web Crawling, WWW 2003). A test holds it to that.
//
// # Hosts
//
// URL i is on the host of rank r with probability proportional to 1/r, among as
// many hosts as there are eighths of i: a few whales, a long tail of hosts with one
// URL, and always some that were never met before.
package stream

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An Item is what a store is asked: a key, and the encoding of its link.
type Item = keyset.Item

// A Shape is how the known URLs are drawn.
type Shape int

// The shapes.
const (
	Uniform Shape = iota
	Zipf
)

// String is the shape's name.
func (s Shape) String() string {
	if s == Zipf {
		return "zipf"
	}
	return "uniform"
}

// ParseShape reads a Shape's name.
func ParseShape(s string) (Shape, error) {
	for _, shape := range []Shape{Uniform, Zipf} {
		if s == shape.String() {
			return shape, nil
		}
	}
	return 0, fmt.Errorf("shape %q: neither uniform nor zipf", s)
}

const (
	recentBits = 15 // links that are remembered as recent
	pageLinks  = 62 // links of a page, as IRLbot counted them

	// Of 1024 known items of shape Zipf.
	recentShare  = 820
	popularShare = 154
)

// A Stream is a sequence of items.
type Stream struct {
	seed    uint64
	shape   Shape
	state   uint64
	fresh   uint64 // URLs so far
	items   uint64
	recent  []uint64
	buf     []byte // aux of the last Next
	tail    []byte // what the links of the present page have in common
	paths   [64][]byte
	mantiss [1<<mantissaBits + 1]uint64
}

// New makes the stream of a seed.
func New(seed uint64, shape Shape) *Stream {
	s := &Stream{seed: mix(seed + 0x9e3779b97f4a7c15), shape: shape, recent: make([]uint64, 1<<recentBits)}
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

// Fresh is how many URLs there are so far: what a store that answered
// everything knows.
func (s *Stream) Fresh() int64 { return int64(s.fresh) }

// Items is how many items there were.
func (s *Stream) Items() int64 { return int64(s.items) }

// Next fills items; one in oneIn is new, all of them if it is 1. Their Aux are
// valid until the next call.
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

// known draws the number of a URL that was met before.
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

// Key is the key of URL i.
func (s *Stream) Key(i uint64) weburl.Key {
	k, _ := s.key(i)
	return k
}

func (s *Stream) key(i uint64) (k weburl.Key, rank uint64) {
	h := mix(i ^ s.seed) // a bijection: no two URLs have the same
	rank = s.logUniform(mix(h), bits.Len64(i/8+1))
	return weburl.Key{Host: mix(rank + s.seed), Path: h}, rank
}

const mantissaBits = 12

// logUniform turns a random number into one from 1 to 2^e-1, each r with
// probability about proportional to 1/r; e is at most 30.
func (s *Stream) logUniform(random uint64, e int) uint64 {
	t := random >> 32 * uint64(e) // 32 bits of it are the fraction
	k, f := t>>32, t&(1<<32-1)
	at := f >> (32 - mantissaBits)
	low := f & (1<<(32-mantissaBits) - 1)
	m := s.mantiss[at] + (s.mantiss[at+1]-s.mantiss[at])*low>>(32-mantissaBits)
	return max(m<<k>>32, 1)
}

// next is wyrand's next number.
func (s *Stream) next() uint64 {
	s.state += 0xa0761d6478bd642f
	hi, lo := bits.Mul64(s.state, s.state^0xe7037ed1a0b428db)
	return hi ^ lo
}

// mix is the finalizer of MurmurHash3, a bijection.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
