package placement

import (
	"slices"

	"gonum.org/v1/gonum/mathext/prng"
)

// twister is MT19937-64, seeded by name.
func twister(name string) *prng.MT19937_64 {
	keys := make([]uint64, 1+len(name))
	keys[0] = uint64(len(name))
	for i := range len(name) {
		keys[1+i] = uint64(name[i])
	}
	t := prng.NewMT19937_64()
	t.SeedFromKeys(keys)
	return t
}

// distinct returns the first n distinct numbers from next, sorted. They include the result for any
// smaller n, because only repeated numbers are skipped.
func distinct(next func() uint64, n int) []uint64 {
	ps := make([]uint64, n)
	for i := range ps {
		ps[i] = next()
	}
	slices.Sort(ps)
	for ps = slices.Compact(ps); len(ps) < n; {
		p := next()
		if i, found := slices.BinarySearch(ps, p); !found {
			ps = slices.Insert(ps, i, p)
		}
	}
	return ps
}
