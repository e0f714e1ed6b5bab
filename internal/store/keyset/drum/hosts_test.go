package drum

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// TestOfHost compares ofHost with a scan of all keys, with and without an index, while the table outgrows the index.
func TestOfHost(t *testing.T) {
	rng := testseed.Rand(t)
	tb := newTable(&pool{}, false, 0)
	defer tb.release()
	hosts := make([]uint64, 300)
	for i := range hosts {
		hosts[i] = rng.Uint64() >> (rng.IntN(8) * 8) // some fall into the same group
	}
	indexes, last := 0, 0
	for range 2000 {
		for range rng.IntN(100) {
			k := key{hosts[int(float64(len(hosts))*rng.Float64()*rng.Float64())], rng.Uint64()}
			tb.insert(k, indexHash(filterHash(k.h, k.p), k.p), 0)
		}
		h := hosts[rng.IntN(len(hosts))]
		var got, want []int
		tb.ofHost(h, func(pos int) { got = append(got, pos) })
		for i := range tb.n {
			if tb.at(i).h == h {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d keys, %d in the index: positions %v, want %v", tb.n, tb.hosts.upTo, got, want)
		}
		if tb.hosts.upTo != last {
			indexes, last = indexes+1, tb.hosts.upTo
		}
	}
	if indexes < 5 {
		t.Errorf("%d indexes were built, want at least 5", indexes)
	}
	t.Logf("%d keys, %d indexes", tb.n, indexes)
}

// BenchmarkRange measures reading the keys of one host from a table of a million keys.
func BenchmarkRange(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 0))
	tb := newTable(&pool{}, false, 1<<20)
	hosts := make([]uint64, 10000)
	for i := range hosts {
		hosts[i] = rng.Uint64()
	}
	for range 1 << 20 {
		k := key{hosts[rng.IntN(len(hosts))], rng.Uint64()}
		tb.insert(k, indexHash(filterHash(k.h, k.p), k.p), 0)
	}
	n, i := 0, 0
	b.Run("all keys", func(b *testing.B) {
		for b.Loop() {
			tb.hosts = hostIndex{}
			tb.ofHost(hosts[i%len(hosts)], func(int) { n++ })
			i++
		}
	})
	b.Run("index", func(b *testing.B) {
		tb.indexHosts()
		for b.Loop() {
			tb.ofHost(hosts[i%len(hosts)], func(int) { n++ })
			i++
		}
	})
	b.Run("build index", func(b *testing.B) {
		for b.Loop() {
			tb.indexHosts()
		}
	})
}
