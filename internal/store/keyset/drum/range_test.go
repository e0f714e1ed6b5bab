package drum

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// openCollecting opens a Store and collects in a map how often it emits each key.
func openCollecting(t *testing.T, fs disk.FS, dir string, cfg Config) (*Store, map[link.Key]int) {
	t.Helper()
	got := map[link.Key]int{}
	s, err := Open(fs, dir, cfg, func(items []Item) error {
		for _, it := range items {
			got[it.Key]++
		}
		return nil
	})
	must.Do(t, err)
	return s, got
}

// TestHandOver moves hosts from one Store to another, and back.
func TestHandOver(t *testing.T) {
	for i := range 6 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := testseed.Rand(t)
			var stores [2]*Store
			var got [2]map[link.Key]int
			for i := range stores {
				stores[i], got[i] = openCollecting(t, testdisk.NewMem(), "drum", Config{tune: small(rng)})
			}
			owner := map[uint64]int{} // of a host
			model := map[link.Key]bool{}
			for range 25 {
				for range rng.IntN(300) {
					k := randomKey(rng)
					s := stores[owner[k.Host]]
					must.Do(t, s.Add([]Item{{Key: k}}))
					model[k] = true
				}
				hosts := map[uint64]bool{randomKey(rng).Host: true, randomKey(rng).Host: true}
				for h := range hosts {
					from := owner[h]
					to := 1 - from
					must.Do(t, stores[from].Flush())
					must.Do(t, stores[to].Insert(func(add func(uint64, List) error) error {
						return stores[from].Range(h, func(l List) error {
							if !slices.IsSorted(l.Paths) {
								t.Error("the paths of a List are not sorted")
							}
							return add(h, l)
						})
					}))
					owner[h] = to
				}
			}
			for _, s := range stores {
				must.Do(t, s.Flush())
			}
			for k := range model {
				if n := got[0][k] + got[1][k]; n != 1 {
					t.Errorf("%v was emitted %d times, want once", k, n)
				}
			}
			for _, s := range stores {
				must.Do(t, s.Close())
			}
		})
	}
}

// TestInsertRefuses checks that Insert refuses malformed Lists.
func TestInsertRefuses(t *testing.T) {
	s, _ := openCollecting(t, testdisk.NewMem(), "drum", Config{})
	defer s.Close()
	for _, l := range []List{
		{Width: 39, Paths: []uint64{1}},
		{Width: 38, Paths: []uint64{1 << 38}},
	} {
		err := s.Insert(func(add func(uint64, List) error) error { return add(1, l) })
		if !errors.Is(err, ErrWidth) {
			t.Errorf("Insert(%v): %v, want ErrWidth", l, err)
		}
	}
}

