package known

import (
	"math/rand/v2"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A crawl is the ID of a crawl.
type crawl rpc.ID

func (c crawl) Crawl() rpc.ID { return rpc.ID(c) }

// TestDurable: the cache has the URLs that were added last, but none from before Forget, even if
// they are added later, and after any number of generations.
func TestDurable(t *testing.T) {
	d := New(crawl{1, 2, 3, 15: 4})
	has := func(k link.Key) bool { return d.Has(d.Fingerprint(k)) }
	a, b := link.Key{Host: 1, Path: 2}, link.Key{Host: 2, Path: 1}
	if has(a) || has(link.Key{}) || d.Has(0) {
		t.Error("an empty cache has a URL")
	}
	before := d.Now()
	d.Add(a, before)
	if !has(a) || has(b) {
		t.Error("the cache has not the one URL that was added")
	}
	d.Forget()
	d.Add(b, before)
	if has(a) || has(b) {
		t.Error("the cache has a URL from before it was emptied")
	}
	d.Add(a, d.Now())
	for range stampMask + 2 {
		d.Forget()
		if has(a) || d.Has(0) {
			t.Fatalf("the URL is back in generation %d", d.Now())
		}
	}
	other := New(crawl{})
	if other.Fingerprint(a) == d.Fingerprint(a) {
		t.Error("the fingerprint does not depend on the crawl")
	}
	var none *Durable
	none.Add(a, none.Now())
	none.Forget()
}

// Fingerprints of many URLs differ, also if one half of their keys is equal.
func TestFingerprints(t *testing.T) {
	d := New(crawl{5, 9: 7})
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
		if f >= 1<<fingerprintBits {
			t.Fatalf("fingerprint %x has more than %d bits", f, fingerprintBits)
		}
		seen[f] = true
	}
	if len(seen) < n-1 { // one pair is equal in 14,000 runs
		t.Errorf("%d fingerprints of %d URLs", len(seen), n)
	}
}
