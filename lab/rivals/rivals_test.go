package rivals

import (
	"math/rand/v2"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/lab/stream"
)

// put feeds urls of a stream to a store in batches of all sizes, and returns the Judge of the
// emitted items.
func put(t *testing.T, k Kind, seed uint64, shape stream.Shape, memory int64, urls int64) *stream.Judge {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	s := stream.New(seed, shape)
	j := stream.NewJudge(s, urls+2000)
	store := must.Get(k.Open(Config{FS: disk.OS, Dir: t.TempDir(), Memory: memory, Keys: urls,
		Emit: func(items []Item) error {
			for i := range items {
				j.Emitted(&items[i])
			}
			return nil
		}}))(t)
	items := make([]Item, 1000)
	for s.Fresh() < urls {
		batch := items[:1+r.IntN(len(items))]
		oneIn := 1
		if r.IntN(4) > 0 {
			oneIn = 10
		}
		s.Next(batch, oneIn)
		must.Do(t, store.Add(batch))
		if k.Exact && (j.Twice > 0 || j.Foreign > 0) {
			t.Fatalf("seed %d, after %d URLs: %d emitted twice, %d foreign", seed, s.Fresh(), j.Twice, j.Foreign)
		}
		if r.IntN(500) == 0 {
			must.Do(t, store.Flush())
			if k.Exact && j.Missing() != 0 {
				t.Fatalf("seed %d, flushed after %d URLs: %d are missing", seed, s.Fresh(), j.Missing())
			}
		}
	}
	must.Do(t, store.Flush())
	must.Do(t, store.Close())
	return j
}

// TestRivalsAreRight: each store answers a stream without a false answer, with so little memory
// that all data go to disk.
func TestRivalsAreRight(t *testing.T) {
	for _, k := range Kinds {
		if !k.Exact {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			seed := testseed.New(t)
			for _, shape := range []stream.Shape{stream.Uniform, stream.Zipf} {
				if j := put(t, k, seed, shape, 128<<10, 20_000); j.Missing() != 0 {
					t.Errorf("%v: %d of %d are missing", shape, j.Missing(), j.Told())
				}
			}
		})
	}
}

// TestJudgeSeesBloom: the judge finds the false answers of a Bloom filter.
func TestJudgeSeesBloom(t *testing.T) {
	k, ok := Find("bloom")
	if !ok {
		t.Fatal("there is no bloom")
	}
	j := put(t, k, 1, stream.Uniform, 0, 50_000)
	// When the filter is full, one look-up in 122 is false, and fewer before.
	if m := j.Missing(); m < 20 || m > 400 || j.Twice != 0 {
		t.Errorf("%d of 50,000 are missing, %d were emitted twice", m, j.Twice)
	}
	if n, _ := Find("nothing"); put(t, n, 1, stream.Uniform, 0, 1000).Told() != 0 {
		t.Error("nothing tells of something")
	}
	if _, ok := Find("no such"); ok {
		t.Error("what is not there was found")
	}
}

// The zero key, extreme keys and many keys of one place are answered like other keys.
func TestRivalsTakeAnyKey(t *testing.T) {
	const most = ^uint64(0)
	odd := []link.Key{{}, {Path: 1}, {Host: 1}, {Host: most, Path: most}, {Host: most}, {Path: most}, {Host: 1 << 63},
		{Path: 1 << 63}}
	for i := range uint64(1500) {
		odd = append(odd, link.Key{Host: 7, Path: i << 40}, link.Key{Host: i << 50, Path: 7})
	}
	for _, k := range Kinds {
		if !k.Exact {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			got, want := map[link.Key]int{}, map[link.Key]bool{}
			store := must.Get(k.Open(Config{FS: disk.OS, Dir: t.TempDir(), Memory: 256 << 10,
				Emit: func(items []Item) error {
					for _, it := range items {
						got[it.Key]++
						if string(it.Aux) != "link" {
							t.Errorf("%v has %q", it.Key, it.Aux)
						}
					}
					return nil
				}}))(t)
			for range 3 {
				for _, key := range odd {
					want[key] = true
					must.Do(t, store.Add([]Item{{Key: key, Aux: []byte("link")},
						{Key: key, Aux: []byte("late")}}))
				}
				must.Do(t, store.Flush())
			}
			must.Do(t, store.Close())
			for key, n := range got {
				if n != 1 {
					t.Errorf("%v was emitted %d times", key, n)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d keys, want %d", len(got), len(want))
			}
		})
	}
}
