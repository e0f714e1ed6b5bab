package drum

import (
	"math/bits"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A key is a weburl.Key inside a Store: h is the place of its host, the
// bijection place of the host part; p is the path part as it came.
type key struct{ h, p uint64 }

func (k key) less(o key) bool { return k.h < o.h || k.h == o.h && k.p < o.p }

// mix is the finalizer of MurmurHash3, a bijection.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// unmix undoes mix.
func unmix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0x9cb4b2f8129337db
	x ^= x >> 33
	x *= 0x4f74430c22a54005
	return x ^ x>>33
}

// place orders hosts. The seed, drawn when a Store is made, keeps strangers
// from choosing hosts that fall into one bucket.
func place(host, seed uint64) uint64 { return mix(host ^ seed) }

func keyOf(k weburl.Key, seed uint64) key { return key{place(k.Host, seed), k.Path} }

func (k key) outside(seed uint64) weburl.Key { return weburl.Key{Host: unmix(k.h) ^ seed, Path: k.p} }

// filterHash looks only at what every width class keeps of a path.
func filterHash(h, p uint64) uint64 {
	return mix(h ^ (p>>(64-baseWidth))*0x9e3779b97f4a7c15)
}

// indexHash, of a filterHash, tells apart also what the narrowest class does not.
func indexHash(f, p uint64) uint64 {
	x := (f ^ p) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

const (
	// baseWidth are the bits that are kept of the path of a host's only key;
	// see the package comment for the odds.
	baseWidth = 38
	// widthStep is by how many bits the classes differ.
	widthStep = 4
	maxClass  = 7
)

// width is how many bits of a path class c keeps.
func width(c uint8) uint { return min(64, baseWidth+widthStep*uint(c)) }

// classOf is the class of a key that is inserted as one of m of its host.
func classOf(m int64) uint8 {
	if m <= 1 {
		return 0
	}
	return uint8(min(maxClass, (bits.Len64(uint64(m-1))+widthStep-1)/widthStep))
}

// ValidWidth says whether a class keeps so many bits.
func ValidWidth(bits uint) bool {
	for c := range uint8(maxClass + 1) {
		if width(c) == bits {
			return true
		}
	}
	return false
}
