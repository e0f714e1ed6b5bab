package drum

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// small returns sizes with which a few keys make everything happen.
func small(rng *rand.Rand) tuning {
	return tuning{
		bucketBits: uint(1 + rng.IntN(3)), memKeys: 20 + rng.IntN(300), firstKeys: 20 + rng.IntN(300),
		slabKeys: 50 + rng.IntN(400), cacheSets: 1 + rng.IntN(20), blockBytes: 64 << rng.IntN(6),
		filterBytes: 1 << (4 + rng.IntN(14)), heldMin: 1 + rng.IntN(1000),
		age: time.Duration(1+rng.IntN(20)) * time.Millisecond,
	}
}

func randomKey(rng *rand.Rand) link.Key {
	var k link.Key
	switch rng.IntN(4) {
	case 0: // small numbers, and the zero key
		k = link.Key{Host: uint64(rng.IntN(3)), Path: uint64(rng.IntN(20)) << 50}
	case 1: // a large host
		k = link.Key{Host: 7, Path: uint64(rng.IntN(5000)) * 0x9e3779b97f4a7c15}
	default:
		n := rng.Uint64N(400)
		k = link.Key{Host: mix(n % 40), Path: mix(n)}
	}
	return k
}

func TestSetAgainstMap(t *testing.T) {
	for i := range 12 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := testseed.Rand(t)
			cfg := Config{tune: small(rng)}
			model := map[link.Key]bool{}
			var asked []link.Key
			emitted := map[link.Key]int{}
			s, err := Open(testdisk.NewMem(), "drum", cfg, func(items []Item) error {
				for _, it := range items {
					if it.Known {
						t.Errorf("emitted a known item: %v", it)
					}
					emitted[it.Key]++
					if n, err := strconv.Atoi(string(it.Aux)); err != nil || asked[n] != it.Key {
						t.Errorf("%v was emitted with the Aux of another key, %q", it.Key, it.Aux)
					}
				}
				return nil
			})
			must.Do(t, err)
			for range 200 {
				var items []Item
				for range rng.IntN(150) {
					k := randomKey(rng)
					model[k] = true
					items = append(items, Item{Key: k, Aux: fmt.Append(nil, len(asked))})
					asked = append(asked, k)
				}
				must.Do(t, s.Add(items))
				if rng.IntN(10) == 0 {
					must.Do(t, s.Flush())
					if len(emitted) != len(model) {
						t.Fatalf("emitted %d, want %d", len(emitted), len(model))
					}
				}
				for k, n := range emitted {
					if n != 1 {
						t.Fatalf("%v was emitted %d times", k, n)
					}
				}
			}
			must.Do(t, s.Flush())
			if len(emitted) != len(model) {
				t.Fatalf("emitted %d, want %d", len(emitted), len(model))
			}
			if st := s.Stats(); st.Keys != int64(len(model)) {
				t.Errorf("%+v, want %d keys", st, len(model))
			}
			must.Do(t, s.Close())
		})
	}
}

// TestPace checks that the table does not exceed its share of memory if an owner inserts faster than the passes can
// write.
func TestPace(t *testing.T) {
	cfg := Config{tune: tuning{bucketBits: 1, memKeys: 500, firstKeys: 50_000}}
	s, err := Open(testdisk.NewMem(), "d", cfg, func([]Item) error { return nil })
	must.Do(t, err)
	items := make([]Item, 100)
	most := 0
	for n := uint64(0); n < 150_000; n += uint64(len(items)) {
		for i := range items {
			items[i] = Item{Key: nth(n+uint64(i), 50)}
		}
		must.Do(t, s.Add(items))
		if s.onDisk {
			most = max(most, s.mem.n)
		}
	}
	if limit := 2 * s.mostKeys(); most > limit { // the table may grow by a few Adds between two checks
		t.Errorf("a table had %d keys, want at most %d", most, limit)
	}
	must.Do(t, s.Flush())
	if got := s.Len(); got < 150_000 {
		t.Errorf("%d keys, want 150000", got)
	}
	must.Do(t, s.Close())
}