// TestDamage flips bits of each run, one at a time. Each flip must be found, reported, and mended by Rebuild.
func TestDamage(t *testing.T) {
	rng := testseed.Rand(t)
	cfg := Config{tune: small(rng)}
	cfg.tune.bucketBits, cfg.tune.blockBytes = 1, 256
	mem := testdisk.NewMem()
	s, _ := openCollecting(t, mem, "drum", cfg)
	var keys []link.Key
	for range 3 {
		var items []Item
		for range 400 {
			k := randomKey(rng)
			keys = append(keys, k)
			items = append(items, Item{Key: k})
		}
		must.Do(t, s.Add(items))
		must.Do(t, s.Save([]byte("mark")))
	}
	must.Do(t, s.Close())
	// Open once more, so that runs that a merge has replaced are removed.
	s, _ = openCollecting(t, mem, "drum", cfg)
	must.Do(t, s.Close())
	es, err := mem.ReadDir("drum")
	must.Do(t, err)
	for _, e := range es {
		if !strings.HasPrefix(e.Name(), "run") {
			continue
		}
		fi, err := e.Info()
		must.Do(t, err)
		for off := int64(rng.IntN(5)); off < fi.Size(); off += 1 + rng.Int64N(60) {
			m := mem.Clone()
			flip(t, m, "drum/"+e.Name(), off, 1<<rng.IntN(8))
			s, got := openCollecting(t, m, "drum", cfg)
			ds := s.Damaged()
			if len(ds) == 0 || !strings.HasSuffix(ds[0].File, e.Name()) || ds[0].Offset > off {
				t.Fatalf("flip in byte %d of %s: Damaged() = %v, want that file and offset", off, e.Name(), ds)
			}
			var items []Item
			for _, k := range keys {
				items = append(items, Item{Key: k})
			}
			var d *Damage
			if err := s.Add(items); err == nil {
				err = s.Flush()
				if !errors.As(err, &d) {
					t.Fatalf("flip in byte %d: Flush returned %v, want a *Damage", off, err)
				}
			}
			if len(got) > 0 {
				t.Fatalf("flip in byte %d: known keys were emitted: %v", off, got)
			}
			for i := 0; len(s.Damaged()) > 0; i++ {
				if i > 10 {
					t.Fatalf("still damaged: %v", s.Damaged())
				}
				must.Do(t, rebuild(s, s.Damaged()[0].Bucket, keys))
			}
			fresh := link.Key{Host: 1 << 60, Path: 12345}
			must.Do(t, s.Add([]Item{{Key: fresh}}))
			must.Do(t, s.Flush())
			if len(got) != 1 || got[fresh] != 1 {
				t.Fatalf("after Rebuild: emitted %v, want only %v", got, fresh)
			}
			must.Do(t, s.Close())
			// The repair is permanent.
			s, got = openCollecting(t, m, "drum", cfg)
			if ds := s.Damaged(); len(ds) > 0 || string(s.Mark()) != "mark" {
				t.Fatalf("after a second Open: damaged %v, mark %q; want none and \"mark\"", ds, s.Mark())
			}
			must.Do(t, s.Add(items))
			must.Do(t, s.Flush())
			if len(got) > 0 {
				t.Fatalf("after a second Open: known keys were emitted: %v", got)
			}
			must.Do(t, s.Close())
		}
	}
	for off := range int64(40) {
		m := mem.Clone()
		flip(t, m, "drum/manifest", off, 1)
		if s, err := Open(m, "drum", cfg, func([]Item) error { return nil }); !errors.Is(err, ErrManifest) {
			t.Fatalf("flip in byte %d of the manifest: %v, %v; want ErrManifest", off, s, err)
		}
	}
}

func flip(t *testing.T, fs disk.FS, name string, off int64, bit byte) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR, 0)
	must.Do(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], off)
	must.Do(t, err)
	b[0] ^= bit
	_, err = f.Seek(off, 0)
	must.Do(t, err)
	_, err = f.Write(b[:])
	must.Do(t, err)
	must.Do(t, f.Sync())
	must.Do(t, f.Close())
}

// TestDamagedWhileRunning damages a run of an open Store.
func TestDamagedWhileRunning(t *testing.T) {
	mem := testdisk.NewMem()
	cfg := Config{tune: tuning{bucketBits: 1, blockBytes: 256, memKeys: 200, heldMin: 10}}
	s, got := openCollecting(t, mem, "drum", cfg)
	var items []Item
	var keys []link.Key
	for i := range uint64(1000) {
		keys = append(keys, nth(i, 10))
		items = append(items, Item{Key: nth(i, 10)})
	}
	must.Do(t, s.Add(items))
	must.Do(t, s.Save(nil))
	clear(got)
	es, err := mem.ReadDir("drum")
	must.Do(t, err)
	for _, e := range es {
		if strings.HasPrefix(e.Name(), "run") {
			flip(t, mem, "drum/"+e.Name(), 300, 4)
		}
	}
	more := append(slices.Clone(items), Item{Key: link.Key{Host: 5, Path: 5}})
	rebuilt := 0
	try := func(err error) {
		t.Helper()
		for ; err != nil; rebuilt++ {
			var d *Damage
			if !errors.As(err, &d) || rebuilt > 5 {
				t.Fatal(err)
			}
			must.Do(t, rebuild(s, d.Bucket, keys))
			err = s.Flush()
		}
	}
	try(s.Add(more))
	try(s.Flush())
	if len(got) != 1 {
		t.Errorf("%d keys were emitted, want 1", len(got))
	}
	if rebuilt == 0 || len(s.Damaged()) > 0 {
		t.Errorf("%d rebuilds, damaged %v; want some rebuilds and no damage", rebuilt, s.Damaged())
	}
	must.Do(t, s.Close())
}

// rebuild rebuilds a bucket from all keys, in parts.
func rebuild(s *Store, bucket int, all []link.Key) error {
	return s.Rebuild(bucket, func(keys func([]link.Key) error, _ func(uint64, List) error) error {
		for part := range slices.Chunk(all, 100) {
			if err := keys(part); err != nil {
				return err
			}
		}
		return nil
	})
}
