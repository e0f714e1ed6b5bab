package crawl

import (
	"math/rand/v2"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A sketch reports all added keys, and few others.
func TestSketch(t *testing.T) {
	const n = 10_000
	rng := rand.New(rand.NewPCG(1, 2))
	key := func() weburl.Key { return weburl.Key{Host: rng.Uint64() % 50 * 0x9e3779b97f4a7c15, Path: rng.Uint64()} }
	s := newSketch(n)
	var keys []weburl.Key
	for range n {
		k := key()
		s.add(k)
		keys = append(keys, k)
	}
	for _, k := range keys {
		if !s.mayHave(k) {
			t.Fatalf("%x is not there", k)
		}
	}
	wrong := 0
	for range n {
		if s.mayHave(key()) {
			wrong++
		}
	}
	if wrong > n/100 {
		t.Errorf("%d of %d others look the same", wrong, n)
	}
	if newSketch(0).mayHave(keys[0]) {
		t.Error("an empty one has something")
	}
}

// An inherited key is decoded as it was encoded, and no other bytes are accepted.
func TestInheritedRecord(t *testing.T) {
	k := weburl.MustParse("http://a.example/x").Key()
	b := appendKeys(nil, []weburl.Key{k})
	if got, err := acceptedKey(kindInherited, b); err != nil || got != k {
		t.Errorf("%x came back as %x, %v", k, got, err)
	}
	for _, bad := range [][]byte{nil, b[:15], append(b, 0), append(b, b...)} {
		if _, err := acceptedKey(kindInherited, bad); err == nil {
			t.Errorf("%x is taken for a key", bad)
		}
	}
}
