package gen

import "math/bits"

// golden is 2^64 divided by the golden ratio, made odd. Its multiples are evenly spread (Knuth, TAOCP 3, 6.4), and it
// is the step of splitmix64.
const golden = 0x9e3779b97f4a7c15

// mix is the output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// A stream is a sequence of random numbers (splitmix64).
type stream uint64

func (s *stream) next() uint64 {
	*s += golden
	return mix(uint64(*s))
}

// below maps a random x to 0..n-1.
func below(x, n uint64) uint64 {
	hi, _ := bits.Mul64(x, n)
	return hi
}

// A salt makes choices independent that depend on the same numbers.
type salt uint64

const (
	saltSize salt = iota + 1
	saltName
	saltPath
	saltLinks
	saltBody
	saltBlock
	saltFate
	saltHost
	saltMirror
	saltDuplicate
	saltRobots
	saltList
	saltTrap
	saltRough
	saltTune
	saltChange
	saltCross
	saltEdit
)

// hash returns a random number that is a function of the seed, the salt and two numbers.
func (w *Web) hash(s salt, a, b int64) uint64 {
	return mix(mix(w.seed+uint64(s)*golden+uint64(a)*0xd6e8feb86659fd93) + uint64(b)*golden)
}

// share returns the bound for hit that a random hash meets with probability p.
func share(p float64) uint64 {
	return uint64(min(max(p, 0), 1) * (1 << 32))
}

// hit reports whether a hash is within the bound, in its upper 32 bits.
func hit(h, share uint64) bool { return h>>32 < share }
