package visit

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Combinations of halves of added keys are not known, not even while the dispatcher writes.
func TestKnown(t *testing.T) {
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 0))
	hosts, paths := make([]uint64, 40), make([]uint64, 40)
	for i := range hosts {
		hosts[i], paths[i] = rng.Uint64(), rng.Uint64()
	}
	var n known
	if n.has(link.Key{}) {
		t.Error("an empty cache knows the zero key")
	}
	own := func(i int) link.Key { return link.Key{Host: hosts[i], Path: paths[i]} }
	// All keys in one slot: the worst case.
	k := own(0)
	n.add(k)
	if !n.has(k) {
		t.Error("a key that was just added is not known")
	}
	s := n.slot(k)
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for i := range 200_000 {
			k := own(i % len(hosts))
			s.path.Store(k.Path)
			s.bound.Store(n.bind(k))
		}
		close(done)
	})
	for i := 0; ; i++ {
		a, b := i%len(hosts), i/len(hosts)%len(paths)
		mixed := link.Key{Host: hosts[a], Path: paths[b]}
		if a != b && s.path.Load() == mixed.Path && s.bound.Load() == n.bind(mixed) {
			t.Fatalf("key of host %d and path %d is known (seed %d)", a, b, seed)
		}
		select {
		case <-done:
			wg.Wait()
			return
		default:
		}
	}
}

// All that the cache knows was added.
func TestKnownIsNeverWrong(t *testing.T) {
	var n known
	rng := rand.New(rand.NewPCG(1, 2))
	added := map[link.Key]bool{}
	hits := 0
	for range 300_000 {
		k := link.Key{Host: rng.Uint64N(500), Path: rng.Uint64N(1000) << 44}
		if n.has(k) {
			if hits++; !added[k] {
				t.Fatalf("%v is known without having been added", k)
			}
		}
		switch r := rng.IntN(20_000); {
		case r == 0:
			n.forget()
			clear(added)
		case r%2 == 0:
			n.add(k)
			added[k] = true
		}
	}
	if hits == 0 {
		t.Error("nothing was ever known")
	}
}
