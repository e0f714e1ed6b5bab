package drum

import (
	"math/bits"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A key is the form of a link.Key inside a Store. h is the place of the host, a bijection of its hash. p is the path
// part, unchanged.
type key struct{ h, p uint64 }

func (k key) less(o key) bool { return k.h < o.h || k.h == o.h && k.p < o.p }

// mix is the finalizer of MurmurHash3. It is a bijection.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// place maps a host to its position in the order of hosts. The random seed, drawn when a Store is created, prevents an
// attacker from choosing hosts that fall into one bucket.
func place(host, seed uint64) uint64 { return mix(host ^ seed) }

func keyOf(k link.Key, seed uint64) key { return key{place(k.Host, seed), k.Path} }

// filterHash uses only those bits of the path that every class keeps.
func filterHash(h, p uint64) uint64 {
	return mix(h ^ (p>>(64-baseWidth))*0x9e3779b97f4a7c15)
}

// indexHash extends a filterHash by the bits of the path that the narrowest class does not keep.
func indexHash(f, p uint64) uint64 {
	x := (f ^ p) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

const (
	// baseWidth is the number of path bits that are kept for the only key of a host; see the package comment.
	baseWidth = 38
	// widthStep is the difference in bits between two classes.
	widthStep = 4
	maxClass  = 7
)

// width returns the number of path bits that class c keeps.
func width(c uint8) uint { return min(64, baseWidth+widthStep*uint(c)) }

// classOf returns the class of a key that is inserted when its host has m keys, including this one.
func classOf(m int64) uint8 {
	if m <= 1 {
		return 0
	}
	return uint8(min(maxClass, (bits.Len64(uint64(m-1))+widthStep-1)/widthStep))
}

// ValidWidth reports whether some class keeps this number of bits.
func ValidWidth(bits uint) bool {
	for c := range uint8(maxClass + 1) {
		if width(c) == bits {
			return true
		}
	}
	return false
}
