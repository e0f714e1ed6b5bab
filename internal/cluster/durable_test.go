package cluster

import (
	"math/rand/v2"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TestDurable: the cache has the URLs that were added last, but none from before forget, even if
// they are added later, and after any number of generations.
func TestDurable(t *testing.T) {
	salt := [16]byte{1, 2, 3, 15: 4}
	d := NewDurable(func() [16]byte { return salt })
	has := func(k link.Key) bool { return d.Has(d.Fingerprint(k)) }
	a, b := link.Key{Host: 1, Path: 2}, link.Key{Host: 2, Path: 1}
	if has(a) || has(link.Key{}) || d.Has(0) {
		t.Error("an empty cache has a URL")
	}
	before := d.now()
	d.add(a, before)
	if !has(a) || has(b) {
		t.Error("the cache has not the one URL that was added")
	}
	d.forget()
	d.add(b, before)
	if has(a) || has(b) {
		t.Error("the cache has a URL from before it was emptied")
	}
	d.add(a, d.now())
	for range stampMask + 2 {
		d.forget()
		if has(a) || d.Has(0) {
			t.Fatalf("the URL is back in generation %d", d.now())
		}
	}
	other := NewDurable(func() [16]byte { return [16]byte{} })
	if other.Fingerprint(a) == d.Fingerprint(a) {
		t.Error("the fingerprint does not depend on the crawl")
	}
	var none *Durable
	none.add(a, none.now())
	none.forget()
}

// Fingerprints of many URLs differ, also if one half of their keys is equal.
func TestFingerprints(t *testing.T) {
	d := NewDurable(func() [16]byte { return [16]byte{5, 9: 7} })
	rng := rand.New(rand.NewPCG(3, 0))
	seen := map[uint64]bool{}
	const n = 200_000
	for i := range n {
		k := link.Key{Host: rng.Uint64(), Path: rng.Uint64()}
		switch i % 4 {
		case 0:
			k.Host = 42
		case 1:
			k.Path = 42
		}
		f := d.Fingerprint(k)
		if f >= 1<<FingerprintBits {
			t.Fatalf("fingerprint %x has more than %d bits", f, FingerprintBits)
		}
		seen[f] = true
	}
	if len(seen) < n-1 { // one pair is equal in 14,000 runs
		t.Errorf("%d fingerprints of %d URLs", len(seen), n)
	}
}
